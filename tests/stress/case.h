// One call of an op with random arguments, and what it must give: computed in
// long double, or refused with a message, or on Meta nothing but a shape.
#pragma once

#include "random.h"

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
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace stress {

using c10::ScalarType;
using torch::stable::Tensor;
using Sizes = std::vector<int64_t>;
using Exact = long double;
namespace detail = torch::stable::detail;

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What an element must be: no farther than the slack and the tolerance in ulp,
// or NaN where the dtype has lost a factor that is multiplied by infinity.
struct Value {
  Exact exact = 0;
  Exact slack = 0;
  bool or_nan = false;
};

struct Want {
  Sizes sizes;
  ScalarType dtype = ScalarType::Float;
  std::vector<Value> values; // row by row; none on Meta
  double tolerance = 0;
};

struct Case {
  std::string text;
  std::function<std::vector<Tensor>()> call; // again and again, if need be
  std::vector<Want> want;
  std::string refusal; // if not empty: what it throws must contain this
  bool meta = false;
};

struct Op {
  std::string name;
  std::function<Case(Random&)> make;
  bool libtorch_leaks = false; // strings, up to 2.13: see conversions.h of 02
};

template <class F>
void as_type(ScalarType dtype, const F& f) {
  switch (dtype) {
    case ScalarType::Double:
      return f(double());
    case ScalarType::Half:
      return f(c10::Half());
    case ScalarType::BFloat16:
      return f(c10::BFloat16());
    case ScalarType::Long:
      return f(int64_t());
    default:
      return f(float());
  }
}

inline int64_t count(const Sizes& sizes) {
  int64_t n = 1;
  for (const int64_t size : sizes) {
    n *= size;
  }
  return n;
}

inline std::string to_text(const Sizes& sizes) {
  std::string text = "[";
  for (const int64_t size : sizes) {
    text += (text.size() == 1 ? "" : ", ") + std::to_string(size);
  }
  return text + "]";
}

// 1 to 4 dimensions, now and then with no element, rarely enough for threads.
inline Sizes random_sizes(Random& random) {
  if (random.once_in(1000)) {
    return {random.integer(10, 30), random.integer(1000, 3000)};
  }
  Sizes sizes;
  for (int64_t i = random.integer(1, 4); i > 1; --i) {
    sizes.push_back(random.once_in(20) ? 0 : random.integer(1, 4));
  }
  sizes.push_back(random.once_in(40) ? 0 : random.integer(1, 70));
  return sizes;
}

// A tensor with these sizes in a larger one: an offset, strides with gaps, and
// now and then a dimension whose elements are all the same.
inline Tensor inside_another(
    const Sizes& sizes, ScalarType dtype, Random& random, bool out = false) {
  Sizes strides(sizes.size());
  int64_t next = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = next;
    if (!out && i + 1 < sizes.size() && random.once_in(24)) {
      strides[i] = 0;
      continue;
    }
    next = std::max<int64_t>(1, next * sizes[i]) + random.integer(0, 3);
    if (i == sizes.size() - 1 && random.once_in(8)) {
      strides[i] = 2; // a last dimension whose elements are not adjacent
      next *= 2;
    }
  }
  const int64_t offset = random.integer(0, 9);
  const Tensor whole = torch::stable::empty({next + offset}, dtype);
  StableIValue stack[] = {
      detail::from(whole),
      detail::from(sizes),
      detail::from(strides),
      detail::from(std::optional<int64_t>(offset))};
  workbook::call_op("aten::as_strided", "", stack);
  return detail::to<Tensor>(stack[0]);
}

inline Tensor on_meta(const Tensor& tensor) {
  StableIValue stack[] = {
      detail::from(tensor),
      detail::from(std::nullopt), // dtype, layout
      detail::from(std::nullopt),
      detail::from(std::optional<torch::stable::Device>(
          torch::stable::Device(c10::DeviceType::Meta))),
      detail::from(std::nullopt), // pin_memory, memory_format
      detail::from(std::nullopt)};
  workbook::call_op("aten::empty_like", "", stack);
  return detail::to<Tensor>(stack[0]);
}

// Calls f(element) for the elements of a tensor, row by row.
template <class T, class F>
void for_each(const Tensor& tensor, const F& f) {
  const Sizes sizes = tensor.sizes().vec();
  const Sizes strides = tensor.strides().vec();
  T* const data = static_cast<T*>(tensor.data_ptr());
  Sizes at(sizes.size());
  int64_t offset = 0;
  for (int64_t left = count(sizes); left > 0; --left) {
    f(data[offset]);
    for (size_t i = sizes.size(); i-- > 0;) {
      offset += strides[i];
      if (++at[i] < sizes[i]) {
        break;
      }
      offset -= strides[i] * sizes[i];
      at[i] = 0;
    }
  }
}

inline std::vector<Exact> read(const Tensor& tensor) {
  std::vector<Exact> values;
  as_type(tensor.scalar_type(), [&](auto type) {
    using T = decltype(type);
    for_each<T>(tensor, [&](const T& x) {
      if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, double>) {
        values.push_back(x);
      } else {
        values.push_back(static_cast<float>(x));
      }
    });
  });
  return values;
}

// Random values, with odd ones among them unless `tame`.
inline Tensor filled(
    const Sizes& sizes, ScalarType dtype, Random& random, bool tame = false) {
  const Tensor tensor = inside_another(sizes, dtype, random);
  as_type(dtype, [&](auto type) {
    using T = decltype(type);
    for_each<T>(tensor, [&](T& x) {
      const double value = tame ? random.normal() / 4 : random.value();
      if constexpr (std::is_same_v<T, double>) {
        x = value;
      } else {
        x = static_cast<T>(static_cast<float>(value));
      }
    });
  });
  return tensor;
}

// The largest error in ulp that was allowed as such, of float and wider, and of
// 16 bits: of what this thread has compared.
inline thread_local double worst[2];

template <class T>
void compare_as(const Want& want, const Tensor& tensor) {
  size_t i = 0;
  const auto got = read(tensor);
  for (const Value& value : want.values) {
    const auto x = static_cast<double>(got[i]);
    const auto exact = static_cast<double>(value.exact);
    double error = std::abs(x - exact);
    double near = 0; // the slack, and the last rounding on top of it
    if constexpr (!std::is_same_v<T, int64_t>) {
      error = workbook::ulp_error(workbook::kFormat<T>, x, exact);
      if (std::isfinite(exact)) {
        near = static_cast<double>(value.slack) +
            want.tolerance * workbook::ulp(workbook::kFormat<T>, exact);
      }
    }
    if (error <= want.tolerance) {
      double& most = worst[sizeof(T) == 2];
      most = std::max(most, error);
      ++i;
      continue;
    }
    if (!(std::abs(x - exact) <= near || (value.or_nan && std::isnan(x)))) {
      throw Failure(
          "element " + std::to_string(i) + " of " + to_text(want.sizes) +
          ": got " + std::to_string(x) + ", expected " + std::to_string(exact) +
          ", " + std::to_string(error) + " ulp off");
    }
    ++i;
  }
}

// Throws Failure unless `tensor` is what is wanted.
inline void compare(const Want& want, const Tensor& tensor) {
  if (tensor.sizes().vec() != want.sizes ||
      tensor.scalar_type() != want.dtype) {
    throw Failure(
        "the result is " + to_text(tensor.sizes().vec()) + ", expected " +
        to_text(want.sizes) + ", or has another dtype");
  }
  if (!want.values.empty()) {
    as_type(want.dtype, [&](auto type) {
      compare_as<decltype(type)>(want, tensor);
    });
  }
}

// Makes the call and checks all of it.
inline void check(const Op& op, const Case& one) {
  std::string thrown;
  try {
    const std::vector<Tensor> got = one.call();
    if (one.refusal.empty()) {
      for (size_t i = 0; i < one.want.size(); ++i) {
        compare(one.want[i], got.at(i));
      }
      return;
    }
    thrown = "nothing was thrown";
  } catch (const std::exception& error) {
    thrown = error.what();
    if (!one.refusal.empty() && thrown.find(one.refusal) != std::string::npos) {
      return;
    }
  }
  throw Failure(
      op.name + " " + one.text + ": " + thrown +
      (one.refusal.empty() ? "" : "; expected a refusal: " + one.refusal));
}

} // namespace stress
