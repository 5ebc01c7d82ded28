// call_op.h: a call of an op by name, declared once, with its types.
//   inline constexpr Op<Tensor(Tensor, Tensor)> mul{"aten::mul", "Tensor"};
//   const Tensor y = call<mul>(x, w);
// Takes along: declared.h, stack.h, slot.h. common/schemas checks the types.
#pragma once

#include "declared.h"
#include "stack.h"

#include <dlfcn.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#pragma GCC visibility push(hidden)
namespace call_op {

//! [op]
template <class R>
struct Returns; // below
template <class Signature>
struct Op;
template <class R, class... Args>
struct Op<R(Args...)> {
  static_assert(
      Returns<R>::cross && (Type<Args>::crosses && ...),
      "a type of this Op does not cross. These do: bool, int64_t (not int), "
      "double (not float), std::string, Tensor, ScalarType, Layout, "
      "MemoryFormat, Device, and std::optional and std::vector of them. "
      "A Scalar does not: take an overload without it, or a C shim");
  const char* name;     // "aten::sum"
  const char* overload; // "dim_IntList", or "" for none

  // Fills a slot for each argument. The slots are the receiver's then; none is
  // if this throws.
  static void pack(StableIValue* slots, const Args&... args) {
    // TODO(05.1): give one slot to each argument, by its declared type.
    static_cast<void>(slots);
    STD_TORCH_CHECK(
        false, "TODO(05.1): ", sizeof...(args), " arguments are not packed");
  }
  static std::string text() {
    return in_parentheses<Args...>() + " -> " + Returns<R>::text();
  }
};
//! [op]

//! [returns]
// What an op returns: one value, several as a tuple, or nothing. take steals
// all of them from the slots.
template <class R>
struct Returns {
  static constexpr size_t count = 1;
  static constexpr bool cross = Type<R>::crosses;
  static R take(StableIValue* slots) {
    // TODO(05.2): steal one return.
    static_cast<void>(slots);
    STD_TORCH_CHECK(false, "TODO(05.2): a return is not taken");
  }
  static std::string text() {
    return Type<R>::text();
  }
};
template <class... T>
struct Returns<std::tuple<T...>> {
  static constexpr size_t count = sizeof...(T);
  static constexpr bool cross = (Type<T>::crosses && ...);
  static_assert(
      stack::same_backwards<std::tuple<T...>>(std::index_sequence_for<T...>()),
      "libtorch cannot return these types to a call by name (stack.h says "
      "why)");
  static std::tuple<T...> take(StableIValue* slots) {
    // TODO(05.2): steal several.
    static_cast<void>(slots);
    STD_TORCH_CHECK(false, "TODO(05.2): ", count, " returns are not taken");
  }
  static std::string text() {
    return in_parentheses<T...>();
  }
};
template <>
struct Returns<void> : Returns<std::tuple<>> {
  static void take(StableIValue*) {}
};
//! [returns]

//! [error_text]
// Why this thread's last call of libtorch failed.
inline std::string error_text() {
  // TODO(05.3): look the function up, and ask it if it is there.
  return "TODO(05.3)";
}
//! [error_text]

//! [call]
template <const auto& op>
inline const Declared kDeclared(op.name, op.overload, &op.text);

template <const auto& op, class Signature = std::decay_t<decltype(op)>>
struct Call;
template <const auto& op, class R, class... Args>
struct Call<op, Op<R(Args...)>> {
  // Arguments become the declared types: 0 an int64_t, {} an empty list. Throws
  // if the call fails; libtorch has then taken or lost the arguments.
  R operator()(const Args&... args) const {
    static_cast<void>(&kDeclared<op>); // what is called is listed
    // TODO(05.3): make the slots, pack, call, check the code, take.
    (static_cast<void>(args), ...);
    STD_TORCH_CHECK(false, "TODO(05.3): ", op.name, " is not called");
  }
};
template <const auto& op>
inline constexpr Call<op> call{};
//! [call]

} // namespace call_op
#pragma GCC visibility pop
