// Tests of chapter 06: a case a step, for both of its libraries. The one that
// targets the version of its headers may be refused by an older libtorch.
#include "testing/aten.h"
#include "testing/child.h"
#include "testing/dispatcher.h"
#include "testing/library.h"
#include "testing/print.h"
#include "testing/refusal.h"
#include "testing/replaced.h"

#include <doctest/doctest.h>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

using namespace workbook;
using doctest::Contains;
using doctest::String;
using torch::stable::Tensor;

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
  std::string name;   // of its ops' namespace
  const void* inside; // any address in it, or null: it does not load
  std::string file;
  std::string refusal; // what the loader said then

  // Calls an op without tensors.
  StableIValue call(const char* op, std::vector<StableIValue> stack) const {
    stack.resize(std::max<size_t>(stack.size(), 1));
    call_op(name + "::" + op, "", stack.data());
    return stack[0];
  }
  StableIValue call(const char* op) const {
    return call(op, {});
  }
  std::string text(const char* op, std::vector<StableIValue> stack = {}) const {
    const auto handle =
        torch::stable::detail::to<StringHandle>(call(op, stack));
    const char* data = nullptr;
    size_t size = 0;
    torch_string_c_str(handle, &data);
    torch_string_length(handle, &size);
    std::string text(data, size);
    torch_delete_string(handle);
    return text;
  }
  int64_t integer(const char* op, std::vector<StableIValue> stack = {}) const {
    return static_cast<int64_t>(call(op, stack));
  }
  Tensor count(int64_t n) const {
    return torch::stable::detail::to<Tensor>(
        call("count", {torch::stable::detail::from(n)}));
  }
};

// The libraries that load. The first always does: the harness has loaded it.
const std::vector<Library>& libraries() {
  static const std::vector<Library> found = [] {
    Dl_info info;
    const void* inside = library_symbol("wb06_no_gate");
    REQUIRE(dladdr(inside, &info) != 0);
    Library first{"wb06", inside, info.dli_fname, ""};
    Library newest{"wb06_newest", nullptr, first.file, ""};
    newest.file.insert(newest.file.rfind(".so"), "_newest");
    if (void* handle = dlopen(newest.file.c_str(), RTLD_NOW)) {
      newest.inside = dlsym(handle, "wb06_no_gate");
    } else {
      newest.refusal = dlerror();
    }
    return std::vector<Library>{first, newest};
  }();
  return found;
}

template <class Check>
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

// The version of the headers that the library was built with.
uint64_t headers() {
  const std::string text =
      read(cached("TORCH_ROOT") + "/include/torch/headeronly/version.h");
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

// An include folder with nothing of torch's but the header-only part and the
// versions.
struct Versions {
  std::string folder = std::filesystem::temp_directory_path() / "wb06-XXXXXX";

  explicit Versions(const std::filesystem::path& torch) {
    REQUIRE(mkdtemp(folder.data()) != nullptr);
    const std::filesystem::path here = folder + "/torch";
    std::filesystem::create_directories(here / "csrc/stable");
    for (const char* name : {"headeronly", "csrc/stable/version.h"}) {
      std::filesystem::create_symlink(torch / name, here / name);
    }
  }
  ~Versions() {
    std::filesystem::remove_all(folder);
  }
  Versions(const Versions&) = delete;
  Versions& operator=(const Versions&) = delete;
};

// What the compiler says to the folder's compat.h, up to the first header of
// torch that it includes beside the versions: there it ends, for that one is
// not found. "accepted" if it comes so far, or the folder's own TODO in its
// place.
String compile(const std::string& option, const char* todo) {
  const Versions include(cached("TORCH_ROOT") + "/include/torch");
  const auto quoted = [](const std::string& word) {
    return " '" + std::regex_replace(word, std::regex("'"), "'\\''") + "'";
  };
  const std::string header = cached("CMAKE_HOME_DIRECTORY") + "/compat.h";
  const std::string command = "env -u LD_LIBRARY_PATH LC_ALL=C" +
      quoted(cached("CMAKE_CXX_COMPILER")) + " -std=c++17 -fsyntax-only -w " +
      "-Wfatal-errors " + option + " -isystem" + quoted(include.folder) +
      " -xc++" + quoted(header) + " 2>&1";
  std::FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  std::array<char, 4096> buffer;
  while (const size_t size =
             std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    text.append(buffer.data(), size);
  }
  pclose(pipe);
  if (text.find("No such file") == std::string::npos &&
      text.find("file not found") == std::string::npos) {
    return text.c_str();
  }
  const std::string line =
      matched(read(header), std::string("// (TODO\\(") + todo + "\\).*)");
  return line.empty() ? "accepted" : line.c_str();
}

// --- what replaces a function of libtorch or of the loader -------------------

uint64_t version_2_16_3() {
  return packed(2, 16, 3);
}

// dlsym() in the process of an older or of another libtorch.
struct Lookups {
  static inline const char* name = "";  // this one is answered
  static inline void* answer = nullptr; // by this
  static inline int count = 0;          // and was asked so often
  static inline bool in_cuda = false;   // only in libtorch_cuda.so, of which
  static inline char cuda = 0;          // the address of this is the handle

  static void* find(void* handle, const char* asked) {
    if (std::strcmp(asked, name) != 0) {
      return dlsym(handle, asked);
    }
    ++count;
    return in_cuda && handle != &cuda ? nullptr : answer;
  }
  static void* open(const char* file, int flags) {
    return file != nullptr && std::strstr(file, "libtorch_cuda.so")
        ? &cuda
        : dlopen(file, flags);
  }
};

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

TEST_CASE("06.1 a packed version becomes text") {
  for_each_library([](const Library& library) {
    const auto version_text = [&](uint64_t version) {
      return String(library.text("version_text", {version}).c_str());
    };
    CHECK(version_text(0x020a000000000000) == "2.10.0");
    CHECK(version_text(0x0210000000000000) == "2.16.0");
    CHECK(version_text(0x020c010000000000) == "2.12.1");
    CHECK(version_text(0x020d00ffffffffff) == "2.13.0"); // not of the version
    CHECK(version_text(0x0300000000000000) == "3.0.0");
    CHECK(version_text(0xff80ff0000000000) == "255.128.255");
  });
}

TEST_CASE("06.2 the report names three versions") {
  for_each_library([](const Library& library) {
    const auto report = [&] {
      return String(library.text("abi_report").c_str());
    };
    const std::string built = "built with " + text(headers()) + ", targets " +
        text(target(library)) + ", runs on ";
    CHECK(report() == String((built + text(aoti_torch_abi_version())).c_str()));
    const Replaced newer(
        library.inside, "aoti_torch_abi_version", version_2_16_3);
    CHECK(report() == String((built + "2.16.3").c_str()));
  });
}

TEST_CASE("06.3 a target that cannot be is refused") {
  const auto with = [](const char* target) {
    return compile(std::string("-DTORCH_TARGET_VERSION=") + target, "06.3");
  };
  CHECK(with("0x0210000000000000") == Contains("TORCH_TARGET_VERSION")); // 2.16
  CHECK(with("0x0210000000000000") == Contains("#error"));
  CHECK(with("0x020a00000000") == Contains("#error")); // a byte short
  CHECK(with("0x0209000000000000") == Contains("#error"));
  CHECK(with("0x0209ffffffffffff") == Contains("#error"));
  CHECK(compile("", "06.3") == Contains("#error"));
  CHECK(with("0x020a000000000000") == "accepted");
  CHECK(with("TORCH_ABI_VERSION") == "accepted");
}

TEST_CASE("06.4 a tensor owns the data that it is given") {
  for_each_library([](const Library& library) {
    const auto alive = [&] { return library.integer("buffers_alive"); };
    const bool copies = target(library) < packed(2, 11);
    INFO("target ", text(target(library)));
    REQUIRE(alive() == 0);
    {
      Tensor tensor = library.count(5);
      CHECK(values<int64_t>(tensor) == std::vector<int64_t>{0, 1, 2, 3, 4});
      CHECK(alive() == (copies ? 0 : 1)); // a copy needs the buffer no longer
      const Tensor part = torch::stable::narrow(tensor, 0, 3, 2);
      tensor = part;
      CHECK(alive() == (copies ? 0 : 1)); // as long as a view of it lives
      CHECK(values<int64_t>(tensor) == std::vector<int64_t>{3, 4});
    }
    CHECK(alive() == 0);
    CHECK(library.count(0).numel() == 0);
    CHECK(alive() == 0);
    CHECK(library.count(100000).const_data_ptr<int64_t>()[99999] == 99999);
    CHECK(alive() == 0);
  });
}

TEST_CASE("06.5 permute is there with any headers") {
  for_each_library([](const Library& library) {
    const auto permute = [&](const Tensor& self, std::vector<int64_t> dims) {
      using torch::stable::detail::from;
      return torch::stable::detail::to<Tensor>(
          library.call("permute", {from(self), from(dims)}));
    };
    std::vector<int64_t> data(24);
    for (size_t i = 0; i < data.size(); ++i) {
      data[i] = static_cast<int64_t>(i);
    }
    const Tensor x = tensor<int64_t>(data, {2, 3, 4});
    const Tensor y = permute(x, {2, 0, 1});
    CHECK(y.sizes().vec() == std::vector<int64_t>{4, 2, 3});
    CHECK(y.strides().vec() == std::vector<int64_t>{1, 12, 4});
    CHECK(y.data_ptr() == x.data_ptr());
    CHECK(
        permute(x, {-1, 1, 0}).sizes().vec() == std::vector<int64_t>{4, 3, 2});
    CHECK(permute(y, {1, 2, 0}).is_contiguous());
    CHECK(permute(tensor<int64_t>({7}, {}), {}).dim() == 0);
    // In a process of its own, for what is looked up once stays.
    const std::string failed = text_in_child([&] {
      const String reason = refusal([&] { permute(x, {0, 0, 1}); });
      return std::string("thrown: ") + reason.c_str();
    });
    CHECK(String(failed.c_str()) == Contains("thrown: "));
    CHECK(String(failed.c_str()) != Contains("nothing was thrown"));
  });
}

TEST_CASE("06.6 an error has its reason, wherever libtorch keeps it") {
  constexpr char kName[] = "torch_exception_get_what_without_backtrace";
  const bool asked = aoti_torch_abi_version() >= packed(2, 13);
  for_each_library([&](const Library& library) {
    // Thrice, in a process of its own each time: what is looked up once stays.
    const auto failing_call = [&] {
      std::string text, written;
      {
        const CapturedStderr captured;
        text = library.text("failing_call");
        text = library.text("failing_call");
        text = library.text("failing_call");
        written = captured.text();
      }
      return text + (asked ? "" : "; on stderr: " + written);
    };
    const std::string here = text_in_child(failing_call);
    CHECK(String(here.c_str()) == Contains("device: "));
    CHECK(String(here.c_str()) == Contains("gpu")); // libtorch's own reason
    CHECK((here.find("stderr") == std::string::npos) == asked);

    // As found by name, or as a weak symbol.
    const auto with = [&](const char* (*answer)()) {
      Lookups::name = kName;
      Lookups::answer = reinterpret_cast<void*>(answer);
      const Replaced direct(library.inside, kName, answer);
      const Replaced lookups(library.inside, "dlsym", Lookups::find);
      return text_in_child([&] {
        Lookups::count = 0;
        const std::string text = failing_call();
        return text + (Lookups::count > 1 ? "; looked up each time" : "");
      });
    };
    const std::string before_2_13 = with(nullptr);
    CHECK(String(before_2_13.c_str()) == Contains("stderr"));
    const std::string since = with([] {
      static int errors = 0;
      return errors++ == 0 ? "an older text" : "a text of libtorch's";
    });
    CHECK(String(since.c_str()) == Contains("device: a text of libtorch's"));
    CHECK(String(since.c_str()) != Contains("looked up each time"));
  });
}

TEST_CASE("06.7 the current stream is the device's own") {
  constexpr char kName[] = "aoti_torch_get_current_cuda_stream";
  for_each_library([&](const Library& library) {
    const auto stream = [&](int64_t device) {
      const int64_t handle = library.integer(
          "current_stream", {torch::stable::detail::from(device)});
      std::ostringstream text;
      text << std::hex << handle;
      return text.str();
    };
    const Replaced lookups(library.inside, "dlsym", Lookups::find);
    const Replaced opened(library.inside, "dlopen", Lookups::open);
    const Replaced direct(library.inside, kName, cuda_stream);
    const Replaced current(
        library.inside, "aoti_torch_get_current_stream", get_current_stream);
    const Replaced native(
        library.inside, "torch_stream_native_handle", stream_native_handle);
    const Replaced id(library.inside, "aoti_torch_stream_id", stream_id);
    const Replaced deleted(
        library.inside, "aoti_torch_delete_stream", delete_stream);
    Lookups::name = kName;
    Lookups::answer = nullptr;
    Lookups::in_cuda = true; // Python loads it where a search finds nothing
    if (target(library) < packed(2, 13)) {
      const std::string text = text_in_child([&] {
        const String missing = refusal([&] { stream(0); });
        Lookups::answer = reinterpret_cast<void*>(cuda_stream);
        return std::string(missing.c_str()) + "; then " + stream(3);
      });
      CHECK(String(text.c_str()) == Contains(kName)); // names what is missing
      CHECK(String(text.c_str()) == Contains("; then 5eed3"));
      const std::string failed = text_in_child([&] {
        Lookups::answer = reinterpret_cast<void*>(cuda_stream);
        return stream(9);
      });
      CHECK(String(failed.c_str()) == Contains(kName));
    } else {
      CHECK(stream(0) == "5eed0");
      CHECK(stream(3) == "5eed3");
      CHECK(streams == 0); // each handle was released
    }
  });
}

TEST_CASE("06 a library for newer libtorch is refused, or works") {
  const Library& newest = libraries()[1];
  if (newest.inside == nullptr) {
    CHECK(headers() > aoti_torch_abi_version());
    CHECK(
        String(newest.refusal.c_str()) == Contains("undefined symbol: torch_"));
  }
}

TEST_CASE("06 a failed call gives its reason through an op") {
  for_each_library([](const Library& library) {
    const String text = refusal([&] {
      using torch::stable::detail::from;
      const std::vector<int64_t> twice{0, 0};
      library.call(
          "permute", {from(torch::stable::full({1, 1}, 0)), from(twice)});
    });
    CHECK(text == Contains("permute"));
    CHECK(refusal([&] { library.count(-1); }) == Contains("got -1"));
  });
}

TEST_CASE("06 a dtype newer than the target is refused when it crosses") {
  // The one gate that no compiler sees: this file targets 2.10.
  using c10::ScalarType;
  const auto cross = [](ScalarType dtype) {
    return refusal([&] { torch::stable::detail::from(dtype); });
  };
  CHECK(cross(ScalarType::Float8_e4m3fn) == "(nothing was thrown)");
  CHECK(cross(ScalarType::Float8_e8m0fnu) == Contains("Not yet supported"));
}

TEST_CASE("06 what is timed behind each gate is the same calls") {
  for (const char* gate :
       {"no_gate",
        "compile_time_gate",
        "run_time_gate",
        "looked_up_once",
        "looked_up_each_time"}) {
    INFO(gate);
    const std::string name = std::string("wb06_") + gate;
    const auto repeat = function<int64_t(int64_t)>(name.c_str());
    CHECK(repeat(0) == 0);
    CHECK(repeat(3) == 3 * aoti_torch_dtype_float32());
  }
}
