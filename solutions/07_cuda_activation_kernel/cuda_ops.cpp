// The ops on CUDA: check, rows, launch. No CUDA header is needed here. Once a
// kernel is loaded nothing waits, and only results and copies are allocated.
#include "checked_box.h"
#include "checks.h"
#include "cuda_inputs.h"
#include "current_stream.h"
#include "outputs.h"
#include "silu_and_mul_cuda.h"
#include "sizes.h"

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/Exception.h>

#include <cstdint>

namespace wb {
namespace {

using torch::stable::accelerator::DeviceGuard;

// `half` is the argument `name`, which must be [..., d] where input is
// [..., 2d], of its dtype and on its device. Returns the dtype.
Dtype check_half(const char* name, const Tensor& half, const Tensor& input) {
  const TensorInfo info(input);
  check_even(info.sizes);
  check_rows(name, TensorInfo(half), info, info.sizes.back() / 2);
  check_device(name, half, input);
  return cuda_dtype(input);
}

// `out` is contiguous and not empty, and the rows of `input` are evenly apart.
Rows rows_of(const Tensor& out, const Tensor& input, Dtype dtype) {
  const int64_t d = out.size(-1);
  const int64_t column_stride = input.stride(-1);
  const auto* const gate = static_cast<const char*>(input.const_data_ptr());
  return {
      gate,
      gate + d * column_stride * element_size(dtype),
      out.mutable_data_ptr(),
      out.numel() / d,
      d,
      *row_stride(input),
      column_stride};
}

//! [out_cuda]
void silu_and_mul_out_cuda(const Tensor& out, const Tensor& input) {
  const Dtype dtype = check_half("out", out, input);
  check_contiguous("out", out);
  if (out.numel() == 0) {
    return; // no rows, or rows of nothing: a launch of no blocks is an error
  }
  const Tensor in =
      row_stride(input) ? input : torch::stable::contiguous(input);
  const Rows rows = rows_of(out, in, dtype);
  const int32_t device = input.get_device_index();
  const DeviceGuard guard(device); // CUDA launches on the current device
  const char* const error =
      cuda::launch_silu_and_mul(dtype, rows, current_stream(device));
  STD_TORCH_CHECK(error == nullptr, "CUDA says: ", error);
}
//! [out_cuda]

Tensor silu_and_mul_cuda(const Tensor& input) {
  Tensor out = torch::stable::new_empty(input, output_sizes(input.sizes()));
  silu_and_mul_out_cuda(out, input);
  return out;
}

Tensor silu_and_mul_backward_cuda(const Tensor& grad, const Tensor& input) {
  const Dtype dtype = check_half("grad", grad, input);
  Tensor result = torch::stable::new_empty(input, input.sizes());
  if (grad.numel() == 0) {
    return result;
  }
  // Often expanded: the gradient of a sum.
  const Tensor dy = as_contiguous(grad);
  const Tensor in = as_contiguous(input); // its kernel is a plain one
  const int64_t d = dy.size(-1);
  const cuda::BackwardRows rows{
      dy.const_data_ptr(),
      in.const_data_ptr(),
      result.mutable_data_ptr(),
      dy.numel() / d,
      d};
  const int32_t device = input.get_device_index();
  const DeviceGuard guard(device);
  const char* const error =
      cuda::launch_silu_and_mul_backward(dtype, rows, current_stream(device));
  STD_TORCH_CHECK(error == nullptr, "CUDA says: ", error);
  return result;
}

} // namespace
} // namespace wb

STABLE_TORCH_LIBRARY_IMPL(wb07, CUDA, m) {
  m.impl("silu_and_mul.out", CHECKED_BOX(&wb::silu_and_mul_out_cuda));
  m.impl("silu_and_mul", CHECKED_BOX(&wb::silu_and_mul_cuda));
  m.impl("silu_and_mul_backward", CHECKED_BOX(&wb::silu_and_mul_backward_cuda));
}
