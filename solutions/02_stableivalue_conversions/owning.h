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
    AtenTensorHandle handle = nullptr;
    TORCH_ERROR_CODE_CHECK(aoti_torch_new_tensor_handle(value.get(), &handle));
    return from_bits(handle);
  }
  static Tensor to(StableIValue slot) {
    return Tensor(to_bits<AtenTensorHandle>(slot)); // steals the reference
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
    StringHandle handle = nullptr;
    TORCH_ERROR_CODE_CHECK(
        torch_new_string_handle(value.data(), value.size(), &handle));
    return from_bits(handle);
  }
  static std::string to(StableIValue slot) {
    const OwnedString owned(to_bits<StringHandle>(slot));
    const char* data = nullptr; // borrowed from `owned`
    size_t size = 0;
    TORCH_ERROR_CODE_CHECK(torch_string_c_str(owned.get(), &data));
    TORCH_ERROR_CODE_CHECK(torch_string_length(owned.get(), &size));
    return std::string(data, size);
  }
};
//! [string]

//! [optional]
// None is a null pointer; a value is a pointer to a slot on the heap.
template <class T>
struct Slot<std::optional<T>> {
  static StableIValue from(const std::optional<T>& value) {
    std::unique_ptr<StableIValue> inner;
    if (value.has_value()) {
      inner = std::make_unique<StableIValue>();
      *inner = Slot<T>::from(*value);
    }
    return from_bits(inner.release());
  }
  static std::optional<T> to(StableIValue slot) {
    const std::unique_ptr<StableIValue> inner(to_bits<StableIValue*>(slot));
    if (inner == nullptr) {
      return std::nullopt;
    }
    return Slot<T>::to(*inner);
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
    TORCH_ERROR_CODE_CHECK(torch_new_list_reserve_size(values.size(), &list));
    try {
      for (const T& value : values) {
        const StableIValue element = Slot<T>::from(value);
        TORCH_ERROR_CODE_CHECK(torch_list_push_back(list, element));
      }
    } catch (...) {
      release<T>(list, 0);
      throw;
    }
    return from_bits(list);
  }

  static std::vector<T> to(StableIValue slot) {
    const auto list = to_bits<StableListHandle>(slot);
    const size_t size = list_size(list);
    std::vector<T> values;
    size_t next = 0; // the first element that the list still owns
    try {
      while (next < size) {
        values.push_back(Slot<T>::to(list_item(list, next++)));
      }
    } catch (...) {
      release<T>(list, next);
      throw;
    }
    TORCH_ERROR_CODE_CHECK(torch_delete_list(list));
    return values;
  }
};
//! [list]

//! [release]
// Deletes a list, and what its elements from `first` on own.
template <class T>
void release(StableListHandle list, size_t first) {
  const size_t size = list_size(list);
  for (size_t i = first; i < size; ++i) {
    try {
      (void)Slot<T>::to(list_item(list, i));
    } catch (...) {
      // It could not be converted, and is empty all the same.
    }
  }
  TORCH_ERROR_CODE_CHECK(torch_delete_list(list));
}
//! [release]

} // namespace wb02
