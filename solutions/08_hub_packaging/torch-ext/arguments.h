// This file leads from the tensors of a call to what the kernels take: what is
// refused, and the rows that `out` and `input` are.
#pragma once

#include "checks.h"
#include "cuda_inputs.h"
#include "rows.h"
#include "sizes.h"

#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

#include <cstdint>
#include <vector>

#pragma GCC visibility push(hidden)
namespace wb {

// How the operands lie in the last dimension of `input`.
enum class Operands {
  kGateUp,      // [gate, up]
  kUpGate,      // [up, gate]
  kInterleaved, // [gate, up, gate, up, ...]
  kOne,
};

inline std::vector<int64_t> result_sizes(
    Operands operands, const Tensor& input) {
  return operands == Operands::kOne ? input.sizes().vec()
                                    : output_sizes(input.sizes());
}

inline Dtype check_dtype(const Tensor& input) {
  const ScalarType dtype = input.scalar_type();
  STD_TORCH_CHECK(
      dtype == ScalarType::Float || dtype == ScalarType::Half ||
          dtype == ScalarType::BFloat16,
      "input must be Float, Half or BFloat16, got ",
      dtype);
  return dtype == ScalarType::Float ? Dtype::kFloat
      : dtype == ScalarType::Half   ? Dtype::kHalf
                                    : Dtype::kBFloat16;
}

inline void check_args(
    Operands operands, const Tensor& out, const Tensor& input) {
  const std::vector<int64_t> sizes = result_sizes(operands, input);
  const TensorInfo info(input);
  check_rows("out", TensorInfo(out), info, sizes.empty() ? 1 : sizes.back());
  check_device("out", out, input);
}

// `input` as it is if its rows are one distance apart, each without gaps; else
// a copy without any.
inline Tensor with_even_rows(const Tensor& input) {
  const bool even =
      input.dim() > 0 && input.stride(-1) == 1 && row_stride(input);
  return even ? input : torch::stable::contiguous(input);
}

// `out` is contiguous and not empty, and the rows of `input` are even.
inline Rows flatten_rows(
    Operands operands, Dtype dtype, const Tensor& out, const Tensor& input) {
  const int64_t count = out.numel();
  const int64_t d = out.dim() == 0 ? 1 : out.size(-1);
  const auto* const row = static_cast<const char*>(input.const_data_ptr());
  const auto at = [&](int64_t column) {
    return row + column * element_size(dtype);
  };
  Rows rows{
      row,
      row,
      out.mutable_data_ptr(),
      count / d,
      d,
      input.dim() == 0 ? 1 : *row_stride(input),
      1};
  switch (operands) {
    case Operands::kGateUp:
      rows.up = at(d);
      break;
    case Operands::kUpGate:
      rows.gate = at(d);
      break;
    case Operands::kInterleaved:
      rows.up = at(1);
      rows.column_stride = 2;
      break;
    case Operands::kOne:
      if (rows.row_stride == d) { // no gaps: one long row
        rows.d = rows.row_stride = count;
        rows.rows = 1;
      }
      break;
  }
  return rows;
}

} // namespace wb
#pragma GCC visibility pop
