// The gradient of silu_and_mul: its functor, and its kernel, a plain one.
#pragma once

#include "kernels.h"

#include <cstdint>

#pragma GCC visibility push(hidden)
namespace wb::cuda {

struct Gradients {
  float gate, up;
};

// silu'(x) = s + silu(x) * (1 - s), where s is sigmoid(x) and 1 - s
// sigmoid(-x), which does not cancel.
struct SiluAndMulBackward {
  template <typename Math>
  __device__ Gradients
  operator()(Math math, float grad, float gate, float up) const {
    const float silu = math.times_sigmoid(gate, gate);
    const float slope =
        fmaf(silu, math.times_sigmoid(1, -gate), math.times_sigmoid(1, gate));
    return {grad * up * slope, grad * silu};
  }
};

// The gradients of both operands, [rows, 2d] as `input` is, none with gaps. An
// element a thread, numbered in 32 bits where those are enough: a division of
// 64 bits takes twice the instructions.
template <typename T, typename Index, typename F>
__global__ void plain_backward(
    const T* grad, const T* input, T* result, Index d, Index n, F f) {
  const Index i = Index{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) {
    const int64_t gate = int64_t{i} + int64_t{i / d} * d; // a row has 2d
    const int64_t up = gate + d;
    const Gradients found =
        f(math_for<T>(),
          static_cast<float>(grad[i]),
          static_cast<float>(input[gate]),
          static_cast<float>(input[up]));
    result[gate] = static_cast<T>(found.gate);
    result[up] = static_cast<T>(found.up);
  }
}

} // namespace wb::cuda
#pragma GCC visibility pop
