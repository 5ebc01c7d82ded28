// Slots that are made and read by C shims alone. (The headers' own
// to<std::string> leaks, up to those of 2.13.)
#pragma once

#include <torch/csrc/stable/c/shim.h>
#include <torch/csrc/stable/stableivalue_conversions.h>
#include <torch/headeronly/util/shim_utils.h>

#include <cstddef>
#include <string>
#include <vector>

namespace workbook {

using Slots = std::vector<StableIValue>;

// Returns what a slot points to.
template <class T>
T* pointer(StableIValue slot) {
  return torch::stable::detail::to<T*>(slot);
}
// Returns the slot of an optional that holds `inner`.
inline StableIValue from_slot(StableIValue inner) {
  return torch::stable::detail::from(new StableIValue(inner));
}
// Returns the slot of a list, which owns its elements.
inline StableIValue from_slots(const Slots& elements) {
  StableListHandle list = nullptr;
  torch_new_list_reserve_size(elements.size(), &list);
  for (const StableIValue element : elements) {
    torch_list_push_back(list, element);
  }
  return torch::stable::detail::from(list);
}

inline StableIValue from_string(const std::string& value) {
  StringHandle handle = nullptr;
  TORCH_ERROR_CODE_CHECK(
      torch_new_string_handle(value.data(), value.size(), &handle));
  return torch::stable::detail::from(handle);
}
inline std::string to_string(StableIValue slot) {
  const auto handle = torch::stable::detail::to<StringHandle>(slot);
  const char* data = nullptr;
  size_t size = 0;
  torch_string_c_str(handle, &data);
  torch_string_length(handle, &size);
  std::string value(data, size);
  torch_delete_string(handle);
  return value;
}

} // namespace workbook
