// What the ops refuse, and how the rows of a tensor lie in memory.
#pragma once

#include "launch.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>
#include <torch/headeronly/util/HeaderOnlyArrayRef.h>

#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace activation {

using torch::headeronly::IntHeaderOnlyArrayRef;
using torch::headeronly::ScalarType;
using torch::stable::Tensor;

inline std::string to_string(IntHeaderOnlyArrayRef sizes) {
  std::ostringstream text;
  for (size_t i = 0; i < sizes.size(); ++i) {
    text << (i == 0 ? "[" : ", ") << sizes[i];
  }
  text << (sizes.empty() ? "[]" : "]");
  return text.str();
}

inline std::string to_string(const torch::stable::Device& device) {
  return device.is_cuda() ? "cuda:" + std::to_string(device.index())
      : device.is_cpu()   ? "cpu"
                          : "neither cpu nor cuda";
}

inline Dtype dtype_of(const Tensor& input) {
  switch (input.scalar_type()) {
    case ScalarType::Float:
      return Dtype::kFloat;
    case ScalarType::Half:
      return Dtype::kHalf;
    case ScalarType::BFloat16:
      return Dtype::kBFloat16;
    default:
      STD_TORCH_CHECK(
          false,
          "activation: input must be Float, Half or BFloat16, got ",
          input.scalar_type());
  }
}

// `input` is [..., 2d]; `out` must be [..., d], contiguous, and like it.
inline void check_out(const Tensor& out, const Tensor& input) {
  const IntHeaderOnlyArrayRef sizes = input.sizes();
  STD_TORCH_CHECK(
      !sizes.empty() && sizes.back() % 2 == 0,
      "activation: input must end in an even size, got ",
      to_string(sizes));
  std::vector<int64_t> half = sizes.vec();
  half.back() /= 2;
  STD_TORCH_CHECK(
      out.sizes().equals(half),
      "activation: out must be ",
      to_string(half),
      ", got ",
      to_string(out.sizes()));
  STD_TORCH_CHECK(
      out.scalar_type() == input.scalar_type(),
      "activation: out must have input's dtype ",
      input.scalar_type(),
      ", got ",
      out.scalar_type());
  STD_TORCH_CHECK(
      out.device() == input.device(),
      "activation: out must be on input's device ",
      to_string(input.device()),
      ", got ",
      to_string(out.device()));
  STD_TORCH_CHECK(
      out.is_contiguous(),
      "activation: out must be contiguous, got strides ",
      to_string(out.strides()));
}

//! [row_stride]
// From one row of [..., n] to the next, if it is the same between all rows and
// the elements of a row lie side by side: as in a slice of a wider tensor.
inline std::optional<int64_t> row_stride(const Tensor& tensor) {
  const IntHeaderOnlyArrayRef sizes = tensor.sizes();
  const IntHeaderOnlyArrayRef strides = tensor.strides();
  if (sizes.back() > 1 && strides.back() != 1) {
    return std::nullopt;
  }
  int64_t rows = 1;
  int64_t stride = sizes.back();
  for (size_t i = sizes.size() - 1; i-- > 0;) {
    if (sizes[i] == 1) {
      continue;
    }
    if (rows == 1) {
      stride = strides[i];
    } else if (strides[i] != stride * rows) {
      return std::nullopt;
    }
    rows *= sizes[i];
  }
  return stride;
}
//! [row_stride]

} // namespace activation
