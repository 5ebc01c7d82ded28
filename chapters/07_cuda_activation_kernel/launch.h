// Launches of the kernels, for any functor and layout of a row.
#pragma once

#include "kernels.h"
#include "plan.h"
#include "rows.h"

#include <cuda_runtime.h>

#pragma GCC visibility push(hidden)
namespace wb::cuda {

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

struct Grid {
  uint32_t blocks;
  uint32_t threads; // in a block
};

//! [grid_for]
// A thread for each of n elements, or vectors.
inline Grid grid_for(int64_t n) {
  (void)n; // TODO(07.2): as many blocks as n threads need
  return {1, kThreads};
}
//! [grid_for]

// Unlike <<<...>>>, which says nothing, this returns the launch's own error, or
// an earlier kernel's. cudaGetLastError may have one that somebody else left.
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
template <typename T, typename F>
cudaError_t launch_plain(const Rows& r, const F& f, cudaStream_t stream) {
  const int64_t n = r.rows * r.d;
  return launch(
      grid_for(n),
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

//! [launch_rows]
// The kernel that these rows allow: for vectors of N elements, N / 2, ..., or
// the plain one.
template <
    typename T,
    template <typename, int>
    class Layout,
    int N = 16 / sizeof(T),
    typename F>
cudaError_t launch_rows(const Rows& r, const F& f, cudaStream_t stream) {
  if (vector_width(r, sizeof(T)) != N) {
    if constexpr (N > 1) {
      return launch_rows<T, Layout, N / 2>(r, f, stream);
    } else {
      return launch_plain<T>(r, f, stream);
    }
  }
  const int64_t vectors = r.rows * r.d / N;
  const Params<T> params{
      static_cast<const T*>(r.gate),
      static_cast<const T*>(r.up),
      static_cast<T*>(r.out),
      r.row_stride,
      static_cast<uint32_t>(vectors),
      FastDivmod(static_cast<uint32_t>(r.d / N))};
  return launch(
      grid_for(vectors), stream, vectorized<T, N, Layout, F>, params, f);
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
  (void)error; // TODO(07.2): its text, if it is one; and take it from CUDA
  return nullptr;
}
//! [text_of]

} // namespace wb::cuda
#pragma GCC visibility pop
