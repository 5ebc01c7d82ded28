// PyTorch's current stream of CUDA, on any libtorch since 2.10. From target
// 2.13 on torch::stable::accelerator::getCurrentStream(device).nativeHandle()
// is the same.
#pragma once

#include "error_text.h"

#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/Exception.h>

#include <cstdint>

//! [weak]
// The function is in libtorch_cuda.so, and on ROCm in libtorch_hip.so; a
// PyTorch for the CPU has it nowhere. It is weak, so that the library loads
// there too: the address is null then. It is also null if the library is not
// linked with libtorch.so, which leads the loader to the other two.
extern "C" __attribute__((weak)) AOTITorchError
aoti_torch_get_current_cuda_stream(int32_t device, void** stream);
//! [weak]

namespace wb {

// A cudaStream_t. Throws std::runtime_error, with the reason, if there is none.
inline void* current_stream(int32_t device) {
  STD_TORCH_CHECK(
      aoti_torch_get_current_cuda_stream != nullptr,
      "aoti_torch_get_current_cuda_stream is missing: this PyTorch has no GPU "
      "part, or the extension is not linked with libtorch.so");
  void* stream = nullptr;
  STD_TORCH_CHECK(
      aoti_torch_get_current_cuda_stream(device, &stream) == TORCH_SUCCESS,
      "aoti_torch_get_current_cuda_stream: ",
      error_text());
  return stream;
}

} // namespace wb
