// Lanes of AVX-512: 16 floats, 8 doubles. Included by lanes.h alone.
#pragma once

#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

#include <immintrin.h>

#include <cstdint>

namespace {

using torch::headeronly::BFloat16;
using torch::headeronly::Half;

struct F {
  __m512 v;
  static constexpr int64_t kLanes = 16;
};
struct D {
  __m512d v;
  static constexpr int64_t kLanes = 8;
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
  return {_mm512_set1_ps(static_cast<float>(x))};
}
template <>
INLINE D splat<D>(double x) {
  return {_mm512_set1_pd(x)};
}
INLINE D load(const float* p) {
  return {_mm512_cvtps_pd(_mm256_loadu_ps(p))};
}
INLINE F load(const Half* p) {
  return {
      _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
INLINE F load(const BFloat16* p) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {
      _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
}
INLINE __m256 narrow(D x, float) {
  return _mm512_cvtpd_ps(x.v);
}
INLINE __m256i narrow(F x, Half) {
  return _mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// To nearest even. No NaN test: a NaN that came from 16 bits, or that the
// hardware made, has no low bits that could carry into its sign.
INLINE __m256i narrow(F x, BFloat16) {
  const __m512i bits = _mm512_castps_si512(x.v);
  const __m512i odd =
      _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i sum =
      _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(sum, 16));
}
INLINE void put(void* p, __m256 x) {
  _mm256_storeu_ps(static_cast<float*>(p), x);
}
INLINE void put(void* p, __m256i x) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), x);
}
INLINE void stream(void* p, __m256 x) {
  _mm256_stream_ps(static_cast<float*>(p), x);
}
INLINE void stream(void* p, __m256i x) {
  _mm256_stream_si256(static_cast<__m256i*>(p), x);
}
INLINE F abs(F x) {
  return {_mm512_abs_ps(x.v)};
}
// The smaller; NaN if the second is one.
INLINE F min(F x, F y) {
  return {_mm512_min_ps(x.v, y.v)};
}
INLINE F max(F x, F y) {
  return {_mm512_max_ps(x.v, y.v)};
}
// Where the sign bit of `sign` is set `then`, else `otherwise`.
INLINE F if_negative(F sign, F then, F otherwise) {
  return {_mm512_mask_blend_ps(
      _mm512_movepi32_mask(_mm512_castps_si512(sign.v)), otherwise.v, then.v)};
}
// x where x > least, else 0.
INLINE F above(F x, F least) {
  return {
      _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x.v, least.v, _CMP_GT_OQ), x.v)};
}
// y = n + r with a whole n and |r| <= 1/2. At infinity r is 0.
INLINE F fraction(F y, F& n) {
  const F r{_mm512_reduce_ps(y.v, _MM_FROUND_TO_NEAREST_INT)};
  n = y - r;
  return r;
}
INLINE F times_two_to(F x, F n) {
  return {_mm512_scalef_ps(x.v, n.v)};
}
INLINE F rough_reciprocal(F x) {
  return {_mm512_rcp14_ps(x.v)};
}
// x holds a0 b0 a1 b1 ..., y what follows: a and b.
INLINE void deinterleave(F x, F y, F& a, F& b) {
  const __m512i even = _mm512_set_epi32(
      30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  a.v = _mm512_permutex2var_ps(x.v, even, y.v);
  b.v = _mm512_permutex2var_ps(
      x.v, _mm512_add_epi32(even, _mm512_set1_epi32(1)), y.v);
}

INLINE D abs(D x) {
  return {_mm512_abs_pd(x.v)};
}
INLINE D min(D x, D y) {
  return {_mm512_min_pd(x.v, y.v)};
}
INLINE D max(D x, D y) {
  return {_mm512_max_pd(x.v, y.v)};
}
INLINE D if_negative(D sign, D then, D otherwise) {
  return {_mm512_mask_blend_pd(
      _mm512_movepi64_mask(_mm512_castpd_si512(sign.v)), otherwise.v, then.v)};
}
INLINE D above(D x, D least) {
  return {
      _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(x.v, least.v, _CMP_GT_OQ), x.v)};
}
INLINE D fraction(D y, D& n) {
  const D r{_mm512_reduce_pd(y.v, _MM_FROUND_TO_NEAREST_INT)};
  n = y - r;
  return r;
}
INLINE D times_two_to(D x, D n) {
  return {_mm512_scalef_pd(x.v, n.v)};
}
INLINE D rough_reciprocal(D x) { // to 2^-28, which is enough for a float
  const D y{_mm512_rcp14_pd(x.v)};
  return y * (splat<D>(2) - x * y);
}
INLINE void deinterleave(D x, D y, D& a, D& b) {
  const __m512i even = _mm512_set_epi64(14, 12, 10, 8, 6, 4, 2, 0);
  a.v = _mm512_permutex2var_pd(x.v, even, y.v);
  b.v = _mm512_permutex2var_pd(
      x.v, _mm512_add_epi64(even, _mm512_set1_epi64(1)), y.v);
}

} // namespace
