// Steps 01.1 to 01.4: one element at a time.
#pragma once

#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>
#include <torch/headeronly/util/Float8_e5m2.h>
#include <torch/headeronly/util/bit_cast.h>

#include <cmath>
#include <cstdint>
#include <stdexcept>

using torch::headeronly::BFloat16;
using torch::headeronly::bit_cast;
using torch::headeronly::Float8_e5m2;
using torch::headeronly::Half;
using torch::headeronly::ScalarType;

//! [element_size]
// Bytes of one element. Throws for a dtype that silu_and_mul does not take.
inline int64_t element_size(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Float:
      return sizeof(float);
    case ScalarType::Half:
      return sizeof(Half);
    case ScalarType::BFloat16:
      return sizeof(BFloat16);
    default:
      STD_TORCH_CHECK(
          false, "dtype must be Float, Half or BFloat16, got ", dtype);
  }
}
//! [element_size]

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
// silu(gate) * up for one element, computed in float and rounded once.
template <class T>
T silu_and_mul(T gate, T up) {
  const float x = gate;
  return T(x / (1 + std::exp(-x)) * static_cast<float>(up));
}
//! [silu_and_mul]
