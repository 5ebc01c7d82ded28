// Comparing floating-point results with an exact value. Tolerances are in ulp
// of the dtype; a NaN equals a NaN and nothing else; the sign of an infinity
// counts.
#pragma once

#include <torch/headeronly/core/ScalarType.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <sstream>
#include <string>

namespace workbook {

// A binary floating-point format: the bits of its significand (the leading one
// included), its smallest normal exponent and its largest finite value.
struct Format {
  int precision;
  int min_exponent;
  double max;
};

template <class T>
constexpr Format kFormat{};
template <>
inline constexpr Format kFormat<double>{53, -1022, 0x1.fffffffffffffp1023};
template <>
inline constexpr Format kFormat<float>{24, -126, 0x1.fffffep127};
template <>
inline constexpr Format kFormat<c10::Half>{11, -14, 65504};
template <>
inline constexpr Format kFormat<c10::BFloat16>{8, -126, 0x1.fep127};
template <>
inline constexpr Format kFormat<c10::Float8_e5m2>{3, -14, 57344};
template <>
inline constexpr Format kFormat<c10::Float8_e4m3fn>{4, -6, 448};
template <>
inline constexpr Format kFormat<c10::Float8_e5m2fnuz>{3, -15, 57344};
template <>
inline constexpr Format kFormat<c10::Float8_e4m3fnuz>{4, -7, 240};

// The distance between neighbours of the format around `exact`.
inline double ulp(const Format& format, double exact) {
  const int exponent = exact == 0 ? format.min_exponent : std::ilogb(exact);
  return std::ldexp(
      1.0, std::max(exponent, format.min_exponent) - (format.precision - 1));
}

// The value of the format nearest to `exact`, ties to even, computed by
// std::nearbyint in double and so independently of any bit manipulation.
// Beyond the largest finite value (by half an ulp or more): infinity.
inline double nearest(const Format& format, double exact) {
  if (!std::isfinite(exact)) {
    return exact;
  }
  const double unit = ulp(format, exact);
  const double rounded = std::nearbyint(exact / unit) * unit;
  return std::abs(rounded) <= format.max
      ? std::copysign(rounded, exact)
      : std::copysign(std::numeric_limits<double>::infinity(), exact);
}

// How far `got` is from `exact`, in ulp: at most 0.5 if it is correctly
// rounded. Zero for two NaN or two equal infinities, infinite for a mismatch.
// What is below `smallest` is judged by the ulp of that: by its absolute error.
inline double ulp_error(
    const Format& format, double got, double exact, double smallest = 0) {
  if (std::isnan(got) || std::isnan(exact)) {
    return std::isnan(got) && std::isnan(exact)
        ? 0
        : std::numeric_limits<double>::infinity();
  }
  if (std::isinf(got)) {
    return nearest(format, exact) == got
        ? 0
        : std::numeric_limits<double>::infinity();
  }
  const double size = std::max(smallest, std::abs(exact));
  return std::abs(got - exact) / ulp(format, std::min(size, format.max));
}

// "" if every element of `got` is within `tolerance` ulp of `exact`, else a
// sentence that gives the first that is not, with its index, and the worst:
// "element 3 of 8: got 0.5, expected 0.25 (8388608 ulp off, 1 allowed); ...".
template <class T>
std::string first_difference(
    std::span<const T> got,
    std::span<const double> exact,
    double tolerance,
    double smallest = 0) {
  std::ostringstream text;
  if (got.size() != exact.size()) {
    text << "got " << got.size() << " elements, expected " << exact.size();
    return text.str();
  }
  const auto error_of = [&](size_t i) {
    return ulp_error(
        kFormat<T>, static_cast<double>(got[i]), exact[i], smallest);
  };
  size_t first = got.size(), worst = 0, wrong = 0;
  double most = -1;
  for (size_t i = 0; i < got.size(); ++i) {
    const double error = error_of(i);
    if (!(error <= tolerance)) {
      first = std::min(first, i);
      ++wrong;
      if (error > most) {
        most = error;
        worst = i;
      }
    }
  }
  if (wrong == 0) {
    return "";
  }
  const auto describe = [&](size_t i) {
    text << "element " << i << " of " << got.size() << ": got "
         << static_cast<double>(got[i]) << ", expected " << exact[i] << " ("
         << error_of(i) << " ulp off, " << tolerance << " allowed)";
  };
  text.precision(9);
  describe(first);
  if (worst != first) {
    text << "; the worst of " << wrong << " is ";
    describe(worst);
  }
  return text.str();
}

} // namespace workbook
