// silu_and_mul and its gradient: the kernels for the CPU, and for Meta, whose
// tensors have no elements.
#pragma once

#include "checks.h"
#include "dispatch.h"
#include "outputs.h"
#include "parallel.h"
#include "silu_and_mul_backward_row.h"
#include "silu_and_mul_row.h"
#include "sizes.h"

#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <cstdint>

namespace wb {

// --- CPU ---------------------------------------------------------------------

//! [rows]
// Calls f(T(), rows, d) for an input [..., 2d] of T.
template <typename F>
void for_input(const Tensor& input, const F& f) {
  const int64_t d = input.size(-1) / 2;
  const int64_t rows = d == 0 ? 0 : input.numel() / (2 * d);
  dispatch(input.scalar_type(), [&](auto zero) { f(zero, rows, d); });
}

// Writes to `out`, which must not overlap `input`.
inline void silu_and_mul_out(const Tensor& out, const Tensor& input) {
  const TensorInfo info(input);
  check_even(info.sizes);
  check_rows("out", TensorInfo(out), info, info.sizes.back() / 2);
  check_contiguous("out", out);
  const Tensor in = as_contiguous(input);
  for_input(in, [&](auto zero, int64_t rows, int64_t d) {
    using T = decltype(zero);
    const T* x = static_cast<const T*>(in.const_data_ptr());
    T* y = static_cast<T*>(out.mutable_data_ptr());
    const bool non_temporal = rows * d * int64_t{sizeof(T)} > kMaxCachedBytes;
    for_each_piece(rows, d, [&](int64_t row, int64_t first, int64_t n) {
      const T* gate = x + row * 2 * d + first;
      silu_and_mul_row(y + row * d + first, gate, gate + d, n, non_temporal);
    });
  });
}
//! [rows]

//! [functional]
inline Tensor silu_and_mul(const Tensor& input) {
  Tensor out = torch::stable::new_empty(input, output_sizes(input.sizes()));
  silu_and_mul_out(out, input);
  return out;
}
//! [functional]

inline Tensor silu_and_mul_backward(const Tensor& grad, const Tensor& input) {
  const TensorInfo info(input);
  check_even(info.sizes);
  check_rows("grad", TensorInfo(grad), info, info.sizes.back() / 2);
  const Tensor g = as_contiguous(grad); // often expanded: the gradient of a sum
  const Tensor in = as_contiguous(input);
  Tensor result = torch::stable::new_empty(input, input.sizes());
  // TODO(04.5): then silu_and_mul_backward_row for each piece of each row.
  STD_TORCH_CHECK(false, "TODO(04.5): input has ", in.dim(), " dimensions");
  return result;
}

// --- Meta: sizes, strides, dtype and device of the results, and no element ---

inline void silu_and_mul_out_meta(
    const Tensor& /*out*/, const Tensor& /*input*/) {}

//! [meta]
inline Tensor silu_and_mul_meta(const Tensor& input) {
  // TODO(04.4): what silu_and_mul returns, without reading a size of input.
  STD_TORCH_CHECK(false, "TODO(04.4): input has ", input.dim(), " dimensions");
}
//! [meta]

inline Tensor silu_and_mul_backward_meta(
    const Tensor& /*grad*/, const Tensor& input) {
  return empty_contiguous(input);
}

} // namespace wb
