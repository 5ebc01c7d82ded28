// These functions, for which the stable ABI has none, compute a gradient as
// Python does, and look at an op's schema. They are built with the original.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <vector>

// Calls `op` on a copy of `x`, a contiguous tensor of float, and writes the
// gradient of its result, weighted by `weights`, to `gradient`. Returns whether
// there is one. The handles of the shim point to tensors; they are borrowed.
extern "C" __attribute__((visibility("default"))) bool wb09_gradient(
    const char* op,
    const at::Tensor* x,
    const at::Tensor* weights,
    float* gradient) {
  const at::Tensor in = x->clone().requires_grad_();
  std::vector<c10::IValue> stack{in};
  c10::Dispatcher::singleton().findSchemaOrThrow(op, "").callBoxed(stack);
  const at::Tensor out = stack[0].toTensor();
  if (!out.requires_grad()) {
    return false;
  }
  out.backward(*weights);
  if (!in.grad().defined()) {
    return false;
  }
  std::copy_n(in.grad().const_data_ptr<float>(), in.numel(), gradient);
  return true;
}

// Calls `body` as torch.inference_mode() would, which no kernel for Autograd
// sees.
extern "C" __attribute__((visibility("default"))) void wb09_in_inference_mode(
    void (*body)(void*), void* argument) {
  const c10::InferenceMode inference;
  body(argument);
}

// Returns how many arguments the op has; -1 if there is no such op.
extern "C" __attribute__((visibility("default"))) int wb09_arguments(
    const char* op, const char* overload) {
  const auto found = c10::Dispatcher::singleton().findSchema({op, overload});
  return found ? static_cast<int>(found->schema().arguments().size()) : -1;
}
