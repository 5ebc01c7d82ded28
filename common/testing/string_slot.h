// A string in a slot, by C shims: the headers' own to<std::string> leaks, up to
// those of 2.13.
#pragma once

#include <torch/csrc/stable/c/shim.h>
#include <torch/csrc/stable/stableivalue_conversions.h>
#include <torch/headeronly/util/shim_utils.h>

#include <cstddef>
#include <string>

namespace workbook {

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
