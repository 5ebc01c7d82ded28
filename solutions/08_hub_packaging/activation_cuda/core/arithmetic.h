// A functor computes in one of these two kinds of arithmetic, both of floats.
#pragma once

#ifdef __CUDACC__ // else a test, which brings its own
#include "gpu.h"
#endif

#include <cmath>
#include <type_traits>

// Hidden: kernels of other libraries in the process have names like these.
#pragma GCC visibility push(hidden)
namespace wb::cuda {

//! [math]
// Precise calls CUDA's library functions: a result in float is right to a few
// ulp, and below 2^-126 to a few units of 2^-149.
struct Precise {
  // gate * sigmoid(x + low). exp of what is never positive does not overflow,
  // and its root is not subnormal where the result is a normal number.
  static __device__ float times_sigmoid(float gate, float x, float low = 0) {
    const float root = expf(-0.5f * fabsf(x));
    const float right = gate / (1 + root * root);
    // e^(x + low) = e^x (1 + low); of an x so small that e^x is 0, low may be
    // NaN.
    const float left = root > 0 ? fmaf(root, low, root) : root;
    return x < 0 ? right * root * left : right;
  }
};

// Fast takes less than half of the instructions, for results that are rounded
// to 8 or 11 bits.
struct Fast {
  // All is scaled by 2^24, which costs nothing: so e stays above 2^-126, below
  // which the hardware makes it 0, down to x = -103.
  static __device__ float sigmoid(float x) {
    constexpr float kScale = 0x1p24f;
    const float e = approx_exp2(fmaf(-fabsf(x), 1.44269504f, 24));
    return (x < 0 ? e : kScale) * approx_reciprocal(kScale + e);
  }
  static __device__ float times_sigmoid(float gate, float x, float = 0) {
    return gate * sigmoid(x);
  }
};

template <typename T>
using math_for = std::conditional_t<sizeof(T) == 2, Fast, Precise>;
//! [math]

} // namespace wb::cuda
#pragma GCC visibility pop
