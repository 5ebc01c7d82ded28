// The gradient of silu_and_mul, in a file of its own: a fragment adds to the
// namespace that STABLE_TORCH_LIBRARY opened, which can be done only once.
#include "checks.h"
#include "outputs.h"
#include "silu_and_mul.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <cmath>
#include <cstdint>

using torch::stable::Tensor;

// d/dx silu(x) = s * (1 + x * (1 - s)) with s = 1 / (1 + e^-x).
Tensor silu_and_mul_backward(const Tensor& grad, const Tensor& input) {
  const Facts input_facts(input);
  check_input(input_facts);
  check_half("grad", Facts(grad), input_facts);
  const Tensor g = as_contiguous(grad); // often expanded: the gradient of a sum
  const Tensor in = as_contiguous(input);
  Tensor result = torch::stable::new_empty(input, input.sizes());
  const int64_t d = in.size(-1) / 2;
  const void* g_data = g.const_data_ptr();
  const void* in_data = in.const_data_ptr();
  void* result_data = result.mutable_data_ptr();
  dispatch(in.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    for_each_row(in, [&](int64_t row) {
      const T* dy = static_cast<const T*>(g_data) + row * d;
      const T* gate = static_cast<const T*>(in_data) + row * 2 * d;
      const T* up = gate + d;
      T* to = static_cast<T*>(result_data) + row * 2 * d;
      for (int64_t i = 0; i < d; ++i) {
        const C x = static_cast<C>(gate[i]);
        const C s = 1 / (1 + std::exp(-x));
        const C y = static_cast<C>(dy[i]);
        to[i] = T(y * static_cast<C>(up[i]) * s * (1 + x * (1 - s)));
        to[i + d] = T(y * x * s);
      }
    });
  });
  return result;
}

Tensor silu_and_mul_backward_meta(const Tensor& /*grad*/, const Tensor& input) {
  return new_contiguous(input);
}

//! [fragment]
STABLE_TORCH_LIBRARY_FRAGMENT(wb04, m) {
  m.def("silu_and_mul_backward(Tensor grad, Tensor input) -> Tensor");
}
STABLE_TORCH_LIBRARY_IMPL(wb04, CPU, m) {
  m.impl("silu_and_mul_backward", TORCH_BOX(&silu_and_mul_backward));
}
STABLE_TORCH_LIBRARY_IMPL(wb04, Meta, m) {
  m.impl("silu_and_mul_backward", TORCH_BOX(&silu_and_mul_backward_meta));
}
//! [fragment]
