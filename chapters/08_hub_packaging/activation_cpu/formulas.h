// The formulas, on any lanes V (F or D of lanes.h). All but Gelu are
// x * sigmoid(z), with only e^-|z| in it, which cannot overflow: the tails are
// right down to the subnormals. `T` is the dtype that the result is rounded to.
#pragma once

#include "lanes.h"

namespace {

template <class T>
using LanesOf = std::conditional_t<std::is_same_v<T, float>, D, F>;

template <class V>
constexpr bool kPrecise = std::is_same_v<V, D>;

// a[0] + a[1] x + ... by Horner's rule.
template <class V>
INLINE V polynomial(V, double a) {
  return splat<V>(a);
}
template <class V, class... A>
INLINE V polynomial(V x, double a, A... more) {
  return polynomial(x, more...) * x + splat<V>(a);
}

//! [exp]
// e^-a for a >= 0: 2^n * 2^r with |r| <= 1/2, and a polynomial for 2^r that is
// good to 1.9e-9 for float and 2.6e-6 for 16 bits. NaN stays NaN.
template <class V>
INLINE V exp_minus(V a) {
  V n;
  const V r = fraction(a * splat<V>(-1.4426950408889634), n);
  if constexpr (kPrecise<V>) {
    return times_two_to(
        polynomial(
            r,
            1.0000000005541696,
            0.6931472057372542,
            0.24022646890605487,
            0.05550328776986898,
            0.00961848896022073,
            0.0013399931212115948,
            0.00015345811164878744),
        n);
  } else {
    return times_two_to(
        polynomial(
            r,
            0.9999992847442627,
            0.6931217908859253,
            0.240247443318367,
            0.05591785907745361,
            0.009570101276040077),
        n);
  }
}
//! [exp]

// 1 / x for 1 <= x <= 8, to a tenth of an ulp of T.
template <class T, class V>
INLINE V reciprocal(V x) {
  const V y = rough_reciprocal(x);
  if constexpr (std::is_same_v<T, BFloat16> || kPrecise<V>) {
    return y;
  } else {
    return y * (splat<V>(2) - x * y);
  }
}

//! [sigmoid]
// x * sigmoid(z). NaN at x = -inf, as ATen has it.
template <class T, class V>
INLINE V times_sigmoid(V x, V z) {
  const V t = exp_minus(abs(z));
  return if_negative(z, x * t, x) * reciprocal<T>(splat<V>(1) + t);
}
//! [sigmoid]

struct Silu {
  template <class T, class V>
  INLINE static V call(V x) {
    return times_sigmoid<T>(x, x);
  }
};

struct GeluTanh { // (1 + tanh(u)) / 2 = sigmoid(2 u)
  template <class T, class V>
  INLINE static V call(V x) {
    constexpr double kTwice = 2 * 0.7978845608028654; // sqrt(2 / pi)
    return times_sigmoid<T>(
        x, x * polynomial(x * x, kTwice, kTwice * 0.044715));
  }
};

struct GeluQuick {
  template <class T, class V>
  INLINE static V call(V x) {
    return times_sigmoid<T>(x, x * splat<V>(1.702));
  }
};

// x * Phi(x), where Phi(-a) = e^(-a^2 / 2) * t * P(t) with t = 1 / (1 + p a):
// so the left tail keeps its digits, which 1 + erf does not.
struct Gelu {
  template <class T, class V>
  INLINE static V call(V x) {
    const V a = min(splat<V>(kPrecise<V> ? 40 : 20), abs(x));
    const V e = exp_minus(a * a * splat<V>(0.5));
    V left;
    if constexpr (kPrecise<V>) { // to 4.2e-9
      const V t = reciprocal<T>(polynomial(a, 1, 0.35));
      left = e * t *
          polynomial(
                 t,
                 0.1396292724863282,
                 0.1396423259987513,
                 0.12242491091621299,
                 0.08841971318363576,
                 0.04676452045055662,
                 -0.026675811998471303,
                 0.07121131852878168,
                 -0.233098462158087,
                 0.24481396590293703,
                 -0.1136324204475261,
                 0.020500669219054597);
    } else { // to 2.9e-6
      const V t = reciprocal<Half>(polynomial(a, 1, 0.25));
      left = e * t *
          polynomial(
                 t,
                 0.09936170279979706,
                 0.10562440007925034,
                 0.05582425370812416,
                 0.20725862681865692,
                 -0.1724725365638733,
                 0.2796913683414459,
                 -0.07528633624315262);
    }
    return x * if_negative(x, left, splat<V>(1) - left);
  }
};

} // namespace
