// float <-> float, Half and BFloat16 without a branch, so that a loop over them
// vectorises. Bit for bit what the types' own conversions give.
#pragma once

#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>
#include <torch/headeronly/util/bit_cast.h>

#include <algorithm>
#include <cstdint>

using torch::headeronly::bit_cast;

// Widening is exact: both 16-bit types are subsets of float.
inline float widen(float value) {
  return value;
}
inline float widen(c10::BFloat16 value) {
  return bit_cast<float>(static_cast<uint32_t>(value.x) << 16);
}
inline float widen(c10::Half value) {
  const uint32_t sign = (value.x & 0x8000u) << 16;
  // The exponent field moves from bias 15 to bias 127 by a multiplication,
  // which normalises Half's subnormals on the way.
  const float scaled = bit_cast<float>((value.x & 0x7fffu) << 13) * 0x1p112f;
  const uint32_t bits = bit_cast<uint32_t>(scaled);
  const uint32_t inf_or_nan = scaled >= 0x1p16f ? 0x7f800000u : 0u;
  return bit_cast<float>(bits | inf_or_nan | sign);
}

// Narrowing rounds to nearest, ties to even.
inline void narrow(float value, float& out) {
  out = value;
}
inline void narrow(float value, c10::BFloat16& out) {
  // No NaN test: a NaN here came from a BFloat16 or was made by the hardware,
  // so its low 16 bits are zero and the rounding cannot carry into its sign.
  const uint32_t bits = bit_cast<uint32_t>(value);
  out.x = static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
inline void narrow(float value, c10::Half& out) {
  // After Marat Dukhan's FP16 library: adding a power of two 2^13 times larger
  // leaves eleven bits of the value, correctly rounded, at the end of the sum.
  const uint32_t bits = bit_cast<uint32_t>(value);
  const float magnitude = bit_cast<float>(bits & 0x7fffffffu);
  const float or_inf = (magnitude * 0x1p112f) * 0x1p-110f;
  const uint32_t exponent = std::max(bits & 0x7f800000u, 0x38800000u);
  const float sum = bit_cast<float>(exponent + 0x07800000u) + or_inf;
  const uint32_t rounded = bit_cast<uint32_t>(sum);
  const uint32_t half = ((rounded >> 13) & 0x7e00u) + (rounded & 0x0fffu);
  out.x = static_cast<uint16_t>(half | ((bits >> 16) & 0x8000u));
}
