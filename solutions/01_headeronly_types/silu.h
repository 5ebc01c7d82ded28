// silu(x) = x / (1 + e^-x) without a branch or a call, so that a loop over it
// vectorises.
#pragma once

#include <torch/headeronly/util/bit_cast.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace wb {

using torch::headeronly::bit_cast;

//! [exp_minus]
// e^-x, 0 to infinity, by Cephes' expf: reduce by n * ln 2 in two parts, take a
// polynomial of degree 7 on [-ln2/2, ln2/2], then add n to the exponent field.
// The clamps are on integers: GCC 12 vectorises those of floats with
// -fno-trapping-math only.
[[gnu::always_inline]] inline float exp_minus(float x) {
  const uint32_t bits = bit_cast<uint32_t>(x);
  const uint32_t magnitude = std::min(bits & 0x7fffffffu, 0x42b20000u); // 89
  const float minus_x = bit_cast<float>(magnitude | (~bits & 0x80000000u));
  constexpr float kRound = 0x1.8p23f; // adding it leaves an integer
  const float shifted = minus_x * 0x1.715476p0f + kRound;
  const float n = shifted - kRound;
  const float r = (minus_x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const int32_t exponent = bit_cast<int32_t>(shifted) - 0x4b400000;
  const int32_t power = bit_cast<int32_t>(p) + exponent * (1 << 23);
  const int32_t clamped = std::min(std::max(power, 0), 0x7f800000); // 0 .. inf
  return bit_cast<float>(clamped);
}
// double is for gradient checks: right, and not fast.
[[gnu::always_inline]] inline double exp_minus(double x) {
  return std::exp(-x);
}
//! [exp_minus]

// As ATen defines it: NaN at -infinity, -0 where e^-x overflows.
template <typename C>
[[gnu::always_inline]] inline C silu(C x) {
  return x / (1 + exp_minus(x));
}

} // namespace wb
