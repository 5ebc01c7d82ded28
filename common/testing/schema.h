// The schema of an op, asked of the running libtorch through C shims alone.
#pragma once

#include "child.h"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/c/shim.h>
#include <torch/headeronly/version.h>

#include <string>

namespace workbook {

// "wb04::swiglu(Tensor input, ...) -> Tensor" for schema_of("wb04", "swiglu");
// "" if there is no such op. libtorch prints it when a kernel is registered a
// second time, but only once in a process: hence the child.
inline std::string schema_of(const std::string& ns, const std::string& op) {
  const Ending ending = ending_in_child([&] {
    TorchLibraryHandle library = nullptr;
    const auto kernel = [](StableIValue*, uint64_t, uint64_t) {};
    aoti_torch_library_init_impl(ns.c_str(), "Vulkan", "", 0, &library);
    torch_library_impl(library, op.c_str(), kernel, TORCH_ABI_VERSION);
    torch_library_impl(library, op.c_str(), kernel, TORCH_ABI_VERSION);
  });
  const std::string before = "operator: ";
  const size_t begin = ending.text.find(before + ns + "::" + op + "(");
  if (begin == std::string::npos) {
    return "";
  }
  const size_t name = begin + before.size();
  return ending.text.substr(name, ending.text.find('\n', name) - name);
}

} // namespace workbook
