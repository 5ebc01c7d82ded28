// Lanes of AVX2, FMA and F16C: 8 floats, 4 doubles. Included by lanes.h alone.
#pragma once

#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

#include <immintrin.h>

#include <cstdint>

namespace {

using torch::headeronly::BFloat16;
using torch::headeronly::Half;

struct F {
  __m256 v;
  static constexpr int64_t kLanes = 8;
};
struct D {
  __m256d v;
  static constexpr int64_t kLanes = 4;
};

#define OPERATORS(V)             \
  INLINE V operator+(V x, V y) { \
    return {x.v + y.v};          \
  }                              \
  INLINE V operator-(V x, V y) { \
    return {x.v - y.v};          \
  }                              \
  INLINE V operator*(V x, V y) { \
    return {x.v * y.v};          \
  }
OPERATORS(F)
OPERATORS(D)

template <class V>
INLINE V splat(double x);

template <>
INLINE F splat<F>(double x) {
  return {_mm256_set1_ps(static_cast<float>(x))};
}
template <>
INLINE D splat<D>(double x) {
  return {_mm256_set1_pd(x)};
}
INLINE D load(const float* p) {
  return {_mm256_cvtps_pd(_mm_loadu_ps(p))};
}
INLINE F load(const Half* p) {
  return {
      _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
INLINE F load(const BFloat16* p) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {
      _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16))};
}
INLINE __m128 narrow(D x, float) {
  return _mm256_cvtpd_ps(x.v);
}
INLINE __m128i narrow(F x, Half) {
  return _mm256_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// To nearest even. No NaN test: see lanes_avx512.h.
INLINE __m128i narrow(F x, BFloat16) {
  const __m256i bits = _mm256_castps_si256(x.v);
  const __m256i odd =
      _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i sum = _mm256_srli_epi32(
      _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))),
      16);
  const __m256i packed = _mm256_permute4x64_epi64(
      _mm256_packus_epi32(sum, sum), _MM_SHUFFLE(3, 1, 2, 0));
  return _mm256_castsi256_si128(packed);
}
INLINE void put(void* p, __m128 x) {
  _mm_storeu_ps(static_cast<float*>(p), x);
}
INLINE void put(void* p, __m128i x) {
  _mm_storeu_si128(static_cast<__m128i*>(p), x);
}
INLINE void stream(void* p, __m128 x) {
  _mm_stream_ps(static_cast<float*>(p), x);
}
INLINE void stream(void* p, __m128i x) {
  _mm_stream_si128(static_cast<__m128i*>(p), x);
}
INLINE F abs(F x) {
  return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), x.v)};
}
INLINE F min(F x, F y) {
  return {_mm256_min_ps(x.v, y.v)};
}
INLINE F max(F x, F y) {
  return {_mm256_max_ps(x.v, y.v)};
}
INLINE F if_negative(F sign, F then, F otherwise) {
  return {_mm256_blendv_ps(otherwise.v, then.v, sign.v)};
}
INLINE F above(F x, F least) {
  return {_mm256_and_ps(_mm256_cmp_ps(x.v, least.v, _CMP_GT_OQ), x.v)};
}
// y = n + r with a whole n and |r| <= 1/2, for y < 0. Where y is cut off
// nothing is left of 2^y.
INLINE F fraction(F y, F& n) {
  y = max(splat<F>(-230), y);
  n.v = _mm256_round_ps(y.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  return y - n;
}
// In two steps, so that a subnormal result is right.
INLINE F times_two_to(F x, F n) {
  const __m256i whole = _mm256_cvtps_epi32(n.v);
  const __m256i half = _mm256_srai_epi32(whole, 1);
  const auto power = [](__m256i e) {
    return F{_mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_add_epi32(e, _mm256_set1_epi32(127)), 23))};
  };
  return x * power(half) * power(_mm256_sub_epi32(whole, half));
}
INLINE F rough_reciprocal(F x) {
  return {_mm256_rcp_ps(x.v)};
}
INLINE void deinterleave(F x, F y, F& a, F& b) {
  const __m256i order = _mm256_set_epi32(7, 6, 3, 2, 5, 4, 1, 0);
  a.v = _mm256_permutevar8x32_ps(
      _mm256_shuffle_ps(x.v, y.v, _MM_SHUFFLE(2, 0, 2, 0)), order);
  b.v = _mm256_permutevar8x32_ps(
      _mm256_shuffle_ps(x.v, y.v, _MM_SHUFFLE(3, 1, 3, 1)), order);
}

INLINE D abs(D x) {
  return {_mm256_andnot_pd(_mm256_set1_pd(-0.0), x.v)};
}
INLINE D min(D x, D y) {
  return {_mm256_min_pd(x.v, y.v)};
}
INLINE D max(D x, D y) {
  return {_mm256_max_pd(x.v, y.v)};
}
INLINE D if_negative(D sign, D then, D otherwise) {
  return {_mm256_blendv_pd(otherwise.v, then.v, sign.v)};
}
INLINE D above(D x, D least) {
  return {_mm256_and_pd(_mm256_cmp_pd(x.v, least.v, _CMP_GT_OQ), x.v)};
}
INLINE D fraction(D y, D& n) {
  y = max(splat<D>(-1100), y);
  n.v = _mm256_round_pd(y.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  return y - n;
}
INLINE D times_two_to(D x, D n) {
  const __m128i whole = _mm256_cvtpd_epi32(n.v);
  const __m128i half = _mm_srai_epi32(whole, 1);
  const auto power = [](__m128i e) {
    return D{_mm256_castsi256_pd(_mm256_slli_epi64(
        _mm256_add_epi64(_mm256_cvtepi32_epi64(e), _mm256_set1_epi64x(1023)),
        52))};
  };
  return x * power(half) * power(_mm_sub_epi32(whole, half));
}
INLINE D rough_reciprocal(D x) {
  return {_mm256_div_pd(_mm256_set1_pd(1), x.v)};
}
INLINE void deinterleave(D x, D y, D& a, D& b) {
  a.v = _mm256_permute4x64_pd(
      _mm256_unpacklo_pd(x.v, y.v), _MM_SHUFFLE(3, 1, 2, 0));
  b.v = _mm256_permute4x64_pd(
      _mm256_unpackhi_pd(x.v, y.v), _MM_SHUFFLE(3, 1, 2, 0));
}

} // namespace
