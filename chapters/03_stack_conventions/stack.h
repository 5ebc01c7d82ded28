// stack.h: each slot of a stack has one owner, also while an exception passes.
//   auto [x, dim] = to_values<Tensor, int64_t>(slots, num_args); // a kernel
//   from_values(slots, num_returns, y);                          // its end
//   auto [y] = call_by_name<Tensor>("aten::silu", "", x);        // a call
#pragma once

#include "error_text.h"
#include "slot.h"

#include <torch/csrc/stable/library.h>

#include <algorithm>
#include <tuple>
#include <type_traits>
#include <utility>

#pragma GCC visibility push(hidden)
namespace wb {

inline void check_count(uint64_t types, uint64_t slots) {
  STD_TORCH_CHECK(types == slots, types, " types for ", slots, " slots");
}

//! [owned]
// The slots first .. last - 1 of a stack are ours; slot i holds the i-th T.
// What is still ours at the end is released, so next() is called for each slot
// that is converted or handed over.
template <typename... T>
struct OwnedSlots {
  // By slot; C++ has no empty arrays, so a null ends it.
  static constexpr void (*kRelease[])(StableIValue) noexcept = {
      &Slot<T>::release..., nullptr};

  StableIValue* slots;
  size_t first;
  size_t last;

  ~OwnedSlots() {} // TODO(03.5): release what is still ours.
  StableIValue next() noexcept {
    return slots[first++];
  }
};
//! [owned]

//! [to_values]
// Steals slots[0 .. count), left to right, and returns what is in them. All of
// them are emptied, also if one cannot be converted and this throws. If `count`
// is wrong, none is: nobody knows their types then, and they leak.
template <typename... T>
std::tuple<T...> to_values(StableIValue* slots, uint64_t count) {
  check_count(sizeof...(T), count);
  // TODO(03.5): own all of them first, then convert one after the other.
  STD_TORCH_CHECK(false, "TODO(03.5): ", slots);
}
//! [to_values]

//! [from_values]
// Writes a new reference to each value to slots[0 .. count), left to right.
// They are the receiver's then: all of them, or none if this throws.
template <typename... T>
void from_values(StableIValue* slots, uint64_t count, const T&... values) {
  check_count(sizeof...(T), count);
  // TODO(03.6): own what is written until all of it is.
  static_cast<void>(slots), (static_cast<void>(values), ...);
  STD_TORCH_CHECK(false, "TODO(03.6): ", sizeof...(T), " values");
}
//! [from_values]

// libtorch (2.10 to 2.15) converts the returns of a call by the types of the
// last to the first: (Tensor, int) fails, (Tensor?, Tensor) comes out wrong.
template <typename Returns, size_t... I>
constexpr bool same_backwards(std::index_sequence<I...>) {
  return (
      std::is_same_v<
          std::tuple_element_t<I, Returns>,
          std::tuple_element_t<sizeof...(I) - 1 - I, Returns>> &&
      ...);
}

//! [call]
// Calls an op on a stack. Throws if that fails, since 2.13 with libtorch's
// reason. The arguments are libtorch's from here on, whatever happens.
inline void call_slots(
    const char* op, const char* overload, StableIValue* slots) {
  const AOTITorchError code =
      torch_call_dispatcher(op, overload, slots, TORCH_ABI_VERSION);
  const char* const dot = *overload == 0 ? "" : ".";
  STD_TORCH_CHECK(code == TORCH_SUCCESS, op, dot, overload, ": ", error_text());
}

// Calls an op by name, with all arguments of its schema, and returns all of its
// returns.
template <typename... R, typename... Args>
std::tuple<R...> call_by_name(
    const char* op, const char* overload, const Args&... args) {
  static_assert(
      same_backwards<std::tuple<R...>>(std::index_sequence_for<R...>()),
      "libtorch cannot return these types to a call by name");
  // TODO(03.7): fill the slots, call, and empty the slots of the returns.
  STD_TORCH_CHECK(
      false, "TODO(03.7): ", op, ".", overload, ", ", sizeof...(args), " args");
}
//! [call]

} // namespace wb
#pragma GCC visibility pop
