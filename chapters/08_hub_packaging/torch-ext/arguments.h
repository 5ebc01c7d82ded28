// What an op gets, looked at once: dtype, rows, strides. It refuses what it
// cannot compute, and makes contiguous what is not.
#pragma once

#include "../activation_cpu/rows.h"

#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/Exception.h>
#include <torch/headeronly/util/HeaderOnlyArrayRef.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

using torch::headeronly::IntHeaderOnlyArrayRef;
using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// True if the op takes [..., 2d] and gives [..., d].
constexpr bool has_halves(Op op) {
  return op < kSilu;
}

inline std::string to_string(IntHeaderOnlyArrayRef sizes) {
  std::ostringstream text;
  for (size_t i = 0; i < sizes.size(); ++i) {
    text << (i == 0 ? "[" : ", ") << sizes[i];
  }
  text << (sizes.empty() ? "[]" : "]");
  return text.str();
}

inline std::vector<int64_t> result_sizes(Op op, const Tensor& input) {
  std::vector<int64_t> sizes = input.sizes().vec();
  STD_TORCH_CHECK(
      !has_halves(op) || (!sizes.empty() && sizes.back() % 2 == 0),
      "activation: input must end in an even size, got ",
      to_string(input.sizes()));
  if (has_halves(op)) {
    sizes.back() /= 2;
  }
  return sizes;
}

inline Dtype dtype_of(const Tensor& input) {
  switch (input.scalar_type()) {
    case ScalarType::Float:
      return kFloat;
    case ScalarType::Half:
      return kHalf;
    case ScalarType::BFloat16:
      return kBFloat16;
    default:
      STD_TORCH_CHECK(
          false,
          "activation: input must be Float, Half or BFloat16, got ",
          input.scalar_type());
  }
}

// out is [rows, d] contiguous; a row of input begins `stride` elements after
// the last one. Both tensors are kept alive here.
struct Arguments {
  Arguments(Op op, const Tensor& out_, const Tensor& input_)
      : dtype(dtype_of(input_)), out(out_), input(input_) {
    const std::vector<int64_t> sizes = result_sizes(op, input);
    STD_TORCH_CHECK(
        out.scalar_type() == input.scalar_type(),
        "activation: out must have input's dtype ",
        input.scalar_type(),
        ", got ",
        out.scalar_type());
    STD_TORCH_CHECK(
        out.device() == input.device(),
        "activation: out must be on input's device");
    STD_TORCH_CHECK(
        out.sizes().equals({sizes.data(), sizes.size()}),
        "activation: out must be ",
        to_string({sizes.data(), sizes.size()}),
        " for an input of ",
        to_string(input.sizes()),
        ", got ",
        to_string(out.sizes()));
    copy_back = !out.is_contiguous();
    if (copy_back) {
      out = torch::stable::new_empty(out_, out_.sizes());
    }
    const int64_t ndim = input.dim();
    const bool rows_apart =
        ndim == 2 && input.stride(1) == 1 && input.stride(0) >= input.size(1);
    if (!rows_apart && !input.is_contiguous()) {
      input = torch::stable::contiguous(input);
    }
    d = sizes.empty() ? 1 : sizes.back();
    const int64_t count = out.numel();
    rows = count == 0 ? 0 : count / d;
    stride = rows_apart ? input.stride(0) : (has_halves(op) ? 2 * d : d);
    if (stride == d) { // no gaps: one long row
      d *= rows;
      rows = rows == 0 ? 0 : 1;
      stride = d;
    }
  }

  // Puts the result where it was asked for.
  void finish(const Tensor& wanted) const {
    if (copy_back) {
      Tensor to = wanted;
      torch::stable::copy_(to, out);
    }
  }

  Dtype dtype;
  Tensor out;
  Tensor input;
  bool copy_back;
  int64_t rows;
  int64_t d;
  int64_t stride;
};
