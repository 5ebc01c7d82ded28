// Steps 02.3 to 02.7: slots that own what they point to. Slot<T>::from makes
// one, or throws and leaves nothing behind. Slot<T>::to empties one, even when
// it throws. Real code calls torch::stable::detail::{from,to}.
#pragma once

#include "plain.h"

#include <torch/csrc/stable/c/shim.h>
#include <torch/csrc/stable/tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace wb02 {

using torch::stable::Tensor;

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
};
//! [tensor]

//! [string]
struct DeleteString {
  void operator()(StringHandle handle) const {
    torch_delete_string(handle);
  }
};
using OwnedString = std::unique_ptr<StringOpaque, DeleteString>;
template <>
struct Slot<std::string> {
  static StableIValue from(const std::string& value) {
    STD_TORCH_CHECK(false, "TODO(02.4): a string like ", value);
  }
  static std::string to(StableIValue slot) {
    STD_TORCH_CHECK(false, "TODO(02.4): the text of the string in ", slot);
  }
};
//! [string]

//! [optional]
// None is a null pointer; a value is a pointer to a slot on the heap.
template <class T>
struct Slot<std::optional<T>> {
  static StableIValue from(const std::optional<T>& value) {
    STD_TORCH_CHECK(false, "TODO(02.5): has a value: ", value.has_value());
  }
  static std::optional<T> to(StableIValue slot) {
    STD_TORCH_CHECK(false, "TODO(02.5): a value or none: ", slot);
  }
};
//! [optional]

inline size_t list_size(StableListHandle list) {
  size_t size = 0;
  TORCH_ERROR_CODE_CHECK(torch_list_size(list, &size));
  return size;
}
inline StableIValue list_item(StableListHandle list, size_t index) {
  StableIValue element = 0;
  TORCH_ERROR_CODE_CHECK(torch_list_get_item(list, index, &element));
  return element;
}

template <class T>
void release(StableListHandle list, size_t first); // below

//! [list]
template <class T>
struct Slot<std::vector<T>> {
  static StableIValue from(const std::vector<T>& values) {
    StableListHandle list = nullptr;
    STD_TORCH_CHECK(false, "TODO(02.6): a list of ", values.size());
    try {
      // TODO(02.6): push a slot for each value.
    } catch (...) {
      release<T>(list, 0);
      throw;
    }
    return from_bits(list);
  }

  static std::vector<T> to(StableIValue slot) {
    const auto list = to_bits<StableListHandle>(slot);
    STD_TORCH_CHECK(false, "TODO(02.6): the values of the list in ", slot);
    std::vector<T> values;
    size_t next = 0; // the first element that the list still owns
    try {
      // TODO(02.6): convert every item, in order.
    } catch (...) {
      release<T>(list, next);
      throw;
    }
    // TODO(02.6): delete the list, which is empty now.
    return values;
  }
};
//! [list]

//! [release]
// Deletes a list, and what its elements from `first` on own.
template <class T>
void release(StableListHandle list, size_t first) {
  // TODO(02.7): empty the slots from `first` on, then delete the list.
  STD_TORCH_CHECK(
      false, "TODO(02.7): release ", list_size(list) - first, " elements");
}
//! [release]

} // namespace wb02
