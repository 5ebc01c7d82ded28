// A library that is built of the learner's compat.h with other headers and
// other targets than the chapter's own two, to show at which version each gate
// opens.
#pragma once

#include "abi/torch_stable_abi/trace/slots.h"
#include "compiler.h"
#include "libraries.h"
#include "testing/text.h"

#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

namespace workbook::chapter_06 {

// Returns the options for headers of another version. `path` has the version.h,
// which is all that a gate can ask, and comes before torch's own headers.
inline std::string other_headers(const std::string& path, uint64_t target) {
  return " " + target_option(target) + " -I" + quote(path) + " -isystem" +
      quote(cache_entry("TORCH_ROOT") + "/include");
}

// Headers of another version, precompiled: parsing them is most of the time of
// a check, and a learner checks often. They are made once for each torch, in
// the library's build folder, and target their own version.
class Precompiled {
 public:
  explicit Precompiled(uint64_t minor) : target_(pack_version(2, minor)) {
    namespace fs = std::filesystem;
    const auto time =
        fs::last_write_time(torch_include() + "csrc/stable/ops.h");
    path_ = build_folder() + "/elsewhere-" + format_version(target_) + "-" +
        std::to_string(time.time_since_epoch().count());
    if (fs::exists(path_ + "/torch.h.gch")) {
      return;
    }
    // The file has a name of its own until it is complete, since another
    // process may write the same one.
    const std::string made = path_ + "/" + std::to_string(getpid());
    const auto write = [&made](const fs::path& file, const std::string& text) {
      if (fs::exists(file)) {
        return; // a newer date would spoil the other process's precompiled file
      }
      fs::create_directories(file.parent_path());
      std::ofstream(made) << text;
      fs::rename(made, file);
    };
    write(path_ + "/torch/headeronly/version.h", version_header(target_));
    write(path_ + "/torch.h", kIncludes);
  }
  const std::string& folder() const {
    return path_;
  }
  std::string options() const {
    const std::string options = other_headers(path_, target_) + " -fPIC";
    const std::string header = path_ + "/torch.h";
    const std::string made = header + std::to_string(getpid());
    if (!std::filesystem::exists(header + ".gch")) {
      Compiler(options + " -c -xc++-header -o" + quote(made) + quote(header))
          .text();
      std::error_code failed; // the header is then compiled as it is
      std::filesystem::rename(made, header + ".gch", failed);
    }
    return options + " -include" + quote(header);
  }

 private:
  uint64_t target_;
  std::string path_;
  static constexpr char kIncludes[] = R"(
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
)";
};

// A library in which compat.h is compiled several times: at a target with a
// patch, with headers that have (or pretend to have) the wrapper of 2.14; at
// each target at which a gate opens; and with headers that pretend to be of
// 2.13. get() compiles it when it is first called after a save.
class Elsewhere {
 public:
  static constexpr uint64_t kTarget = pack_version(2, 10, 3);

  static const Elsewhere& get() {
    static const Elsewhere one;
    return one;
  }

  // The error of the compiler or of the loader; "" if both succeeded.
  std::string trouble;

  template <typename Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(handle_, name));
  }
  const void* inside() const {
    return dlsym(handle_, "elsewhere_supported");
  }

  // A target of compat.h, and the prefix of its functions' names.
  struct Place {
    std::string name;
    uint64_t minor;
  };
  // Returns the targets that torch's headers are new enough for.
  static std::vector<Place> places() {
    std::vector<Place> known = {{"elsewhere", 10}};
    for (const uint64_t minor : {11, 12, 13}) {
      if (pack_version(2, minor) <= header_version()) {
        known.push_back({"at_2_" + std::to_string(minor), minor});
      }
    }
    return known;
  }

 private:
  void* handle_ = nullptr;

  // Returns the text of compat.h once more, in a namespace of this name.
  static std::string repeat_header(
      const std::string& name, uint64_t target, const std::string& before) {
    const std::string all = read_file(compat_path());
    const size_t once = all.find("#pragma once");
    return undefine_macros(all) + "#undef TORCH_TARGET_VERSION\n" +
        "#define TORCH_TARGET_VERSION " + slots::hex(target) + "\n" + before +
        "namespace " + name + " {\nnamespace wb { using ::wb::error_text; }\n" +
        "#line 1 \"" + compat_path() + "\"\n" +
        (once < all.size() ? std::string(all).replace(once, 12, "") : all) +
        "\n}\n" + functions(name);
  }
  static std::string functions(const std::string& name) {
    return replaced(kFunctions, "AT", name);
  }

  Elsewhere() {
    const Precompiled newer(
        std::max<uint64_t>(header_version() >> 48 & 255, 14));
    std::ostringstream text;
    text << "#undef TORCH_TARGET_VERSION\n#define TORCH_TARGET_VERSION "
         << slots::hex(kTarget) << "\n"
         << (header_version() < pack_version(2, 14) ? kWrapper : "") << kSource
         << functions("elsewhere");
    for (const Place& place : places()) {
      if (place.name != "elsewhere") {
        text << repeat_header(place.name, pack_version(2, place.minor), "");
      }
    }
    text << repeat_header(
        "before_2_14",
        pack_version(2, 10),
        "#undef TORCH_VERSION_MINOR\n#define TORCH_VERSION_MINOR 13\n");
    const std::string library = newer.folder() + "/elsewhere.so";
    const std::string options = newer.options() + " -shared -Wl,-z,lazy -I" +
        quote(cache_entry("CMAKE_HOME_DIRECTORY"));
    const std::string source = "// " + options + "\n" + text.str();
    if (!is_current(library, source)) {
      compile(library, options, source);
    }
    if (trouble.empty()) {
      handle_ = dlopen(library.c_str(), RTLD_LAZY);
      trouble = handle_ == nullptr ? dlerror() : "";
    }
  }

  // Returns whether a library is built of this source, by a process of the same
  // check, and no header beside compat.h was saved since.
  static bool is_current(
      const std::string& library, const std::string& source) {
    namespace fs = std::filesystem;
    if (!fs::exists(library) || read_file(library + ".cpp") != source) {
      return false;
    }
    const auto built = fs::last_write_time(library);
    const fs::directory_iterator folder(cache_entry("CMAKE_HOME_DIRECTORY"));
    return std::all_of(begin(folder), end(folder), [&](const auto& file) {
      return !file.is_regular_file() || file.last_write_time() < built;
    });
  }

  void compile(
      const std::string& library,
      const std::string& options,
      const std::string& source) {
    const std::string made = library + std::to_string(getpid());
    std::ofstream(made + ".cpp") << source;
    trouble =
        Compiler(options + " -o" + quote(made) + quote(made + ".cpp")).text();
    if (trouble.empty()) {
      std::filesystem::rename(made, library);
      std::filesystem::rename(made + ".cpp", library + ".cpp");
    } else {
      trouble = "with the headers of 2.14 the compiler says:\n" +
          first_error(trouble);
      std::filesystem::remove(made + ".cpp");
    }
  }

  // permute, as the headers of 2.14 define it.
  static constexpr char kWrapper[] = R"(
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
namespace torch::stable {
inline Tensor permute(
    const Tensor& self, torch::headeronly::IntHeaderOnlyArrayRef dims) {
  StableIValue stack[] = {detail::from(self), detail::from(dims)};
  TORCH_ERROR_CODE_CHECK(
      torch_call_dispatcher("aten::permute", "", stack, TORCH_ABI_VERSION));
  return detail::to<Tensor>(stack[0]);
}
}
)";
  // The beginning of the library, which counts the calls of the wrapper.
  static constexpr char kSource[] = R"(
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
namespace torch::stable {
int permutes = 0;
inline Tensor counted_permute(
    const Tensor& self, torch::headeronly::IntHeaderOnlyArrayRef dims) {
  ++permutes;
  return permute(self, dims);
}
}
#define permute counted_permute
#include "compat.h"
namespace {
AtenTensorHandle lent(const torch::stable::Tensor& tensor) {
  AtenTensorHandle handle = nullptr;
  aoti_torch_new_tensor_handle(tensor.get(), &handle);
  return handle;
}
}
namespace elsewhere { namespace wb = ::wb; }
extern "C" {
bool elsewhere_supported() { return wb::is_supported(); }
int elsewhere_permutes() { return torch::stable::permutes; }
}
)";
  // The functions of one target. Tensors come in and go out as new handles.
  static constexpr char kFunctions[] = R"(
extern "C" {
AtenTensorHandle AT_from_blob(
    void* data, const int64_t* sizes, size_t count,
    torch::headeronly::ScalarType dtype, void (*deleter)(void*),
    torch::headeronly::DeviceType device, int8_t index) {
  return lent(AT::wb::from_blob(
      data, {sizes, count}, torch::stable::Device(device, index), dtype,
      deleter));
}
AtenTensorHandle AT_permute(
    AtenTensorHandle self, const int64_t* dims, size_t count) {
  return lent(AT::wb::permute(
      torch::stable::Tensor(self), std::vector<int64_t>(dims, dims + count)));
}
void* AT_current_stream(int32_t device) {
  return AT::wb::current_stream(device);
}
}
)";
};

// Calls from_blob at a target.
inline Tensor elsewhere_from_blob(
    const Elsewhere::Place& place,
    void* data,
    const std::vector<int64_t>& sizes,
    c10::ScalarType dtype,
    void (*deleter)(void*),
    c10::DeviceType device = c10::DeviceType::CPU,
    int8_t index = -1) {
  using Function = AtenTensorHandle(
      void*,
      const int64_t*,
      size_t,
      c10::ScalarType,
      void (*)(void*),
      c10::DeviceType,
      int8_t);
  auto* const from_blob =
      Elsewhere::get().function<Function>((place.name + "_from_blob").c_str());
  return Tensor(from_blob(
      data, sizes.data(), sizes.size(), dtype, deleter, device, index));
}

// Returns the targets that call nothing that the running libtorch lacks.
inline std::vector<Elsewhere::Place> runnable_places() {
  std::vector<Elsewhere::Place> places;
  if (Elsewhere::get().trouble.empty()) { // else step 06.4 shows it
    for (const Elsewhere::Place& place : Elsewhere::places()) {
      if (pack_version(2, place.minor) <= aoti_torch_abi_version()) {
        places.push_back(place);
      }
    }
  }
  return places;
}

} // namespace workbook::chapter_06
