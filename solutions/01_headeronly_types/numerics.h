// One element at a time: what bits mean, and how a result is rounded.
#pragma once

#include "dispatch.h"

#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Exception.h>
#include <torch/headeronly/util/Float8_e5m2.h>
#include <torch/headeronly/util/bit_cast.h>

#include <cmath>
#include <cstdint>

namespace wb {

using torch::headeronly::BFloat16;
using torch::headeronly::bit_cast;
using torch::headeronly::Float8_e5m2;

//! [widen_bfloat16]
// The float that the 16 bits of a BFloat16 stand for.
inline float widen_bfloat16(uint16_t bits) {
  return bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
//! [widen_bfloat16]

//! [round_to_bfloat16]
// The nearest BFloat16, ties to even; a NaN stays a NaN.
inline BFloat16 round_to_bfloat16(float value) {
  uint32_t bits = bit_cast<uint32_t>(value);
  if (std::isnan(value)) {
    return BFloat16(0x7fc0, BFloat16::from_bits());
  }
  bits += 0x7fff + ((bits >> 16) & 1);
  return BFloat16(static_cast<uint16_t>(bits >> 16), BFloat16::from_bits());
}
//! [round_to_bfloat16]

//! [saturate]
// The nearest Float8_e5m2, or the largest finite one where `value` is beyond
// it: the type's own conversion makes an infinity of 61440 and more.
inline Float8_e5m2 saturate_to_float8(float value) {
  constexpr float kMax = 57344;
  value = value > kMax ? kMax : value;
  value = value < -kMax ? -kMax : value;
  return Float8_e5m2(value); // a NaN passed both comparisons
}
//! [saturate]

//! [silu_and_mul]
// silu(gate) * up for one element, computed in compute_t and rounded once.
template <typename T>
T silu_and_mul(T gate, T up) {
  const auto x = static_cast<compute_t<T>>(gate);
  const auto y = static_cast<compute_t<T>>(up);
  return static_cast<T>(x / (1 + std::exp(-x)) * y);
}
//! [silu_and_mul]

} // namespace wb
