// The results that chapter 01 expects, computed in double and rounded by
// std::nearbyint, independently of the bits that the learner's code moves.
#pragma once

#include "testing/compare.h"

#include <doctest/doctest.h>

#include <torch/headeronly/core/ScalarType.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <sstream>
#include <string>
#include <type_traits>

namespace workbook::chapter_01 {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Returns the value of type T that has these bits.
template <class T, class Bits>
T from_bits(Bits bits) {
  T value;
  static_assert(sizeof(T) == sizeof(Bits));
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

inline std::string hex(uint32_t bits) {
  std::ostringstream text;
  text << "0x" << std::hex << bits;
  return text.str();
}

// Returns a string, since doctest prints a `const char*` as an address.
template <class T>
std::string dtype_name() {
  return toString(c10::CppTypeToScalarType<T>::value);
}

inline double silu(double x) {
  return x / (1 + std::exp(-x));
}

// Calls `check(value)` with every finite value of T, with the point half-way to
// the next value (a tie), and with the floats on either side of that point.
template <class T, class Bits, class Check>
void for_all_roundings(const Check& check) {
  for (uint32_t bits = 0; bits <= std::numeric_limits<Bits>::max(); ++bits) {
    const T value = from_bits<T>(static_cast<Bits>(bits));
    const double exact = static_cast<float>(value);
    if (!std::isfinite(exact)) {
      continue;
    }
    const double tie = exact + std::copysign(ulp(kFormat<T>, exact) / 2, exact);
    const float half_way = static_cast<float>(tie);
    check(static_cast<float>(exact));
    if (static_cast<double>(half_way) == tie) {
      check(half_way);
      check(std::nextafter(half_way, 0.0f));
      check(std::nextafter(half_way, std::copysign(INFINITY, half_way)));
    }
  }
}

// Returns for how many values of `for_all` `convert` is wrong. `beyond` is the
// value of the format where `nearest` is infinite.
template <class T, class ForAll, class Convert>
int wrong_of(const ForAll& for_all, const Convert& convert, double beyond) {
  int wrong = 0;
  for_all([&](float value) {
    double expected = nearest(kFormat<T>, value);
    if (std::isinf(expected)) {
      expected = std::copysign(beyond, expected);
    }
    const double got = convert(value);
    const bool same = std::isnan(expected)
        ? std::isnan(got)
        : got == expected && std::signbit(got) == std::signbit(expected);
    if (!same && wrong++ == 0) {
      MESSAGE(
          "the first wrong one: ", value, " becomes ", got, ", not ", expected);
    }
  });
  return wrong;
}

// Returns for how many values of for_all_roundings() `convert` is wrong.
template <class T, class Bits, class Convert>
int wrong_roundings(const Convert& convert, double beyond) {
  return wrong_of<T>(
      [](const auto& check) { for_all_roundings<T, Bits>(check); },
      convert,
      beyond);
}

// Returns for how many of them the constructor of the header type T is wrong.
template <class T>
int wrong_constructor(double beyond) {
  using Bits = std::conditional_t<sizeof(T) == 1, uint8_t, uint16_t>;
  return wrong_roundings<T, Bits>(
      [](float value) { return static_cast<float>(T(value)); }, beyond);
}

// The tolerance of a result, in ulp. Half an ulp is correct rounding; the float
// computation before it may be off by a few ulp of float, which decides near a
// tie.
template <class T>
inline constexpr double kTolerance = sizeof(T) == 2 ? 0.502 : 4;

// Returns the exact result of a gate and of the element d columns further on.
template <class T>
double exact_result(const T* gate, int64_t d, int64_t stride) {
  return silu(static_cast<double>(gate[0])) *
      static_cast<double>(gate[d * stride]);
}

} // namespace workbook::chapter_01
