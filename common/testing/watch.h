// Watches what passes the ABI boundary while an act of a test runs: this
// thread's calls by name, and kernels that the test calls in libtorch's place.
// The calls are seen by what the library workbook_interposed defines.
#pragma once

#include "ledger.h"
#include "recorder.h"

#include <torch/csrc/stable/tensor.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>

namespace workbook {

using BoxedKernel = void (*)(StableIValue*, uint64_t, uint64_t);

// The kernel that was registered for this op first, for whatever key; null if
// none was. A test calls it as libtorch would.
BoxedKernel kernel_of(const std::string& op);

class Watch {
 public:
  // Ops by name and overload: {"aten::div.Tensor", schema}. One at a time.
  explicit Watch(std::map<std::string, Schema> ops);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  static Watch* current();

  // Calls a kernel on `stack` as libtorch does: hands the arguments over and
  // releases the returns, after `use` has seen them. What both throw passes.
  void call_kernel(
      const std::string& name,
      BoxedKernel kernel,
      const Schema& schema,
      StableIValue* stack,
      const std::function<void(const StableIValue*)>& use);

  // False if libtorch must not see these slots.
  bool before_call(const std::string& op, const StableIValue* stack);
  void after_call(const std::string& op, const StableIValue* stack);

  // Throws unless all is clean; then forgets it, to go on with the next.
  void require_clean();

  // Runs `act` thrice, for libtorch may keep what a first call allocates. "" if
  // everything in the slots was released exactly once and the third run left
  // nothing behind; else what went wrong, with a drawing. What libtorch itself
  // loses is allowed for by number of blocks.
  std::string trouble(
      const std::function<void(Watch&)>& act, size_t lost_by_libtorch);
  std::string drawing() const;

 private:
  std::string trouble_of_one(const std::function<void(Watch&)>& act);

  std::map<std::string, Schema> ops_;
  Recorder recorder_;
  bool refused_ = false; // a call never reached libtorch
  Ledger ledger_;        // the last, so that it follows none of the above
};

// Watches one act; the drawing of its last run is of interest where it passes.
std::string watch(
    const std::map<std::string, Schema>& ops,
    const std::function<void(Watch&)>& act,
    std::string* drawing = nullptr,
    size_t lost_by_libtorch = 0);

// What `call` throws, as text, or "" if it returns; the text's own allocations
// are not followed.
template <typename Call>
std::string thrown(const Call& call) {
  try {
    call();
  } catch (const std::exception& error) {
    const Ledger::Pause pause;
    return error.what();
  }
  return "";
}

// The same of a call in a destructor, while another exception unwinds the
// stack.
template <typename Call>
std::string thrown_while_unwinding(const Call& call) {
  struct AtEnd {
    const Call& call;
    std::string& text;
    ~AtEnd() {
      text = thrown(call);
    }
  };
  std::string text;
  try {
    const AtEnd end{call, text};
    throw 0;
  } catch (int) {
  }
  return text;
}

// Gives tensors their names in drawings, while it lives.
class Named {
 public:
  Named(std::initializer_list<std::pair<torch::stable::Tensor, std::string>>
            tensors);
  ~Named();
  Named(const Named&) = delete;
  Named& operator=(const Named&) = delete;
};

} // namespace workbook
