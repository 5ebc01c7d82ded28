// input / sqrt(mean of its squares + eps) * weight, along the last dimension.
#include "common.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/Dispatch_v2.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <type_traits>

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

//! [rows]
template <class T>
void norm_row(T* out, const T* in, const T* weight, int64_t n, double eps) {
  using compute_t =
      std::conditional_t<std::is_same_v<T, double>, double, float>;
  compute_t sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const auto x = static_cast<compute_t>(in[i]);
    sum += x * x;
  }
  const compute_t scale = 1 /
      std::sqrt(sum / static_cast<compute_t>(n) + static_cast<compute_t>(eps));
  for (int64_t i = 0; i < n; ++i) {
    const auto x = static_cast<compute_t>(in[i]) * scale;
    out[i] = static_cast<T>(weight ? x * static_cast<compute_t>(weight[i]) : x);
  }
}
//! [rows]

//! [rms_norm]
void check(const Tensor& input, const std::optional<Tensor>& weight) {
  STD_TORCH_CHECK(
      input.dim() > 0 && input.is_contiguous(),
      "rms_norm: input must be contiguous and [..., d], got ",
      text(input.sizes()));
  if (weight) {
    STD_TORCH_CHECK(
        weight->dim() == 1 && weight->size(0) == input.size(-1) &&
            weight->scalar_type() == input.scalar_type() &&
            weight->is_contiguous(),
        "rms_norm: weight must be [",
        input.size(-1),
        "] of ",
        input.scalar_type(),
        ", got ",
        text(weight->sizes()),
        " of ",
        weight->scalar_type());
  }
}

Tensor rms_norm_out(
    const Tensor& input,
    const std::optional<Tensor>& weight,
    double eps,
    const Tensor& out) {
  check(input, weight);
  STD_TORCH_CHECK(
      out.sizes().equals(input.sizes()) && out.is_contiguous() &&
          out.scalar_type() == input.scalar_type(),
      "rms_norm: out must be contiguous and as input, ",
      text(input.sizes()),
      ", got ",
      text(out.sizes()));
  const int64_t n = input.size(-1);
  const int64_t rows = n == 0 ? 0 : input.numel() / n;
  THO_DISPATCH_V2(
      input.scalar_type(),
      "rms_norm",
      AT_WRAP(([&] {
        const auto* in = input.const_data_ptr<scalar_t>();
        const auto* scale =
            weight ? weight->const_data_ptr<scalar_t>() : nullptr;
        auto* to = out.mutable_data_ptr<scalar_t>();
        const int64_t grain =
            std::max<int64_t>(1, 16384 / std::max<int64_t>(1, n));
        torch::stable::parallel_for(
            0, rows, grain, [&](int64_t begin, int64_t end) {
              for (int64_t row = begin; row < end; ++row) {
                norm_row(to + row * n, in + row * n, scale, n, eps);
              }
            });
      })),
      AT_EXPAND(AT_FLOATING_TYPES),
      ScalarType::Half,
      ScalarType::BFloat16);
  return out;
}

Tensor rms_norm(
    const Tensor& input, const std::optional<Tensor>& weight, double eps) {
  Tensor out = torch::stable::empty_like(input);
  return rms_norm_out(input, weight, eps, out);
}
//! [rms_norm]

STABLE_TORCH_LIBRARY_IMPL(rowops, CPU, m) {
  m.impl("rms_norm", TORCH_BOX(&rms_norm));
  m.impl("rms_norm.out", TORCH_BOX(&rms_norm_out));
}
