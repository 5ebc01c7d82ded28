// Inputs of silu_and_mul of all sizes, strides and dtypes, each with a check of
// the result that the library computes.
#pragma once

#include "exports.h"
#include "reference.h"
#include "testing/compare.h"
#include "testing/random.h"
#include "testing/sparse.h"

#include <doctest/doctest.h>

#include <torch/headeronly/core/ScalarType.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace workbook::chapter_01 {

using c10::BFloat16;
using c10::Half;

// A [rows, 2d] input of dtype T in a buffer of its own, addressed by strides,
// its exact result, and a call that checks every element written and none else.
template <class T>
struct Problem {
  int64_t rows, d;
  int64_t strides[2];
  std::vector<T> input;
  std::vector<double> exact;

  Problem(
      int64_t rows,
      int64_t d,
      int64_t row_stride,
      int64_t stride,
      Random& random)
      : rows(rows), d(d), strides{row_stride, stride} {
    const int64_t last = (rows - 1) * row_stride + (2 * d - 1) * stride;
    input.resize(static_cast<size_t>(rows * d == 0 ? 0 : last + 1));
    for (T& value : input) {
      value = random.normal<T>(4);
    }
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < d; ++i) {
        const auto gate = static_cast<double>(at(r, i));
        const auto up = static_cast<double>(at(r, d + i));
        exact.push_back(silu(gate) * up);
      }
    }
  }

  const T& at(int64_t row, int64_t column) const {
    return input[static_cast<size_t>(row * strides[0] + column * strides[1])];
  }

  // Calls the library. Returns "" if the result is right to `tolerance` ulp and
  // nothing around it has been touched. `offset` elements shift `out` from its
  // natural alignment.
  std::string run(double tolerance, size_t offset = 0) const {
    const T canary(-12345.0f);
    std::vector<T> out(exact.size() + offset + 32, canary);
    silu_and_mul(
        out.data() + offset,
        input.data(),
        {rows, 2 * d},
        {strides[0], strides[1]});
    for (size_t i = 0; i < out.size(); ++i) {
      const bool inside = i >= offset && i < offset + exact.size();
      if (!inside && static_cast<float>(out[i]) != static_cast<float>(canary)) {
        return "an element outside of out was written";
      }
    }
    return first_difference<T>(
        std::span<const T>(out).subspan(offset, exact.size()),
        exact,
        tolerance);
  }
};

// Requires the right result of a problem.
template <class T>
void check_problem(const Problem<T>& problem, size_t offset = 0) {
  INFO(
      "dtype ",
      dtype_name<T>(),
      ", sizes [",
      problem.rows,
      ", ",
      2 * problem.d,
      "], strides [",
      problem.strides[0],
      ", ",
      problem.strides[1],
      "]");
  CHECK(problem.run(kTolerance<T>, offset) == "");
}

// Checks a result of more than 1 MiB, which the library writes past the cache.
// Every 61st element is compared, so that no tile can be missing, and both ends
// are compared whole. `offset` elements shift `out` from the alignment that
// such stores want.
template <class T>
void check_non_temporal(size_t offset, Random& random) {
  const size_t d = (size_t{5} << 18) / sizeof(T) + 3;
  std::vector<T> period(4099);
  for (T& value : period) {
    value = random.normal<T>(4);
  }
  std::vector<T> input;
  while (input.size() < 2 * d) {
    input.insert(input.end(), period.begin(), period.end());
  }
  std::vector<T> out(d + offset + 32, T(-12345.0f));
  silu_and_mul(
      out.data() + offset,
      input.data(),
      {1, static_cast<int64_t>(2 * d)},
      {static_cast<int64_t>(2 * d), 1});

  std::vector<T> got;
  std::vector<double> exact;
  for (size_t i = 0; i < d; i += i < 300 || i > d - 300 ? 1 : 61) {
    got.push_back(out[offset + i]);
    exact.push_back(
        silu(static_cast<double>(input[i])) *
        static_cast<double>(input[d + i]));
  }
  INFO(
      "1.25 MiB of ",
      dtype_name<T>(),
      ", out shifted by ",
      offset,
      " elements");
  CHECK(first_difference<T>(got, exact, kTolerance<T>) == "");
  CHECK(
      static_cast<float>(out[offset + d]) == static_cast<float>(T(-12345.0f)));
}

// Checks every 61st element of a result of more than 1 MiB, of rows that
// overlap.
template <class T>
void check_large(int64_t row_stride, int64_t stride, Random& random) {
  constexpr int64_t d = 1021;
  constexpr int64_t rows = (1 << 20) / (d * int64_t{sizeof(T)}) + 1;
  const int64_t last = (rows - 1) * row_stride + (2 * d - 1) * stride;
  std::vector<T> input(static_cast<size_t>(last + 1));
  for (T& value : input) {
    value = random.normal<T>(4);
  }
  std::vector<T> out(rows * d);
  silu_and_mul(out.data(), input.data(), {rows, 2 * d}, {row_stride, stride});
  std::vector<T> got;
  std::vector<double> exact;
  for (int64_t i = 0; i < rows * d; i += 61) {
    const T* const gate = &input[i / d * row_stride + i % d * stride];
    got.push_back(out[static_cast<size_t>(i)]);
    exact.push_back(exact_result(gate, d, stride));
  }
  INFO(
      "1 MiB of ",
      dtype_name<T>(),
      ", strides [",
      row_stride,
      ", ",
      stride,
      "]");
  CHECK(first_difference<T>(got, exact, kTolerance<T>) == "");
}

// An input of sizes [rows, 2d] and strides [row_stride, stride].
struct Layout {
  int64_t rows, d, row_stride, stride;
};

// Checks four calls on the same arrays. Before each, the test changes all
// elements, the first gate, the last `up`, or nothing but `out`.
template <class T>
void check_same_arrays(const std::vector<Layout>& layouts, Random& random) {
  std::vector<T> input(64), out(16);
  std::vector<int64_t> sizes(2), strides(2);
  for (const Layout& layout : layouts) {
    const int64_t rows = layout.rows, row_stride = layout.row_stride;
    const int64_t d = layout.d, stride = layout.stride;
    sizes[0] = rows, sizes[1] = 2 * d;
    strides[0] = row_stride, strides[1] = stride;
    const int64_t last = (rows - 1) * row_stride + (2 * d - 1) * stride;
    for (const std::string changed :
         {"all elements", "the first gate", "the last up", "nothing"}) {
      if (changed == "all elements") {
        for (T& value : input) {
          value = random.normal<T>(4);
        }
      } else if (changed == "the first gate") {
        input[0] = random.normal<T>(4);
      } else if (changed == "the last up") {
        input[static_cast<size_t>(last)] = random.normal<T>(4);
      }
      std::fill(out.begin(), out.end(), T(-12345.0f));
      silu_and_mul(out.data(), input.data(), sizes, strides);
      std::vector<double> exact;
      for (int64_t i = 0; i < rows * d; ++i) {
        const T* const gate = &input[i / d * row_stride + i % d * stride];
        exact.push_back(exact_result(gate, d, stride));
      }
      INFO(
          "dtype ",
          dtype_name<T>(),
          ", strides [",
          row_stride,
          ", ",
          stride,
          "], the arrays of the call before, in which ",
          changed,
          " has changed");
      CHECK(
          first_difference<T>(
              std::span<const T>(out).first(exact.size()),
              exact,
              kTolerance<T>) == "");
    }
  }
}

// Requires that rows of adjacent elements have the bits that silu_and_mul_row
// computes. The bits of silu_and_mul differ: its e^-x and its NaN are others.
template <class T>
void check_fast_rows(int64_t row_stride, Random& random) {
  constexpr int64_t rows = 3, d = 259;
  std::vector<T> input(static_cast<size_t>(2 * row_stride + 2 * d));
  for (T& value : input) {
    value = random.normal<T>(4);
  }
  if constexpr (sizeof(T) == 2) {
    input[7] = from_bits<T>(uint16_t{0x7fff});
  }
  std::vector<T> out(rows * d), alone(d);
  silu_and_mul(out.data(), input.data(), {rows, 2 * d}, {row_stride, 1});
  int computed_otherwise = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const T* const gate = input.data() + row * row_stride;
    silu_and_mul(alone.data(), gate, {1, 2 * d}, {2 * d, 1});
    for (int64_t i = 0; i < d; ++i) {
      computed_otherwise +=
          std::memcmp(&out[row * d + i], &alone[i], sizeof(T)) != 0;
    }
  }
  INFO(
      "dtype ",
      dtype_name<T>(),
      ", sizes [3, 518], strides [",
      row_stride,
      ", 1]: elements whose bits are not those of silu_and_mul_row");
  CHECK(computed_otherwise == 0);
  if constexpr (std::is_same_v<T, BFloat16>) { // conversions make it 0x7fc0
    const std::string nan = hex(out[7].x);
    CHECK(nan == "0x7fff");
  }
}

// Checks every gate from -87 up, in rows that are too short for a tile.
template <class T>
void check_all_gates(float factor) {
  constexpr size_t d = 100;
  std::vector<T> gates;
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const T gate = from_bits<T>(static_cast<uint16_t>(bits));
    if (gate >= -87 && gate < INFINITY) {
      gates.push_back(gate);
    }
  }
  Random random;
  const auto rows = static_cast<int64_t>(gates.size() / d);
  Problem<T> problem(rows, d, 2 * d, 1, random);
  const T up(factor);
  for (size_t i = 0; i < problem.exact.size(); ++i) {
    T* const gate = &problem.input[i / d * 2 * d + i % d];
    gate[0] = gates[i];
    gate[d] = up;
    problem.exact[i] =
        silu(static_cast<double>(gates[i])) * static_cast<double>(up);
  }
  INFO("up ", factor);
  check_problem(problem);
}

inline constexpr int64_t kFar =
    (int64_t{1} << 31) + 64; // as an int it is negative

// Checks a [2, 2] input with a stride that no int holds, and with as much
// memory before it.
template <class T>
void check_far(int64_t row_stride, int64_t stride) {
  const Sparse<T> memory(2 * kFar + 2 * stride + 2 * row_stride);
  T* const input = memory.data() + kFar;
  std::vector<double> exact;
  for (int64_t row = 0; row < 2; ++row) {
    T* const gate = input + row * row_stride;
    *gate = T(1.0f + static_cast<float>(row));
    gate[stride] = T(3.0f);
    exact.push_back(silu(1.0 + static_cast<double>(row)) * 3);
  }
  std::vector<T> out(2);
  silu_and_mul(out.data(), input, {2, 2}, {row_stride, stride});
  INFO("sizes [2, 2], strides [", row_stride, ", ", stride, "]");
  CHECK(first_difference<T>(out, exact, kTolerance<T>) == "");
}

// Calls `check` with a zero of each dtype.
template <class Check>
void for_each_dtype(const Check& check) {
  check(double{});
  check(float{});
  check(Half{});
  check(BFloat16{});
}

// Checks every gate from -87 up, or one in `step`, by a function of the bits.
// Subnormal results come second, for every wrong rounding looks alike there.
template <class T>
void check_gates(
    uint16_t (*silu_and_mul)(uint16_t, uint16_t),
    std::initializer_list<float> ups,
    uint32_t step = 1) {
  struct Worst {
    double error = 0;
    float gate = 0, up = 0, got = 0;
  } normal, subnormal;
  const double smallest = std::ldexp(1.0, kFormat<T>.min_exponent);
  for (const float factor : ups) {
    const T up(factor);
    for (uint32_t bits = 0; bits <= 0xffff; bits += step) {
      const auto gate = from_bits<T>(static_cast<uint16_t>(bits));
      const double x = static_cast<float>(gate);
      if (!(x >= -87 && x < INFINITY)) {
        continue; // e^-x overflows a float, or x is special: the case tests
                  // both
      }
      const float got = from_bits<T>(silu_and_mul(gate.x, up.x));
      const double exact = silu(x) * static_cast<float>(up);
      if (std::abs(exact) > kFormat<T>.max) {
        continue;
      }
      const double error = ulp_error(kFormat<T>, got, exact);
      Worst& worst = std::abs(silu(x)) < smallest ? subnormal : normal;
      if (error > worst.error) {
        worst = {error, static_cast<float>(gate), static_cast<float>(up), got};
      }
    }
  }
  for (const Worst& worst : {normal, subnormal}) {
    if (worst.error > kTolerance<T>) {
      INFO("the worst of all ", dtype_name<T>(), " gates from -87 up");
      FAIL_CHECK(
          "silu_and_mul of gate ",
          worst.gate,
          " and up ",
          worst.up,
          " is ",
          worst.got,
          ", and exactly ",
          silu(worst.gate) * worst.up,
          ": off by ",
          worst.error,
          " ulp");
      break;
    }
  }
}

} // namespace workbook::chapter_01
