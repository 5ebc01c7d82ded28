// Launches of the kernels, for any functor and layout of a row.
#pragma once

#include "kernels.h"
#include "plan.h"
#include "rows.h"

#include <cuda_runtime.h>

#include <vector>

#pragma GCC visibility push(hidden)
namespace wb {

// The first launch of a kernel loads it, for which CUDA may wait and allocate.
// A thread that captures a graph may do neither, unless it asks for it.
struct RelaxedCapture {
  RelaxedCapture() {
    cudaThreadExchangeStreamCaptureMode(&mode);
  }
  ~RelaxedCapture() {
    cudaThreadExchangeStreamCaptureMode(&mode);
  }
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed; // then the other
};

// Unlike <<<...>>>, which says nothing, this returns the launch's own error:
// cudaGetLastError may have one that someone else has left.
template <typename... Parameters, typename... Arguments>
cudaError_t launch(
    const Grid& grid,
    cudaStream_t stream,
    void (*kernel)(Parameters...),
    const Arguments&... arguments) {
  const RelaxedCapture may_load;
  cudaLaunchConfig_t config{};
  config.gridDim = grid.blocks;
  config.blockDim = grid.threads;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

//! [launch_plain]
inline Grid plain_grid(int64_t n) {
  return {
      static_cast<uint32_t>((n + kMaxThreads - 1) / kMaxThreads), kMaxThreads};
}

template <typename T, typename F>
cudaError_t launch_plain(const Rows& r, const F& f, cudaStream_t stream) {
  const int64_t n = r.rows * r.d;
  return launch(
      plain_grid(n),
      stream,
      plain<T, F>,
      static_cast<const T*>(r.gate),
      static_cast<const T*>(r.up),
      static_cast<T*>(r.out),
      r.row_stride,
      r.column_stride,
      r.d,
      n,
      f);
}
//! [launch_plain]

// Asked for once.
inline uint32_t multiprocessors(int32_t device) {
  static const std::vector<int> counts = [] {
    int devices = 0;
    cudaGetDeviceCount(&devices);
    std::vector<int> found(static_cast<size_t>(devices));
    for (int i = 0; i < devices; ++i) {
      cudaDeviceGetAttribute(
          &found[static_cast<size_t>(i)], cudaDevAttrMultiProcessorCount, i);
    }
    return found;
  }();
  const auto i = static_cast<size_t>(device);
  return i < counts.size() ? static_cast<uint32_t>(counts[i]) : 1;
}

//! [launch_rows]
template <
    typename T,
    int N,
    template <typename, int>
    class Operands,
    typename F>
cudaError_t launch_vectorized(
    const Rows& r, const F& f, int32_t device, cudaStream_t stream) {
  const int64_t vectors = r.rows * r.d / N;
  const Params<T> params{
      static_cast<const T*>(r.gate),
      static_cast<const T*>(r.up),
      static_cast<T*>(r.out),
      r.row_stride,
      static_cast<uint32_t>(vectors),
      FastDivmod(static_cast<uint32_t>(r.d / N))};
  return launch(
      grid_for(vectors, multiprocessors(device)),
      stream,
      vectorized<T, N, kInFlight, Operands, F>,
      params,
      f);
}

// The kernel that these rows allow.
template <typename T, template <typename, int> class Operands, typename F>
cudaError_t launch_rows(
    const Rows& r, const F& f, int32_t device, cudaStream_t stream) {
  constexpr int kWide = 16 / sizeof(T);
  switch (vector_width(r, sizeof(T))) {
    case kWide:
      return launch_vectorized<T, kWide, Operands>(r, f, device, stream);
    case 1:
      return launch_vectorized<T, 1, Operands>(r, f, device, stream);
    default:
      return launch_plain<T>(r, f, stream);
  }
}
//! [launch_rows]

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
// Why a launch failed, or nullptr. A failed launch leaves its error with CUDA
// as well: it is taken, or whoever asks next would find it.
inline const char* text_of(cudaError_t error) {
  if (error == cudaSuccess) {
    return nullptr;
  }
  (void)cudaGetLastError();
  return cudaGetErrorString(error);
}
//! [text_of]

} // namespace wb
#pragma GCC visibility pop
