// What chapter 08's kernels for the GPU compute, on the host: the functors of
// all ops, and rows that are cut in pieces, for every layout of a row.
#include "../07_cuda_activation_kernel/on_host.h"

#include "activations.h"
#include "plan.h"
#include "testing/compare.h"
#include "testing/random.h"

#include <doctest/doctest.h>

#include <torch/headeronly/core/ScalarType.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

using namespace workbook;
using c10::BFloat16;
using c10::Half;

namespace {

double silu(double x) {
  return x / (1 + std::exp(-x));
}
double gelu(double x) {
  return x / 2 * std::erfc(-x / std::sqrt(2.0));
}
double gelu_tanh(double x) {
  return x / (1 + std::exp(-std::sqrt(8 / M_PI) * (x + 0.044715 * x * x * x)));
}
double quick(double x) {
  return x / (1 + std::exp(-1.702 * x));
}
double between(double x, double limit) {
  return std::min(std::max(x, -limit), limit);
}

// All finite numbers of 16 bits, as float.
template <class T>
std::vector<float> all_finite() {
  std::vector<float> found;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto x =
        static_cast<float>(T(static_cast<uint16_t>(bits), T::from_bits()));
    if (std::isfinite(x)) {
      found.push_back(x);
    }
  }
  return found;
}

template <class T>
std::vector<float> gates(Random& random) {
  if constexpr (sizeof(T) == 2) {
    return all_finite<T>();
  } else {
    std::vector<float> found = all_finite<BFloat16>();
    const std::vector<float> half = all_finite<Half>();
    found.insert(found.end(), half.begin(), half.end());
    for (int i = 0; i <= 100000; ++i) {
      found.push_back(-120 + 220e-5f * static_cast<float>(i));
      found.push_back(random.normal<float>(4));
    }
    return found;
  }
}

// "" if f is right to `bound` ulp: of 16 bits to 0.51, whatever the bound. See
// tests/07_cuda_activation_kernel/steps.cpp.
template <class T, class F, class Exact>
std::string wrong(const F& f, double bound, const Exact& exact) {
  Random random;
  std::vector<T> got;
  std::vector<double> wanted;
  for (const float gate : gates<T>(random)) {
    for (const float up : {1.0f, random.normal<float>(1)}) {
      const auto rounded = static_cast<float>(T(up));
      got.push_back(T(f(wb::cuda::math_for<T>(), gate, rounded)));
      wanted.push_back(exact(double{gate}, double{rounded}));
    }
  }
  return sizeof(T) == 2 ? first_difference<T>(got, wanted, 0.51)
                        : first_difference<T>(got, wanted, bound, 0x1p-120);
}

} // namespace

TEST_CASE_TEMPLATE("08 functors keep their bounds", T, float, Half, BFloat16) {
  using namespace wb::cuda;
  CHECK(wrong<T>(SiluAndMul(), 8, [](double x, double y) {
          return silu(x) * y;
        }) == "");
  CHECK(wrong<T>(GeluAndMul(), 10, [](double x, double y) {
          return gelu(x) * y;
        }) == "");
  CHECK(wrong<T>(GeluTanhAndMul(), 8, [](double x, double y) {
          return gelu_tanh(x) * y;
        }) == "");
  CHECK(wrong<T>(GeluQuickAndMul(), 8, [](double x, double y) {
          return quick(x) * y;
        }) == "");
  CHECK(wrong<T>(FatreluAndMul{0.25f}, 0.51, [](double x, double y) {
          return (x > 0.25 ? x : 0) * y;
        }) == "");
  CHECK(wrong<T>(SiluAndMulWithClamp{1.5f}, 8, [](double x, double y) {
          return silu(std::min(x, 1.5)) * between(y, 1.5);
        }) == "");
  const SwigluoaiAndMul swigluoai{two_floats(1.702), 7};
  CHECK(wrong<T>(swigluoai, 8, [](double x, double y) {
          return quick(std::min(x, 7.0)) * (between(y, 7) + 1);
        }) == "");
}

// Every layout reads the operands that belong to what is written, with vectors
// and without.
TEST_CASE_TEMPLATE(
    "08 layouts of a row",
    T,
    std::integral_constant<int, 1>,
    std::integral_constant<int, 2>,
    std::integral_constant<int, 4>) {
  constexpr int N = T::value;
  Random random;
  const auto check = [&](auto kernel, int64_t columns, auto up_of, auto at) {
    for (int i = 0; i < 20; ++i) {
      const int64_t rows = random.integer(1, 4);
      const int64_t d = N * random.integer(1, 12);
      const int64_t stride = columns * d + 4;
      std::vector<wb::cuda::Vector<float, 4>> memory(
          static_cast<size_t>(rows * stride + 3) / 4);
      float* const input = memory.data()->at;
      for (int64_t k = 0; k < rows * stride; ++k) {
        input[k] = random.normal<float>(1);
      }
      std::vector<wb::cuda::Vector<float, 4>> out(
          static_cast<size_t>(rows * d + 3) / 4);
      const auto vectors = static_cast<uint32_t>(rows * d / N);
      const wb::cuda::Params<float> params{
          input,
          input + up_of(d),
          out.data()->at,
          stride,
          vectors,
          wb::cuda::FastDivmod(static_cast<uint32_t>(d / N))};
      on_host::run(
          0, (vectors + 31) / 32, 32, kernel, params, wb::cuda::SiluAndMul());
      std::vector<float> wanted;
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < d; ++c) {
          const auto [gate, up] = at(input + r * stride, c, d);
          wanted.push_back(
              wb::cuda::SiluAndMul()(wb::cuda::Precise(), gate, up));
        }
      }
      const float* got = out.data()->at;
      CHECK(std::vector<float>(got, got + rows * d) == wanted);
    }
  };
  using Pair = std::pair<float, float>;
  const auto half = [](int64_t d) { return d; };
  const auto none = [](int64_t) { return 0; };
  check(
      &wb::cuda::vectorized<float, N, wb::cuda::Split, wb::cuda::SiluAndMul>,
      2,
      half,
      [](const float* row, int64_t c, int64_t d) {
        return Pair(row[c], row[d + c]);
      });
  check(
      &wb::cuda::vectorized<float, N, wb::cuda::Unary, wb::cuda::SiluAndMul>,
      1,
      none,
      [](const float* row, int64_t c, int64_t) {
        return Pair(row[c], row[c]);
      });
  check(
      &wb::cuda::
          vectorized<float, N, wb::cuda::Interleaved, wb::cuda::SiluAndMul>,
      2,
      none,
      [](const float* row, int64_t c, int64_t) {
        return Pair(row[2 * c], row[2 * c + 1]);
      });
}
