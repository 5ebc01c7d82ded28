// The kernels of chapter 07, run on the host over the threads of a launch, and
// their results compared with silu(gate) * up and its gradient in double.
#pragma once

#include "inputs.h"
#include "model.h"
#include "probe.h"
#include "testing/aten.h"
#include "testing/compare.h"
#include "testing/library.h"

#include <doctest/doctest.h>

#include <torch/headeronly/core/ScalarType.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace workbook::chapter_07 {

using pretend::sigmoid;

// The tolerance of a result, in ulp. A result of 16 bits is off by its last
// rounding, and hardly more. For float, 5.7 was seen on a host; CUDA's expf may
// be off by 1 ulp, half an ulp more than glibc's. The same bounds are in
// tests/gpu/device.py and in the tests of the solutions 07 and 08.
template <class T>
inline constexpr double kBound = sizeof(T) == 2 ? 0.51 : 8;
inline constexpr double kSmallest =
    0x1p-120; // below, float has an absolute error

// A launch on an input of [rows, 2d] with these strides and this offset.
struct Case {
  int width;
  int64_t rows;
  int64_t d;
  int64_t row_stride;
  int64_t column_stride = 1;
  int64_t offset = 0;
  bool chosen = false; // by the arithmetic that math_for chooses
  double smallest = kSmallest;
};

// Returns "" if the kernel for this width is right on these numbers, also in
// the sign of a 0.
template <class T>
std::string check_kernel(const std::vector<float>& numbers, const Case& c) {
  const int64_t last =
      (c.rows - 1) * c.row_stride + (2 * c.d - 1) * c.column_stride;
  // Aligned to 16 bytes, as libtorch's memory is.
  std::vector<std::array<T, 16 / sizeof(T)>> memory(
      static_cast<size_t>(c.offset + last) / (16 / sizeof(T)) + 1);
  T* const data = memory.data()->data() + c.offset;
  std::vector<double> expected;
  for (int64_t r = 0; r < c.rows; ++r) {
    const auto at = [&](int64_t column) -> T& {
      return data[r * c.row_stride + column * c.column_stride];
    };
    for (int64_t i = 0; i < 2 * c.d; ++i) {
      at(i) = T(numbers[static_cast<size_t>(r * 2 * c.d + i)]);
    }
    for (int64_t i = 0; i < c.d; ++i) {
      const double gate = static_cast<float>(at(i));
      expected.push_back(
          gate * sigmoid(gate) * static_cast<float>(at(c.d + i)));
    }
  }
  std::vector<std::array<T, 16 / sizeof(T)>> out(
      expected.size() / (16 / sizeof(T)) + 1);
  T* const result = out.data()->data();
  Launch launch{};
  launch.width = c.width;
  launch.threads = 32;
  launch.input = reinterpret_cast<uint64_t>(data);
  launch.out = reinterpret_cast<uint64_t>(result);
  launch.rows = c.rows;
  launch.d = c.d;
  launch.row_stride = c.row_stride;
  launch.column_stride = c.column_stride;
  launch.up = c.d * c.column_stride;
  launch.chosen = c.chosen;
  function<void(ScalarType, const Launch&)>("wb07_probe_compute")(
      kDtype<T>, launch);
  const double smallest = sizeof(T) == 2 ? 0 : c.smallest;
  const std::string text = first_difference<T>(
      {result, expected.size()}, expected, kBound<T>, smallest);
  const auto right = [&](size_t i, double value) {
    const auto got = static_cast<double>(result[i]);
    return ulp_error(kFormat<T>, got, value, smallest) <= kBound<T>;
  };
  const auto minus = [&](size_t i) { return std::signbit(expected[i]); };
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto got = static_cast<float>(result[i]);
    const bool other_zero = got == 0 && std::signbit(got) != minus(i);
    if (right(i, expected[i]) && !other_zero) {
      continue;
    }
    const auto row = static_cast<int64_t>(i) / c.d;
    const T* const operand = data + row * c.row_stride +
        static_cast<int64_t>(i) % c.d * c.column_stride;
    const auto gate = static_cast<float>(operand[0]);
    const auto up = static_cast<float>(operand[c.d * c.column_stride]);
    if (other_zero || !std::isnormal(gate) || !std::isnormal(up)) {
      std::ostringstream edge;
      const double wanted = other_zero ? 0 * expected[i] : expected[i];
      edge << "gate = " << gate << " and up = " << up << " give " << got
           << ", and should give "
           << (std::isnan(wanted) ? std::nan("") : nearest(kFormat<T>, wanted));
      return edge.str();
    }
    for (size_t j = 0; j < expected.size(); ++j) {
      if (right(i, expected[j]) && expected[j] != 0) {
        return "element " + std::to_string(i) + " is what the operands of " +
            "element " + std::to_string(j) + " give; " + text;
      }
    }
    break;
  }
  return text;
}

// Returns "" if the kernel is right on every pair of zeros, infinities, NaN and
// other numbers that a short cut might confuse, with d = 256.
template <class T>
std::string check_edges(int width, bool chosen = false) {
  std::vector<float> edges;
  for (const float edge :
       {0.0f,
        std::numeric_limits<float>::infinity(),
        std::nanf(""),
        static_cast<float>(kFormat<T>.max),
        0.001f,
        1.0f,
        20.0f,
        80.0f}) {
    edges.insert(edges.end(), {edge, -edge});
  }
  std::vector<float> row;
  for (const float gate : edges) {
    row.insert(row.end(), edges.size(), gate);
  }
  for (size_t i = 0; i < edges.size(); ++i) {
    row.insert(row.end(), edges.begin(), edges.end());
  }
  const auto d = static_cast<int64_t>(row.size() / 2);
  Case all{width, 1, d, 2 * d};
  all.chosen = chosen;
  return check_kernel<T>(row, all);
}

// Returns silu of one number, in the chosen arithmetic, and ATen's.
template <class T>
std::pair<float, float> silu_of(float edge) {
  const T gate(edge);
  const T row[] = {gate, T(1.0f)};
  T result;
  Launch launch{};
  launch.threads = 1;
  launch.input = reinterpret_cast<uint64_t>(row);
  launch.out = reinterpret_cast<uint64_t>(&result);
  launch.rows = launch.d = launch.up = launch.column_stride = 1;
  launch.row_stride = 2;
  launch.chosen = true;
  function<void(ScalarType, const Launch&)>("wb07_probe_compute")(
      kDtype<T>, launch);
  const auto wanted =
      values<T>(aten("aten::silu", "", tensor<T>({gate}, {1})))[0];
  return {static_cast<float>(result), static_cast<float>(wanted)};
}

// Requires that the gradient's kernel is as close to the derivatives as the
// size of the terms allows of which they are sums.
template <class T>
void check_gradient() {
  const int64_t rows = 5, d = 1001;
  std::vector<T> grad, input, result(static_cast<size_t>(rows * 2 * d));
  for (const float x : normal(rows * d)) {
    grad.emplace_back(x);
  }
  for (const float x : normal(rows * 2 * d)) {
    input.emplace_back(random(0, 9) == 0 ? 20 * x : x);
  }
  function<void(bool, const void*, const void*, void*, int64_t, int64_t)>(
      "wb07_probe_backward")(
      sizeof(T) == 2, grad.data(), input.data(), result.data(), rows, d);
  const double unit = sizeof(T) == 2 ? 0x1p-8 : 0x1p-20;
  for (int64_t i = 0; i < rows * d; ++i) {
    const auto gate = static_cast<size_t>(i / d * 2 * d + i % d);
    const auto up = gate + static_cast<size_t>(d);
    const double x = static_cast<float>(input[gate]);
    const double y = static_cast<float>(input[up]);
    const double g = static_cast<float>(grad[static_cast<size_t>(i)]);
    const double s = sigmoid(x), silu = x * s;
    const double slope = s + silu * (1 - s);
    CAPTURE(x);
    REQUIRE(
        std::abs(static_cast<float>(result[gate]) - g * y * slope) <=
        unit * std::abs(g * y) * (s + std::abs(silu * (1 - s))) + 1e-37);
    REQUIRE(
        std::abs(static_cast<float>(result[up]) - g * silu) <=
        unit * std::abs(g * silu) + 1e-37);
  }
}

} // namespace workbook::chapter_07
