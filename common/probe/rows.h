// Every row of the conversion table in PyTorch's note on the stable ABI, as an
// experiment on the libtorch that is running. The tests assert the verdicts; the
// program conversions.cpp prints them.
#pragma once

#include "testing/dispatcher.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace workbook::rows {

using torch::stable::Tensor;
namespace detail = torch::stable::detail;

struct Op {
  const char* name;
  const char* type;
};
// An op `name(type x) -> type` each, and one for `type?` and `type[]`.
inline constexpr Op kOps[] = {
    {"bool", "bool"},
    {"int", "int"},
    {"float", "float"},
    {"Tensor", "Tensor"},
    {"ScalarType", "ScalarType"},
    {"Layout", "Layout"},
    {"MemoryFormat", "MemoryFormat"},
    {"Device", "Device"},
    {"Stream", "Stream"},
    {"complex", "complex"},
    {"Scalar", "Scalar"},
    {"str", "str"},
    {"Storage", "Storage"},
    {"Generator", "Generator"},
    {"tuple", "(int, int)"},
    {"SymInt", "SymInt"},
    {"SymBool", "SymBool"},
    {"QScheme", "QScheme"},
};

// The kernel of them all: it passes its slot on without looking.
inline void pass(StableIValue*, uint64_t, uint64_t) {}

// Calls wb02_rows::<name>; gives the slot that comes back.
inline StableIValue send(const std::string& name, StableIValue slot) {
  call_op("wb02_rows::" + name, "", &slot);
  return slot;
}

inline void expect(bool good) {
  if (!good) {
    throw std::logic_error("another value came back");
  }
}

template <class T>
void round_trip(const char* name, const std::vector<T>& values) {
  for (const T& value : values) {
    expect(detail::to<T>(send(name, detail::from(value))) == value);
  }
}

// By C shims: the headers' own to<std::string> leaks, up to those of 2.13.
inline StableIValue from_string(const std::string& value) {
  StringHandle handle = nullptr;
  TORCH_ERROR_CODE_CHECK(
      torch_new_string_handle(value.data(), value.size(), &handle));
  return detail::from(handle);
}
inline std::string to_string(StableIValue slot) {
  const auto handle = detail::to<StringHandle>(slot);
  const char* data = nullptr;
  size_t size = 0;
  torch_string_c_str(handle, &data);
  torch_string_length(handle, &size);
  std::string value(data, size);
  torch_delete_string(handle);
  return value;
}

// A new owning handle of libtorch's own generator, or null before 2.13. No
// shim makes one from nothing, so this asks libtorch's C++ by its symbol.
inline StableIValue default_generator() {
  using Get = void* (*)();
  using New = AOTITorchError (*)(void*, void**);
  const auto get = reinterpret_cast<Get>(
      dlsym(RTLD_DEFAULT, "_ZN2at6detail22getDefaultCPUGeneratorEv"));
  const auto create = reinterpret_cast<New>(
      dlsym(RTLD_DEFAULT, "torch_new_generator_handle"));
  void* handle = nullptr;
  if (get != nullptr && create != nullptr) {
    TORCH_ERROR_CODE_CHECK(create(get(), &handle));
  }
  return detail::from(handle);
}

// Makes ATen hand a value to a kernel of ours: registers one for an op of ATen
// that another op calls. Only for a child process.
inline void intercept(const char* op) {
  TorchLibraryHandle library = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_library_init_impl(
      "aten", "CPU", __FILE__, __LINE__, &library));
  TORCH_ERROR_CODE_CHECK(
      torch_library_impl(library, op, pass, TORCH_ABI_VERSION));
}

inline void define(const char* schema) {
  TorchLibraryHandle library = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_library_init_fragment(
      "wb02_rows", __FILE__, __LINE__, &library));
  if (aoti_torch_library_def(library, schema) != TORCH_SUCCESS) {
    throw std::runtime_error(
        exception_text() != nullptr ? exception_text()() : "see stderr");
  }
}

struct Row {
  const char* schema; // the type in the schema, as the note writes it
  const char* extension; // in the extension; "" where there is none
  const char* slot; // what the 64 bits are
  // Gives libtorch a value and takes it back. Throws if libtorch refuses.
  std::function<void()> there_and_back;
  // Where `there_and_back` is refused: makes libtorch hand such a value to us.
  // Empty where no op of libtorch does: see tests/python.
  std::function<void()> back = nullptr;
};

const std::vector<Row>& table();

} // namespace workbook::rows
