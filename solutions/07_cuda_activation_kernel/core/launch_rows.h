// These launch the kernels of kernels.h, for any functor and layout of a row.
#pragma once

#include "kernels.h"
#include "launch.h"
#include "plan.h"
#include "rows.h"

#include <cstdint>

#pragma GCC visibility push(hidden)
namespace wb::cuda {

//! [launch_plain]
template <typename T, typename F>
cudaError_t launch_plain(const Rows& r, const F& f, cudaStream_t stream) {
  const int64_t n = r.rows * r.d;
  const LaunchConfig config(n, kThreads, stream);
  return cudaLaunchKernelEx(
      &config,
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
// Launches the kernel that these rows allow: for vectors of N elements, N / 2,
// ..., or the plain one.
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
  const LaunchConfig config(vectors, kThreads, stream);
  return cudaLaunchKernelEx(&config, vectorized<T, N, Layout, F>, params, f);
}
//! [launch_rows]

} // namespace wb::cuda
#pragma GCC visibility pop
