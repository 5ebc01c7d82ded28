// These functions, for which the stable ABI has none, compute a gradient as
// Python does, and look at an op's schema. They are built with the original.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstdint>
#include <vector>

// Calls `op` on a tensor [n, d] of float, and writes the gradient of its
// result, weighted by `weights`, to `gradient`. Returns whether there is one.
extern "C" __attribute__((visibility("default"))) bool wb09_gradient(
    const char* op,
    const float* x,
    const float* weights,
    int64_t n,
    int64_t d,
    float* gradient) {
  const auto copy = [&](const float* from) {
    return at::from_blob(const_cast<float*>(from), {n, d}).clone();
  };
  const at::Tensor in = copy(x).requires_grad_();
  std::vector<c10::IValue> stack{in};
  c10::Dispatcher::singleton().findSchemaOrThrow(op, "").callBoxed(stack);
  const at::Tensor out = stack[0].toTensor();
  if (!out.requires_grad()) {
    return false;
  }
  out.backward(copy(weights));
  if (!in.grad().defined()) {
    return false;
  }
  std::copy_n(in.grad().const_data_ptr<float>(), n * d, gradient);
  return true;
}

// Returns how many arguments the op has; -1 if there is no such op.
extern "C" __attribute__((visibility("default"))) int wb09_arguments(
    const char* op, const char* overload) {
  const auto found = c10::Dispatcher::singleton().findSchema({op, overload});
  return found ? static_cast<int>(found->schema().arguments().size()) : -1;
}
