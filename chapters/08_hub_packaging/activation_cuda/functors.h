// What is computed of one element: activations, and the two kinds of arithmetic
// they are computed in. For nvcc and for any C++17 compiler; no torch.
#pragma once

#include <cmath>
#include <stdexcept>
#include <type_traits>

#ifdef __CUDACC__
#define HOST_DEVICE __host__ __device__
#else
#define HOST_DEVICE
#endif

// On the host a check that throws; on the GPU it costs nothing.
#ifdef __CUDA_ARCH__
#define HOST_CHECK(condition, text) ((void)sizeof(condition))
#define UNROLL _Pragma("unroll")
#else
#define UNROLL
#define HOST_CHECK(condition, text)   \
  do {                                \
    if (!(condition)) {               \
      throw std::runtime_error(text); \
    }                                 \
  } while (false)
#endif

namespace activation {

// What the hardware computes in one instruction each, to 22 bits. On the host
// the same, with the same edges: what is too small becomes 0.
inline HOST_DEVICE float approx_exp2(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return x < -126 ? 0 : std::exp2(x);
#endif
}
inline HOST_DEVICE float approx_reciprocal(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return std::fabs(x) > 0x1p126f ? 0 : 1 / x;
#endif
}

//! [math]
// CUDA's library functions, right to a few ulp of float. exp of what is never
// positive does not overflow.
struct Precise {
  static HOST_DEVICE float sigmoid(float x) {
    const float e = expf(-fabsf(x));
    return (x < 0 ? e : 1) / (1 + e);
  }
};

// In a third of the instructions, for results that are rounded to 8 or 11 bits.
// All is scaled by 2^24, which costs nothing: e, too, is then far from 2^-126,
// below which the hardware makes it 0.
struct Fast {
  static HOST_DEVICE float sigmoid(float x) {
    constexpr float kScale = 0x1p24f;
    const float e = approx_exp2(fmaf(-fabsf(x), 1.44269504f, 24));
    return (x < 0 ? e : kScale) * approx_reciprocal(kScale + e);
  }
};

template <class T>
using math_for = std::conditional_t<sizeof(T) == 2, Fast, Precise>;
//! [math]

//! [functors]
// A functor is copied to the GPU by value, so it may hold parameters.
struct SiluAndMul {
  template <class Math>
  HOST_DEVICE float operator()(Math math, float gate, float up) const {
    return gate * math.sigmoid(gate) * up;
  }
};

// x * Phi(x) by erfc: 1 + erf would cancel where x is negative.
struct GeluAndMul {
  template <class Math>
  HOST_DEVICE float operator()(Math, float gate, float up) const {
    return 0.5f * gate * erfcf(gate * -0.70710678f) * up;
  }
};

// gate / 2 * (1 + tanh(u)) = gate * sigmoid(2u), which does not cancel.
struct GeluTanhAndMul {
  template <class Math>
  HOST_DEVICE float operator()(Math math, float gate, float up) const {
    const float cubed = 0.044715f * gate * gate * gate;
    return gate * math.sigmoid(1.5957691f * (gate + cubed)) * up;
  }
};
//! [functors]

} // namespace activation
