// A call by name, and a kernel that libtorch calls.
#pragma once

#include "op.h"
#include "report.h"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/c/shim.h>

#include <functional>

namespace workbook::trace {

using Kernel = void (*)(StableIValue*, uint64_t, uint64_t);

// Who called the tracer, and where its frame ends.
struct Caller {
  const void* address;
  const void* frame;
};

AOTITorchError call(
    const char* op,
    const char* overload,
    StableIValue* stack,
    const Caller& caller,
    const std::function<AOTITorchError()>& real);

// The function to register in place of the kernel; the kernel itself if none
// is left.
Kernel wrap(const std::string& op, Kernel kernel);

// The tracer fills slot i of a kernel's stack, behind the arguments, with
// kNothing + i.
constexpr StableIValue kNothing = 0xfeedfacefeed0000;
constexpr size_t kMostSlots = 4096;

// The op whose kernel runs on this thread.
const Op* running_op();
// While one lives, this thread works for the op's kernel.
class InKernel {
 public:
  explicit InKernel(const Op* op);
  ~InKernel();
  InKernel(const InKernel&) = delete;
  InKernel& operator=(const InKernel&) = delete;

 private:
  const Op* before_;
};

// A function of the shim failed; or an exception says so.
void note_failure(const char* function);
void forget_failure();
// ", since aoti_torch_empty failed"; ", as is argument 1 of my::f". "" if
// nothing is known that may have made a handle null.
std::string describe_origin_of_null();

} // namespace workbook::trace
