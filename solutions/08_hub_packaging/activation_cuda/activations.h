// The rest of the ops, and of the ways in which a row can lie.
#pragma once

#include "functors.h"
#include "kernels.h"

#pragma GCC visibility push(hidden)
namespace wb::cuda {

// One operand: [..., d] -> [..., d].
template <typename T, int N>
struct Unary {
  static __device__ Unary
  read(const Params<T>& p, uint32_t row, int64_t column) {
    return {load<T, N>(p.gate + row * p.row_stride + column)};
  }
  __device__ T gate(int i) const {
    return gates.at[i];
  }
  __device__ T up(int i) const {
    return gates.at[i];
  }

  Vector<T, N> gates;
};

// Gate and up in turns: 2 N elements of both.
template <typename T, int N>
struct Interleaved {
  static __device__ Interleaved
  read(const Params<T>& p, uint32_t row, int64_t column) {
    const T* from = p.gate + row * p.row_stride + 2 * column;
    return {load<T, N>(from), load<T, N>(from + N)};
  }
  __device__ T gate(int i) const {
    return element(2 * i);
  }
  __device__ T up(int i) const {
    return element(2 * i + 1);
  }
  __device__ T element(int i) const {
    return i < N ? first.at[i] : second.at[i - N];
  }

  Vector<T, N> first, second;
};

// The activation alone, of one operand.
template <typename F>
struct Alone {
  template <typename Math>
  __device__ float operator()(Math math, float x, float /*x*/) const {
    return F()(math, x, 1.0f);
  }
};

//! [two_floats]
// A number in two floats: the nearest one, and what it lacks. exp and erfc make
// much of an argument's last bit: half an ulp of 80 is a factor of 1 + 2^-18.
struct TwoFloats {
  float high, low;
};

__host__ __device__ constexpr TwoFloats two_floats(double x) {
  const auto high = static_cast<float>(x);
  return {high, static_cast<float>(x - high)};
}

// x * b + a, where both summands have the same sign or a is 0.
inline __device__ TwoFloats
multiply_add(float x, TwoFloats b, TwoFloats a = {0, 0}) {
  const float high = fmaf(x, b.high, a.high);
  const float product = high - a.high;
  const float rest = (high - product) - a.high;
  return {high, fmaf(x, b.high, -product) - rest + (x * b.low + a.low)};
}
//! [two_floats]

inline __device__ float erfc_of(Precise, TwoFloats x) {
  const float y = erfcf(x.high);
  // The slope of erfc is -2 x erfc(x), nearly, where it is steep.
  return x.high > 0 && y > 0 ? fmaf(y, -2 * x.high * x.low, y) : y;
}
inline __device__ float erfc_of(Fast, TwoFloats x) {
  return erfcf(x.high);
}

// x * Phi(x) by erfc: 1 + erf would cancel where x is negative.
struct GeluAndMul {
  template <typename Math>
  __device__ float operator()(Math math, float gate, float up) const {
    constexpr TwoFloats kMinusRootOfHalf = two_floats(-0.70710678118654752);
    const TwoFloats x = multiply_add(gate, kMinusRootOfHalf);
    return 0.5f * gate * erfc_of(math, x) * up;
  }
};

// gate / 2 * (1 + tanh(u)) = gate * sigmoid(2u), which does not cancel.
struct GeluTanhAndMul {
  template <typename Math>
  __device__ float operator()(Math math, float gate, float up) const {
    constexpr TwoFloats kLinear = two_floats(1.5957691216057308);
    constexpr TwoFloats kCubic = two_floats(1.5957691216057308 * 0.044715);
    const TwoFloats cubic = multiply_add(gate, kCubic);
    const TwoFloats slope = multiply_add(gate, cubic, kLinear);
    const TwoFloats x = multiply_add(gate, slope);
    return math.times_sigmoid(gate, x.high, x.low) * up;
  }
};

struct GeluQuickAndMul {
  template <typename Math>
  __device__ float operator()(Math math, float gate, float up) const {
    const TwoFloats x = multiply_add(gate, two_floats(1.702));
    return math.times_sigmoid(gate, x.high, x.low) * up;
  }
};

struct FatreluAndMul {
  float threshold;

  template <typename Math>
  __device__ float operator()(Math, float gate, float up) const {
    return (gate > threshold ? gate : 0) * up;
  }
};

// fminf gives the number where the other one is NaN, so not that.
inline __device__ float at_most(float x, float max) {
  return x > max ? max : x;
}
inline __device__ float within(float x, float limit) {
  return x < -limit ? -limit : at_most(x, limit);
}

struct SiluAndMulWithClamp {
  float limit;

  template <typename Math>
  __device__ float operator()(Math math, float gate, float up) const {
    return SiluAndMul()(math, at_most(gate, limit), within(up, limit));
  }
};

struct SwigluoaiAndMul {
  TwoFloats alpha;
  float limit;

  template <typename Math>
  __device__ float operator()(Math math, float gate, float up) const {
    gate = at_most(gate, limit);
    const TwoFloats x = multiply_add(gate, alpha);
    return math.times_sigmoid(gate, x.high, x.low) * (within(up, limit) + 1);
  }
};

} // namespace wb::cuda
#pragma GCC visibility pop
