// The ops on CUDA: checks, device and stream, the launch. No CUDA header is
// needed here. Nothing waits, and nothing is allocated but results and copies.
#include "checked_box.h"
#include "checks.h"
#include "compat.h"
#include "cuda_inputs.h"
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

//! [on_current_stream]
// Calls launch(stream), which returns nullptr or an error's text, with the
// device of `input` current, and its current stream.
template <typename Launch>
void on_current_stream(const Tensor& input, const Launch& launch) {
  const int32_t device = input.get_device_index();
  // TODO(07.2): on this device, on its current stream; and say what is wrong
  STD_TORCH_CHECK(false, "TODO(07.2): device, stream, launch, error");
  (void)device;
  launch(nullptr);
}
//! [on_current_stream]

//! [out_cuda]
void silu_and_mul_out_cuda(const Tensor& out, const Tensor& input) {
  const TensorInfo info(input);
  check_even(info.sizes);
  check_rows("out", TensorInfo(out), info, info.sizes.back() / 2);
  check_contiguous("out", out);
  check_device("out", out, input);
  const Dtype dtype = cuda_dtype(input);
  if (out.numel() == 0) {
    return; // no rows, or rows of nothing: a launch of no blocks is an error
  }
  const Tensor in =
      row_stride(input) ? input : torch::stable::contiguous(input);
  const int64_t d = out.size(-1);
  const int64_t column_stride = in.stride(-1);
  const auto* const gate = static_cast<const char*>(in.const_data_ptr());
  const Rows rows{
      gate,
      gate + d * column_stride * element_size(dtype),
      out.mutable_data_ptr(),
      out.numel() / d,
      d,
      *row_stride(in),
      column_stride};
  on_current_stream(in, [&](void* stream) {
    return cuda::launch_silu_and_mul(dtype, rows, stream);
  });
}
//! [out_cuda]

Tensor silu_and_mul_cuda(const Tensor& input) {
  Tensor out = torch::stable::new_empty(input, output_sizes(input.sizes()));
  silu_and_mul_out_cuda(out, input);
  return out;
}

Tensor silu_and_mul_backward_cuda(const Tensor& grad, const Tensor& input) {
  const TensorInfo info(input);
  check_even(info.sizes);
  check_rows("grad", TensorInfo(grad), info, info.sizes.back() / 2);
  check_device("grad", grad, input);
  const Dtype dtype = cuda_dtype(input);
  Tensor result = torch::stable::new_empty(input, info.sizes);
  if (grad.numel() == 0) {
    return result;
  }
  const Tensor dy =
      as_contiguous(grad); // often expanded: the gradient of a sum
  const Tensor in = as_contiguous(input);
  const int64_t d = dy.size(-1);
  on_current_stream(in, [&](void* stream) {
    return cuda::launch_silu_and_mul_backward(
        dtype,
        dy.const_data_ptr(),
        in.const_data_ptr(),
        result.mutable_data_ptr(),
        dy.numel() / d,
        d,
        stream);
  });
  return result;
}

} // namespace
} // namespace wb

STABLE_TORCH_LIBRARY_IMPL(wb07, CUDA, m) {
  m.impl("silu_and_mul.out", CHECKED_BOX(&wb::silu_and_mul_out_cuda));
  m.impl("silu_and_mul", CHECKED_BOX(&wb::silu_and_mul_cuda));
  m.impl("silu_and_mul_backward", CHECKED_BOX(&wb::silu_and_mul_backward_cuda));
}
