// The kernels for the GPU, one for each op, dtype and width. No torch header:
// they would make this file five times as slow.
#include "launch.h"
#include "layouts.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

using namespace activation;

namespace {

template <class T, int N, class Layout, class F>
__global__ void __launch_bounds__(256)
    kernel(const Problem problem, const Layout layout, const F f) {
  run_thread<T, N, kInFlight>(
      problem, layout, f, {blockIdx.x, threadIdx.x, blockDim.x});
}

struct Launch {
  Dtype dtype;
  const Problem& problem;
  const Plan& plan;
  cudaStream_t stream;

  template <class T, int N, class Layout, class F>
  void with(const Layout& layout, const F& f) const {
    const auto threads = static_cast<unsigned>(plan.threads);
    kernel<T, N><<<plan.blocks(problem.vectors), threads, 0, stream>>>(
        problem, layout, f);
  }
  template <class T, class Layout, class F>
  void of_type(const Layout& layout, const F& f) const {
    constexpr int kWide = 16 / sizeof(T);
    plan.width == kWide ? with<T, kWide>(layout, f) : with<T, 1>(layout, f);
  }
  template <class Layout, class F>
  void operator()(const Layout& layout, const F& f) const {
    switch (dtype) {
      case kFloat:
        return of_type<float>(layout, f);
      case kHalf:
        return of_type<__half>(layout, f);
      default:
        return of_type<__nv_bfloat16>(layout, f);
    }
  }
};

} // namespace

const char* launch(
    Op op,
    Dtype dtype,
    const Problem& problem,
    int64_t d,
    const Numbers& numbers,
    const Plan& plan,
    void* stream) {
  const Launch go{dtype, problem, plan, static_cast<cudaStream_t>(stream)};
  const Halves halves{0, d};
  const auto limit = static_cast<float>(numbers.limit);
  switch (op) {
    case kSiluAndMul:
      go(halves, SiluAndMul());
      break;
    case kMulAndSilu:
      go(Halves{d, 0}, SiluAndMul());
      break;
    case kGeluAndMul:
      go(halves, GeluAndMul());
      break;
    case kGeluTanhAndMul:
      go(halves, GeluTanhAndMul());
      break;
    case kFatreluAndMul:
      go(halves, FatreluAndMul{static_cast<float>(numbers.threshold)});
      break;
    case kSiluAndMulWithClamp:
      go(halves, SiluAndMulWithClamp{limit});
      break;
    case kSwigluoaiAndMul:
      go(InTurns(), SwigluoaiAndMul{static_cast<float>(numbers.alpha), limit});
      break;
    case kSilu:
      go(Alone(), SiluAndMul());
      break;
    case kGelu:
      go(Alone(), GeluAndMul());
      break;
    case kGeluQuick:
      go(Alone(), GeluQuickAndMul());
      break;
    default: // gelu_tanh and its other names
      go(Alone(), GeluTanhAndMul());
      break;
  }
  // Taken, so that the error is not found by whoever asks next.
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}
