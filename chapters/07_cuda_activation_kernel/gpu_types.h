// half and bfloat16 on the GPU: bits, and the hardware's conversions. CUDA's
// own headers for them would make a small file take twice as long to compile.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace activation {

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

} // namespace activation
