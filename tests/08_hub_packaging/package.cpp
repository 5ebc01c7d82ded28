// The ops of chapter 08's package, called through libtorch's dispatcher: so one
// build of it runs on every libtorch. The steps are tested from Python, by
// tests/08_hub_packaging/steps.py.
#include "testing/aten.h"
#include "testing/compare.h"
#include "testing/dispatcher.h"
#include "testing/random.h"
#include "testing/text.h"

#include <doctest/doctest.h>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

using namespace workbook;
using c10::BFloat16;
using c10::Half;
using doctest::Contains;
using torch::stable::Tensor;
namespace convert = torch::stable::detail;

// The library names this function of Python's, which is not here; only an
// import would call it.
extern "C" __attribute__((visibility("default"))) void* PyModule_Create2(
    void*, int) {
  return nullptr;
}

namespace {

// The ops' namespace is the id of the build, which names the loaded file.
const std::string& id() {
  static const std::string found = [] {
    std::ifstream file("/proc/self/maps");
    const std::string maps(std::istreambuf_iterator<char>(file), {});
    std::string name = matched(maps, "/(_activation_\\w+)\\.abi3\\.so\n");
    if (name.empty()) {
      throw std::runtime_error("no variant of activation is loaded");
    }
    return name;
  }();
  return found;
}

template <class... Numbers>
void call(
    const std::string& op,
    const Tensor& out,
    const Tensor& input,
    Numbers... n) {
  StableIValue stack[] = {
      convert::from(out), convert::from(input), convert::from(n)...};
  call_op(id() + "::" + op, "", stack);
}

double silu(double x) {
  return x / (1 + std::exp(-x));
}
double gelu(double x) {
  return x / 2 * std::erfc(-x / std::sqrt(2.0));
}
double gelu_tanh(double x) {
  return x /
      (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double quick(double x) {
  return x / (1 + std::exp(-1.702 * x));
}

// Of 16 bits the last rounding and hardly more; of float what its exp and erfc
// are allowed, and below 2^-100, where they end, an absolute error.
template <class T>
std::string difference(
    const std::vector<T>& got, const std::vector<double>& exact) {
  return sizeof(T) == 2 ? first_difference<T>(got, exact, 0.55)
                        : first_difference<T>(got, exact, 10, 0x1p-100);
}

template <class T>
struct Case {
  int64_t rows, d;
  std::vector<T> x; // [rows, 2d]
  Tensor input, out, alone;

  Case(int64_t rows_, int64_t d_, Random& random) : rows(rows_), d(d_) {
    for (int64_t i = 0; i < rows * 2 * d; ++i) {
      x.push_back(random.normal<T>(3));
    }
    input = tensor<T>(x, {rows, 2 * d});
    out = tensor<T>(std::vector<T>(static_cast<size_t>(rows * d)), {rows, d});
    alone = tensor<T>(
        std::vector<T>(static_cast<size_t>(2 * rows * d)), {rows, 2 * d});
  }
  double at(int64_t row, int64_t column) const {
    return static_cast<float>(x[static_cast<size_t>(row * 2 * d + column)]);
  }

  template <class F>
  void gated(const F& f) const {
    std::vector<double> exact;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < d; ++i) {
        exact.push_back(f(r, i));
      }
    }
    const std::vector<T> got = values<T>(out);
    CHECK(difference<T>(got, exact) == "");
  }
  template <class F>
  void halves(const std::string& op, const F& f) const {
    INFO(op, " of [", rows, ", ", 2 * d, "]");
    call(op, out, input);
    gated([&](auto r, auto i) { return f(at(r, i)) * at(r, d + i); });
  }
  template <class F>
  void elements(const std::string& op, const F& f) const {
    INFO(op, " of [", rows, ", ", 2 * d, "]");
    call(op, alone, input);
    std::vector<double> exact;
    for (const T& value : x) {
      exact.push_back(f(static_cast<double>(static_cast<float>(value))));
    }
    const std::vector<T> got = values<T>(alone);
    CHECK(difference<T>(got, exact) == "");
  }
};

} // namespace

TEST_CASE_TEMPLATE(
    "08 every op is right to its last digits", T, float, Half, BFloat16) {
  Random random;
  for (int i = 0; i < 12; ++i) {
    const Case<T> c(random.integer(0, 9), random.integer(0, 150), random);
    c.halves("silu_and_mul", silu);
    c.halves("gelu_and_mul", gelu);
    c.halves("gelu_tanh_and_mul", gelu_tanh);
    call("mul_and_silu", c.out, c.input);
    c.gated(
        [&](auto r, auto k) { return c.at(r, k) * silu(c.at(r, c.d + k)); });
    call("fatrelu_and_mul", c.out, c.input, 0.25);
    c.gated([&](auto r, auto k) {
      return (c.at(r, k) > 0.25 ? c.at(r, k) : 0) * c.at(r, c.d + k);
    });
    call("silu_and_mul_with_clamp", c.out, c.input, 1.5);
    c.gated([&](auto r, auto k) {
      return silu(std::fmin(c.at(r, k), 1.5)) *
          std::fmax(std::fmin(c.at(r, c.d + k), 1.5), -1.5);
    });
    call("swigluoai_and_mul", c.out, c.input, 1.702, 7.0);
    c.gated([&](auto r, auto k) {
      const double gate = std::fmin(c.at(r, 2 * k), 7);
      return quick(gate) *
          (std::fmax(std::fmin(c.at(r, 2 * k + 1), 7), -7) + 1);
    });
    c.elements("silu", silu);
    c.elements("gelu", gelu);
    c.elements("gelu_tanh", gelu_tanh);
    c.elements("gelu_new", gelu_tanh);
    c.elements("gelu_fast", gelu_tanh);
    c.elements("gelu_quick", quick);
  }
}

TEST_CASE("08 a result of its own, from input with gaps") {
  const Tensor wide = tensor<float>({1, 9, 2, 9, 3, 9, 4, 9}, {2, 4});
  Tensor columns = torch::stable::transpose(wide, 0, 1);
  const Tensor input = // [[1, 3], [9, 9]]
      torch::stable::narrow(columns, 0, 0, 2);
  StableIValue stack[] = {convert::from(input)};
  call_op(id() + "::silu_and_mul_functional", "", stack);
  const Tensor out = convert::to<Tensor>(stack[0]);
  const std::vector<double> exact{silu(1) * 3, silu(9) * 9};
  CHECK(out.is_contiguous());
  CHECK(difference<float>(values<float>(out), exact) == "");
}

TEST_CASE("08 an empty tensor, whose rows have no one distance") {
  const Tensor input = tensor<float>({}, {5, 0, 8});
  CHECK_NOTHROW(call("silu", tensor<float>({}, {5, 0, 8}), input));
  CHECK_NOTHROW(call("silu_and_mul", tensor<float>({}, {5, 0, 4}), input));
}

TEST_CASE("08 what is refused, and in which words") {
  const Tensor input = tensor<float>({1, 2, 3, 4}, {2, 2});
  const Tensor wrong = tensor<float>({1, 2}, {1, 2});
  CHECK_THROWS_WITH(
      call("silu_and_mul", wrong, input),
      Contains("out must be input's [2, 2] with 1 as the last size, got "
               "[1, 2]"));
  const Tensor odd = tensor<float>({1, 2, 3}, {3});
  CHECK_THROWS_WITH(
      call("silu_and_mul", odd, odd),
      Contains("input must end in an even size, got [3]"));
  const Tensor doubles = tensor<double>({1, 2}, {2});
  CHECK_THROWS_WITH(
      call("silu", doubles, doubles),
      Contains("input must be Float, Half or BFloat16, got Double"));
}
