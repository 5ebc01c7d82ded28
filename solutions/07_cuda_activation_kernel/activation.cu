// The kernels for the GPU, one for each functor, dtype and width. No torch
// header: they would make this file five times as slow.
#include "gpu_types.h"
#include "launch.h"

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
//! [kernel]

struct Launch {
  template <class T, int N, class F>
  void with(const F& f) const {
    const auto threads = static_cast<unsigned>(plan.threads);
    kernel<T, N><<<plan.blocks(problem.vectors), threads, 0, stream>>>(
        problem, halves, f);
  }

  template <class T>
  void of(Op op) const {
    constexpr int kWide = 16 / sizeof(T);
    if (plan.width != kWide) {
      return with<T, 1>(AnyOp{op});
    }
    switch (op) {
      case Op::kSilu:
        return with<T, kWide>(SiluAndMul());
      case Op::kGelu:
        return with<T, kWide>(GeluAndMul());
      case Op::kGeluTanh:
        return with<T, kWide>(GeluTanhAndMul());
    }
  }

  const Problem& problem;
  const Halves& halves;
  const Plan& plan;
  cudaStream_t stream;
};

} // namespace

//! [launch]
const char* launch(
    Op op,
    Dtype dtype,
    const Problem& problem,
    const Halves& halves,
    const Plan& plan,
    void* stream) {
  const Launch launch{problem, halves, plan, static_cast<cudaStream_t>(stream)};
  switch (dtype) {
    case Dtype::kFloat:
      launch.of<float>(op);
      break;
    case Dtype::kHalf:
      launch.of<Half>(op);
      break;
    case Dtype::kBFloat16:
      launch.of<BFloat16>(op);
      break;
  }
  // Taken, so that the error is not found by whoever asks next.
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}
//! [launch]

} // namespace activation
