// slot.h: how a value lies in a slot, the 64 bits in which it passes the ABI
// boundary, and who owns what a slot points to.
//   StableIValue slot = Slot<Tensor>::from(x); // owns a reference of its own
//   Tensor y = Slot<Tensor>::to(slot);  // empties it, even if it throws
//   Slot<Tensor>::release(slot);        // or: empties it unread
// A slot of zeros owns nothing, whatever its type. PyTorch's own conversions
// are torch::stable::detail::from and to; they lose what they hold when they
// throw.
#pragma once

#include "codes.h"

#include <torch/csrc/stable/c/shim.h>
#include <torch/csrc/stable/device.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/Exception.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "on a big-endian machine a short value lies at the other end of its slot"
#endif

// Hidden: extensions in one process have each their own.
#pragma GCC visibility push(hidden)
namespace wb {

using torch::stable::Device;
using torch::stable::Tensor;

//! [bits]
template <typename T>
inline constexpr bool fits_slot =
    sizeof(T) <= sizeof(StableIValue) && std::is_trivially_copyable_v<T>;

// The bytes of `value`, which may be a pointer, and zeros behind them.
template <typename T>
StableIValue from_bits(T value) {
  static_assert(fits_slot<T>, "of a Tensor a slot holds the handle: x.get()");
  STD_TORCH_CHECK(false, "TODO(02.1): copy ", sizeof(value), " bytes");
}

// The T in the leading bytes; what is behind them means nothing.
template <typename T>
T to_bits(StableIValue slot) {
  static_assert(fits_slot<T>, "a slot holds 8 bytes, such as a handle");
  STD_TORCH_CHECK(false, "TODO(02.1): ", sizeof(T), " bytes of ", slot);
}
//! [bits]

//! [slot]
template <typename T, typename... Types>
inline constexpr bool is_one_of = (std::is_same_v<T, Types> || ...);

// How a T lies in a slot: in the slot itself, here.
template <typename T, typename = void>
struct Slot {
  static_assert(
      is_one_of<T, bool, int64_t, double>,
      "no schema has a type that is this in C++; these are: bool, int64_t (not "
      "int), double (not float), std::string, Tensor, ScalarType, Layout, "
      "MemoryFormat, Device, and std::optional and std::vector of them");

  static StableIValue from(T value) {
    return from_bits(value);
  }
  static T to(StableIValue slot) {
    return to_bits<T>(slot);
  }
  static void release(StableIValue) noexcept {} // it points to nothing
};

// Owns one slot with a T in it, and releases it unless it is handed over.
template <typename T>
class OwnedSlot {
 public:
  explicit OwnedSlot(StableIValue slot) : slot_(slot) {}
  OwnedSlot(OwnedSlot&& other) noexcept : slot_(other.hand_over()) {}
  OwnedSlot& operator=(OwnedSlot&&) = delete;
  ~OwnedSlot() {
    if (slot_ != 0) {
      Slot<T>::release(slot_);
    }
  }
  StableIValue hand_over() noexcept { // to the caller
    return std::exchange(slot_, 0);
  }

 private:
  StableIValue slot_;
};
//! [slot]

//! [enum]
// Dtype, layout, memory format: through the codes that libtorch gives.
template <typename E>
struct Slot<E, std::enable_if_t<std::is_enum_v<E>>> {
  static_assert(is_one_of<E, ScalarType, Layout, MemoryFormat>);

  static StableIValue from(E value) {
    return from_bits(code_of(value));
  }
  static E to(StableIValue slot) {
    return value_of<E>(to_bits<int32_t>(slot));
  }
  static void release(StableIValue) noexcept {}
};

// The index in the lower 32 bits, the code of the type in the upper 32.
template <>
struct Slot<Device> {
  static StableIValue from(const Device& value) {
    STD_TORCH_CHECK(false, "TODO(02.2): a device of index ", value.index());
  }
  static Device to(StableIValue slot) {
    STD_TORCH_CHECK(false, "TODO(02.2): the device in ", slot);
  }
  static void release(StableIValue) noexcept {}
};
//! [enum]

//! [tensor]
template <>
struct Slot<Tensor> {
  // A new handle, which is one more reference: `value` keeps its own.
  static StableIValue from(const Tensor& value) {
    STD_TORCH_CHECK(false, "TODO(02.3): a handle beside ", value.get());
  }
  static Tensor to(StableIValue slot) {
    STD_TORCH_CHECK(false, "TODO(02.3): steal the handle in ", slot);
  }
  static void release(StableIValue slot) noexcept {
    aoti_torch_delete_tensor_object(to_bits<AtenTensorHandle>(slot));
  }
};
//! [tensor]

//! [string]
template <>
struct Slot<std::string> {
  static StableIValue from(const std::string& value) {
    STD_TORCH_CHECK(false, "TODO(02.4): a string like ", value);
  }
  static std::string to(StableIValue slot) {
    STD_TORCH_CHECK(false, "TODO(02.4): the text of the string in ", slot);
  }
  static void release(StableIValue slot) noexcept {
    torch_delete_string(to_bits<StringHandle>(slot));
  }
};
//! [string]

//! [optional]
// None is a null pointer; a value is a pointer to a slot on the heap.
template <typename T>
struct Slot<std::optional<T>> {
  static StableIValue from(const std::optional<T>& value) {
    if (!value.has_value()) {
      return from_bits<StableIValue*>(nullptr);
    }
    STD_TORCH_CHECK(false, "TODO(02.5): a slot on the heap, for the value");
  }
  static std::optional<T> to(StableIValue slot) {
    STD_TORCH_CHECK(false, "TODO(02.5): a value or none: ", slot);
  }
  static void release(StableIValue slot) noexcept {
    const std::unique_ptr<StableIValue> heap_slot(to_bits<StableIValue*>(slot));
    if (heap_slot != nullptr) {
      const OwnedSlot<T> inner(*heap_slot);
    }
  }
};
//! [optional]

//! [list]
inline size_t list_size(StableListHandle list) {
  size_t size = 0;
  TORCH_ERROR_CODE_CHECK(torch_list_size(list, &size));
  return size;
}
// Moves an element out of a list: a slot of zeros stays behind.
inline StableIValue take_item(StableListHandle list, size_t index) {
  StableIValue element = 0;
  TORCH_ERROR_CODE_CHECK(torch_list_get_item(list, index, &element));
  TORCH_ERROR_CODE_CHECK(torch_list_set_item(list, index, 0));
  return element;
}

template <typename T>
struct Slot<std::vector<T>> {
  static StableIValue from(const std::vector<T>& values) {
    StableListHandle list = nullptr;
    TORCH_ERROR_CODE_CHECK(torch_new_list_reserve_size(values.size(), &list));
    OwnedSlot<std::vector<T>> owned(from_bits(list));
    STD_TORCH_CHECK(false, "TODO(02.6): push ", values.size(), " slots");
    return owned.hand_over();
  }
  static std::vector<T> to(StableIValue slot) {
    STD_TORCH_CHECK(false, "TODO(02.6): the values of the list in ", slot);
  }
  static void release(StableIValue slot) { // TODO(02.7): must not throw
    const auto list = to_bits<StableListHandle>(slot);
    size_t size = 0;
    torch_list_size(list, &size);
    for (size_t i = 0; i < size; ++i) {
      StableIValue element = 0;
      torch_list_get_item(list, i, &element);
      STD_TORCH_CHECK(element == 0, "TODO(02.7): element ", i, " is left");
    }
    torch_delete_list(list); // not what its elements point to
  }
};
//! [list]

} // namespace wb
#pragma GCC visibility pop
