// The element types to and from what is computed in, without a branch, so that
// a loop over them vectorises. Each result has the bits of the type's own
// conversion, but for those of a NaN.
#pragma once

#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>
#include <torch/headeronly/util/bit_cast.h>

#include <algorithm>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace wb {

using torch::headeronly::BFloat16;
using torch::headeronly::bit_cast;
using torch::headeronly::Half;

// Widening is exact: both 16-bit types are subsets of float.
[[gnu::always_inline]] inline double widen(double value) {
  return value;
}
[[gnu::always_inline]] inline float widen(float value) {
  return value;
}
[[gnu::always_inline]] inline float widen(BFloat16 value) {
  return bit_cast<float>(static_cast<uint32_t>(value.x) << 16);
}
[[gnu::always_inline]] inline float widen(Half value) {
  const uint32_t sign = (value.x & 0x8000u) << 16;
  const uint32_t magnitude = (value.x & 0x7fffu) << 13;
  // Exponents of bias 15 become those of bias 127; all ones stay all ones.
  const float x = bit_cast<float>(magnitude + 0x70000000u) * 0x1p-112f;
  // A subnormal m * 2^-24 is 2^-15 + m * 2^-25 by now. No float here is
  // subnormal, since a thread may flush those to 0.
  const float result = std::min(x, x + (x - 0x1p-14f));
  return bit_cast<float>(bit_cast<uint32_t>(result) | sign);
}

// Narrowing rounds to nearest, ties to even.
[[gnu::always_inline]] inline void narrow(double value, double& out) {
  out = value;
}
[[gnu::always_inline]] inline void narrow(float value, float& out) {
  out = value;
}
[[gnu::always_inline]] inline void narrow(float value, BFloat16& out) {
  // No NaN test: a NaN here came from a BFloat16 or was made by the hardware,
  // so its low 16 bits are zero and the rounding cannot carry into its sign.
  const uint32_t bits = bit_cast<uint32_t>(value);
  out.x = static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
[[gnu::always_inline]] inline void narrow(float value, Half& out) {
  // After Marat Dukhan's FP16 library: adding a power of two 2^13 times larger
  // leaves eleven bits of the value, correctly rounded, at the end of the sum.
  const uint32_t bits = bit_cast<uint32_t>(value);
  const float magnitude = bit_cast<float>(bits & 0x7fffffffu);
  const float or_inf = (magnitude * 0x1p112f) * 0x1p-110f;
  const uint32_t exponent = std::max(bits & 0x7f800000u, 0x38800000u);
  const float sum = bit_cast<float>(exponent + 0x07800000u) + or_inf;
  const uint32_t rounded = bit_cast<uint32_t>(sum);
  const uint32_t magnitude16 =
      ((rounded >> 13) & 0x7e00u) + (rounded & 0x0fffu);
  out.x = static_cast<uint16_t>(magnitude16 | ((bits >> 16) & 0x8000u));
}

// Half by x86's own instructions, which every processor with AVX2 has, and
// wider ones of AVX-512: a third of the time of a row. n is a multiple of 16.
#if defined(__x86_64__)
constexpr __mmask16 kAll = 0xffff; // without a mask GCC 12 warns wrongly

inline bool converts_half() {
  return __builtin_cpu_supports("avx2") != 0;
}
__attribute__((target("avx2,f16c"))) inline void widen_by_8(
    const Half* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; i += 8) {
    const auto* bits = reinterpret_cast<const __m128i*>(from + i);
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(bits)));
  }
}
__attribute__((target("avx512f"))) inline void widen_by_16(
    const Half* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    const auto* bits = reinterpret_cast<const __m256i*>(from + i);
    _mm512_storeu_ps(
        to + i, _mm512_maskz_cvtph_ps(kAll, _mm256_loadu_si256(bits)));
  }
}
inline void widen(const Half* from, float* to, int64_t n) {
  if (__builtin_cpu_supports("avx512f")) {
    widen_by_16(from, to, n);
  } else {
    widen_by_8(from, to, n);
  }
}
__attribute__((target("avx2,f16c"))) inline void narrow_by_8(
    const float* from, Half* to, int64_t n) {
  for (int64_t i = 0; i < n; i += 8) {
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(to + i),
        _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  }
}
__attribute__((target("avx512f"))) inline void narrow_by_16(
    const float* from, Half* to, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    _mm256_storeu_si256(
        reinterpret_cast<__m256i*>(to + i),
        _mm512_maskz_cvtps_ph(
            kAll, _mm512_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  }
}
inline void narrow(const float* from, Half* to, int64_t n) {
  if (__builtin_cpu_supports("avx512f")) {
    narrow_by_16(from, to, n);
  } else {
    narrow_by_8(from, to, n);
  }
}
#else
inline bool converts_half() {
  return false;
}
inline void widen(const Half*, float*, int64_t) {}
inline void narrow(const float*, Half*, int64_t) {}
#endif

} // namespace wb
