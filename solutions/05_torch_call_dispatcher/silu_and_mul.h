// The arithmetic of the ops, row by row, and what their outputs are like.
#pragma once

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/Dispatch_v2.h>
#include <torch/headeronly/util/Exception.h>
#include <torch/headeronly/util/shim_utils.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

using torch::headeronly::MemoryFormat;
using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// What is computed in: double for double, float for the rest.
template <class T>
using compute_t = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Calls f(T()), T being the C++ type of `dtype`.
template <class F>
void dispatch(ScalarType dtype, const F& f) {
  THO_DISPATCH_V2(
      dtype,
      "silu_and_mul",
      AT_WRAP([&] { f(scalar_t()); }),
      AT_EXPAND(AT_FLOATING_TYPES),
      ScalarType::Half,
      ScalarType::BFloat16);
}

// Calls f(row) for the rows of [..., columns], several threads sharing them.
template <class F>
void for_each_row(const Tensor& tensor, const F& f) {
  const int64_t columns = std::max<int64_t>(1, tensor.size(-1));
  const int64_t rows = tensor.numel() / columns;
  const int64_t grain = std::max<int64_t>(1, 16384 / columns);
  torch::stable::parallel_for(0, rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      f(row);
    }
  });
}

inline Tensor as_contiguous(const Tensor& tensor) {
  return tensor.is_contiguous() ? tensor : torch::stable::contiguous(tensor);
}

// gate / (1 + e^(-alpha * gate)) * up, rounded once. Before that, gate is
// clamped from above and up on both sides; a NaN stays one.
struct Gate {
  double alpha;
  double limit;

  template <class T>
  T operator()(compute_t<T> gate, compute_t<T> up) const {
    const auto most = static_cast<compute_t<T>>(limit);
    gate = gate > most ? most : gate;
    up = up > most ? most : (up < -most ? -most : up);
    const auto scaled = static_cast<compute_t<T>>(alpha) * gate;
    return T(gate / (1 + std::exp(-scaled)) * up);
  }
};

// out[..., d] = gate(left half, right half) of input[..., 2d] + bias[2d].
inline void fill(
    const Tensor& out,
    const Tensor& input,
    const std::optional<Tensor>& bias,
    const Gate& gate) {
  const Tensor in = as_contiguous(input);
  const int64_t d = in.size(-1) / 2;
  std::optional<Tensor> b;
  if (bias) {
    b = as_contiguous(*bias);
  }
  const void* in_data = in.const_data_ptr();
  const void* b_data = b ? b->const_data_ptr() : nullptr;
  void* out_data = out.mutable_data_ptr();
  dispatch(in.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    for_each_row(in, [&](int64_t row) {
      const T* x = static_cast<const T*>(in_data) + row * 2 * d;
      const T* y = static_cast<const T*>(b_data);
      T* to = static_cast<T*>(out_data) + row * d;
      for (int64_t i = 0; i < d; ++i) {
        const C left = static_cast<C>(x[i]) + (y ? static_cast<C>(y[i]) : 0);
        const C right =
            static_cast<C>(x[i + d]) + (y ? static_cast<C>(y[i + d]) : 0);
        to[i] = gate.operator()<T>(left, right);
      }
    });
  });
}

// to[r, 0] = the largest magnitude in from[r, :]; NaN if one is in it.
inline void fill_amax(const Tensor& to, const Tensor& from) {
  const int64_t columns = from.size(-1);
  dispatch(from.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const T* x = static_cast<const T*>(from.const_data_ptr());
    T* largest = static_cast<T*>(to.mutable_data_ptr());
    for_each_row(from, [&](int64_t row) {
      compute_t<T> most = 0;
      for (int64_t i = 0; i < columns; ++i) {
        const auto size =
            std::abs(static_cast<compute_t<T>>(x[row * columns + i]));
        most = size > most || std::isnan(size) ? size : most;
      }
      largest[row] = T(most);
    });
  });
}
