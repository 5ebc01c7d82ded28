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
  STD_TORCH_CHECK(false, "TODO(01.1): ", bits, " is the upper half of a float");
}
//! [widen_bfloat16]

//! [round_to_bfloat16]
// The nearest BFloat16, ties to even; a NaN stays a NaN.
inline BFloat16 round_to_bfloat16(float value) {
  STD_TORCH_CHECK(false, "TODO(01.2): round ", value, " to its upper 16 bits");
}
//! [round_to_bfloat16]

//! [saturate]
// The nearest Float8_e5m2, or the largest finite one where `value` is beyond
// it: the type's own conversion makes an infinity of 61440 and more.
inline Float8_e5m2 saturate_to_float8(float value) {
  STD_TORCH_CHECK(false, "TODO(01.3): clamp ", value, ", then convert it");
}
//! [saturate]

//! [silu_and_mul]
// silu(gate) * up for one element, computed in compute_t and rounded once.
template <typename T>
T silu_and_mul(T gate, T up) {
  STD_TORCH_CHECK(false, "TODO(01.4): gate = ", gate, ", up = ", up);
}
//! [silu_and_mul]

} // namespace wb
