// The op on CUDA: check, rows, launch. No CUDA header is needed here. Once a
// kernel is loaded nothing waits, and only results and copies are allocated.
#include "add_scaled_cuda.h"
#include "checked_box.h"
#include "checks.h"
#include "cuda_inputs.h"
#include "current_stream.h"
#include "outputs.h"

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/Exception.h>

#include <cstdint>
#include <tuple>

namespace wb {
namespace {

using torch::stable::accelerator::DeviceGuard;

Tensor add_scaled_cuda(const Tensor& input, const Tensor& other, double alpha) {
  const TensorInfo info(input);
  check_rows(
      "other",
      TensorInfo(other),
      info,
      info.sizes.empty() ? 1 : info.sizes.back());
  check_device("other", other, input);
  const Dtype dtype = cuda_dtype(input);
  const Tensor x = as_contiguous(input);
  const Tensor y = as_contiguous(other);
  Tensor out = empty_contiguous(input);
  const int64_t n = out.numel(); // without gaps: one row
  if (n == 0) {
    return out; // a launch of no blocks is an error
  }
  const Rows rows{
      x.const_data_ptr(),
      y.const_data_ptr(),
      out.mutable_data_ptr(),
      1,
      n,
      n,
      1};
  const int32_t device = input.get_device_index();
  const DeviceGuard guard(device); // CUDA launches on the current device
  const char* const error = cuda::launch_add_scaled(
      dtype, rows, static_cast<float>(alpha), current_stream(device));
  STD_TORCH_CHECK(error == nullptr, "CUDA says: ", error);
  return out;
}

// A gradient for each tensor among the inputs. No result may be an argument, or
// share its memory.
std::tuple<Tensor, Tensor> add_scaled_backward_cuda(
    const Tensor& grad, const Tensor&, const Tensor&, double alpha) {
  Tensor of_input = empty_contiguous(grad);
  torch::stable::copy_(of_input, grad);
  Tensor zeros = empty_contiguous(grad);
  torch::stable::zero_(zeros);
  return {of_input, add_scaled_cuda(zeros, grad, alpha)};
}

} // namespace
} // namespace wb

STABLE_TORCH_LIBRARY_IMPL(wb07, CUDA, m) {
  m.impl("add_scaled", CHECKED_BOX(&wb::add_scaled_cuda));
  m.impl("add_scaled_backward", CHECKED_BOX(&wb::add_scaled_backward_cuda));
}
