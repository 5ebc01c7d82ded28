// The ops of the solutions, each with what it computes in double precision, and
// a call of one with random shape, strides, offset, dtype and values.
#pragma once

#include "testing/compare.h"
#include "testing/dispatcher.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace fire {

using torch::stable::Tensor;

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int64_t integer(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine_);
  }
  // Mostly of order one; now and then huge, tiny, infinite or NaN.
  float value() {
    static constexpr float kOdd[] = {
        0,
        -0.f,
        INFINITY,
        -INFINITY,
        NAN,
        1e30f,
        -1e30f,
        1e-30f,
        88,
        -88,
        -104};
    if (integer(0, 199) == 0) {
      return kOdd[integer(0, std::size(kOdd) - 1)];
    }
    return std::normal_distribution<float>(0, 4)(engine_);
  }

 private:
  std::mt19937_64 engine_;
};

struct Op {
  std::string name;
  std::string overload;
  bool halves; // input[..., 2d] -> out[..., d]; else element by element
  bool out;    // (Tensor! out, Tensor input) -> (), else (Tensor) -> Tensor
  std::function<double(double, double)> exact;
};

inline double silu(double x) {
  return x == -INFINITY ? NAN : x / (1 + std::exp(-x));
}
inline double gelu(double x) {
  return 0.5 * x * (1 + std::erf(x * M_SQRT1_2));
}
inline double gelu_tanh(double x) {
  return 0.5 * x *
      (1 + std::tanh(M_SQRT2 * M_2_SQRTPI * 0.5 * (x + 0.044715 * x * x * x)));
}

// The ops of a solution, by its namespace. Throws Failure if there are none.
inline std::vector<Op> ops_of(const std::string& ns) {
  const auto silu_and_mul = [](double x, double y) { return silu(x) * y; };
  if (ns == "wb04") {
    return {
        {"wb04::silu_and_mul", "out", true, true, silu_and_mul},
        {"wb04::silu_and_mul", "", true, false, silu_and_mul}};
  }
  if (ns == "wb05") {
    return {{"wb05::silu_and_mul", "", true, false, silu_and_mul}};
  }
  const std::vector<Op> gated = {
      {ns + "::silu_and_mul", "", true, true, silu_and_mul},
      {ns + "::mul_and_silu",
       "",
       true,
       true,
       [](double x, double y) { return x * silu(y); }},
      {ns + "::gelu_and_mul",
       "",
       true,
       true,
       [](double x, double y) { return gelu(x) * y; }},
      {ns + "::gelu_tanh_and_mul", "", true, true, [](double x, double y) {
         return gelu_tanh(x) * y;
       }}};
  if (ns == "wb07") {
    return gated;
  }
  throw Failure("no ops are known of " + ns);
}

// A tensor with these sizes in a larger one: an offset, and strides with gaps.
inline Tensor inside_another(
    const std::vector<int64_t>& sizes, c10::ScalarType dtype, Random& random) {
  std::vector<int64_t> strides(sizes.size());
  int64_t next = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = next;
    next = std::max<int64_t>(1, next * sizes[i]) + random.integer(0, 3);
    if (i == sizes.size() - 1 && random.integer(0, 7) == 0) {
      strides[i] = 2; // a last dimension whose elements are not adjacent
      next *= 2;
    }
  }
  const int64_t offset = random.integer(0, 9);
  const Tensor whole = torch::stable::empty({next + offset}, dtype);
  StableIValue stack[] = {
      torch::stable::detail::from(whole),
      torch::stable::detail::from(sizes),
      torch::stable::detail::from(strides),
      torch::stable::detail::from(std::optional<int64_t>(offset))};
  workbook::call_op("aten::as_strided", "", stack);
  return torch::stable::detail::to<Tensor>(stack[0]);
}

// The element at a flat, row-major index.
template <class T>
T& at(const Tensor& tensor, const std::vector<int64_t>& sizes, int64_t flat) {
  int64_t offset = 0;
  for (int64_t i = tensor.dim() - 1; i >= 0; --i) {
    const int64_t size = sizes[static_cast<size_t>(i)];
    offset += flat % size * tensor.stride(i);
    flat /= size;
  }
  return static_cast<T*>(tensor.data_ptr())[offset];
}

// A call that can be made again and again, with the same random input.
class Prepared {
 public:
  Prepared(const Op& op, Random& random) : op_(op) {
    const int64_t dims = random.integer(1, 4);
    for (int64_t i = 0; i < dims; ++i) {
      sizes_.push_back(random.integer(0, 20) == 0 ? 0 : random.integer(1, 5));
    }
    sizes_.back() = random.integer(0, 40) == 0 ? 0 : random.integer(1, 70);
    constexpr c10::ScalarType kTypes[] = {
        c10::ScalarType::Float,
        c10::ScalarType::Half,
        c10::ScalarType::BFloat16};
    dtype_ = kTypes[random.integer(0, 2)];
    std::vector<int64_t> wide = sizes_;
    wide.back() *= op.halves ? 2 : 1;
    input_ = inside_another(wide, dtype_, random);
    fill(wide, random);
    if (op.out) {
      out_ = torch::stable::empty(sizes_, dtype_);
    }
  }

  Tensor operator()() const {
    StableIValue stack[2] = {};
    size_t next = 0;
    if (op_.out) {
      stack[next++] = torch::stable::detail::from(out_);
    }
    stack[next] = torch::stable::detail::from(input_);
    workbook::call_op(op_.name, op_.overload, stack);
    return op_.out ? out_ : torch::stable::detail::to<Tensor>(stack[0]);
  }

  // Throws Failure if an element of `out` is off by more than an ulp of a
  // 16-bit dtype, or more than eight of float (of its own arithmetic).
  void compare(const Tensor& out) const;

 private:
  void fill(const std::vector<int64_t>& wide, Random& random);
  template <class T>
  void compare_as(const Tensor& out, double tolerance) const;

  const Op& op_;
  std::vector<int64_t> sizes_; // of the result
  c10::ScalarType dtype_;
  Tensor input_, out_;
};

template <class F>
void as_type(c10::ScalarType dtype, const F& f) {
  switch (dtype) {
    case c10::ScalarType::Float:
      return f(float());
    case c10::ScalarType::Half:
      return f(c10::Half());
    default:
      return f(c10::BFloat16());
  }
}

inline int64_t count(const std::vector<int64_t>& sizes) {
  int64_t n = 1;
  for (const int64_t size : sizes) {
    n *= size;
  }
  return n;
}

inline void Prepared::fill(const std::vector<int64_t>& wide, Random& random) {
  as_type(dtype_, [&](auto type) {
    for (int64_t i = 0; i < count(wide); ++i) {
      at<decltype(type)>(input_, wide, i) = random.value();
    }
  });
}

template <class T>
void Prepared::compare_as(const Tensor& out, double tolerance) const {
  std::vector<int64_t> wide = sizes_;
  const int64_t d = wide.back();
  wide.back() *= op_.halves ? 2 : 1;
  for (int64_t i = 0; i < count(sizes_); ++i) {
    const int64_t row = i / d, column = i % d;
    const double x = at<T>(input_, wide, row * wide.back() + column);
    const double y =
        op_.halves ? at<T>(input_, wide, row * 2 * d + d + column) : T(0);
    const double got = at<T>(out, sizes_, i), exact = op_.exact(x, y);
    const double error = workbook::ulp_error(workbook::kFormat<T>, got, exact);
    // In float silu(x) is zero below 3e-37, whatever it is multiplied by then.
    const double lost = 3e-37 * std::max({1.0, std::abs(x), std::abs(y)});
    const double other = std::isinf(y) ? op_.exact(x, 1)
        : std::isinf(x)                ? op_.exact(1, y)
                                       : 1;
    const bool vanished = std::isnan(got) && std::abs(other) < 3e-37; // 0 * inf
    if (!(error <= tolerance || std::abs(got - exact) <= lost || vanished)) {
      throw Failure(
          op_.name + ": element " + std::to_string(i) + " of " +
          std::to_string(count(sizes_)) + ": x " + std::to_string(x) + ", y " +
          std::to_string(y) + ": got " + std::to_string(got) + ", expected " +
          std::to_string(exact) + ", " + std::to_string(error) + " ulp off");
    }
  }
}

inline void Prepared::compare(const Tensor& out) const {
  as_type(dtype_, [&](auto type) {
    using T = decltype(type);
    compare_as<T>(out, std::is_same_v<T, float> ? 8 : 1);
  });
}

inline void try_once(const Op& op, Random& random) {
  const Prepared call(op, random);
  call.compare(call());
}

} // namespace fire
