// The kernel for CUDA, in a library of its own: a PyTorch for the CPU does not
// have the functions that it needs, and would refuse to load it.
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/macros.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/Dispatch_v2.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

#include <cuda_runtime.h>

#include <algorithm>

namespace scale_ops {
namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

//! [kernel]
template <typename T>
__global__ void scale_kernel(T* out, const T* in, float factor, int64_t n) {
  const int64_t stride = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += stride) {
    out[i] = static_cast<T>(static_cast<float>(in[i]) * factor);
  }
}

Tensor scale(const Tensor& input, double factor) {
  STD_TORCH_CHECK(input.is_contiguous(), "scale: input must be contiguous");
  const int32_t device = input.get_device_index();
  const torch::stable::accelerator::DeviceGuard guard(device);
  Tensor out = torch::stable::empty_like(input);
  const int64_t n = input.numel();
  if (n == 0) {
    return out; // a grid of no blocks is an error
  }

  void* stream = nullptr; // the one that PyTorch's own ops use now
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device, &stream));
  int processors = 0;
  STD_CUDA_CHECK(cudaDeviceGetAttribute(
      &processors, cudaDevAttrMultiProcessorCount, device));
  const int64_t blocks = std::min<int64_t>((n + 255) / 256, 8 * processors);

  THO_DISPATCH_V2(
      input.scalar_type(),
      "scale",
      AT_WRAP(([&] {
        scale_kernel<<<
            static_cast<unsigned>(blocks),
            256,
            0,
            static_cast<cudaStream_t>(stream)>>>(
            out.mutable_data_ptr<scalar_t>(),
            input.const_data_ptr<scalar_t>(),
            static_cast<float>(factor),
            n);
        STD_CUDA_KERNEL_LAUNCH_CHECK();
      })),
      ScalarType::Float,
      ScalarType::Half,
      ScalarType::BFloat16);
  return out;
}
//! [kernel]

} // namespace

STABLE_TORCH_LIBRARY_IMPL(scale_ops, CUDA, m) {
  m.impl("scale", TORCH_BOX(&scale));
}

} // namespace scale_ops
