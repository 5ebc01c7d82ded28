// Any kernel is launched by these: the type of its elements, the configuration
// of the launch, and the text of its error.
#pragma once

#include "gpu.h"
#include "rows.h"

#include <cuda_runtime.h>

#include <cstdint>

#pragma GCC visibility push(hidden)
namespace wb::cuda {

// The first launch of a kernel loads it, for which CUDA may wait and allocate.
// A thread that captures a graph may do neither, unless it asks for it.
struct RelaxedCapture {
  RelaxedCapture() {
    cudaThreadExchangeStreamCaptureMode(&mode);
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  ~RelaxedCapture() {
    cudaThreadExchangeStreamCaptureMode(&mode);
  }
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed; // then the other
};

//! [launch_config]
// cudaLaunchKernelEx takes it, and returns the launch's own error, or an
// earlier kernel's; <<<...>>> leaves it to cudaGetLastError, which may return
// one that somebody else left.
struct LaunchConfig : cudaLaunchConfig_t {
  // There is a thread for each of n elements, or vectors, in blocks of
  // `threads`.
  LaunchConfig(int64_t n, int threads, cudaStream_t on) : cudaLaunchConfig_t() {
    gridDim = 1; // TODO(07.2): as many blocks as n threads need
    blockDim = static_cast<uint32_t>(threads);
    stream = on;
  }

  RelaxedCapture may_load; // if it is launched while this lives
};
//! [launch_config]

//! [dispatch]
// Calls f(T()) with the GPU's type of `dtype`.
template <typename F>
cudaError_t dispatch(Dtype dtype, const F& f) {
  switch (dtype) {
    case Dtype::kFloat:
      return f(float());
    case Dtype::kHalf:
      return f(Half());
    case Dtype::kBFloat16:
      return f(BFloat16());
  }
  return cudaErrorInvalidValue; // no dtype
}
//! [dispatch]

//! [text_of]
// Returns why a launch failed, or nullptr. A failed launch leaves its error
// with CUDA as well: it is taken, or whoever asks next would find it.
inline const char* text_of(cudaError_t error) {
  return nullptr; // TODO(07.2): its text, if it is one; take it from CUDA
}
//! [text_of]

} // namespace wb::cuda
#pragma GCC visibility pop
