// The activations, of one element: without a branch or a call, so that a loop
// over them vectorises. T is what a result will be rounded to. For float it is
// right to a few ulp; the 16-bit types need less, and get it in half the time.
#pragma once

#include "silu.h"

#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>
#include <torch/headeronly/util/bit_cast.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace wb {

using torch::headeronly::BFloat16;
using torch::headeronly::bit_cast;
using torch::headeronly::Half;

// a[0] + a[1] x + ... by Horner's rule.
template <typename C>
[[gnu::always_inline]] inline C polynomial(C, C a) {
  return a;
}
template <typename C, typename... A>
[[gnu::always_inline]] inline C polynomial(C x, C a, A... more) {
  return polynomial(x, more...) * x + a;
}

//! [sixteen_bits]
// e^-x / 2^kScale, good to 8e-5 for BFloat16, and for Half to 3e-6 near 0 and
// 7e-6 at 87: 2^n by the exponent field, 2^r by a polynomial on [-1/2, 1/2]. x
// is neither so small nor so large that the result would not be a normal
// number.
template <typename T, int kScale = 0>
[[gnu::always_inline]] inline float approx_exp_minus(float x) {
  constexpr float kRound = 0x1.8p23f - kScale; // adding it leaves an integer
  const float shifted = x * -0x1.715476p0f + kRound;
  const float r = x * -0x1.715476p0f - (shifted - kRound);
  const float p = std::is_same_v<T, BFloat16>
      ? polynomial(r, 0.999928f, 0.693261f, 0.242611f, 0.0551717f)
      : polynomial(
            r, 0.9999993f, 0.6931218f, 0.2402475f, 0.05591786f, 0.0095701f);
  return bit_cast<float>(
      bit_cast<uint32_t>(p) + (bit_cast<uint32_t>(shifted) << 23));
}

// 1 / x of a normal number, good to 1.3e-4 for BFloat16 and 7e-6 for Half: a
// guess to 5 % by the bits of x, then two steps or three of Newton's method in
// one. A division takes three times as long.
template <typename T>
[[gnu::always_inline]] inline float approx_reciprocal(float x) {
  const float y = bit_cast<float>(0x7ef31000u - bit_cast<uint32_t>(x));
  const float e = 1 - x * y;
  if constexpr (std::is_same_v<T, BFloat16>) {
    return (e * e + e) * y + y;
  } else {
    const float z = e * y + y;
    return (e * e) * z + z;
  }
}
//! [sixteen_bits]

// A float within -limit ... limit, a NaN included: its bits are compared, as an
// integer.
[[gnu::always_inline]] inline float bounded(float x, float limit) {
  const uint32_t bits = bit_cast<uint32_t>(x);
  const uint32_t magnitude =
      std::min(bits & 0x7fffffffu, bit_cast<uint32_t>(limit));
  return bit_cast<float>(magnitude | (bits & 0x80000000u));
}

// What an argument of exp is computed in: half an ulp of a float 80 is a factor
// of 1 + 2^-18.
template <typename T>
using argument_t = std::conditional_t<std::is_same_v<T, float>, double, float>;

//! [times_sigmoid]
// x * sigmoid(z), by T. NaN at x = -infinity, as ATen has it.
[[gnu::always_inline]] inline float times_sigmoid(float, float x, double z) {
  const auto high = static_cast<float>(z);
  const float low = bounded(static_cast<float>(z - high), 0x1p-10f);
  return x / (1 + exp_minus(high) * (1 - low));
}
template <typename T>
[[gnu::always_inline]] inline float times_sigmoid(T, float x, float z) {
  // All is scaled by 2^-24, so that e^-z may be up to 2^150, where nothing is
  // left of x * sigmoid(z).
  constexpr int kScale = 24;
  const int32_t below = std::min(bit_cast<int32_t>(z), 0x428c0000); // 70
  const uint32_t bits =
      std::min(bit_cast<uint32_t>(below), 0xc2d00000u); // -104
  const float e = approx_exp_minus<T, kScale>(bit_cast<float>(bits));
  return x * (approx_reciprocal<T>(0x1p-24f + e) * 0x1p-24f);
}
//! [times_sigmoid]

// A functor computes by operator()(T, gate, up); of one operand it has no use
// for up.
struct SiluAndMul {
  template <typename T>
  [[gnu::always_inline]] float operator()(T, float gate, float up) const {
    if constexpr (std::is_same_v<T, float>) {
      return silu(gate) * up;
    } else {
      return times_sigmoid(T(), gate, gate) * up;
    }
  }
};

struct GeluTanhAndMul { // (1 + tanh(u)) / 2 = sigmoid(2 u), which keeps digits
  template <typename T>
  [[gnu::always_inline]] float operator()(T, float gate, float up) const {
    const argument_t<T> x = gate;
    constexpr double kTwice = 2 * 0.7978845608028654; // sqrt(2 / pi)
    const auto slope = polynomial(
        x * x,
        static_cast<argument_t<T>>(kTwice),
        static_cast<argument_t<T>>(kTwice * 0.044715));
    return times_sigmoid(T(), gate, x * slope) * up;
  }
};

struct GeluQuickAndMul {
  template <typename T>
  [[gnu::always_inline]] float operator()(T, float gate, float up) const {
    const argument_t<T> x = gate;
    return times_sigmoid(T(), gate, x * static_cast<argument_t<T>>(1.702)) * up;
  }
};

// x * Phi(x), where Phi(-a) = e^(-a^2 / 2) * t * P(t) with t = 1 / (1 + p a):
// so the left tail keeps its digits, which 1 + erf does not.
struct GeluAndMul {
  template <typename T>
  [[gnu::always_inline]] float operator()(T, float gate, float up) const {
    const float a = bounded(gate, 20) * (gate < 0 ? -1.0f : 1.0f);
    float left;
    if constexpr (std::is_same_v<T, float>) { // P is good to 4.2e-9
      const double square = double{a} * a * 0.5;
      const auto high = static_cast<float>(square);
      const auto low = static_cast<float>(square - high);
      const float t = 1 / polynomial(a, 1.0f, 0.35f);
      left = exp_minus(high) * (1 - low) * t *
          polynomial(
                 t,
                 0.1396292724863282f,
                 0.1396423259987513f,
                 0.12242491091621299f,
                 0.08841971318363576f,
                 0.04676452045055662f,
                 -0.026675811998471303f,
                 0.07121131852878168f,
                 -0.233098462158087f,
                 0.24481396590293703f,
                 -0.1136324204475261f,
                 0.020500669219054597f);
    } else { // to 2.9e-6
      const float t = approx_reciprocal<Half>(polynomial(a, 1.0f, 0.25f));
      // Of half the exponent, and squared: so that it may be 0.
      const float root = approx_exp_minus<T>(bounded(a * a * 0.25f, 87));
      left = root * root * t *
          polynomial(
                 t,
                 0.09936170279979706f,
                 0.10562440007925034f,
                 0.05582425370812416f,
                 0.20725862681865692f,
                 -0.1724725365638733f,
                 0.2796913683414459f,
                 -0.07528633624315262f);
    }
    return gate * (gate < 0 ? left : 1 - left) * up;
  }
};

struct FatreluAndMul {
  float threshold;

  template <typename T>
  [[gnu::always_inline]] float operator()(T, float gate, float up) const {
    return (gate > threshold ? gate : 0) * up;
  }
};

// A NaN stays one.
[[gnu::always_inline]] inline float at_most(float x, float max) {
  return x > max ? max : x;
}
[[gnu::always_inline]] inline float within(float x, float limit) {
  return x < -limit ? -limit : at_most(x, limit);
}

struct SiluAndMulWithClamp {
  float limit;

  template <typename T>
  [[gnu::always_inline]] float operator()(T, float gate, float up) const {
    return SiluAndMul()(T(), at_most(gate, limit), within(up, limit));
  }
};

struct SwigluoaiAndMul {
  double alpha;
  float limit;

  template <typename T>
  [[gnu::always_inline]] float operator()(T, float gate, float up) const {
    const float x = at_most(gate, limit);
    const auto z = static_cast<argument_t<T>>(alpha) * argument_t<T>(x);
    return times_sigmoid(T(), x, z) * (within(up, limit) + 1);
  }
};

} // namespace wb
