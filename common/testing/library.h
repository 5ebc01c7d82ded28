// The implementation under test: the shared library named by --library.
#pragma once

#include <string>

namespace workbook {

// The address that `name` has in the library under test; throws
// std::runtime_error if the library does not export it.
void* library_symbol(const std::string& name);

// A function that the library exports as `extern "C"`:
// `function<int64_t(ScalarType)>("wb01_element_size")(dtype)`.
template <class Signature>
Signature* function(const std::string& name) {
  return reinterpret_cast<Signature*>(library_symbol(name));
}

} // namespace workbook
