// The names that only a file for nvcc uses: docs/names_by_example.md. Compiled,
// not run. Build it with -DUSE_CUDA, without which the shim of CUDA is hidden.
#include "../../solutions/06_version_gating/compat.h"

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/macros.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/TensorAccessor.h>
#include <torch/headeronly/macros/Macros.h>
#include <torch/headeronly/util/Exception.h>
#if COMPAT_HEADERS(2, 14)
#include <torch/headeronly/cuda/Atomic.h>
#endif

#include <cuda_runtime.h>

#include <cstdint>

namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

//! [kernel]
using Matrix = torch::headeronly::HeaderOnlyGenericPackedTensorAccessor<
    const float,
    2,
    torch::headeronly::RestrictPtrTraits, // a pointer with __restrict__
    int32_t>;
constexpr int kThreads = 256;

C10_HOST_DEVICE int32_t blocks_for(int32_t rows) {
  return (rows + kThreads - 1) / kThreads;
}

C10_DEVICE float square(float x) {
  return x * x;
}

// One thread for each row.
__global__ void C10_LAUNCH_BOUNDS_1(kThreads)
    squares(Matrix x, int32_t column, float* total) {
  const auto row = static_cast<int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
  if (row >= x.size(0)) {
    return;
  }
  CUDA_KERNEL_ASSERT(column >= 0 && column < x.size(1));
#if COMPAT_HEADERS(2, 14)
  gpuAtomicAdd(total, square(x[row][column]));
#else
  atomicAdd(total, square(x[row][column])); // CUDA's own
#endif
}

// Both: 256 threads in a block, and 4 blocks at a time.
__global__ void C10_LAUNCH_BOUNDS_0 clear(float* total) {
  *total = 0;
}
__global__ void C10_LAUNCH_BOUNDS_2(kThreads, 4) root(float* total) {
  *total = sqrtf(*total);
}
//! [kernel]

//! [launch]
Tensor norm_of_column(const Tensor& x, int64_t column) {
  STD_TORCH_CHECK(x.is_cuda() && x.dim() == 2, "x must be [rows, columns]");
  STD_TORCH_CHECK(x.numel() <= INT32_MAX, "x is too large for int32_t");
  const torch::stable::accelerator::DeviceGuard guard(x.get_device_index());
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(
      aoti_torch_get_current_cuda_stream(x.get_device_index(), &stream));
  const Tensor total = torch::stable::new_empty(x, {1}, ScalarType::Float);
  auto* to = total.mutable_data_ptr<float>();
  const Matrix matrix(
      x.const_data_ptr<float>(), x.sizes().data(), x.strides().data());
  const auto on = static_cast<cudaStream_t>(stream);
  clear<<<1, 1, 0, on>>>(to);
  STD_CUDA_KERNEL_LAUNCH_CHECK();
  if (x.size(0) > 0) { // an empty grid is an error of CUDA
    squares<<<blocks_for(matrix.size(0)), kThreads, 0, on>>>(
        matrix, static_cast<int32_t>(column), to);
    STD_CUDA_KERNEL_LAUNCH_CHECK();
  }
  root<<<1, 1, 0, on>>>(to);
  STD_CUDA_KERNEL_LAUNCH_CHECK();
  return total;
}
//! [launch]

//! [streams]
// Waits for what was launched on the current stream of a device.
void wait(int64_t index) {
  using namespace torch::stable::accelerator;
  DeviceGuard guard(static_cast<DeviceIndex>(index));
  guard.set_index(static_cast<DeviceIndex>(index)); // to another, in a loop
  const Stream stream = getCurrentStream(getCurrentDeviceIndex());
  static_cast<void>(stream.id()); // tells streams apart
#if COMPAT_TARGET(2, 13)
  void* native = stream.nativeHandle(); // for any accelerator
#else
  void* native = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(
      getCurrentDeviceIndex(), &native)); // for CUDA
#endif
  STD_CUDA_CHECK(cudaStreamSynchronize(static_cast<cudaStream_t>(native)));
}
//! [streams]

STABLE_TORCH_LIBRARY(examples_cuda, m) {
  m.def("norm_of_column(Tensor x, int column) -> Tensor");
  m.def("wait(int index) -> ()");
}
STABLE_TORCH_LIBRARY_IMPL(examples_cuda, CUDA, m) {
  m.impl("norm_of_column", TORCH_BOX(&norm_of_column));
}
STABLE_TORCH_LIBRARY_IMPL(examples_cuda, CompositeExplicitAutograd, m) {
  m.impl("wait", TORCH_BOX(&wait));
}
} // namespace
