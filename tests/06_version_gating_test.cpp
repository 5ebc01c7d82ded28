// Tests of chapter 06: a case a step, for both of its libraries. The one that
// targets the version of its headers may be refused by an older libtorch.
#include "testing/aten.h"
#include "testing/checks.h"
#include "testing/dispatcher.h"
#include "testing/replaced.h"

#include <doctest/doctest.h>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

using namespace workbook;
using doctest::Contains;
using doctest::String;
using torch::stable::Tensor;
namespace detail = torch::stable::detail;

namespace {

constexpr uint64_t packed(uint64_t major, uint64_t minor, uint64_t patch = 0) {
  return major << 56 | minor << 48 | patch << 40;
}

std::string read(const std::string& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string matched(const std::string& text, const std::string& pattern) {
  std::smatch match;
  return std::regex_search(text, match, std::regex(pattern)) ? match.str(1)
                                                             : "";
}

// One of the two libraries under test.
struct Library {
  std::string name; // of its ops' namespace
  std::string file;
  const void* inside;  // an address in it, or null: it does not load
  std::string refusal; // what the loader said then

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
    const auto handle = detail::to<StringHandle>(call("abi_report", {}));
    const char* data = nullptr;
    size_t size = 0;
    torch_string_c_str(handle, &data);
    torch_string_length(handle, &size);
    std::string text(data, size);
    torch_delete_string(handle);
    return text;
  }
  bool is_supported() const {
    return detail::to<bool>(call("is_supported", {}));
  }
  Tensor count(const std::vector<int64_t>& sizes) const {
    return detail::to<Tensor>(call("count", {detail::from(sizes)}));
  }
  Tensor permute(const Tensor& self, const std::vector<int64_t>& dims) const {
    return detail::to<Tensor>(
        call("permute", {detail::from(self), detail::from(dims)}));
  }
  int64_t current_stream(int64_t device) const {
    return detail::to<int64_t>(call("current_stream", {detail::from(device)}));
  }
};

// The first is the one that the harness has loaded.
const std::vector<Library>& libraries() {
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

template <typename Check>
void for_each_library(const Check& check) {
  for (const Library& library : libraries()) {
    if (library.inside != nullptr) {
      INFO("in namespace ", library.name);
      check(library);
    }
  }
}

// What the build folder of the library says: CMAKE_HOME_DIRECTORY, TORCH_ROOT.
std::string cached(const std::string& key) {
  const std::string& file = libraries()[0].file;
  const std::string folder = file.substr(0, file.rfind('/'));
  return matched(read(folder + "/CMakeCache.txt"), "\n" + key + ":\\w+=(.*)");
}

std::string torch_include() {
  return cached("TORCH_ROOT") + "/include/torch/";
}

// The version of the headers that the library was built with.
uint64_t headers() {
  const std::string text = read(torch_include() + "headeronly/version.h");
  const auto number = [&](const char* name) {
    return std::stoull(matched(
        text, std::string("#define TORCH_VERSION_") + name + " (\\d+)"));
  };
  return packed(number("MAJOR"), number("MINOR"), number("PATCH"));
}

uint64_t target(const Library& library) {
  return library.name == "wb06" ? packed(2, 10) : headers();
}

std::string text(uint64_t version) {
  std::ostringstream text;
  text << (version >> 56) << '.' << (version >> 48 & 255) << '.'
       << (version >> 40 & 255);
  return text.str();
}

// --- what the compiler makes of the folder's compat.h ------------------------

struct Folder {
  std::string path = std::filesystem::temp_directory_path() / "wb06-XXXXXX";

  Folder() {
    REQUIRE(mkdtemp(path.data()) != nullptr);
    std::filesystem::create_directories(path + "/torch/headeronly");
    std::filesystem::create_directories(path + "/torch/csrc/stable");
  }
  ~Folder() {
    std::filesystem::remove_all(path);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
};

std::string compat() {
  return cached("CMAKE_HOME_DIRECTORY") + "/compat.h";
}

std::string quoted(const std::string& word) {
  return " '" + std::regex_replace(word, std::regex("'"), "'\\''") + "'";
}

// What the compiler prints, its errors too.
std::string compiler(const std::string& options) {
  const std::string command = "env -u LD_LIBRARY_PATH LC_ALL=C" +
      quoted(cached("CMAKE_CXX_COMPILER")) + " -std=c++17 -w -xc++ " + options +
      " 2>&1";
  std::FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  std::array<char, 4096> buffer;
  while (const size_t size =
             std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    text.append(buffer.data(), size);
  }
  pclose(pipe);
  return text;
}

// What the compiler says to compat.h up to the first header of torch that it
// includes beside the versions: there it ends, for that one is not found.
// "accepted" if it comes so far, or the folder's own TODO in its place.
String guarded(const std::string& option) {
  const Folder folder;
  for (const char* name : {"headeronly", "csrc/stable"}) {
    std::filesystem::create_symlink(
        torch_include() + name + "/version.h",
        folder.path + "/torch/" + name + "/version.h");
  }
  const std::string text = compiler(
      "-fsyntax-only -Wfatal-errors " + option + " -isystem" +
      quoted(folder.path) + quoted(compat()));
  if (text.find("No such file") == std::string::npos &&
      text.find("file not found") == std::string::npos) {
    return text.c_str();
  }
  const std::string todo = matched(read(compat()), "// (TODO\\(06.1\\).*)");
  return todo.empty() ? "accepted" : todo.c_str();
}

// Headers of torch's that say they are 2.`minor`, which is all that a gate can
// ask them.
struct Headers : Folder {
  explicit Headers(int minor) {
    std::ofstream(path + "/torch/headeronly/version.h") << std::regex_replace(
        read(torch_include() + "headeronly/version.h"),
        std::regex("(#define TORCH_VERSION_MINOR) \\d+"),
        "$1 " + std::to_string(minor));
  }
  std::string options(int target_minor) const {
    std::ostringstream text;
    text << "-DTORCH_TARGET_VERSION=0x" << std::hex
         << packed(2, static_cast<uint64_t>(target_minor)) << " -I"
         << quoted(path) << " -isystem"
         << quoted(cached("TORCH_ROOT") + "/include");
    return text.str();
  }
};

// The text of one function of compat.h that the compiler sees with the headers
// and at the target of these versions, but for the numbers in it.
std::string seen(const char* function, int headers_minor, int target_minor) {
  const Headers headers(headers_minor);
  const std::string text =
      compiler("-E -P " + headers.options(target_minor) + quoted(compat()));
  const size_t begin = text.rfind(std::string(" ") + function + "(");
  const size_t end = text.find("\n}", begin);
  INFO(text.substr(text.size() - std::min<size_t>(text.size(), 2000)));
  REQUIRE(end != std::string::npos);
  return std::regex_replace(
      text.substr(begin, end - begin), std::regex("\\d+"), "#");
}

// --- what replaces a function that the library calls
// ---------------------------

uint64_t version_2_16_3() {
  return packed(2, 16, 3);
}
uint64_t version_2_9_1() {
  return packed(2, 9, 1);
}

int deleted = 0;
void count_deletion(void* address) {
  ++deleted;
  ::operator delete[](address);
}

uint64_t built_with = 0;
AOTITorchError dispatch(
    const char* op, const char* overload, StableIValue* stack, uint64_t build) {
  built_with = build;
  return torch_call_dispatcher(op, overload, stack, build);
}

AOTITorchError cuda_stream(int32_t device, void** stream) {
  *stream = reinterpret_cast<void*>(0x5eed0 + device);
  return device < 8 ? TORCH_SUCCESS : TORCH_FAILURE;
}

// A machine with an accelerator, as the headers' Stream sees it.
int streams = 0;
AOTITorchError get_current_stream(int32_t device, StreamHandle* stream) {
  ++streams;
  *stream = reinterpret_cast<StreamHandle>(0xca110 + device);
  return TORCH_SUCCESS;
}
AOTITorchError stream_native_handle(StreamHandle stream, void** handle) {
  *handle = reinterpret_cast<char*>(stream) - 0xca110 + 0x5eed0;
  return TORCH_SUCCESS;
}
AOTITorchError stream_id(StreamHandle, int64_t* id) {
  *id = 3;
  return TORCH_SUCCESS;
}
AOTITorchError delete_stream(StreamHandle) {
  --streams;
  return TORCH_SUCCESS;
}

} // namespace

TEST_CASE("06.1 a target that cannot be is refused") {
  const auto with = [](const char* target) {
    return guarded(std::string("-DTORCH_TARGET_VERSION=") + target);
  };
  CHECK(with("0x0210000000000000") == Contains("#error")); // 2.16
  CHECK(with("0x020a00000000") == Contains("#error"));     // a byte short
  CHECK(with("0x0209000000000000") == Contains("#error"));
  CHECK(with("0x0209ffffffffffff") == Contains("#error"));
  CHECK(guarded("") == Contains("#error"));
  CHECK(with("0x020a000000000000") == "accepted");
  CHECK(with("TORCH_ABI_VERSION") == "accepted");
}

TEST_CASE("06.2 three versions, and which two must agree") {
  for_each_library([](const Library& library) {
    const auto report = [&] { return said(library.abi_report()); };
    const std::string built = "built with " + text(headers()) + ", targets " +
        text(target(library)) + ", runs on ";
    CHECK(report() == said(built + text(aoti_torch_abi_version())));
    CHECK(library.is_supported());
    {
      const Replaced newer(
          library.inside, "aoti_torch_abi_version", version_2_16_3);
      CHECK(report() == said(built + "2.16.3"));
      CHECK(library.is_supported());
    }
    // Older than the headers, and just what the first library targets.
    const Replaced same(
        library.inside, "aoti_torch_abi_version", +[] {
          return packed(2, 10);
        });
    CHECK(library.is_supported() == (target(library) == packed(2, 10)));
    const Replaced older(
        library.inside, "aoti_torch_abi_version", version_2_9_1);
    CHECK(!library.is_supported());
  });
}

TEST_CASE("06.3 a tensor owns the data that it is given") {
  for_each_library([](const Library& library) {
    const bool copies = target(library) < packed(2, 11);
    INFO("target ", text(target(library)));
    const Replaced counted(library.inside, "_ZdaPv", count_deletion);
    deleted = 0;
    {
      Tensor tensor = library.count({5});
      CHECK(values<int64_t>(tensor) == std::vector<int64_t>{0, 1, 2, 3, 4});
      CHECK(deleted == (copies ? 1 : 0)); // a copy needs the buffer no longer
      const Tensor part = torch::stable::narrow(tensor, 0, 3, 2);
      tensor = part;
      CHECK(deleted == (copies ? 1 : 0)); // as long as a view of it lives
      CHECK(values<int64_t>(tensor) == std::vector<int64_t>{3, 4});
    }
    CHECK(deleted == 1);
    CHECK(library.count({0}).numel() == 0);
    CHECK(deleted == 2);
    const Tensor cube = library.count({4, 3, 2});
    CHECK(cube.strides().vec() == std::vector<int64_t>{6, 2, 1});
    CHECK(cube.const_data_ptr<int64_t>()[23] == 23);
    CHECK(
        library.count({3, 0, 2}).strides().vec() ==
        std::vector<int64_t>{2, 2, 1});
  });
  // The gate opens at 2.11, and not before.
  CHECK(seen("from_blob", 15, 10) != seen("from_blob", 15, 11));
}

TEST_CASE("06.4 permute is there with any headers") {
  for_each_library([](const Library& library) {
    std::vector<int64_t> data(24);
    for (size_t i = 0; i < data.size(); ++i) {
      data[i] = static_cast<int64_t>(i);
    }
    const Tensor x = tensor<int64_t>(data, {2, 3, 4});
    const Replaced recorded(library.inside, "torch_call_dispatcher", dispatch);
    const Tensor y = library.permute(x, {2, 0, 1});
    CHECK(y.sizes().vec() == std::vector<int64_t>{4, 2, 3});
    CHECK(y.strides().vec() == std::vector<int64_t>{1, 12, 4});
    CHECK(y.data_ptr() == x.data_ptr());
    CHECK(library.permute(x, {-1, 1, 0}).size(0) == 4);
    CHECK(library.permute(y, {1, 2, 0}).is_contiguous());
    CHECK(library.permute(tensor<int64_t>({7}, {}), {}).dim() == 0);
    CHECK(said(text(built_with)) == said(text(headers()))); // the last argument
    const String failed = refusal([&] { library.permute(x, {0, 0, 1}); });
    CHECK(failed != kNothingThrown);
    if (aoti_torch_abi_version() >= packed(2, 13)) {
      CHECK(failed == Contains("duplicate")); // libtorch's own reason
    }
  });
  // The gate opens with the headers of 2.14, whatever the target, and what it
  // opens compiles.
  CHECK(seen("permute", 13, 10) != seen("permute", 14, 10));
  const Headers newer(14);
  if (headers() < packed(2, 14)) {
    std::ofstream(newer.path + "/newer.h")
        << "#include <torch/csrc/stable/tensor.h>\n"
           "namespace torch::stable {\n"
           "Tensor permute(\n"
           "    const Tensor&, torch::headeronly::IntHeaderOnlyArrayRef);\n"
           "}\n";
    CHECK(
        said(compiler(
            "-fsyntax-only " + newer.options(10) + " -include" +
            quoted(newer.path + "/newer.h") + quoted(compat()))) == "");
  }
}

TEST_CASE("06.5 the current stream is the device's own") {
  constexpr char kName[] = "aoti_torch_get_current_cuda_stream";
  for_each_library([&](const Library& library) {
    const Replaced current(
        library.inside, "aoti_torch_get_current_stream", get_current_stream);
    const Replaced native(
        library.inside, "torch_stream_native_handle", stream_native_handle);
    const Replaced id(library.inside, "aoti_torch_stream_id", stream_id);
    const Replaced deleted(
        library.inside, "aoti_torch_delete_stream", delete_stream);
    if (target(library) < packed(2, 13)) {
      {
        AOTITorchError (*const nowhere)(int32_t, void**) = nullptr;
        const Replaced missing(library.inside, kName, nowhere);
        CHECK(refusal([&] { library.current_stream(0); }) == Contains(kName));
      }
      const Replaced found(library.inside, kName, cuda_stream);
      CHECK(library.current_stream(0) == 0x5eed0);
      CHECK(library.current_stream(3) == 0x5eed3);
      CHECK(refusal([&] { library.current_stream(9); }) == Contains(kName));
    } else {
      CHECK(library.current_stream(0) == 0x5eed0);
      CHECK(library.current_stream(3) == 0x5eed3);
    }
    CHECK(streams == 0); // each handle was released
  });
  // The gate opens at 2.13, and not before.
  CHECK(seen("current_stream", 15, 12) != seen("current_stream", 15, 13));
}

TEST_CASE("06 a library for newer libtorch is refused, or works") {
  const Library& newest = libraries()[1];
  if (newest.inside == nullptr) {
    CHECK(headers() > aoti_torch_abi_version());
    CHECK(said(newest.refusal) == Contains("undefined symbol: torch_"));
  }
}

TEST_CASE("06 sizes are checked before anything is allocated") {
  for_each_library([](const Library& library) {
    CHECK(refusal([&] { library.count({-1}); }) == Contains("got -1"));
  });
}

TEST_CASE("06 a dtype newer than the target is refused when it crosses") {
  // The one gate that no compiler sees: this file targets 2.10.
  using c10::ScalarType;
  const auto cross = [](ScalarType dtype) {
    return refusal([&] { detail::from(dtype); });
  };
  CHECK(cross(ScalarType::Float8_e4m3fn) == kNothingThrown);
  CHECK(cross(ScalarType::Float8_e8m0fnu) == Contains("Not yet supported"));
}
