// The op of this package: schema, kernels for CPU and Meta, its gradient, and
// their registration.
#include "checked_box.h"
#include "checks.h"
#include "dispatch.h"
#include "outputs.h"
#include "parallel.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <tuple>

STABLE_TORCH_LIBRARY(wb04, m) {
  m.def("add_scaled(Tensor input, Tensor other, float alpha=1.0) -> Tensor");
  m.def(
      "add_scaled_backward(Tensor grad, Tensor input, Tensor other, "
      "float alpha) -> (Tensor, Tensor)");
}

namespace wb {
namespace {

// input + alpha * other, for tensors of one size and dtype.
Tensor add_scaled(const Tensor& input, const Tensor& other, double alpha) {
  const TensorInfo info(input);
  check_rows(
      "other",
      TensorInfo(other),
      info,
      info.sizes.empty() ? 1 : info.sizes.back());
  const Tensor a = as_contiguous(input);
  const Tensor b = as_contiguous(other);
  Tensor out = empty_contiguous(input);
  dispatch(a.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const T* x = static_cast<const T*>(a.const_data_ptr());
    const T* y = static_cast<const T*>(b.const_data_ptr());
    T* z = static_cast<T*>(out.mutable_data_ptr());
    for_each_piece(1, a.numel(), [&](int64_t, int64_t first, int64_t n) {
      for (int64_t i = first; i < first + n; ++i) {
        const C scaled = static_cast<C>(alpha) * static_cast<C>(y[i]);
        z[i] = static_cast<T>(static_cast<C>(x[i]) + scaled);
      }
    });
  });
  return out;
}

// Sizes, strides, dtype and device of the result, and no element.
Tensor add_scaled_meta(const Tensor& input, const Tensor&, double) {
  return empty_contiguous(input);
}

// A gradient for each tensor among the inputs. No result may be an argument, or
// share its memory.
std::tuple<Tensor, Tensor> add_scaled_backward(
    const Tensor& grad, const Tensor&, const Tensor&, double alpha) {
  Tensor of_input = empty_contiguous(grad);
  torch::stable::copy_(of_input, grad);
  Tensor zeros = empty_contiguous(grad);
  torch::stable::zero_(zeros);
  return {of_input, add_scaled(zeros, grad, alpha)};
}
std::tuple<Tensor, Tensor> add_scaled_backward_meta(
    const Tensor& grad, const Tensor&, const Tensor&, double) {
  return {empty_contiguous(grad), empty_contiguous(grad)};
}

} // namespace
} // namespace wb

STABLE_TORCH_LIBRARY_IMPL(wb04, CPU, m) {
  m.impl("add_scaled", CHECKED_BOX(&wb::add_scaled));
  m.impl("add_scaled_backward", CHECKED_BOX(&wb::add_scaled_backward));
}
STABLE_TORCH_LIBRARY_IMPL(wb04, Meta, m) {
  m.impl("add_scaled", CHECKED_BOX(&wb::add_scaled_meta));
  m.impl("add_scaled_backward", CHECKED_BOX(&wb::add_scaled_backward_meta));
}
