// Tests of chapter 01: each step has its cases, and the header types have one.
#include "exports.h"
#include "inputs.h"
#include "reference.h"
#include "testing/checks.h"
#include "testing/child.h"
#include "testing/compare.h"
#include "testing/ledger.h"
#include "testing/library.h"
#include "testing/random.h"
#include "testing/symbols.h"

#include <doctest/doctest.h>

#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/version.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

using namespace workbook;
using namespace workbook::chapter_01;
using c10::BFloat16;
using c10::Float8_e4m3fn;
using c10::Float8_e4m3fnuz;
using c10::Float8_e5m2;
using c10::Float8_e5m2fnuz;
using c10::Float8_e8m0fnu;
using c10::Half;
using c10::ScalarType;
using doctest::Contains;

TEST_CASE(
    "01.1 the bits of a bfloat16 are the upper half of a float's" *
    doctest::description("widen_bfloat16 gives another float than the one that "
                         "the bits stand for.")) {
  const auto widen = function<float(uint16_t)>("wb01_widen_bfloat16");
  const auto wrong_of_all = [&] {
    int wrong = 0;
    for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
      const float got = widen(static_cast<uint16_t>(bits));
      const float want = from_bits<BFloat16>(static_cast<uint16_t>(bits));
      wrong += std::memcmp(&got, &want, sizeof(got)) != 0;
    }
    return wrong;
  };
  // Bits that are only moved are the same in any mode of the processor, and
  // whichever it is at the first call.
  const int wrong_if_flushed = [&] {
    const Flushing mode;
    return wrong_of_all();
  }();
  CHECK(widen(0x3f80) == 1.0f);
  CHECK(widen(0xc000) == -2.0f);
  CHECK(widen(0x0001) == 0x1p-133f); // the smallest subnormal
  CHECK(std::signbit(widen(0x8000)));
  CHECK(widen(0x7f80) == INFINITY);
  CHECK(std::isnan(widen(0x7fc0)));
  if (const int wrong = wrong_of_all(); wrong != 0) {
    FAIL_CHECK(wrong, " of all 65,536 values are wrong");
  }
  if (wrong_if_flushed != 0) {
    FAIL_CHECK(
        wrong_if_flushed,
        " of all 65,536 values are wrong where subnormals are flushed to 0 "
        "(torch.set_flush_denormal)");
  }
  check_keeps_nothing([&](int i) { widen(static_cast<uint16_t>(i << 7)); });
}

TEST_CASE(
    "01.2 bfloat16 is rounded to nearest, ties to even" *
    doctest::description("A float, a tie or a NaN does not become the bfloat16 "
                         "that it should.")) {
  const auto round = function<uint16_t(float)>("wb01_round_to_bfloat16");
  const auto rounded = [&](float value) {
    return static_cast<float>(from_bits<BFloat16>(round(value)));
  };
  CHECK(rounded(1.0f) == 1.0f);
  CHECK(rounded(0x1.01p0f) == 1.0f);      // a tie: 1 is even
  CHECK(rounded(0x1.03p0f) == 0x1.04p0f); // a tie: up to the even one
  // And between a value and the next: one bit away from each of them, and from
  // the tie, on either side. The values are even and odd, of either sign.
  const auto for_all = [](const auto& check) {
    for_all_roundings<BFloat16, uint16_t>(check);
    for (uint32_t upper = 0; upper < 0xff00; upper += 0x101) {
      for (uint32_t bit = 1; bit < 0x8000; bit *= 2) {
        for (const uint32_t lower :
             {bit, 0x8000 - bit, 0x8000 + bit, 0x10000 - bit}) {
          check(from_bits<float>(upper << 16 | lower));
        }
      }
    }
  };
  CHECK(wrong_of<BFloat16>(for_all, rounded, kInf) == 0);
  CHECK(rounded(std::numeric_limits<float>::max()) == INFINITY);
  CHECK(rounded(std::numeric_limits<float>::lowest()) == -INFINITY);
  CHECK(rounded(INFINITY) == INFINITY);
  CHECK(rounded(-INFINITY) == -INFINITY);
  // The same NaN for all of them, also for those whose payload is all in the
  // lower bits or overflows when it is rounded.
  for (const uint32_t bits :
       {0x7f800001u, 0x7fa00000u, 0x7fffffffu, 0xffffffffu, 0x7fc00000u}) {
    INFO("the NaN ", hex(bits));
    const std::string got = hex(round(from_bits<float>(bits)));
    CHECK(got == "0x7fc0");
  }
  // A float that the processor is told to flush to 0 is rounded all the same.
  const struct {
    uint32_t bits, rounded;
  } flushed[] = {
      {0x00010000, 0x1},
      {0x00018001, 0x2},
      {0x00028000, 0x2},
      {0x80018001, 0x8002},
      {0x00008001, 0x1},
      {0x007fffff, 0x80},
      {0x7fffffff, 0x7fc0},
      {0x7f800000, 0x7f80}};
  for (const auto& row : flushed) {
    INFO(
        "the float ",
        hex(row.bits),
        ", where subnormals are flushed to 0 (torch.set_flush_denormal)");
    const uint32_t got = [&] {
      const Flushing mode;
      return round(from_bits<float>(row.bits));
    }();
    CHECK(hex(got) == hex(row.rounded));
  }
  check_keeps_nothing([&](int i) { round(1.0f + static_cast<float>(i)); });
}

TEST_CASE(
    "01.3 what is too large for float8 saturates" *
    doctest::description(
        "What is too large for a float8, or a NaN, becomes the wrong value.")) {
  const auto saturate = function<uint8_t(float)>("wb01_saturate_to_float8");
  const auto saturated = [&](float value) {
    return static_cast<float>(from_bits<Float8_e5m2>(saturate(value)));
  };
  CHECK(saturated(57344) == 57344);
  CHECK(saturated(61440) == 57344);
  CHECK(saturated(-61440) == -57344);
  CHECK(saturated(1e30f) == 57344);
  CHECK(saturated(INFINITY) == 57344);
  CHECK(saturated(-INFINITY) == -57344);
  CHECK(saturated(std::numeric_limits<float>::max()) == 57344);
  CHECK(saturated(std::numeric_limits<float>::lowest()) == -57344);
  CHECK(std::isnan(saturated(kNaN)));
  CHECK(std::isnan(saturated(-kNaN)));
  // Signalling ones too, which lie in memory that nobody has written.
  for (const uint32_t bits :
       {0x7f800001u, 0x7fa00000u, 0x7fbfffffu, 0x7fffffffu}) {
    INFO("the NaN ", hex(bits), ", of either sign");
    CHECK(std::isnan(saturated(from_bits<float>(bits))));
    CHECK(std::isnan(saturated(from_bits<float>(bits | 0x80000000u))));
  }
  CHECK(wrong_roundings<Float8_e5m2, uint8_t>(saturated, 57344) == 0);
  check_keeps_nothing([&](int i) {
    saturate((i % 2 == 0 ? 1e5f : -4.0f) * static_cast<float>(i + 1));
  });
}

TEST_CASE(
    "01.4 silu_and_mul is computed in float and rounded once" *
    doctest::description(
        "The result is rounded more than once, or is another function.")) {
  using OfBits = uint16_t(uint16_t, uint16_t);
  const auto silu_and_mul = function<OfBits>("wb01_silu_and_mul_bfloat16");
  check_gates<BFloat16>(silu_and_mul, {1.0f, 0.333f, -3.0f, 1e-4f, 300.0f});
  check_gates<BFloat16>(silu_and_mul, {1e37f}); // overflows if multiplied first
  const auto of_halves = function<OfBits>("wb01_silu_and_mul_half");
  check_gates<Half>(of_halves, {0.333f, 300.0f}, 13);
  const auto at = [&](float gate, float up = 1) {
    return static_cast<float>(
        from_bits<BFloat16>(silu_and_mul(BFloat16(gate).x, BFloat16(up).x)));
  };
  // As ATen defines it: -0 where e^-x overflows, NaN at -infinity.
  for (const float gate : {-89.0f, -104.0f, -128.0f, -1000.0f, -1e38f}) {
    INFO("gate ", gate);
    CHECK(at(gate) == 0);
    CHECK(std::signbit(at(gate)));
  }
  CHECK(at(INFINITY) == INFINITY);
  CHECK(std::isnan(at(-INFINITY)));
  CHECK(std::isnan(at(kNaN)));
  for (const uint16_t nan : {0x7f81, 0xffbf}) { // signalling
    const uint16_t one = 0x3f80;
    INFO("the NaN ", hex(nan));
    CHECK(std::isnan(from_bits<BFloat16>(silu_and_mul(nan, one))));
    CHECK(std::isnan(from_bits<BFloat16>(silu_and_mul(one, nan))));
  }
  const auto of_doubles =
      function<double(double, double)>("wb01_silu_and_mul_double");
  // Zeros, infinities and NaN go through the product, with their signs.
  for (const float gate : {0.0f, -0.0f, INFINITY, -INFINITY, kNaN}) {
    for (const float up : {0.0f, -0.0f, 2.0f, -2.0f, INFINITY, kNaN}) {
      INFO("gate ", gate, ", up ", up);
      const double exact = silu(gate) * up;
      const float got = at(gate, up);
      CHECK(std::isnan(got) == std::isnan(exact));
      const double of_double = of_doubles(gate, up);
      CHECK(std::isnan(of_double) == std::isnan(exact));
      if (!std::isnan(exact)) {
        CHECK(got == exact);
        CHECK(std::signbit(got) == std::signbit(exact));
        CHECK(of_double == exact);
        CHECK(std::signbit(of_double) == std::signbit(exact));
      }
    }
  }
  // Where e^-x overflows the result is that of -0 times up, whatever that is.
  for (const float up : {0.0f, -0.0f, -2.0f, INFINITY, -INFINITY, kNaN}) {
    INFO("up ", up, ", gate -100, of doubles -1000");
    const float exact = -0.0f * up;
    for (const double got : {double{at(-100, up)}, of_doubles(-1000, up)}) {
      CHECK(std::isnan(got) == std::isnan(exact));
      if (!std::isnan(exact)) {
        CHECK(got == exact);
        CHECK(std::signbit(got) == std::signbit(exact));
      }
    }
  }
  // From -89 down e^-x has no float, from -710 down no double. Below 36 the
  // result is not yet that of x, and above 1e-15 no longer that of x / 2.
  std::vector<double> gates{-700.1, 500.1, 1e99};
  for (double gate = -100.1; gate < 100; gate += 0.4) {
    gates.push_back(gate);
  }
  for (double gate = 0.1; gate > 1e-20; gate /= 7) {
    gates.push_back(gate);
    gates.push_back(-gate);
  }
  for (const double gate : gates) {
    const double exact = silu(gate) * 0.3;
    const double error = std::abs(of_doubles(gate, 0.3) / exact - 1);
    INFO(
        "of doubles, gate ",
        gate,
        ", up 0.3: off by ",
        error,
        " of the result");
    CHECK(error < 1e-15);
  }
  CHECK(of_doubles(-1000, 2) == 0);
  CHECK(std::signbit(of_doubles(-1000, 2)));
  CHECK(std::isnan(of_doubles(-kInf, 2)));
  check_keeps_nothing([&](int i) {
    const auto gate = static_cast<uint16_t>(0x3f80 + i);
    silu_and_mul(gate, 0x3f80);
    of_halves(gate, 0x3f80);
    of_doubles(i, 2);
  });
}

TEST_CASE(
    "01.5 the sizes of the result are owned by the result" *
    doctest::description(
        "The sizes are wrong, or do not outlive the call that made them.")) {
  SUBCASE("the last size is halved") {
    CHECK(output_sizes({2, 6}) == Sizes{2, 3});
    CHECK(output_sizes({8}) == Sizes{4});
    CHECK(output_sizes({0, 4}) == Sizes{0, 2});
    CHECK(output_sizes({3, 0}) == Sizes{3, 0});
  }
  SUBCASE("any rank, any size") {
    Random random;
    for (int i = 0; i < 100; ++i) {
      Sizes sizes;
      for (int64_t j = random.integer(1, 100); j > 0; --j) {
        sizes.push_back(2 * random.integer(0, int64_t{1} << 40));
      }
      Sizes expected = sizes;
      expected.back() /= 2;
      REQUIRE(output_sizes(sizes) == expected);
    }
  }
  SUBCASE("two threads at once share nothing") {
    std::atomic<int> wrong{0}, begun{0};
    const auto work = [&](int64_t d, size_t rank) {
      const Sizes sizes(rank, 2 * d);
      for (++begun; begun < 2;) { // both at once
        std::this_thread::yield();
      }
      for (int i = 0; i < 20000 && wrong == 0; ++i) {
        Sizes out(rank);
        function<void(int64_t*, const int64_t*, size_t)>("wb01_output_sizes")(
            out.data(), sizes.data(), rank);
        wrong += out.front() != (rank == 1 ? d : 2 * d) || out.back() != d;
      }
    };
    std::thread other(work, 3, 1);
    work(5, 9);
    other.join();
    CHECK(wrong == 0);
  }
  SUBCASE("sizes at the same address are read at each call") {
    Sizes sizes{2, 6}, out(2);
    for (const int64_t last : {6, 8, 0, 8}) {
      sizes[1] = last;
      sizes[0] += 1;
      function<void(int64_t*, const int64_t*, size_t)>("wb01_output_sizes")(
          out.data(), sizes.data(), 2);
      CHECK(out == Sizes{sizes[0], last / 2});
    }
  }
  SUBCASE("the caller's sizes are only read, and may be constants") {
    static const int64_t sizes[]{2, 6}; // in memory that cannot be written
    const std::string ended = in_child([] {
      int64_t out[2];
      function<void(int64_t*, const int64_t*, size_t)>("wb01_output_sizes")(
          out, sizes, 2);
    });
    CHECK(ended == "returned");
  }
  SUBCASE("when the result is gone nothing of it is kept") {
    const auto get =
        function<void(int64_t*, const int64_t*, size_t)>("wb01_output_sizes");
    const Sizes sizes(64, 6);
    Sizes out(64);
    size_t kept = 0;
    std::thread fresh([&] {
      thread_local const Ledger ledger; // up to the thread's end
      get(out.data(), sizes.data(), 64);
      kept = Ledger::alive();
    });
    fresh.join();
    const size_t kept_by_the_thread = kept - Ledger::alive();
    INFO("blocks that outlive the result, whose elements are not its own");
    CHECK(kept_by_the_thread == 0);
    check_keeps_nothing([](int i) { output_sizes(Sizes(i + 1, 2 * i)); });
  }
  SUBCASE("an odd last size, and none, are refused") {
    CHECK(catch_error([] { output_sizes({2, 5}); }) == Contains("[2, 5]"));
    CHECK(catch_error([] { output_sizes({5}); }) == Contains("[5]"));
    CHECK(catch_error([] {
            output_sizes({4, 2, 7});
          }) == Contains("[4, 2, 7]"));
    CHECK(catch_error([] { output_sizes({}); }) == Contains("[]"));
  }
  SUBCASE("what is refused has written nothing") {
    const Sizes sizes{2, 5};
    Sizes out{-1, -1};
    CHECK(refusal([&] {
            function<void(int64_t*, const int64_t*, size_t)>(
                "wb01_output_sizes")(out.data(), sizes.data(), 2);
          }) != "");
    CHECK(out == Sizes{-1, -1});
  }
}

TEST_CASE(
    "01.6 one call serves four dtypes" *
    doctest::description(
        "One of the four dtypes is refused, or computed as another type.")) {
  Random random;
  SUBCASE("all lengths of a row") {
    for_each_dtype([&](auto zero) {
      using T = decltype(zero);
      for (const int64_t d : {0, 1, 2, 7, 8, 63, 64, 65, 1000}) {
        check_problem(Problem<T>(3, d, 2 * d, 1, random));
      }
      check_problem(Problem<T>(0, 8, 16, 1, random));
    });
  }
  SUBCASE("a result that is larger than the cache, at any alignment") {
    for_each_dtype([&](auto zero) {
      using T = decltype(zero);
      check_non_temporal<T>(sizeof(T) >= 4 ? 0 : 3, random);
    });
  }
  SUBCASE("a large result of rows that end before an aligned element") {
    constexpr int64_t rows = 300'002, d = 1;
    const std::vector<float> input(rows * 2 * d, 1.0f);
    std::vector<float> out(rows * d);
    silu_and_mul(out.data(), input.data(), {rows, 2 * d}, {2 * d, 1});
    CHECK(out[0] == doctest::Approx(silu(1.0)));
    CHECK(out == std::vector<float>(rows * d, out[0]));
  }
  SUBCASE("NaN, infinities and -0, at every place in a vector") {
    for_each_dtype([&](auto zero) {
      using T = decltype(zero);
      const float special[] = {kNaN, INFINITY, -INFINITY, -0.0f, 0.0f, -800.0f};
      Problem<T> problem(1, 37, 74, 1, random);
      for (size_t i = 0; i < 37; ++i) {
        const float gate = special[i % 6];
        problem.input[i] = static_cast<T>(gate);
        problem.input[37 + i] = static_cast<T>(1.0f);
        problem.exact[i] = gate == -800.0f ? -0.0 : silu(gate);
      }
      check_problem(problem);
    });
  }
  SUBCASE("every 16-bit gate, with results from the smallest to infinity") {
    check_all_gates<Half>(0x1p-12f);
    check_all_gates<Half>(3000);
    check_all_gates<BFloat16>(1e37f);
    INFO("in a mode that flushes subnormal floats: a Half's are normal floats");
    const Flushing mode;
    check_all_gates<Half>(3000);
  }
  SUBCASE("each call reads what its arrays hold now") {
    for_each_dtype([&](auto zero) {
      check_same_arrays<decltype(zero)>({{2, 3, 6, 1}, {3, 2, 4, 1}}, random);
    });
  }
  SUBCASE("nothing is kept for the next call, which has another dtype") {
    check_keeps_nothing([](int i) {
      const std::vector<uint8_t> row(16, 0x3c);
      constexpr ScalarType dtypes[] = {
          ScalarType::Double,
          ScalarType::Float,
          ScalarType::Half,
          ScalarType::BFloat16};
      std::vector<uint8_t> out(8);
      silu_and_mul(dtypes[i % 4], out.data(), row.data(), {1, 2}, {2, 1});
    });
  }
  SUBCASE("another dtype is refused, and nothing is written") {
    // Numbers in any dtype, the largest of which has 16 bytes an element.
    const std::vector<uint64_t> row(4, 0x3c3c3c3c3c3c3c3c);
    const auto error_for = [&](int8_t number) {
      const auto dtype = static_cast<ScalarType>(number);
      const std::vector<uint64_t> before(4, 0xa5a5a5a5a5a5a5a5);
      std::vector<uint64_t> out = before;
      const auto error = catch_error([&] {
        silu_and_mul(dtype, out.data(), row.data(), {1, 2}, {2, 1});
      });
      INFO("dtype ", std::string(toString(dtype)));
      const bool out_was_written = out != before;
      CHECK_FALSE(out_was_written);
      return error;
    };
    constexpr auto kAll = static_cast<int8_t>(ScalarType::Undefined);
    for (int8_t number = 0; number < kAll; ++number) {
      const auto dtype = static_cast<ScalarType>(number);
      if (dtype == ScalarType::Double || dtype == ScalarType::Float ||
          dtype == ScalarType::Half || dtype == ScalarType::BFloat16) {
        continue;
      }
      CHECK(error_for(number) == Contains(toString(dtype)));
    }
    // Its number, the last, is another dtype's in newer headers.
    CHECK(error_for(kAll) != kNothingThrown);
    CHECK(error_for(127) != kNothingThrown);
    CHECK(error_for(-1) != kNothingThrown);
  }
  SUBCASE("where there are no elements both pointers may be null") {
    const auto empty = [](ScalarType dtype, const Sizes& sizes) {
      return refuse(dtype, nullptr, nullptr, sizes);
    };
    CHECK(empty(ScalarType::Float, {3, 0}) == kNothingThrown);
    CHECK(empty(ScalarType::Half, {0, 8}) == kNothingThrown);
    CHECK(empty(ScalarType::Int, {3, 0}) == Contains("Int"));
  }
  SUBCASE("bad arguments are refused") {
    double buffer[64] = {};
    const auto with = [&](void* out, const void* input, const Sizes& sizes) {
      return refuse(ScalarType::Float, out, input, sizes);
    };
    CHECK(with(buffer, buffer, {1, 3}) == Contains("[1, 3]"));
    CHECK(
        with(buffer, buffer, {2}) ==
        Contains("input must have 2 dimensions, got 1"));
    CHECK(with(nullptr, buffer, {1, 2}) == Contains("out must not be null"));
    CHECK(with(buffer, nullptr, {1, 2}) == Contains("input must not be null"));
  }
}

TEST_CASE(
    "01.6 the library needs nothing of libtorch" *
    doctest::description(
        "The library asks for a function of libtorch, which need not be in the "
        "process: all of its types are in the headers.")) {
  for (const std::string& symbol :
       undefined_symbols(library_symbol("wb01_silu_and_mul"))) {
    INFO("the library needs ", symbol);
    for (const char* const name : {"torch", "N2at", "N3c10"}) {
      CHECK(symbol.find(name) == std::string::npos);
    }
  }
}

TEST_CASE(
    "01.7 a strided input is read by its strides" *
    doctest::description(
        "An element is read from another place than the strides say.")) {
  Random random;
  for_each_dtype([&](auto zero) {
    using T = decltype(zero);
    check_problem(Problem<T>(5, 8, 40, 1, random)); // a slice of wider rows
    check_problem(Problem<T>(5, 8, 1, 5, random));  // a transposed matrix
    check_problem(Problem<T>(5, 8, 48, 3, random)); // every third column
    check_problem(Problem<T>(5, 8, 0, 1, random));  // one row, expanded
    check_problem(Problem<T>(1, 1, 7, 2, random));
    for (int i = 0; i < 50; ++i) {
      const int64_t rows = random.integer(1, 6);
      const int64_t d = random.integer(1, 70);
      const int64_t stride = random.integer(1, 3);
      const int64_t row_stride = 2 * d * stride + random.integer(0, 9);
      check_problem(Problem<T>(rows, d, row_stride, stride, random));
    }
  });
  const std::vector<Layout> layouts{
      {2, 3, 1, 2}, {3, 2, 1, 3}, {2, 3, 9, 1}, {2, 3, 14, 2}, {2, 3, 0, 1}};
  for_each_dtype(
      [&](auto zero) { check_same_arrays<decltype(zero)>(layouts, random); });
  // Past the cache the strides are the same.
  check_large<float>(24, 1, random); // a sliding window
  check_large<double>(24, 2, random);
  check_keeps_nothing([](int i) { // transposed, each larger than the last
    const int64_t d = 4 * i + 4;
    const std::vector<float> input(static_cast<size_t>(4 * d), 1.0f);
    std::vector<float> out(static_cast<size_t>(2 * d));
    silu_and_mul(out.data(), input.data(), {2, 2 * d}, {1, 2});
  });
}

TEST_CASE(
    "01.7 a stride may be 0, or wider than 32 bits" *
    doctest::description(
        "An element is read from another place than the strides say.")) {
  Random random;
  for (const int64_t row_stride : {0, 1, 8, 16, 40}) {
    for (const int64_t stride : {0, 1, 2, 16}) { // 0: one column, expanded
      check_problem(Problem<float>(5, 8, row_stride, stride, random));
    }
  }
  // Rows that are longer than a buffer on the stack.
  check_problem(Problem<float>(2, 1500, 1, 2, random));
  check_problem(Problem<BFloat16>(1, 20'001, 1, 0, random));
  check_far<BFloat16>(kFar, 1);
  check_far<BFloat16>(kFar, 2);
  check_far<BFloat16>(1, kFar);
}

TEST_CASE(
    "01.7 rows of adjacent elements are computed by silu_and_mul_row" *
    doctest::description("Rows whose elements are adjacent do not go through "
                         "the fast silu_and_mul_row.")) {
  Random random;
  // Contiguous rows, slices, a sliding window, and one row expanded.
  for (const int64_t row_stride : {518, 519, 600, 40, 1, 0}) {
    check_fast_rows<float>(row_stride, random);
    check_fast_rows<Half>(row_stride, random);
    check_fast_rows<BFloat16>(row_stride, random);
  }
}

TEST_CASE("01 the header types round to nearest, ties to even") {
  CHECK(wrong_constructor<BFloat16>(kInf) == 0);
  CHECK(wrong_constructor<Half>(kInf) == 0);
  CHECK(wrong_constructor<Float8_e5m2>(kInf) == 0);
  // Formats without an infinity: beyond the largest value lies NaN, but for
  // Float8_e4m3fn only with headers before 2.13; those since give the largest.
  constexpr bool kSaturates = TORCH_ABI_VERSION >= 0x020d000000000000;
  CHECK(wrong_constructor<Float8_e4m3fn>(kSaturates ? 448 : kNaN) == 0);
  CHECK(wrong_constructor<Float8_e5m2fnuz>(kNaN) == 0);
  CHECK(wrong_constructor<Float8_e4m3fnuz>(kNaN) == 0);
}
