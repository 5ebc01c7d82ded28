// One lane, in C++ that the compiler vectorises. Included by lanes.h alone.
#pragma once

#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace {

using torch::headeronly::BFloat16;
using torch::headeronly::Half;

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

} // namespace
