// Calls of the ops of chapter 04 through libtorch's dispatcher. Each call
// checks that the op leaves its caller's tensors alone.
#pragma once

#include "interposed.h"
#include "testing/dispatcher.h"
#include "testing/unchanged.h"

#include <doctest/doctest.h>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <exception>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace workbook::chapter_04 {

using torch::stable::Tensor;

using MaybeTensor = std::optional<Tensor>;
using MaybeDouble = std::optional<double>;

// Calls an op of the chapter. Checks that the op changes nothing of its
// caller's tensors but the elements of `out`, and that its results have memory
// of their own.
template <class... Results, class... Arguments>
auto call_watched(
    const std::string& op,
    const std::string& overload,
    const Arguments&... arguments) {
  std::deque<Unchanged> given; // a deque does not move its elements
  const auto add = [&](const auto& argument) {
    if constexpr (std::is_convertible_v<decltype(argument), MaybeTensor>) {
      if (const MaybeTensor tensor = argument) {
        given.emplace_back(*tensor, overload == "out" && given.empty());
      }
    }
  };
  (add(arguments), ...);
  const auto check_given = [&] {
    for (size_t i = 0; i < given.size(); ++i) {
      if (const std::string change = given[i].change(); !change.empty()) {
        FAIL_CHECK("the call changes argument ", i + 1, ": ", change);
      }
    }
  };
  std::tuple<Results...> results = [&] {
    try {
      const Watching while_it_runs;
      return call<Results...>(op, overload, arguments...);
    } catch (const std::exception&) {
      check_given();
      throw;
    }
  }();
  check_given();
  std::vector<Tensor> others;
  for (const Unchanged& argument : given) {
    others.push_back(argument.tensor());
  }
  const auto check_result = [&](const Tensor& result) {
    const size_t number = others.size() - given.size() + 1;
    INFO("result ", number, " of ", sizeof...(Results));
    if (const auto text = not_its_own(result, others); !text.empty()) {
      FAIL_CHECK(text);
    }
    others.push_back(result);
  };
  std::apply([&](const auto&... all) { (check_result(all), ...); }, results);
  return results;
}

inline Tensor silu_and_mul(const Tensor& input) {
  return std::get<0>(call_watched<Tensor>("wb04::silu_and_mul", "", input));
}
inline void silu_and_mul_out(const Tensor& out, const Tensor& input) {
  call_watched("wb04::silu_and_mul", "out", out, input);
}
inline std::tuple<Tensor, Tensor> swiglu(
    const Tensor& input,
    const MaybeTensor& bias = std::nullopt,
    double alpha = 1,
    const MaybeDouble& limit = std::nullopt) {
  return call_watched<Tensor, Tensor>(
      "wb04::swiglu", "", input, bias, alpha, limit);
}
inline Tensor silu_and_mul_backward(const Tensor& grad, const Tensor& input) {
  return std::get<0>(
      call_watched<Tensor>("wb04::silu_and_mul_backward", "", grad, input));
}

inline std::string dtype_of(const Tensor& source) {
  return toString(source.scalar_type());
}

} // namespace workbook::chapter_04
