// TORCH_BOX converts each slot to the type that the kernel's signature has,
// whatever the schema says. A type that no schema stands for is found here, by
// the compiler.
#pragma once

#include <torch/csrc/stable/device.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/Layout.h>
#include <torch/headeronly/core/MemoryFormat.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/HeaderOnlyArrayRef.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

namespace wb {
namespace detail {

template <typename T, typename... Types>
constexpr bool is_one_of = (std::is_same_v<T, Types> || ...);

//! [check_type]
template <typename T>
struct CheckType {
  static_assert(
      !std::is_same_v<T, float> && !std::is_same_v<T, long double>,
      "the schema type float is double in C++: use double");
  static_assert(
      !std::is_integral_v<T> || is_one_of<T, bool, int64_t>,
      "the schema type int is int64_t in C++: use int64_t");
  static_assert(
      !std::is_pointer_v<T>,
      "the schema type str is std::string in C++: use std::string");
  static_assert(
      std::is_arithmetic_v<T> || std::is_pointer_v<T> ||
          is_one_of<
              T,
              torch::stable::Tensor,
              torch::stable::Device,
              torch::headeronly::ScalarType,
              torch::headeronly::Layout,
              torch::headeronly::MemoryFormat,
              std::string,
              std::string_view>,
      "no schema type is this in C++; a list is std::vector<T>, and what may "
      "be None is std::optional<T>");
};
template <typename T>
struct CheckType<std::optional<T>> : CheckType<T> {};
template <typename T>
struct CheckType<std::vector<T>> : CheckType<T> {};
template <typename T>
struct CheckType<torch::headeronly::HeaderOnlyArrayRef<T>> : CheckType<T> {};
//! [check_type]

template <typename T>
struct CheckReturn : CheckType<std::remove_reference_t<T>> {
  static_assert(
      !std::is_reference_v<T> && !std::is_same_v<T, std::string_view>,
      "a kernel returns what it gives away: by value");
};
template <>
struct CheckReturn<void> {};
template <typename... T>
struct CheckReturn<std::tuple<T...>> : std::tuple<CheckReturn<T>...> {};

template <typename Result, typename... Parameters>
constexpr void check_signature(Result (*)(Parameters...)) {
  (void)sizeof(CheckReturn<Result>);
  ((void)sizeof(
       CheckType<std::remove_cv_t<std::remove_reference_t<Parameters>>>),
   ...);
}

} // namespace detail
} // namespace wb

// TORCH_BOX(function) for a kernel of types that schemas have. That they are
// those of this op's schema, in its order, is left to you.
#define CHECKED_BOX(function) \
  (::wb::detail::check_signature(function), TORCH_BOX(function))
