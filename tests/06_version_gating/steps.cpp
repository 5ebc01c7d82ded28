// Tests of chapter 06: a case a step, for both of its libraries. The one that
// targets the version of its headers may be refused by an older libtorch.
#include "testing/aten.h"
#include "testing/checks.h"
#include "testing/child.h"
#include "testing/dispatcher.h"
#include "testing/meeting.h"
#include "testing/replaced.h"
#include "testing/symbols.h"
#include "testing/text.h"
#include "trace/slots.h"

#include <doctest/doctest.h>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <set>
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

std::string build_folder() {
  const std::string& file = libraries()[0].file;
  return file.substr(0, file.rfind('/'));
}

// What the build folder of the library says: CMAKE_HOME_DIRECTORY, TORCH_ROOT.
const std::string& cached(const std::string& key) {
  static std::map<std::string, std::string> known; // a search takes its time
  std::string& value = known[key];
  if (value.empty()) {
    const std::string text = read(build_folder() + "/CMakeCache.txt");
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
  return " '" + replaced(word, "'", "'\\''") + "'";
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

// A text of torch's version.h that says it is another version.
std::string version_header(uint64_t version) {
  std::string text = read(torch_include() + "headeronly/version.h");
  const auto write = [&](const char* name, uint64_t number) {
    const std::string before = std::string("#define TORCH_VERSION_") + name;
    text =
        replaced(text, "(" + before + ") \\d+", "$1 " + std::to_string(number));
  };
  write("MAJOR", version >> 56);
  write("MINOR", version >> 48 & 255);
  write("PATCH", version >> 40 & 255);
  return text;
}

// A folder with torch's versions and none of its other headers: the compiler
// ends at the first that compat.h includes, for it is not found there.
struct Versions : Folder {
  explicit Versions(uint64_t headers) {
    std::ofstream(path + "/torch/headeronly/version.h")
        << version_header(headers);
    std::filesystem::create_symlink(
        torch_include() + "csrc/stable/version.h",
        path + "/torch/csrc/stable/version.h");
  }
  const std::string& folder() const {
    return path;
  }
};

std::string target_option(uint64_t target) {
  return "-DTORCH_TARGET_VERSION=" + slots::hex(target);
}

// "" for a text in which the compiler stops at an #error; else what is wrong,
// or the folder's own TODO. `target` is as it is written in C++, "" for none.
std::string not_refused(const std::string& said, const std::string& target) {
  if (said.find("#error") != std::string::npos) {
    return "";
  }
  const std::string todo = matched(read(compat()), "// (TODO\\(06.1\\).*)");
  return !todo.empty() ? todo
      : target.empty()
      ? "that no target is defined is accepted, without an #error"
      : "the target " + target + " is accepted, without an #error";
}

// "" unless what an #error tells to define is a target that cannot be.
std::string bad_advice(const std::string& said) {
  const std::string line = first_error(said);
  for (const std::string& number : matches(line, "0x[0-9a-fA-F]{12,16}")) {
    const uint64_t told = std::stoull(number, nullptr, 16);
    if (told < packed(2, 10) || told > headers()) {
      return "for no target your #error says " + number +
          ", and whoever takes that is refused again:\n" + line;
    }
  }
  return "";
}

// "" unless the #error for no target is that of a target below 2.10, and says
// nothing else.
std::string mistaken(const std::string& none, const std::string& below) {
  const auto message = [](const std::string& said) {
    return matched(said, "error: ([^\n]*)");
  };
  std::string words = message(none);
  const bool same = words == message(below);
  for (char& c : words) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return !same ||
          !matched(words, "define|definition|\\bset\\b|missing|-d").empty()
      ? ""
      : "who has set no target reads that it is below 2.10: " +
          first_error(none);
}

// What takes the macros away that a text defines: it can be read once more.
std::string without_macros(const std::string& text) {
  std::string undefined;
  for (const std::string& name : matches(text, "# *define +(\\w+)")) {
    undefined += "#undef " + name + "\n";
  }
  return undefined;
}

// What the compiler makes of the beginning of compat.h, before its other
// headers, with one version of the headers and target after target.
class Beginning {
 public:
  explicit Beginning(uint64_t headers) : versions_(headers) {
    const std::string all = read(compat());
    text_ = all.substr(0, all.find("#include \"")) + "\n";
  }

  // "" for none, and PyTorch's older macro, which does not say one.
  void add(const std::string& target) {
    source_ += without_macros(text_) + "#undef TORCH_TARGET_VERSION\n#define " +
        (target.empty() ? "TORCH_STABLE_ONLY"
                        : "TORCH_TARGET_VERSION " + target) +
        "\n#line 1 \"at " + target + "\"\n" + text_;
  }
  // A macro is to have a value at this target, in an #if and in C++.
  void expect(const std::string& macro, const std::string& value) {
    const std::string what = "\"" + macro + " should be " + value + "\"";
    source_ += "#if (" + macro + ") != " + value + "\n#error " + what +
        "\n#endif\nstatic_assert((" + macro + ") == " + value + ", " + what +
        ");\n";
  }

  // Before the next two.
  void compile() {
    const std::string file = versions_.path + "/beginning.h";
    std::ofstream(file) << source_;
    compiler_ = std::make_unique<Compiler>(
        "-fsyntax-only -isystem" + quoted(versions_.folder()) + quoted(file));
  }
  std::string not_refused(const std::string& target) {
    return ::not_refused(errors(target), target);
  }
  std::string not_accepted(const std::string& target) {
    const std::string found = errors(target);
    const std::string macro = matched(found, "\"(COMPAT_[^\"]*)\"");
    return found.empty() ? ""
        : !macro.empty()
        ? macro + ", at target " + target
        : "the target " + target + " is refused: " + first_error(found);
  }
  // What it said at this target.
  std::string errors(const std::string& target) {
    if (compiler_ != nullptr) {
      said_ = compiler_->text();
      compiler_.reset();
    }
    std::string found;
    std::istringstream lines(said_);
    bool here = false; // with the lines that the compiler shows
    for (std::string line; std::getline(lines, line);) {
      here = line.rfind("at ", 0) == 0
          ? line.rfind("at " + target + ":", 0) == 0
          : here;
      found += here ? line + "\n" : "";
    }
    return found;
  }

 private:
  Versions versions_;
  std::string text_, source_, said_;
  std::unique_ptr<Compiler> compiler_;
};

// Headers of torch's that say they are another version, which is all that a
// gate can ask them: `path` is before torch's own.
std::string other_headers(const std::string& path, uint64_t target) {
  return " " + target_option(target) + " -I" + quoted(path) + " -isystem" +
      quoted(cached("TORCH_ROOT") + "/include");
}

// The same, and precompiled, since a learner checks often and that is most of
// the time: for each torch once, in the library's build folder. They have what
// is there at their own version as a target.
class Precompiled {
 public:
  explicit Precompiled(uint64_t minor) : target_(packed(2, minor)) {
    namespace fs = std::filesystem;
    const auto time =
        fs::last_write_time(torch_include() + "csrc/stable/ops.h");
    path_ = build_folder() + "/elsewhere-" + text(target_) + "-" +
        std::to_string(time.time_since_epoch().count());
    if (fs::exists(path_ + "/torch.h.gch")) {
      return;
    }
    // Under a name of its own: another process may be at it too.
    const std::string made = path_ + "/" + std::to_string(getpid());
    const auto write = [&made](const fs::path& file, const std::string& text) {
      if (fs::exists(file)) {
        return; // a newer date would spoil what that process precompiles
      }
      fs::create_directories(file.parent_path());
      std::ofstream(made) << text;
      fs::rename(made, file);
    };
    write(path_ + "/torch/headeronly/version.h", version_header(target_));
    write(path_ + "/torch.h", kIncludes);
  }
  std::string options() const {
    const std::string options = other_headers(path_, target_) + " -fPIC";
    const std::string header = path_ + "/torch.h";
    const std::string made = header + std::to_string(getpid());
    if (!std::filesystem::exists(header + ".gch")) {
      Compiler(options + " -c -xc++-header -o" + quoted(made) + quoted(header))
          .text();
      std::error_code failed; // then it is compiled as it is
      std::filesystem::rename(made, header + ".gch", failed);
    }
    return options + " -include" + quoted(header);
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

// compat.h as somebody else has it: at a target with a patch, and with headers
// that have the wrapper of 2.14, or say so; then again for each target at which
// a gate opens, and with headers that say they are of 2.13. Compiled once, when
// it is first asked for.
class Elsewhere {
 public:
  static constexpr uint64_t kTarget = packed(2, 10, 3);

  static const Elsewhere& get() {
    static const Elsewhere one;
    return one;
  }

  // What the compiler or the loader said, or "".
  std::string trouble;

  template <typename Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(handle_, name));
  }
  const void* inside() const {
    return dlsym(handle_, "elsewhere_supported");
  }

  // A target of compat.h, and how the names of its functions begin: as far as
  // torch's headers are new enough to have what a gate may open there.
  struct Place {
    std::string name;
    uint64_t minor;
  };
  static std::vector<Place> places() {
    std::vector<Place> known = {{"elsewhere", 10}};
    for (const uint64_t minor : {11, 12, 13}) {
      if (packed(2, minor) <= headers()) {
        known.push_back({"at_2_" + std::to_string(minor), minor});
      }
    }
    return known;
  }

 private:
  void* handle_ = nullptr;

  // compat.h once more, in a namespace of this name.
  static std::string once_more(
      const std::string& name, uint64_t target, const std::string& before) {
    const std::string all = read(compat());
    const size_t once = all.find("#pragma once");
    return without_macros(all) + "#undef TORCH_TARGET_VERSION\n" +
        "#define TORCH_TARGET_VERSION " + slots::hex(target) + "\n" + before +
        "namespace " + name + " {\nnamespace wb { using ::wb::error_text; }\n" +
        "#line 1 \"" + compat() + "\"\n" +
        (once < all.size() ? std::string(all).replace(once, 12, "") : all) +
        "\n}\n" + functions(name);
  }
  static std::string functions(const std::string& name) {
    return replaced(kFunctions, "AT", name);
  }

  Elsewhere() {
    const Precompiled newer(std::max<uint64_t>(headers() >> 48 & 255, 14));
    const Folder folder;
    const std::string source = folder.path + "/elsewhere.cpp";
    const std::string library = folder.path + "/elsewhere.so";
    std::ofstream text(source);
    text << "#undef TORCH_TARGET_VERSION\n#define TORCH_TARGET_VERSION "
         << slots::hex(kTarget) << "\n"
         << (headers() < packed(2, 14) ? kWrapper : "") << kSource
         << functions("elsewhere");
    for (const Place& place : places()) {
      if (place.name != "elsewhere") {
        text << once_more(place.name, packed(2, place.minor), "");
      }
    }
    text << once_more(
        "before_2_14",
        packed(2, 10),
        "#undef TORCH_VERSION_MINOR\n#define TORCH_VERSION_MINOR 13\n");
    text.close();
    Compiler compiler(
        newer.options() + " -shared -Wl,-z,lazy -o" + quoted(library) + " -I" +
        quoted(cached("CMAKE_HOME_DIRECTORY")) + quoted(source));
    trouble = compiler.text();
    if (!trouble.empty()) {
      trouble = "with the headers of 2.14 the compiler says:\n" +
          first_error(trouble);
    } else {
      handle_ = dlopen(library.c_str(), RTLD_LAZY);
      trouble = handle_ == nullptr ? dlerror() : "";
    }
  }

  // As the headers of 2.14 define it.
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
  // Tensors come in and go out as new handles. A call of the wrapper is
  // counted.
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

// from_blob at a target.
Tensor elsewhere_from_blob(
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

// Those that do not call what the running libtorch lacks.
std::vector<Elsewhere::Place> runnable_places() {
  std::vector<Elsewhere::Place> places;
  if (Elsewhere::get().trouble.empty()) { // else step 06.4 shows it
    for (const Elsewhere::Place& place : Elsewhere::places()) {
      if (packed(2, place.minor) <= aoti_torch_abi_version()) {
        places.push_back(place);
      }
    }
  }
  return places;
}

// --- what replaces a function that the library calls -------------------------

uint64_t running = 0;
uint64_t running_version() {
  return running;
}

std::string hex(int64_t handle) {
  return slots::hex(static_cast<StableIValue>(handle));
}

// The library's operator new[] and delete[]. A second deletion is counted, and
// does no harm.
std::set<void*> buffers;
int allocated = 0, deleted = 0;
void* count_allocation(size_t bytes) {
  ++allocated;
  return *buffers.insert(::operator new[](bytes)).first;
}
void count_deletion(void* address) {
  ++deleted;
  if (buffers.erase(address) > 0) {
    ::operator delete[](address);
  }
}

// In place of each function that from_blob may call. The arguments of an op
// that fails are consumed all the same.
AOTITorchError fails() {
  return TORCH_FAILURE;
}
AOTITorchError op_fails(
    const char* op, const char* overload, StableIValue* stack, uint64_t build) {
  const bool copies = std::string(op) == "aten::copy_";
  if (!copies && std::string(op) != "aten::clone") {
    return torch_call_dispatcher(op, overload, stack, build);
  }
  slots::release("Tensor", stack[0]);
  slots::release(copies ? "Tensor" : "MemoryFormat?", stack[1]);
  return TORCH_FAILURE;
}

// "" unless two threads that call at the same time fill one array of slots.
std::string shared_in_threads(const std::function<void(const Library&)>& act) {
  for (const Library& library : libraries()) {
    if (library.inside == nullptr) {
      continue;
    }
    const std::string ended = in_child([&] {
      const CapturedStderr quiet;
      const Meeting meeting =
          Meeting::of(library.inside, [&] { act(library); });
      const auto& stacks = meeting.stacks;
      return stacks.size() == 2 && stacks[0] == stacks[1]
          ? "two threads that call at the same time have one array of slots"
          : std::string();
    });
    if (!ended.empty()) {
      return ended.rfind("two ", 0) == 0
          ? ended
          : "calls at the same time in two threads crash: " + ended;
    }
  }
  return "";
}

uint64_t given_to_call = 0;
AOTITorchError dispatch(
    const char* op, const char* overload, StableIValue* stack, uint64_t build) {
  given_to_call = build;
  return torch_call_dispatcher(op, overload, stack, build);
}

int64_t first_stream = 0; // of device 0
AOTITorchError cuda_stream(int32_t device, void** stream) {
  *stream = reinterpret_cast<void*>(first_stream + device);
  return device < 8 ? TORCH_SUCCESS : TORCH_FAILURE;
}

// Of a PyTorch in which CUDA is not the accelerator that is used.
AOTITorchError other_cuda_stream(int32_t, void** stream) {
  *stream = reinterpret_cast<void*>(0xc0da);
  return TORCH_SUCCESS;
}

// A machine with an accelerator, as the headers' Stream sees it.
int streams = 0;
AOTITorchError get_current_stream(int32_t device, StreamHandle* stream) {
  ++streams;
  *stream = reinterpret_cast<StreamHandle>(0xca110 + device);
  return TORCH_SUCCESS;
}
AOTITorchError stream_native_handle(StreamHandle stream, void** handle) {
  *handle = reinterpret_cast<char*>(stream) - 0xca110 + first_stream;
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
  const uint64_t here = headers();
  const Versions versions(here);
  const std::string whole =
      "-fsyntax-only -Wfatal-errors -isystem" + quoted(versions.path);
  // Of all of compat.h, the #error comes first.
  constexpr char kNewer[] = "0x0210000000000000"; // 2.16
  constexpr char kOlder[] = "0x0209000000000000";
  Compiler newer(
      whole + " -DTORCH_TARGET_VERSION=" + kNewer + quoted(compat()));
  Compiler none(whole + quoted(compat()));

  const std::vector<std::string> wrong = {
      kNewer,
      "0x020a00000000", // a byte short
      kOlder,
      "0x0209ffffffffffff",
      "0x010f000000000000",                // 1.15
      slots::hex(here + packed(0, 1)),     // a minor above the headers
      slots::hex(here + packed(0, 0, 1))}; // and a patch
  const std::vector<std::string> right = {
      "0x020a000000000000", "TORCH_ABI_VERSION"};
  const std::string patch = slots::hex(packed(2, 16, 1));
  const std::vector<std::string> wrong_in_2_16_1 = {
      slots::hex(packed(2, 16, 2)), "0x0211000000000000"};
  const std::vector<std::string> right_in_2_16_1 = {
      kNewer, patch, "TORCH_ABI_VERSION"};
  Beginning today(here), of_2_16_1(packed(2, 16, 1));
  for (const auto* targets : {&wrong, &right}) {
    for (const std::string& target : *targets) {
      today.add(target);
    }
  }
  today.add("");
  for (const auto* targets : {&wrong_in_2_16_1, &right_in_2_16_1}) {
    for (const std::string& target : *targets) {
      of_2_16_1.add(target);
    }
  }
  today.compile();
  of_2_16_1.compile();
  REQUIRE_CLEAN(not_refused(newer.text(), kNewer));
  const std::string of_none = none.text();
  REQUIRE_CLEAN(not_refused(of_none, ""));
  REQUIRE_CLEAN(bad_advice(of_none));
  REQUIRE_CLEAN(mistaken(of_none, today.errors(kOlder)));
  for (const std::string& target : wrong) {
    REQUIRE_CLEAN(today.not_refused(target));
  }
  for (const std::string& target : right) {
    REQUIRE_CLEAN(today.not_accepted(target));
  }
  {
    INFO("TORCH_STABLE_ONLY, which says no target, is defined");
    REQUIRE_CLEAN(today.not_refused(""));
  }
  INFO("the headers of 2.16.1");
  for (const std::string& target : wrong_in_2_16_1) {
    REQUIRE_CLEAN(of_2_16_1.not_refused(target));
  }
  for (const std::string& target : right_in_2_16_1) {
    REQUIRE_CLEAN(of_2_16_1.not_accepted(target));
  }
}

TEST_CASE(
    "06.1 versions compare as numbers, in an #if and in C++" *
    doctest::description("A macro of compat.h compares versions wrongly, or "
                         "the guard does.")) {
  constexpr char k2_10[] = "0x020a000000000000", k2_11[] = "0x020b000000000000",
                 k3_0[] = "0x0300000000000000";
  Beginning later(packed(3, 0));
  later.add(k2_10);
  later.add(k2_11);
  later.expect("COMPAT_VERSION(2, 10)", k2_10);
  later.expect("COMPAT_VERSION(3, 255)", "0x03ff000000000000");
  later.expect("COMPAT_TARGET(2, 10)", "true");
  later.expect("COMPAT_TARGET(2, 11)", "true"); // from this version on
  later.expect("COMPAT_TARGET(2, 12)", "false");
  later.expect("COMPAT_TARGET(1, 13)", "true");
  later.expect("COMPAT_TARGET(3, 0)", "false");
  later.add(k3_0);
  later.expect("COMPAT_TARGET(2, 11)", "true");
  later.expect("COMPAT_TARGET(3, 0)", "true");
  later.expect("COMPAT_HEADERS(2, 14)", "true");
  later.expect("COMPAT_HEADERS(3, 0)", "true");
  later.expect("COMPAT_HEADERS(3, 1)", "false");
  later.compile();
  INFO("the headers of 3.0");
  for (const char* target : {k2_10, k2_11, k3_0}) {
    REQUIRE_CLEAN(later.not_accepted(target));
  }
}

TEST_CASE(
    "06.2 which two of the three versions must agree" *
    doctest::description("is_supported does not compare what is targeted with "
                         "what runs.")) {
  for_each_library([](const Library& library) {
    const auto expect = [&](bool supported, uint64_t version) {
      INFO("on libtorch ", text(version));
      running = version;
      const Replaced other(
          library.inside, "aoti_torch_abi_version", running_version);
      const bool is_supported = library.is_supported();
      CHECK(is_supported == supported);
    };
    const uint64_t targeted = target(library);
    expect(aoti_torch_abi_version() >= targeted, aoti_torch_abi_version());
    expect(true, packed(2, 16, 3));
    expect(true, packed(3, 0));
    // What it targets, older than the headers or not; and just before.
    expect(true, targeted);
    expect(false, targeted - packed(0, 0, 1));
    expect(targeted == packed(2, 10), packed(2, 10));
    expect(false, packed(2, 9, 1));
    expect(false, packed(1, 13));
    // Another one in the same process has another target.
    REQUIRE_CLEAN(not_hidden(library.inside));
  });
  const Elsewhere& other = Elsewhere::get();
  if (other.trouble.empty()) { // else step 06.4 shows it
    const Replaced replaced(
        other.inside(), "aoti_torch_abi_version", running_version);
    auto* const supported = other.function<bool()>("elsewhere_supported");
    for (const uint64_t patch : {2, 3, 4}) {
      running = packed(2, 10, patch);
      INFO("a library that targets 2.10.3, on libtorch ", text(running));
      const bool is_supported = supported();
      const bool expected = patch >= 3;
      CHECK(is_supported == expected);
    }
  }
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
    // On one that is_supported refuses too: that is when it is asked for.
    const Replaced other(
        library.inside, "aoti_torch_abi_version", running_version);
    for (const uint64_t version :
         {packed(2, 16, 3),
          packed(3, 0, 17),
          packed(16, 255, 255) | 255,
          packed(2, 9, 1),
          packed(1, 13)}) {
      running = version;
      INFO("on libtorch ", text(version));
      std::string report;
      const String thrown = refusal([&] { report = library.abi_report(); });
      CHECK(thrown == kNothingThrown);
      CHECK(report == built + text(version));
    }
  });
}

TEST_CASE(
    "06.3 a tensor owns the data that it is given" *
    doctest::description("The tensor loses its data, or the deleter does not "
                         "run exactly once.")) {
  for_each_library([](const Library& library) {
    const bool copies = target(library) < packed(2, 11);
    const Replaced made(library.inside, "_Znam", count_allocation);
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
    const Tensor number = library.count({}); // no dimension, one element
    CHECK(number.dim() == 0);
    CHECK(values<int64_t>(number) == std::vector<int64_t>{0});
  });
}

TEST_CASE(
    "06.3 if it throws, the data is still the caller's" *
    doctest::description("from_blob throws, and has run the deleter: the "
                         "caller deletes the data a second time.")) {
  for_each_library([](const Library& library) {
    const Replaced made(library.inside, "_Znam", count_allocation);
    const Replaced counted(library.inside, "_ZdaPv", count_deletion);
    const auto run = [&library](const std::string& what) {
      allocated = deleted = 0;
      {
        const CapturedStderr quiet;
        refusal([&library] { library.count({5}); });
      }
      if (deleted != allocated) {
        FAIL(
            what,
            " fails, and the data is deleted ",
            deleted,
            " time(s): if from_blob throws, it is the caller who deletes it");
      }
    };
    for (const std::string name :
         {"aoti_torch_create_tensor_from_blob",
          "aoti_torch_create_tensor_from_blob_v2",
          "torch_from_blob",
          "aoti_torch_aten_new_empty",
          "aoti_torch_empty_strided",
          "aoti_torch_copy_",
          "aoti_torch_clone"}) {
      const Replaced failing(library.inside, name.c_str(), fails);
      run(name);
    }
    const Replaced failing(library.inside, "torch_call_dispatcher", op_fails);
    run("torch_call_dispatcher");
  });
}

namespace {

int64_t blobs_deleted = 0;

// A tensor of 1, 2, 3, ... by the fallback, which copies them.
template <typename T>
void expect_copied(const std::vector<int64_t>& sizes, size_t count) {
  std::vector<T> data(count);
  for (size_t i = 0; i < count; ++i) {
    data[i] = static_cast<T>(i + 1);
  }
  const std::vector<T> expected = data;
  blobs_deleted = 0;
  const auto dtype = c10::CppTypeToScalarType<T>::value;
  const Tensor tensor = elsewhere_from_blob(
      Elsewhere::places()[0], data.data(), sizes, dtype, [](void*) {
        ++blobs_deleted;
      });
  data.assign(count, T{}); // the memory may be used for something else
  const std::string name = torch::headeronly::toString(dtype);
  INFO("at target 2.10, from sizes ", sizes, " and the dtype ", name);
  if (tensor.scalar_type() != dtype) {
    FAIL("the tensor has another dtype");
  }
  const auto copied = values<T>(tensor);
  const auto copied_sizes = tensor.sizes().vec();
  CHECK(copied_sizes == sizes);
  CHECK(copied == expected);
  CHECK(blobs_deleted == 1);
}

} // namespace

TEST_CASE(
    "06.3 the copy is of any dtype and any sizes" *
    doctest::description("What from_blob copies at target 2.10 is not a tensor "
                         "of the dtype and the sizes that it is given.")) {
  if (Elsewhere::get().trouble.empty()) { // else step 06.4 shows it
    expect_copied<float>({2, 3}, 6);
    expect_copied<double>({}, 1);
    expect_copied<int32_t>({3, 1, 2}, 6);
    expect_copied<uint8_t>({5}, 5);
  }
}

TEST_CASE(
    "06.3 the gate opens at target 2.11, and not before" *
    doctest::description("The gate opens at another target than 2.11.")) {
  for (const Elsewhere::Place& place : runnable_places()) {
    int64_t number = 7;
    blobs_deleted = 0;
    const Tensor tensor = elsewhere_from_blob(
        place, &number, {}, c10::ScalarType::Long, [](void*) {
          ++blobs_deleted;
        });
    const bool copies = blobs_deleted != 0;
    if (copies != (place.minor < 11)) {
      FAIL(
          "from_blob ",
          std::string(copies ? "copies" : "does not copy"),
          " at target 2.",
          place.minor);
    }
  }
}

namespace {

// The numbers that two deleters were given.
std::vector<int64_t> by_the_first, by_the_second;

// In place of what makes a tensor of a blob: of which device. The tensor is
// another one.
std::string blob_device;
std::string device_text(int64_t type, int64_t index) {
  return "type " + std::to_string(type) + ", index " + std::to_string(index);
}
AOTITorchError blob_of(
    void*,
    int64_t,
    const int64_t*,
    const int64_t*,
    int64_t,
    int32_t,
    int32_t type,
    int32_t index,
    AtenTensorHandle* out) {
  blob_device = device_text(type, index);
  return aoti_torch_new_tensor_handle(tensor<int64_t>({7}, {1}).get(), out);
}

} // namespace

TEST_CASE(
    "06.3 each tensor has its own deleter" *
    doctest::description("from_blob hands a tensor's data to the deleter of "
                         "another one.")) {
  for (const Elsewhere::Place& place : runnable_places()) {
    INFO("two tensors with two deleters, at target 2.", place.minor);
    int64_t first = 1, second = 2;
    by_the_first.clear(), by_the_second.clear();
    constexpr auto kLong = c10::ScalarType::Long;
    Tensor one = elsewhere_from_blob(place, &first, {1}, kLong, [](void* data) {
      by_the_first.push_back(*static_cast<int64_t*>(data));
    });
    Tensor other =
        elsewhere_from_blob(place, &second, {1}, kLong, [](void* data) {
          by_the_second.push_back(*static_cast<int64_t*>(data));
        });
    one = other = Tensor();
    CHECK(by_the_first == std::vector<int64_t>{1});
    CHECK(by_the_second == std::vector<int64_t>{2});
  }
}

TEST_CASE(
    "06.3 two threads copy at the same time" *
    doctest::description("from_blob is called in two threads at the same time, "
                         "and they share what one of them owns.")) {
  REQUIRE_CLEAN(
      shared_in_threads([](const Library& library) { library.count({5}); }));
}

TEST_CASE(
    "06.3 the data stays on its device" *
    doctest::description("from_blob takes the data for another device's.")) {
  const void* inside = Elsewhere::get().inside();
  for (const Elsewhere::Place& place : runnable_places()) {
    for (const auto& [type, index] :
         {std::pair(c10::DeviceType::CUDA, int8_t{1}),
          std::pair(c10::DeviceType::XPU, int8_t{0}),
          std::pair(c10::DeviceType::PrivateUse1, int8_t{3})}) {
      const Replaced old(inside, "aoti_torch_create_tensor_from_blob", blob_of);
      const Replaced plain(
          inside, "aoti_torch_create_tensor_from_blob_v2", blob_of);
      const Replaced with_deleter(inside, "torch_from_blob", blob_of);
      blob_device = "none";
      int64_t number = 7;
      elsewhere_from_blob(
          place,
          &number,
          {1},
          c10::ScalarType::Long,
          [](void*) {},
          type,
          index);
      INFO("at target 2.", place.minor);
      const std::string device = blob_device;
      CHECK(device == device_text(static_cast<int64_t>(type), index));
    }
  }
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
    running = packed(2, 16, 3);
    const Replaced newer(
        library.inside, "aoti_torch_abi_version", running_version);
    library.permute(x, {2, 0, 1});
    {
      INFO("built_with is the last argument of the call");
      const std::string built_with = text(given_to_call);
      CHECK(built_with == text(headers()));
    }
    const std::string one =
        in_child([&] { library.permute(tensor<int64_t>({7}, {1}), {5}); });
    if (one.rfind("threw: ", 0) != 0) {
      FAIL("x is [1], permuted by [5], and nothing is thrown: ", one);
    }
    const std::string accepted = in_child([&] {
      const CapturedStderr quiet;
      for (const std::vector<int64_t>& dims : std::vector<std::vector<int64_t>>{
               {}, {1, 0}, {0, 1, 2, 3}, {0, 1, (int64_t{1} << 32) + 2}}) {
        if (refusal([&] { library.permute(x, dims); }) == kNothingThrown) {
          return "by " + std::string(doctest::toString(dims).c_str());
        }
      }
      return std::string();
    });
    if (!accepted.empty()) {
      FAIL(
          "x has three dimensions, is permuted by others, and nothing is "
          "thrown: ",
          accepted);
    }
    INFO("permuted by [0, 0, 1], which libtorch refuses");
    // What the slot holds after a failed call is not a tensor.
    const std::string failed = in_child([&] { library.permute(x, {0, 0, 1}); });
    if (failed.rfind("threw: ", 0) != 0) {
      FAIL("the call fails, and nothing is thrown: ", failed);
    }
    if (aoti_torch_abi_version() >= packed(2, 13)) {
      CHECK(said(failed) == Contains("duplicate")); // libtorch's own reason
      INFO("and then by [0, 1, 7]: the reason is another");
      const std::string next = in_child([&] {
        refusal([&] { library.permute(x, {0, 0, 1}); });
        library.permute(x, {0, 1, 7});
      });
      CHECK(said(next) == Contains("out of range"));
    }
  });
}

TEST_CASE(
    "06.4 two threads permute at the same time" *
    doctest::description("permute is called in two threads at the same time, "
                         "and they share what one of them owns.")) {
  REQUIRE_CLEAN(shared_in_threads([](const Library& library) {
    library.permute(tensor<int64_t>({1, 2}, {1, 2}), {1, 0});
  }));
}

TEST_CASE(
    "06.4 the gate opens with the headers of 2.14, whatever the target" *
    doctest::description("The gate does not open with the headers of 2.14, or "
                         "what it opens does not compile.")) {
  const Elsewhere& newer = Elsewhere::get();
  REQUIRE_CLEAN(newer.trouble);
  const Tensor x = tensor<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const auto permuted = [&](const std::string& place) {
    const int64_t dims[] = {1, 0};
    auto* const permute = newer.function<AtenTensorHandle(
        AtenTensorHandle, const int64_t*, size_t)>(
        (place + "_permute").c_str());
    return Tensor(permute(
        slots::pointer<AtenTensorHandle>(slots::make("Tensor", x.get())),
        dims,
        2));
  };
  auto* const wrapped = newer.function<int()>("elsewhere_permutes");
  permuted("before_2_14");
  if (wrapped() != 0) {
    FAIL(
        "with the headers of 2.13 permute calls torch::stable::permute, which "
        "they do not have");
  }
  const Tensor y = permuted("elsewhere");
  if (wrapped() != 1) {
    FAIL(
        "with the headers of 2.14 permute does not call "
        "torch::stable::permute, at target 2.10");
  }
  INFO("the headers of 2.14; x is [2, 3], permuted by [1, 0]");
  const auto sizes = y.sizes().vec();
  const auto strides = y.strides().vec();
  CHECK(sizes == std::vector<int64_t>{3, 2});
  CHECK(strides == std::vector<int64_t>{1, 3});
  if (y.data_ptr() != x.data_ptr()) {
    FAIL("the result is no view: it has other memory than x");
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
    AOTITorchError (*const nowhere)(int32_t, void**) = nullptr;
    if (old) {
      INFO("a PyTorch without libtorch_cuda.so");
      const Replaced missing(library.inside, kName, nowhere);
      const std::string failed = in_child([&] { library.current_stream(0); });
      if (failed.rfind("threw: ", 0) != 0) {
        FAIL(
            kName,
            " is missing, its address null; nothing is thrown: ",
            failed);
      }
      CHECK(said(failed) == Contains(kName));
    }
    const Replaced found(
        library.inside, kName, old ? cuda_stream : other_cuda_stream);
    // Then it is another one, and then the default one, whose handle is null.
    for (const int64_t device : {0, 3, 0}) {
      INFO("of device ", device);
      for (const int64_t first : {0x5eed0, 0xfeed0, 0}) {
        first_stream = first;
        const auto stream = hex(library.current_stream(device));
        CHECK(stream == hex(first + device));
      }
    }
    if (old) {
      INFO("of device 9, which is not there: the call fails");
      if (refused(9) == kNothingThrown) {
        FAIL(kName, " fails, and nothing is thrown");
      }
    } else {
      {
        INFO("an accelerator that is not CUDA, without libtorch_cuda.so");
        const Replaced missing(library.inside, kName, nowhere);
        first_stream = 0x5eed0;
        const std::string stream =
            in_child([&] { return hex(library.current_stream(3)); });
        CHECK(stream == hex(0x5eed3));
      }
      for (const std::string name :
           {"torch_stream_native_handle", "aoti_torch_get_current_stream"}) {
        const Replaced failing(library.inside, name.c_str(), fails);
        const CapturedStderr quiet;
        if (refused(0) == kNothingThrown) {
          FAIL(name, " fails, and nothing is thrown");
        }
      }
    }
    INFO("the streams that were got and not released");
    CHECK(streams == 0);
  });
}

TEST_CASE(
    "06.5 the example asks the process too" *
    doctest::description("error_text.h does not declare libtorch's function "
                         "weak, or does not ask whether it is there: before "
                         "2.13 the library does not load, or crashes.")) {
  if (headers() >= packed(2, 14)) {
    return; // permute is torch's own, with its own text
  }
  const Library& oldest = libraries()[0];
  const char* (*const nowhere)() = nullptr;
  const std::string failed = in_child([&] {
    const Replaced missing(
        oldest.inside, "torch_exception_get_what_without_backtrace", nowhere);
    const CapturedStderr quiet;
    return std::string(
        refusal([&] { oldest.permute(tensor<float>({1}, {1}), {7}); }).c_str());
  });
  CHECK(said(failed) == Contains("stderr"));
}

TEST_CASE(
    "06.5 the gate opens at target 2.13, and not before" *
    doctest::description("The gate opens at another target than 2.13.")) {
  const Elsewhere& elsewhere = Elsewhere::get();
  if (!elsewhere.trouble.empty()) {
    return; // step 06.4 shows it
  }
  const void* inside = elsewhere.inside();
  const Replaced cuda(
      inside, "aoti_torch_get_current_cuda_stream", other_cuda_stream);
  const Replaced current(
      inside, "aoti_torch_get_current_stream", get_current_stream);
  const Replaced native(
      inside, "torch_stream_native_handle", stream_native_handle);
  const Replaced deleted(inside, "aoti_torch_delete_stream", delete_stream);
  for (const Elsewhere::Place& place : Elsewhere::places()) {
    auto* const current_stream = elsewhere.function<void*(int32_t)>(
        (place.name + "_current_stream").c_str());
    first_stream = 0x5eed0;
    const bool open = current_stream(3) == reinterpret_cast<void*>(0x5eed3);
    if (open != (place.minor >= 13)) {
      FAIL(
          "current_stream ",
          std::string(open ? "uses" : "does not use"),
          " nativeHandle() at target 2.",
          place.minor);
    }
  }
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
