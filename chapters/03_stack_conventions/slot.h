// slot.h: how a value lies in one slot of 64 bits, and who releases it. Part of
// stack.h; it needs the stable headers of 2.10 or later and nothing else.
#pragma once

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace stack {

namespace detail = torch::stable::detail;
using torch::stable::Tensor;

template <class T, class... Ts>
inline constexpr bool is_one_of = (std::is_same_v<T, Ts> || ...);

// How a T lies in a slot. give: a new reference to it. take: its value; the
// slot is consumed, even if this throws. release: drops it unread.
template <class T>
struct Bits {
  static StableIValue give(const T& value) {
    return detail::from(value);
  }
  static T take(StableIValue slot) {
    return detail::to<T>(slot);
  }
  static void release(StableIValue) noexcept {} // they refer to nothing
};

template <class T>
struct Slot : Bits<T> {
  static_assert(
      is_one_of<T, bool, int64_t, double, torch::stable::Device> ||
          is_one_of<T, c10::ScalarType, c10::Layout, c10::MemoryFormat>,
      "T does not cross: use bool, int64_t, double, std::string, Tensor, ...");
};

//! [owned]
using Release = void (*)(StableIValue) noexcept;
template <class... T>
inline constexpr Release kRelease[] = {&Slot<T>::release..., nullptr};

// The slots first .. last - 1 of an array are ours. What is still ours at the
// end is released, so next() is called for each that is taken or handed over.
struct Owned {
  StableIValue* slots;
  const Release* release;
  size_t first;
  size_t last;
  ~Owned() {} // TODO(03.6): release what is still ours.
  StableIValue next() noexcept {
    return slots[first++];
  }
};
//! [owned]

template <>
struct Slot<Tensor> : Bits<Tensor> {
  static void release(StableIValue slot) noexcept {
    aoti_torch_delete_tensor_object(detail::to<AtenTensorHandle>(slot));
  }
};

template <>
struct Slot<std::string> : Bits<std::string> {
  // Not detail::to, which leaks a copy with the headers of 2.10 to 2.13.
  static std::string take(StableIValue slot) {
    const Owned owned{&slot, kRelease<std::string>, 0, 1};
    const auto handle = detail::to<StringHandle>(slot);
    const char* data = nullptr;
    size_t size = 0;
    TORCH_ERROR_CODE_CHECK(torch_string_c_str(handle, &data));
    TORCH_ERROR_CODE_CHECK(torch_string_length(handle, &size));
    return std::string(data, size);
  }
  static void release(StableIValue slot) noexcept {
    torch_delete_string(detail::to<StringHandle>(slot));
  }
};

// None is 0. A value lies in a box on the heap, in a slot of its own.
template <class T>
struct Slot<std::optional<T>> {
  static StableIValue give(const std::optional<T>& value) {
    // new allocates first, and frees the box again if give throws.
    return value ? detail::from(new StableIValue(Slot<T>::give(*value))) : 0;
  }
  static std::optional<T> take(StableIValue slot) {
    const std::unique_ptr<StableIValue> box(detail::to<StableIValue*>(slot));
    return box ? std::optional<T>(Slot<T>::take(*box)) : std::nullopt;
  }
  static void release(StableIValue slot) noexcept {
    const std::unique_ptr<StableIValue> box(detail::to<StableIValue*>(slot));
    if (box) {
      Slot<T>::release(*box);
    }
  }
};

// A handle to a vector of slots. An element that was taken leaves a 0.
template <class T>
struct Slot<std::vector<T>> {
  static StableIValue give(const std::vector<T>& values) {
    StableListHandle list = nullptr;
    TORCH_ERROR_CODE_CHECK(torch_new_list_reserve_size(values.size(), &list));
    StableIValue slot = detail::from(list);
    Owned owned{&slot, kRelease<std::vector<T>>, 0, 1};
    for (const T& value : values) { // it has room for each: this cannot fail
      TORCH_ERROR_CODE_CHECK(torch_list_push_back(list, Slot<T>::give(value)));
    }
    return owned.next();
  }
  static std::vector<T> take(StableIValue slot) {
    const Owned owned{&slot, kRelease<std::vector<T>>, 0, 1};
    const auto list = detail::to<StableListHandle>(slot);
    size_t size = 0;
    TORCH_ERROR_CODE_CHECK(torch_list_size(list, &size));
    std::vector<T> values;
    for (size_t i = 0; i < size; ++i) {
      StableIValue element = 0;
      TORCH_ERROR_CODE_CHECK(torch_list_get_item(list, i, &element));
      TORCH_ERROR_CODE_CHECK(torch_list_set_item(list, i, 0)); // ours now
      values.push_back(Slot<T>::take(element));
    }
    return values;
  }
  static void release(StableIValue slot) noexcept {
    const auto list = detail::to<StableListHandle>(slot);
    // TODO(03.6): release the elements that are left, too.
    torch_delete_list(list); // not its elements
  }
};

} // namespace stack
