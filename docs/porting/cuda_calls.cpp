// Calls of libtorch's for CUDA, each as a function of its own:
// docs/port_cuda.md. It is compiled with -DUSE_CUDA and without the headers of
// CUDA; it is not run.
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/c/shim.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/shim_utils.h>

#include <memory>

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

//! [stream]
// at::cuda::getCurrentCUDAStream(device); cast it to cudaStream_t.
void* current_stream(int32_t device) {
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device, &stream));
  return stream;
}

// at::cuda::getStreamFromPool(high_priority, device)
void* stream_from_pool(bool high_priority, int32_t device) {
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(
      torch_get_cuda_stream_from_pool(high_priority, device, &stream));
  return stream;
}

// c10::cuda::CUDAStreamGuard: while it lives, `stream` is the current one.
class StreamGuard {
 public:
  StreamGuard(void* stream, int32_t device) {
    TORCH_ERROR_CODE_CHECK(
        aoti_torch_create_cuda_stream_guard(stream, device, &guard_));
  }
  ~StreamGuard() {
    aoti_torch_delete_cuda_stream_guard(guard_); // a destructor does not throw
  }
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  CUDAStreamGuardHandle guard_ = nullptr;
};
//! [stream]

//! [blas]
// at::cuda::getCurrentCUDABlasHandle(); cast it to cublasHandle_t. It is set to
// the current stream, and it stays libtorch's.
void* blas_handle() {
  void* handle = nullptr;
  TORCH_ERROR_CODE_CHECK(torch_get_current_cuda_blas_handle(&handle));
  return handle;
}
//! [blas]

//! [workspace]
// Memory of PyTorch's own allocator. It may be dropped as soon as the kernel
// that uses it is launched, if that is on the current stream.
Tensor workspace(const Tensor& like, int64_t bytes) {
  return torch::stable::new_empty(like, {bytes}, ScalarType::Byte);
}
//! [workspace]
