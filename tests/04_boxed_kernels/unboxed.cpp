// What chapter 04's benchmark measures against, and the caller of all its ops:
// the one file that includes unstable headers. Built apart, for this libtorch
// alone.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/InferenceMode.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace {

void no_op(at::Tensor&, const at::Tensor&) {}

using Op = c10::TypedOperatorHandle<void(at::Tensor&, const at::Tensor&)>;
using Backward = at::Tensor(const at::Tensor&, const at::Tensor&);
using BackwardOp = c10::TypedOperatorHandle<Backward>;

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

// --- the ops at work, against ATen's
// ------------------------------------------

namespace {

// The tensors of one shape. What ATen needs beside the result is made once.
struct Work {
  Work(int64_t rows, int64_t d, c10::ScalarType dtype)
      : input(at::randn({rows, 2 * d}).to(dtype)),
        grad(at::randn({rows, d}).to(dtype)),
        out(at::empty({rows, d}, input.options())),
        silu(at::empty_like(out)),
        gate(input.narrow(1, 0, d)),
        up(input.narrow(1, d, d)) {}

  // The gradients with respect to both halves, as one tensor.
  void aten_backward() {
    const int64_t d = out.size(1);
    result = at::empty_like(input);
    at::Tensor of_gate = result.narrow(1, 0, d);
    at::Tensor of_up = result.narrow(1, d, d);
    at::mul_out(silu, grad, up);
    at::silu_backward_out(of_gate, silu, gate);
    at::silu_out(silu, gate);
    at::mul_out(of_up, grad, silu);
  }

  at::Tensor input, grad, out, silu, gate, up, result;
  at::Tensor want; // computed in double, when it is first compared
};

// Relative to max(1, the exact value), about.
double largest_error(const at::Tensor& got, const at::Tensor& want) {
  return (got - want).abs_().div_(want.abs().add_(1)).max().item<double>();
}

} // namespace

extern "C" {
void* wb04_work(int64_t rows, int64_t d, int8_t dtype) {
  return new Work(rows, d, static_cast<c10::ScalarType>(dtype));
}

void wb04_forward(void* work, const void* op) {
  auto& on = *static_cast<Work*>(work);
  static_cast<const Op*>(op)->call(on.out, on.input);
}
void wb04_aten_forward(void* work) {
  auto& on = *static_cast<Work*>(work);
  at::silu_out(on.silu, on.gate);
  at::mul_out(on.out, on.silu, on.up);
}

void wb04_backward(void* work, const void* op) {
  auto& on = *static_cast<Work*>(work);
  on.result = static_cast<const BackwardOp*>(op)->call(on.grad, on.input);
}
void wb04_aten_backward(void* work) {
  static_cast<Work*>(work)->aten_backward();
}

const void* wb04_find_backward(const char* name) {
  return new BackwardOp(c10::Dispatcher::singleton()
                            .findSchemaOrThrow(name, "")
                            .typed<Backward>());
}

void wb04_poison(void* work) {
  auto& on = *static_cast<Work*>(work);
  on.out.fill_(NAN);
  on.result = at::Tensor();
}
double wb04_forward_error(void* work) {
  auto& on = *static_cast<Work*>(work);
  if (!on.want.defined()) {
    const at::Tensor x = on.gate.to(at::kDouble);
    on.want = (x * x.sigmoid() * on.up.to(at::kDouble)).to(at::kFloat);
  }
  return largest_error(on.out, on.want);
}
double wb04_backward_error(void* work) {
  auto& on = *static_cast<Work*>(work);
  if (!on.want.defined()) {
    const at::Tensor x = on.gate.to(at::kDouble), s = x.sigmoid();
    const at::Tensor dy = on.grad.to(at::kDouble);
    const at::Tensor of_gate =
        dy * on.up.to(at::kDouble) * s * (1 + x * (1 - s));
    on.want = at::cat({of_gate, dy * x * s}, 1).to(at::kFloat);
  }
  return largest_error(on.result, on.want);
}
}
