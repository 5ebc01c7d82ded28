// The lanes of this file's instruction set: F for 16-bit dtypes, and D,
// doubles, for float, so that every result is rounded once. 16 and 8 with
// AVX-512, 8 and 4 with AVX2, else one, which the compiler vectorises. All of
// it is internal: what two files compile for two machines must not be shared by
// the linker.
#pragma once

#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

namespace {

using torch::headeronly::BFloat16;
using torch::headeronly::Half;

#define INLINE [[gnu::always_inline]] inline

#if defined(__AVX512F__)

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

#elif defined(__AVX2__)

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
// To nearest even. No NaN test: see above.
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

#else

using F = float;
using D = double;

template <class To, class From>
INLINE To bits_of(From x) {
  static_assert(sizeof(To) == sizeof(From));
  To y;
  std::memcpy(&y, &x, sizeof(y));
  return y;
}
template <class V>
INLINE V splat(double x) {
  return static_cast<V>(x);
}
INLINE D load(const float* p) {
  return *p;
}
INLINE F load(const Half* p) {
  const uint32_t sign = (p->x & 0x8000u) << 16;
  // The exponent moves from bias 15 to 127 by a product, which normalises
  // Half's subnormals on the way.
  const float scaled = bits_of<float>((p->x & 0x7fffu) << 13) * 0x1p112f;
  const uint32_t inf_or_nan = scaled >= 0x1p16f ? 0x7f800000u : 0u;
  return bits_of<float>(bits_of<uint32_t>(scaled) | inf_or_nan | sign);
}
INLINE F load(const BFloat16* p) {
  return bits_of<float>(static_cast<uint32_t>(p->x) << 16);
}
INLINE float narrow(D x, float) {
  return static_cast<float>(x);
}
INLINE BFloat16 narrow(F x, BFloat16) {
  const uint32_t bits = bits_of<uint32_t>(x);
  const uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  return BFloat16(static_cast<uint16_t>(rounded >> 16), BFloat16::from_bits());
}
INLINE Half narrow(F x, Half) {
  const uint32_t bits = bits_of<uint32_t>(x);
  const uint32_t size = bits & 0x7fffffffu;
  // Normal: re-bias and round. Subnormal: let the adder round. Else inf, NaN.
  const uint32_t normal = (size + 0xc8000fffu + ((size >> 13) & 1u)) >> 13;
  const uint32_t small =
      bits_of<uint32_t>(bits_of<float>(size) + 0.5f) - 0x3f000000u;
  const uint32_t special = size > 0x7f800000u ? 0x7e00u : 0x7c00u;
  const uint32_t finite = size < 0x38800000u ? small : normal;
  const uint32_t y = size >= 0x477ff000u ? special : finite;
  return Half(
      static_cast<uint16_t>((y & 0x7fffu) | ((bits >> 16) & 0x8000u)),
      Half::from_bits());
}
template <class T>
INLINE void put(T* p, T x) {
  *p = x;
}
// F and D alike, by the bits of either.
template <class V>
using Bits = std::conditional_t<sizeof(V) == 4, int32_t, int64_t>;
template <class V>
constexpr Bits<V> kSignBit = std::numeric_limits<Bits<V>>::min();

template <class V>
INLINE V abs(V x) {
  return bits_of<V>(bits_of<Bits<V>>(x) & ~kSignBit<V>);
}
// The smaller; NaN if the second is one.
template <class V>
INLINE V min(V x, V y) {
  return x < y ? x : y;
}
template <class V>
INLINE V max(V x, V y) {
  return x > y ? x : y;
}
template <class V>
INLINE V if_negative(V sign, V then, V otherwise) {
  const Bits<V> set = bits_of<Bits<V>>(sign) < 0 ? -1 : 0;
  return bits_of<V>(
      (bits_of<Bits<V>>(then) & set) | (bits_of<Bits<V>>(otherwise) & ~set));
}
template <class V>
INLINE V above(V x, V least) {
  const Bits<V> set = x > least ? -1 : 0;
  return bits_of<V>(bits_of<Bits<V>>(x) & set);
}
// Adding it leaves an integer in the low bits.
template <class V>
constexpr V kRound = sizeof(V) == 4 ? V(0x1.8p23) : V(0x1.8p52);

template <class V>
INLINE V fraction(V y, V& n) {
  y = max(V(sizeof(V) == 4 ? -230 : -1100), y);
  n = y + kRound<V> - kRound<V>;
  return y - n;
}
// In two steps, so that a subnormal result is right.
template <class V>
INLINE V times_two_to(V x, V n) {
  constexpr int kBits = sizeof(V) == 4 ? 23 : 52;
  constexpr Bits<V> kBias = sizeof(V) == 4 ? 127 : 1023;
  const Bits<V> whole =
      bits_of<Bits<V>>(n + kRound<V>) - bits_of<Bits<V>>(kRound<V>);
  const Bits<V> half = whole >> 1;
  const auto power = [](Bits<V> e) {
    return bits_of<V>(static_cast<Bits<V>>((e + kBias) << kBits));
  };
  return x * power(half) * power(whole - half);
}
template <class V>
INLINE V rough_reciprocal(V x) {
  return 1 / x;
}

#endif

} // namespace
