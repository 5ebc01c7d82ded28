// The harness tested: comparisons that must fail do fail, and the oracle is the
// real ATen, called through the dispatcher.
#include "abi/torch_stable_abi/trace/slots.h"
#include "testing/aten.h"
#include "testing/checks.h"
#include "testing/compare.h"
#include "testing/library.h"
#include "testing/random.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace workbook;
using torch::headeronly::ScalarType;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

std::string compare(std::vector<float> got, std::vector<double> exact) {
  return first_difference<float>(got, exact, 1);
}

} // namespace

TEST_CASE("compare: equal values, NaN and infinities included, are equal") {
  CHECK(compare({}, {}) == "");
  CHECK(
      compare({1.5f, kNaN, INFINITY, -INFINITY}, {1.5, kNaN, kInf, -kInf}) ==
      "");
  CHECK(compare({0x1.000002p0f}, {1.0}) == ""); // one ulp
}

TEST_CASE("compare: each kind of difference is found, with its index") {
  CHECK(compare({1.0f}, {}) == "got 1 elements, expected 0");
  CHECK(
      compare({1.0f, 2.0f}, {1.0, 2.5}) ==
      "element 1 of 2: got 2, expected 2.5 (2097152 ulp off, 1 allowed)");
  CHECK(
      doctest::String(compare({2.0f, 1.0f, 4.0f}, {2.5, 1.0, 9.0}).c_str()) ==
      doctest::Contains("; the worst of 2 is element 2 of 3: got 4, "));
  CHECK(compare({kNaN}, {1.0}) != "");
  CHECK(compare({1.0f}, {kNaN}) != "");
  CHECK(compare({INFINITY}, {-kInf}) != "");
  CHECK(compare({INFINITY}, {1e30}) != "");
  CHECK(compare({1e30f}, {kInf}) != "");
  CHECK(compare({0x1.000004p0f}, {1.0}) != ""); // two ulp
}

TEST_CASE("compare: nearest agrees with the hardware's float") {
  Random random;
  for (int i = 0; i < 10000; ++i) {
    const double exact = std::ldexp(
        static_cast<double>(
            random.integer(-(int64_t{1} << 52), int64_t{1} << 52)),
        static_cast<int>(random.integer(-200, 70)));
    REQUIRE(nearest(kFormat<float>, exact) == static_cast<float>(exact));
  }
}

TEST_CASE("refusal: what was thrown, or that nothing was") {
  CHECK(refusal([] { throw std::runtime_error("dtype"); }) == "dtype");
  CHECK(refusal([] {}) == "(nothing was thrown)");
  const auto check = [] { STD_TORCH_CHECK(false, "out must be, got ", 1); };
  CHECK(refusal(check) == "out must be, got 1"); // without function and line
}

TEST_CASE("library: a missing symbol says which") {
  CHECK(refusal([] {
          function<void()>("absent");
        }) == doctest::Contains("absent"));
}

TEST_CASE("slots: all bits are drawn, and a text is escaped") {
  const auto drawn = [](const char* type, bool some = true) {
    const StableIValue slot = slots::make(type, nullptr, some);
    const std::string text = slots::draw(type, slot);
    slots::release(type, slot);
    return text;
  };
  CHECK(slots::hex(10) == "0x000000000000000a");
  CHECK(drawn("bool") == "0x0000000000000001");
  CHECK(drawn("int?[]") == "[0xffffff0000000000, None]");
  CHECK(drawn("str[]") == "[\"longer than the small buffer\", \"\"]");
  StringHandle text = nullptr;
  torch_new_string_handle("a\0\"\n", 4, &text);
  CHECK(slots::draw("str", slots::bits(text)) == "\"a\\0\\\"\\n\"");
  torch_delete_string(text);
}

TEST_CASE("slots: for people, a number is written as in C++") {
  const auto written = [](const char* type, bool some = true) {
    const StableIValue slot = slots::make(type, nullptr, some);
    const std::string text = slots::written(type, slot);
    slots::release(type, slot);
    return text;
  };
  CHECK(written("bool") == "true");
  CHECK(slots::written("bool", 256) == "0x0000000000000100"); // is none
  CHECK(written("int?[]") == "[-1099511627776, None]");
  CHECK(written("float") == "0.1");
  CHECK(written("Device") == "0x00000000ffffffff");
  CHECK(written("str[]") == "[\"longer than the small buffer\", \"\"]");
}

TEST_CASE("aten: the oracle computes, and its errors arrive") {
  const auto input = tensor<float>({-1.0f, 0.0f, 2.0f}, {3});
  const auto got = values<float>(aten("aten::silu", "", input));
  CHECK(
      first_difference<float>(
          got,
          std::vector<double>{
              -1 / (1 + std::exp(1.0)), 0, 2 / (1 + std::exp(-2.0))},
          2) == "");
  const auto wrong = tensor<float>({1.0f, 2.0f}, {2});
  CHECK_THROWS(aten("aten::mul", "Tensor", input, wrong)); // sizes 3 and 2
}
