// The kernels for the GPU, one for each functor, dtype and width. No torch
// header: they would make this file five times as slow.
#include "launch.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace activation {
namespace {

//! [kernel]
template <class T, int N, class Layout, class F>
__global__ void __launch_bounds__(256)
    kernel(const Problem problem, const Layout layout, const F f) {
  run_thread<T, N, kInFlight>(
      problem, layout, f, {blockIdx.x, threadIdx.x, blockDim.x});
}

template <class T, class F>
void launch_for(
    const F& f,
    const Problem& problem,
    const Halves& halves,
    const Plan& plan,
    cudaStream_t stream) {
  const auto blocks = plan.blocks(problem.vectors);
  const auto threads = static_cast<unsigned>(plan.threads);
  with_width<T>(plan, [&](auto width) {
    kernel<T, decltype(width)::value>
        <<<blocks, threads, 0, stream>>>(problem, halves, f);
  });
}
//! [kernel]

} // namespace

//! [launch]
const char* launch(
    Op op,
    Dtype dtype,
    const Problem& problem,
    const Halves& halves,
    const Plan& plan,
    void* stream) {
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  with_functor(op, [&](auto f) {
    switch (dtype) {
      case Dtype::kFloat:
        launch_for<float>(f, problem, halves, plan, cuda_stream);
        break;
      default: // TODO(07.3): the same with __half and __nv_bfloat16
        break;
    }
  });
  // Taken, so that the error is not found by whoever asks next.
  return nullptr; // TODO(07.2): the text of cudaGetLastError, if it is one
}
//! [launch]

} // namespace activation
