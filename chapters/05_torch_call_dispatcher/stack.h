// stack.h: each slot of a stack has one owner, also while an exception passes.
//   auto [x, dim] = stack::take<Tensor, int64_t>(slots, num_args); // a kernel
//   stack::give(slots, num_returns, y);                            // its end
//   auto [y] = stack::call<Tensor>("aten::silu", "", x);           // a call
#pragma once

#include "slot.h"

#include <algorithm>
#include <tuple>
#include <type_traits>
#include <utility>

namespace stack {

inline void check_count(uint64_t types, uint64_t slots) {
  STD_TORCH_CHECK(types == slots, types, " types for ", slots, " slots");
}

//! [take]
// Steals slots[0 .. count), left to right, and returns what is in them. All of
// them are consumed, also if one cannot be converted and this throws.
template <class... T>
std::tuple<T...> take(StableIValue* slots, uint64_t count) {
  check_count(sizeof...(T), count);
  Owned arguments{slots, kRelease<T...>, 0, sizeof...(T)};
  return std::tuple<T...>{Slot<T>::take(arguments.next())...};
}
//! [take]

//! [give]
// Writes a new reference to each value to slots[0 .. count), left to right.
// They are the receiver's then: all of them, or none if this throws.
template <class... T>
void give(StableIValue* slots, uint64_t count, const T&... values) {
  check_count(sizeof...(T), count);
  Owned owned{slots, kRelease<T...>, 0, 0};
  ((slots[owned.last] = Slot<T>::give(values), ++owned.last), ...);
  owned.first = owned.last; // the receiver's
}
//! [give]

// libtorch (2.10 to 2.15) converts the returns of a call by the types of the
// last to the first: (Tensor, int) fails, (Tensor?, Tensor) comes out wrong.
template <class Returns, size_t... I>
constexpr bool same_backwards(std::index_sequence<I...>) {
  return (
      std::is_same_v<
          std::tuple_element_t<I, Returns>,
          std::tuple_element_t<sizeof...(I) - 1 - I, Returns>> &&
      ...);
}

inline void check_code(AOTITorchError code, const char* op, const char* name) {
  STD_TORCH_CHECK(code == TORCH_SUCCESS, op, ".", name, " failed");
}

//! [call]
// Calls an op by name, with all arguments of its schema, and returns all of its
// returns. Throws if it fails; libtorch has then taken or lost the arguments.
template <class... R, class... Args>
std::tuple<R...> call(
    const char* op, const char* overload, const Args&... args) {
  static_assert(
      same_backwards<std::tuple<R...>>(std::index_sequence_for<R...>()),
      "libtorch cannot return these types to a call by name");
  StableIValue slots[std::max({sizeof...(Args), sizeof...(R), size_t{1}})] = {};
  give(slots, sizeof...(Args), args...);
  // From here the arguments are libtorch's, whatever the code says.
  const AOTITorchError code =
      torch_call_dispatcher(op, overload, slots, TORCH_ABI_VERSION);
  check_code(code, op, overload);
  return take<R...>(slots, sizeof...(R));
}
//! [call]

} // namespace stack
