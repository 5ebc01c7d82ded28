// The two libraries that chapter 06 tests, what they were built with, and calls
// of their ops.
#pragma once

#include "testing/dispatcher.h"
#include "testing/shim_slots.h"
#include "testing/text.h"

#include <doctest/doctest.h>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace workbook::chapter_06 {

using torch::stable::Tensor;
namespace conversions = torch::stable::detail;

// Returns a version as libtorch packs it: a byte for each of the three numbers.
inline constexpr uint64_t pack_version(
    uint64_t major, uint64_t minor, uint64_t patch = 0) {
  return major << 56 | minor << 48 | patch << 40;
}

inline std::string read_file(const std::string& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// One of the two libraries under test, and calls of its ops.
struct Library {
  std::string name; // the namespace of its ops
  std::string file;
  const void* inside;  // an address in it; null if it does not load
  std::string refusal; // the loader's reason then

  Library(const std::string& ops, const std::string& path)
      : name(ops), file(path), inside(nullptr) {
    if (void* handle = dlopen(path.c_str(), RTLD_NOW)) {
      inside = static_cast<link_map*>(handle)->l_ld;
    } else {
      refusal = dlerror();
    }
  }

  StableIValue call(const char* op, std::vector<StableIValue> stack) const {
    stack.resize(std::max<size_t>(stack.size(), 1));
    call_op(name + "::" + op, "", stack.data());
    return stack[0];
  }
  std::string abi_report() const {
    return to_string(call("abi_report", {}));
  }
  bool is_supported() const {
    return conversions::to<bool>(call("is_supported", {}));
  }
  Tensor count(const std::vector<int64_t>& sizes) const {
    return conversions::to<Tensor>(call("count", {conversions::from(sizes)}));
  }
  Tensor permute(const Tensor& self, const std::vector<int64_t>& dims) const {
    return conversions::to<Tensor>(
        call("permute", {conversions::from(self), conversions::from(dims)}));
  }
  int64_t current_stream(int64_t device) const {
    return conversions::to<int64_t>(
        call("current_stream", {conversions::from(device)}));
  }
};

// Returns both libraries; the harness has loaded the first.
inline const std::vector<Library>& libraries() {
  static const std::vector<Library> found = [] {
    std::string file;
    const auto look = [](dl_phdr_info* info, size_t, void* found) {
      const std::string name = info->dlpi_name;
      if (name.find("libversion_gating.so") != std::string::npos) {
        *static_cast<std::string*>(found) = name;
      }
      return 0;
    };
    dl_iterate_phdr(look, &file);
    REQUIRE(!file.empty());
    std::string newest = file;
    newest.insert(newest.rfind(".so"), "_newest");
    return std::vector<Library>{{"wb06", file}, {"wb06_newest", newest}};
  }();
  return found;
}

inline std::string build_folder() {
  const std::string& file = libraries()[0].file;
  return file.substr(0, file.rfind('/'));
}

// Returns an entry of CMake's cache in the build folder of the library, such as
// CMAKE_HOME_DIRECTORY or TORCH_ROOT.
inline const std::string& cache_entry(const std::string& key) {
  static std::map<std::string, std::string>
      known; // a search of the file is slow
  std::string& value = known[key];
  if (value.empty()) {
    const std::string text = read_file(build_folder() + "/CMakeCache.txt");
    const size_t begin = text.find('=', text.find("\n" + key + ":")) + 1;
    value = text.substr(begin, text.find('\n', begin) - begin);
  }
  return value;
}

inline std::string torch_include() {
  return cache_entry("TORCH_ROOT") + "/include/torch/";
}

// Returns the version of the headers that the library was built with.
inline uint64_t header_version() {
  const std::string text = read_file(torch_include() + "headeronly/version.h");
  const auto number = [&](const char* name) {
    return std::stoull(matched(
        text, std::string("#define TORCH_VERSION_") + name + " (\\d+)"));
  };
  return pack_version(number("MAJOR"), number("MINOR"), number("PATCH"));
}

inline uint64_t target_version(const Library& library) {
  return library.name == "wb06" ? pack_version(2, 10) : header_version();
}

inline std::string format_version(uint64_t version) {
  std::ostringstream text;
  text << (version >> 56) << '.' << (version >> 48 & 255) << '.'
       << (version >> 40 & 255);
  return text.str();
}

// Calls `check` with each library that the running libtorch loads.
template <typename Check>
void for_each_library(const Check& check) {
  for (const Library& library : libraries()) {
    if (library.inside != nullptr) {
      const std::string name = library.file.substr(library.file.rfind('/') + 1);
      INFO(name, " targets ", format_version(target_version(library)));
      check(library);
    }
  }
}

} // namespace workbook::chapter_06
