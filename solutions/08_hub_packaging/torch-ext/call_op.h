// call_op.h: a call of an op by name, declared once, with its types.
//   inline constexpr OpDecl<Tensor(Tensor, Tensor)> mul{"aten::mul", "Tensor"};
//   const Tensor y = call<mul>(x, w);
// Takes along: declared.h, stack.h, error_text.h, slot.h, codes.h. `./workbook
// schemas` compares the types with those of libtorch.
#pragma once

#include "declared.h"
#include "stack.h"

#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#pragma GCC visibility push(hidden)
namespace wb {

//! [returns]
// What an op returns: one value, several as a tuple, or nothing.
template <typename R>
struct Returns {
  static constexpr bool supported = SchemaType<R>::supported;
  static std::string text() {
    return SchemaType<R>::text();
  }
  template <typename... Args>
  static R call(const char* op, const char* overload, const Args&... args) {
    return std::get<0>(call_by_name<R>(op, overload, args...));
  }
};
template <typename... T>
struct Returns<std::tuple<T...>> {
  static constexpr bool supported = (SchemaType<T>::supported && ...);
  static_assert(
      same_backwards<std::tuple<T...>>(std::index_sequence_for<T...>()),
      "libtorch cannot return these types to a call by name: stack.h says why");
  static std::string text() {
    return in_parentheses<T...>();
  }
  template <typename... Args>
  static std::tuple<T...> call(
      const char* op, const char* overload, const Args&... args) {
    return call_by_name<T...>(op, overload, args...);
  }
};
template <>
struct Returns<void> : Returns<std::tuple<>> {};
//! [returns]

//! [op]
template <typename Signature>
struct OpDecl;
template <typename R, typename... Args>
struct OpDecl<R(Args...)> {
  static_assert(
      Returns<R>::supported && (SchemaType<Args>::supported && ...),
      "a type of this op is not supported. These are: bool, int64_t (not int), "
      "double (not float), std::string, Tensor, ScalarType, Layout, "
      "MemoryFormat, Device, and std::optional and std::vector of them. "
      "A Scalar is not: take an overload without it, or a C shim");
  const char* name;     // "aten::sum"
  const char* overload; // "dim_IntList", or "" for none

  static std::string text() { // "(Tensor, int[]?, bool) -> Tensor"
    return in_parentheses<Args...>() + " -> " + Returns<R>::text();
  }
};
//! [op]

//! [call]
template <const auto& op, typename Decl = std::decay_t<decltype(op)>>
struct Call;
template <const auto& op, typename R, typename... Args>
struct Call<op, OpDecl<R(Args...)>> {
  // Its constructor runs at load, if anything in the library mentions it. (As a
  // member it is hidden with its class: g++ would share the guard of a variable
  // template between libraries.)
  static inline const Declared listed{op.name, op.overload, &op.text};

  // Arguments become the declared types: 0 an int64_t, {} an empty list. Throws
  // if the call fails; libtorch has then taken or lost the arguments.
  R operator()(const Args&... args) const {
    static_cast<void>(&listed); // what is called is listed
    return static_cast<R>(Returns<R>::call(op.name, op.overload, args...));
  }
};
template <const auto& op>
inline constexpr Call<op> call{};
//! [call]

} // namespace wb
#pragma GCC visibility pop
