// The results that chapter 04 expects, computed in double, and the elements of
// a tensor to compare with them.
#pragma once

#include "testing/aten.h"
#include "testing/compare.h"

#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace workbook::chapter_04 {

using torch::stable::Tensor;
using Sizes = std::vector<int64_t>;

// Returns the elements of a tensor of any strides.
template <class T>
std::vector<double> elements(const Tensor& source) {
  const Tensor all = torch::stable::contiguous(source);
  std::vector<double> result(static_cast<size_t>(all.numel()));
  const T* value = all.const_data_ptr<T>();
  for (double& number : result) {
    number = static_cast<double>(*value++);
  }
  return result;
}

// Returns one element of swiglu, and of silu_and_mul if alpha is 1 and limit
// infinite.
inline double gated(double gate, double up, double alpha, double limit) {
  gate = std::min(gate, limit);
  up = std::max(-limit, std::min(up, limit));
  return gate / (1 + std::exp(-alpha * gate)) * up;
}

// Returns the exact result of rows of 2d elements. `bias` has 2d elements or
// none.
inline std::vector<double> exact(
    const std::vector<double>& input,
    size_t d,
    const std::vector<double>& bias = {},
    double alpha = 1,
    double limit = INFINITY) {
  std::vector<double> result;
  result.reserve(input.size() / 2);
  for (size_t i = 0; i < input.size(); i += 2 * d) {
    for (size_t j = 0; j < d; ++j) {
      const double gate = input[i + j] + (bias.empty() ? 0 : bias[j]);
      const double up = input[i + d + j] + (bias.empty() ? 0 : bias[d + j]);
      result.push_back(gated(gate, up, alpha, limit));
    }
  }
  return result;
}

// The tolerance of a result, in ulp. Half an ulp is correct rounding; the
// computation before it is off by a few ulp.
template <class T>
inline constexpr double kTolerance = sizeof(T) == 2 ? 0.502 : 6;

// Returns the first element of `got` that is wrong, as text; "" for none.
template <class T>
std::string find_difference(
    const Tensor& got,
    const std::vector<double>& want,
    double tolerance = kTolerance<T>) {
  return first_difference<T>(values<T>(got), want, tolerance);
}

// The tolerance of a gradient, in ulp. s * x + s * (1 - s * x), another form of
// silu's derivative, loses about as many ulp as the gate is large, here up to
// 20.
template <class T>
inline constexpr double kGradientTolerance = sizeof(T) == 2 ? 0.51 : 24;

// Returns the gradient of silu(gate) * up for rows of 2d elements.
inline std::vector<double> exact_gradient(
    const std::vector<double>& grad,
    const std::vector<double>& input,
    size_t d) {
  std::vector<double> result(input.size());
  for (size_t i = 0; i < grad.size(); ++i) {
    const size_t gate = i / d * 2 * d + i % d;
    const double x = input[gate], s = 1 / (1 + std::exp(-x));
    result[gate] = grad[i] * input[gate + d] * s * (1 + x * (1 - s));
    result[gate + d] = grad[i] * x * s;
  }
  return result;
}

} // namespace workbook::chapter_04
