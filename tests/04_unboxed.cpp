// The floor of chapter 04's benchmark, and the caller of all its ops: the one
// file that includes unstable headers. Built apart, for this libtorch alone.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>
#include <torch/library.h>

#include <cstdint>

namespace {

void no_op(at::Tensor&, const at::Tensor&) {}

using Op = c10::TypedOperatorHandle<void(at::Tensor&, const at::Tensor&)>;

} // namespace

TORCH_LIBRARY(wb04_unboxed, m) {
  m.def("no_op(Tensor! out, Tensor input) -> ()");
}
TORCH_LIBRARY_IMPL(wb04_unboxed, CPU, m) {
  m.impl("no_op", &no_op);
}

// The op of this name, for wb04_call(); throws if there is none.
extern "C" const void* wb04_find(const char* name, const char* overload) {
  return new Op(c10::Dispatcher::singleton()
                    .findSchemaOrThrow(name, overload)
                    .typed<void(at::Tensor&, const at::Tensor&)>());
}

// Callgrind collects within this function, and writes what it has at its end.
extern "C" [[gnu::noinline]] void wb04_counted(
    const Op* op, at::Tensor* out, const at::Tensor* input, int64_t times) {
  for (int64_t i = 0; i < times; ++i) {
    op->call(*out, *input);
  }
}

// op(out, input), `times` times, on tensors [0, 8] and [0, 16].
extern "C" void wb04_call(const void* op, int64_t times, bool inference) {
  static at::Tensor out = at::empty({0, 8}); // ordinary tensors in both modes
  static at::Tensor input = at::empty({0, 16});
  const c10::InferenceMode mode(inference);
  wb04_counted(static_cast<const Op*>(op), &out, &input, times);
}
