// swiglu and its row maxima, as one writes them first: plain loops, in which
// the call of std::exp keeps the compiler from vectorising.
#pragma once

#include "checks.h"
#include "dispatch.h"
#include "outputs.h"
#include "parallel.h"

#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/Exception.h>

#include <cmath>
#include <cstdint>
#include <optional>

namespace wb {

// `bias`, if there is one, is added to every row of `input`.
inline void check_bias(const std::optional<Tensor>& bias, const Tensor& input) {
  if (!bias) {
    return;
  }
  const TensorInfo row(*bias);
  const TensorInfo rows(input);
  STD_TORCH_CHECK(
      row.dtype == rows.dtype,
      "bias must have input's dtype ",
      rows.dtype_name(),
      ", got ",
      row.dtype_name());
  STD_TORCH_CHECK(
      row.sizes.equals({rows.sizes.back()}),
      "bias must be [",
      rows.sizes.back(),
      "], got ",
      to_string(row.sizes));
}

// gate / (1 + e^(-alpha * gate)) * up, with gate clamped from above and up on
// both sides; a NaN stays one.
template <typename C>
C clamped_swiglu(C gate, C up, C alpha, C limit) {
  gate = gate > limit ? limit : gate;
  up = up > limit ? limit : (up < -limit ? -limit : up);
  return gate / (1 + std::exp(-alpha * gate)) * up;
}

// Writes out[..., d] of input[..., 2d] + bias[2d], and to amax[..., 1] the
// largest magnitude of each row of `out`, NaN if one is in it.
inline void fill_swiglu(
    const Tensor& out,
    const Tensor& amax,
    const Tensor& input,
    const std::optional<Tensor>& bias,
    double alpha,
    double limit) {
  STD_TORCH_CHECK(limit >= 0, "limit must not be negative, got ", limit);
  const Tensor in = as_contiguous(input);
  const Tensor b = bias ? as_contiguous(*bias) : in; // in stands for none
  const int64_t d = out.size(-1);
  dispatch(in.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const T* x = static_cast<const T*>(in.const_data_ptr());
    const T* add = bias ? static_cast<const T*>(b.const_data_ptr()) : nullptr;
    T* y = static_cast<T*>(out.mutable_data_ptr());
    T* largest = static_cast<T*>(amax.mutable_data_ptr());
    for_each_row(amax.numel(), d, [&](int64_t row) {
      const auto at = [&](int64_t i) {
        return static_cast<C>(x[row * 2 * d + i]) +
            (add ? static_cast<C>(add[i]) : 0);
      };
      C most = 0;
      for (int64_t i = 0; i < d; ++i) {
        T& result = y[row * d + i];
        result = static_cast<T>(clamped_swiglu(
            at(i), at(d + i), static_cast<C>(alpha), static_cast<C>(limit)));
        const C magnitude = std::abs(static_cast<C>(result));
        most = magnitude > most || std::isnan(magnitude) ? magnitude : most;
      }
      largest[row] = static_cast<T>(most);
    });
  });
}

} // namespace wb
