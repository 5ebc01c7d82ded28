// silu_and_mul and its gradient on a GPU. No torch header: with them this file
// takes six times as long to compile, or more.
#include "silu_and_mul_cuda.h"

#include "backward.h"
#include "functors.h"
#include "launch_rows.h"

namespace wb::cuda {

const char* launch_silu_and_mul(Dtype dtype, const Rows& rows, void* stream) {
  return text_of(dispatch(dtype, [&](auto zero) {
    using T = decltype(zero);
    return launch_rows<T, Split>(
        rows, SiluAndMul(), static_cast<cudaStream_t>(stream));
  }));
}

const char* launch_silu_and_mul_backward(
    Dtype dtype, const BackwardRows& r, void* stream) {
  return text_of(dispatch(dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t n = r.rows * r.d;
    const LaunchConfig config(n, kThreads, static_cast<cudaStream_t>(stream));
    const auto launch = [&](auto d, auto n) {
      return cudaLaunchKernelEx(
          &config,
          plain_backward<T, decltype(n), SiluAndMulBackward>,
          static_cast<const T*>(r.grad),
          static_cast<const T*>(r.input),
          static_cast<T*>(r.result),
          d,
          n,
          SiluAndMulBackward());
    };
    return n <= kMaxVectors
        ? launch(static_cast<uint32_t>(r.d), static_cast<uint32_t>(n))
        : launch(r.d, n);
  }));
}

} // namespace wb::cuda
