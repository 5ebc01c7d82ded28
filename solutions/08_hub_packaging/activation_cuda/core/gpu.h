// What the GPU has and the host has not: half and bfloat16, with the hardware's
// conversions (CUDA's own headers for them would make a small file take twice
// as long to compile), and its approximations. A test on the host has its own.
#pragma once

#include <cuda_runtime.h>

#include <cassert>
#include <cstdint>

#define KERNEL_ASSERT(condition) assert(condition)

namespace wb::cuda {

//! [gpu_types]
struct Half {
  Half() = default;
  __device__ explicit Half(float value) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  }
  __device__ explicit operator float() const {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
  uint16_t bits;
};

struct BFloat16 {
  BFloat16() = default;
  __device__ explicit BFloat16(float value) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else // to nearest, ties to even; a NaN stays one
    const uint32_t all = __float_as_uint(value);
    bits = value != value ? 0x7fff : (all + 0x7fff + (all >> 16 & 1)) >> 16;
#endif
  }
  __device__ explicit operator float() const {
    return __uint_as_float(uint32_t{bits} << 16);
  }
  uint16_t bits;
};
//! [gpu_types]

// One instruction each, good to 22 bits. What is smaller than 2^-126 is 0.
__device__ inline float approx_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float approx_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

} // namespace wb::cuda
