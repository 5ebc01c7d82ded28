// Tests of chapter 06: a case a step, for both of its libraries. The one that
// targets the version of its headers may be refused by an older libtorch.
#include "testing/aten.h"
#include "testing/checks.h"
#include "testing/child.h"
#include "testing/dispatcher.h"
#include "testing/replaced.h"
#include "testing/slots.h"

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
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

using namespace workbook;
using doctest::Contains;
using doctest::String;
using torch::stable::Tensor;
namespace conversions = torch::stable::detail;

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
    const auto handle = conversions::to<StringHandle>(call("abi_report", {}));
    const char* data = nullptr;
    size_t size = 0;
    torch_string_c_str(handle, &data);
    torch_string_length(handle, &size);
    std::string text(data, size);
    torch_delete_string(handle);
    return text;
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

// What the build folder of the library says: CMAKE_HOME_DIRECTORY, TORCH_ROOT.
const std::string& cached(const std::string& key) {
  static std::map<std::string, std::string> known; // a search takes its time
  std::string& value = known[key];
  if (value.empty()) {
    const std::string& file = libraries()[0].file;
    const std::string text =
        read(file.substr(0, file.rfind('/')) + "/CMakeCache.txt");
    const size_t begin = text.find('=', text.find("\n" + key + ":")) + 1;
    value = text.substr(begin, text.find('\n', begin) - begin);
  }
  return value;
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

template <typename Check>
void for_each_library(const Check& check) {
  for (const Library& library : libraries()) {
    if (library.inside != nullptr) {
      const std::string name = library.file.substr(library.file.rfind('/') + 1);
      INFO(name, " targets ", text(target(library)));
      check(library);
    }
  }
}

// --- what the compiler makes of the folder's compat.h ------------------------

// "compat.h:17:2: error: ...".
std::string first_error(const std::string& text) {
  const std::string line = matched(text, "([^\n]*error: [^\n]*)");
  return line.empty() ? text : line;
}

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

// A process of the compiler. Of several all are begun before the first is read:
// a learner's case has ten seconds, on a busy machine too.
class Compiler {
 public:
  explicit Compiler(const std::string& options) {
    const std::string command = "env -u LD_LIBRARY_PATH LC_ALL=C" +
        quoted(cached("CMAKE_CXX_COMPILER")) + " -std=c++17 -w -xc++ " +
        options + " 2>&1";
    pipe_.reset(popen(command.c_str(), "r"));
    REQUIRE(pipe_ != nullptr);
  }

  // What it prints, its errors too.
  std::string text() {
    std::string text;
    std::array<char, 4096> buffer;
    while (const size_t size =
               std::fread(buffer.data(), 1, buffer.size(), pipe_.get())) {
      text.append(buffer.data(), size);
    }
    return text;
  }

 private:
  struct Close {
    void operator()(std::FILE* pipe) const {
      pclose(pipe);
    }
  };
  std::unique_ptr<std::FILE, Close> pipe_;
};

// A folder with torch's versions and none of its other headers: the compiler
// ends at the first that compat.h includes, for it is not found there.
struct Versions : Folder {
  Versions() {
    for (const char* name : {"headeronly", "csrc/stable"}) {
      std::filesystem::create_symlink(
          torch_include() + name + "/version.h",
          path + "/torch/" + name + "/version.h");
    }
  }
};

// What the compiler makes of compat.h with a target.
class Target {
 public:
  Target(const Versions& versions, const std::string& target)
      : target_(target),
        compiler_(
            "-fsyntax-only -Wfatal-errors -isystem" + quoted(versions.path) +
            (target.empty() ? "" : " -DTORCH_TARGET_VERSION=" + target) +
            quoted(compat())) {}

  // "" if it stops at an #error; else what is wrong, or the folder's own TODO.
  std::string not_refused() {
    if (compiler_.text().find("#error") != std::string::npos) {
      return "";
    }
    const std::string todo = matched(read(compat()), "// (TODO\\(06.1\\).*)");
    return !todo.empty() ? todo
        : target_.empty()
        ? "that no target is defined is accepted, without an #error"
        : "the target " + target_ + " is accepted, without an #error";
  }
  // "" if it goes on to the header that is not there.
  std::string not_accepted() {
    const std::string text = compiler_.text();
    return text.find("No such file") != std::string::npos ||
            text.find("file not found") != std::string::npos
        ? ""
        : "the target " + target_ + " is refused: " + first_error(text);
  }

 private:
  std::string target_;
  Compiler compiler_;
};

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

// One function of compat.h as the compiler sees it with the headers and at the
// target of these versions.
class Seen {
 public:
  Seen(const char* function, int headers_minor, int target_minor)
      : function_(function),
        headers_(headers_minor),
        compiler_(
            "-E -P " + headers_.options(target_minor) + quoted(compat())) {}

  // But for the numbers in it.
  std::string text() {
    const std::string text = compiler_.text();
    const size_t begin = text.rfind(" " + function_ + "(");
    const size_t end = text.find("\n}", begin);
    INFO(text.substr(text.size() - std::min<size_t>(text.size(), 2000)));
    REQUIRE(end != std::string::npos);
    return std::regex_replace(
        text.substr(begin, end - begin), std::regex("\\d+"), "#");
  }

 private:
  std::string function_;
  Headers headers_;
  Compiler compiler_;
};

// "" if the compiler sees another text of a function at the second target.
std::string not_gated_by_target(const char* function, int target, int other) {
  constexpr int kHeaders = 15;
  Seen below(function, kHeaders, target), above(function, kHeaders, other);
  return below.text() != above.text()
      ? ""
      : std::string(function) + " is the same at target 2." +
          std::to_string(target) + " and at target 2." + std::to_string(other);
}
// The same with other headers, at a target of 2.10.
std::string not_gated_by_headers(const char* function, int headers, int other) {
  Seen below(function, headers, 10), above(function, other, 10);
  return below.text() != above.text() ? ""
                                      : std::string(function) +
          " is the same with the headers of 2." + std::to_string(headers) +
          " and with those of 2." + std::to_string(other) + ", at target 2.10";
}

// --- what replaces a function that the library calls -------------------------

uint64_t version_2_16_3() {
  return packed(2, 16, 3);
}
uint64_t version_2_10() {
  return packed(2, 10);
}
uint64_t version_2_9_1() {
  return packed(2, 9, 1);
}

std::string hex(int64_t handle) {
  return slots::hex(static_cast<StableIValue>(handle));
}

int deleted = 0;
void count_deletion(void* address) {
  ++deleted;
  ::operator delete[](address);
}

uint64_t given_to_call = 0;
AOTITorchError dispatch(
    const char* op, const char* overload, StableIValue* stack, uint64_t build) {
  given_to_call = build;
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

TEST_CASE(
    "06.1 a target that cannot be is refused" *
    doctest::description("A target that cannot be is accepted, or one that can "
                         "be is refused.")) {
  const Versions versions;
  std::vector<Target> wrong, right;
  for (const char* target :
       {"0x0210000000000000", // 2.16
        "0x020a00000000",     // a byte short
        "0x0209000000000000",
        "0x0209ffffffffffff",
        ""}) {
    wrong.emplace_back(versions, target);
  }
  for (const char* target : {"0x020a000000000000", "TORCH_ABI_VERSION"}) {
    right.emplace_back(versions, target);
  }
  for (Target& target : wrong) {
    REQUIRE_CLEAN(target.not_refused());
  }
  for (Target& target : right) {
    REQUIRE_CLEAN(target.not_accepted());
  }
}

TEST_CASE(
    "06.2 which two of the three versions must agree" *
    doctest::description("is_supported does not compare what is targeted with "
                         "what runs.")) {
  for_each_library([](const Library& library) {
    const auto supported_on = [&library](uint64_t (*version)()) {
      const Replaced other(library.inside, "aoti_torch_abi_version", version);
      return library.is_supported();
    };
    const auto expect = [&](bool supported, uint64_t (*version)()) {
      INFO("on libtorch ", text(version()));
      const bool is_supported = supported_on(version);
      CHECK(is_supported == supported);
    };
    expect(true, aoti_torch_abi_version);
    expect(true, version_2_16_3);
    // Older than the headers, and just what the first library targets.
    expect(target(library) == packed(2, 10), version_2_10);
    expect(false, version_2_9_1);
  });
}

TEST_CASE(
    "06.2 the report has all three versions" *
    doctest::description("abi_report does not say each of the three versions "
                         "in its place.")) {
  for_each_library([](const Library& library) {
    const std::string built = "built with " + text(headers()) + ", targets " +
        text(target(library)) + ", runs on ";
    {
      const std::string report = library.abi_report();
      CHECK(report == built + text(aoti_torch_abi_version()));
    }
    const Replaced newer(
        library.inside, "aoti_torch_abi_version", version_2_16_3);
    INFO("on libtorch 2.16.3");
    const std::string report = library.abi_report();
    CHECK(report == built + "2.16.3");
  });
}

TEST_CASE(
    "06.3 a tensor owns the data that it is given" *
    doctest::description("The tensor loses its data, or the deleter does not "
                         "run exactly once.")) {
  for_each_library([](const Library& library) {
    const bool copies = target(library) < packed(2, 11);
    const Replaced counted(library.inside, "_ZdaPv", count_deletion);
    deleted = 0;
    const auto ran = [](int wanted, const std::string& when) {
      if (deleted != wanted) {
        FAIL(
            "the deleter has run ",
            deleted,
            " time(s) ",
            when,
            ", not ",
            wanted);
      }
    };
    const int at_once = copies ? 1 : 0; // a copy needs the buffer no longer
    {
      Tensor tensor = library.count({5});
      const auto data = values<int64_t>(tensor);
      CHECK(data == std::vector<int64_t>{0, 1, 2, 3, 4});
      ran(at_once, "when the tensor is made");
      const Tensor part = torch::stable::narrow(tensor, 0, 3, 2);
      tensor = part;
      ran(at_once, "while a view of the tensor lives");
      const auto rest = values<int64_t>(tensor);
      CHECK(rest == std::vector<int64_t>{3, 4});
    }
    ran(1, "when the tensor and its view are gone");
    CHECK(library.count({0}).numel() == 0);
    ran(2, "for two tensors, of which one is empty");
    const Tensor cube = library.count({4, 3, 2});
    const auto strides = cube.strides().vec();
    CHECK(strides == std::vector<int64_t>{6, 2, 1});
    CHECK(cube.const_data_ptr<int64_t>()[23] == 23);
    const auto strides_of_empty = library.count({3, 0, 2}).strides().vec();
    CHECK(strides_of_empty == std::vector<int64_t>{2, 2, 1});
  });
}

TEST_CASE(
    "06.3 the gate opens at target 2.11, and not before" *
    doctest::description("The gate opens at another target than 2.11.")) {
  REQUIRE_CLEAN(not_gated_by_target("from_blob", 10, 11));
}

TEST_CASE(
    "06.4 permute is there with any headers" *
    doctest::description("The call by name gives another view, names another "
                         "version, or hides that it failed.")) {
  for_each_library([](const Library& library) {
    std::vector<int64_t> data(24);
    for (size_t i = 0; i < data.size(); ++i) {
      data[i] = static_cast<int64_t>(i);
    }
    const Tensor x = tensor<int64_t>(data, {2, 3, 4});
    const Replaced recorded(library.inside, "torch_call_dispatcher", dispatch);
    {
      INFO("x is [2, 3, 4], permuted by [2, 0, 1]");
      const Tensor y = library.permute(x, {2, 0, 1});
      const auto sizes = y.sizes().vec();
      const auto strides = y.strides().vec();
      CHECK(sizes == std::vector<int64_t>{4, 2, 3});
      CHECK(strides == std::vector<int64_t>{1, 12, 4});
      if (y.data_ptr() != x.data_ptr()) {
        FAIL("the result is no view: it has other memory than x");
      }
      CHECK(library.permute(y, {1, 2, 0}).is_contiguous());
    }
    CHECK(library.permute(x, {-1, 1, 0}).size(0) == 4);
    CHECK(library.permute(tensor<int64_t>({7}, {}), {}).dim() == 0);
    {
      INFO("built_with is the last argument of the call");
      const std::string built_with = text(given_to_call);
      CHECK(built_with == text(headers()));
    }
    INFO("permuted by [0, 0, 1], which libtorch refuses");
    // What the slot holds after a failed call is not a tensor.
    const std::string failed = in_child([&] { library.permute(x, {0, 0, 1}); });
    if (failed.rfind("threw: ", 0) != 0) {
      FAIL("the call fails, and nothing is thrown: ", failed);
    }
    if (aoti_torch_abi_version() >= packed(2, 13)) {
      CHECK(said(failed) == Contains("duplicate")); // libtorch's own reason
    }
  });
}

TEST_CASE(
    "06.4 the gate opens with the headers of 2.14, whatever the target" *
    doctest::description("The gate does not open with the headers of 2.14, or "
                         "what it opens does not compile.")) {
  REQUIRE_CLEAN(not_gated_by_headers("permute", 13, 14));
  const Headers newer(14);
  if (headers() < packed(2, 14)) {
    std::ofstream(newer.path + "/newer.h")
        << "#include <torch/csrc/stable/tensor.h>\n"
           "namespace torch::stable {\n"
           "Tensor permute(\n"
           "    const Tensor&, torch::headeronly::IntHeaderOnlyArrayRef);\n"
           "}\n";
    Compiler with_wrapper(
        "-fsyntax-only " + newer.options(10) + " -include" +
        quoted(newer.path + "/newer.h") + quoted(compat()));
    const std::string said = with_wrapper.text();
    REQUIRE_CLEAN(
        said.empty() ? ""
                     : "with the headers of 2.14 the compiler says:\n" +
                first_error(said));
  }
}

TEST_CASE(
    "06.5 the current stream is the device's own" *
    doctest::description("current_stream does not give the device's own "
                         "handle, or does not say why it cannot.")) {
  constexpr char kName[] = "aoti_torch_get_current_cuda_stream";
  for_each_library([&](const Library& library) {
    const Replaced current(
        library.inside, "aoti_torch_get_current_stream", get_current_stream);
    const Replaced native(
        library.inside, "torch_stream_native_handle", stream_native_handle);
    const Replaced id(library.inside, "aoti_torch_stream_id", stream_id);
    const Replaced deleted(
        library.inside, "aoti_torch_delete_stream", delete_stream);
    const auto refused = [&library](int64_t device) {
      return refusal([&] { library.current_stream(device); });
    };
    const bool old = target(library) < packed(2, 13);
    if (old) {
      INFO("in a PyTorch without libtorch_cuda.so");
      AOTITorchError (*const nowhere)(int32_t, void**) = nullptr;
      const Replaced missing(library.inside, kName, nowhere);
      CHECK(refused(0) == Contains(kName));
    }
    const Replaced found(library.inside, kName, cuda_stream);
    for (const int64_t device : {0, 3}) {
      INFO("of device ", device);
      const auto stream = hex(library.current_stream(device));
      CHECK(stream == hex(0x5eed0 + device));
    }
    if (old) {
      INFO("of device 9, which is not there: the call fails");
      CHECK(refused(9) == Contains(kName));
    }
    INFO("the streams that were got and not released");
    CHECK(streams == 0);
  });
}

TEST_CASE(
    "06.5 the gate opens at target 2.13, and not before" *
    doctest::description("The gate opens at another target than 2.13.")) {
  REQUIRE_CLEAN(not_gated_by_target("current_stream", 12, 13));
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
    return refusal([&] { conversions::from(dtype); });
  };
  CHECK(cross(ScalarType::Float8_e4m3fn) == kNothingThrown);
  CHECK(cross(ScalarType::Float8_e8m0fnu) == Contains("Not yet supported"));
}
