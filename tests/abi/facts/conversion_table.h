// Every row of the conversion table in PyTorch's note on the stable ABI, as an
// experiment on the libtorch that is running. The tests assert the verdicts;
// the program conversions.cpp prints them.
#pragma once

#include "testing/dispatcher.h"
#include "testing/shim_slots.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
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

// A new owning handle of libtorch's own generator, or null before 2.13. No
// shim makes one from nothing, so this asks libtorch's C++ by its symbol.
inline StableIValue default_generator() {
  using Get = void* (*)();
  using New = AOTITorchError (*)(void*, void**);
  const auto get = reinterpret_cast<Get>(
      dlsym(RTLD_DEFAULT, "_ZN2at6detail22getDefaultCPUGeneratorEv"));
  const auto create =
      reinterpret_cast<New>(dlsym(RTLD_DEFAULT, "torch_new_generator_handle"));
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
  call_shim(schema, [&] { return aoti_torch_library_def(library, schema); });
}

struct Row {
  const char* schema;    // the type in the schema, as the note writes it
  const char* extension; // in the extension; "" where there is none
  const char* slot;      // what the 64 bits are
  // Gives libtorch a value and takes it back. Throws if libtorch refuses.
  std::function<void()> there_and_back;
  // Where `there_and_back` is refused: makes libtorch hand such a value to us.
  // Empty where no op of libtorch does: see
  // 02_stableivalue_conversions_test.py.
  std::function<void()> back = nullptr;
};

inline const std::vector<Row>& table() {
  using torch::headeronly::Layout;
  using torch::headeronly::MemoryFormat;
  using torch::headeronly::ScalarType;
  using torch::stable::Device;
  static const auto refuse = [](const char* name) {
    return [name] { send(name, 0); };
  };
  static const std::vector<Row> rows = {
      {"Type?",
       "std::optional<S>",
       "null, or a pointer to a slot on the heap",
       [] {
         using Maybe = std::optional<int64_t>;
         round_trip<Maybe>("int_maybe", {Maybe(-5), std::nullopt});
       }},
      {"Tensor",
       "torch::stable::Tensor",
       "AtenTensorHandle, owning",
       [] {
         const Tensor x = torch::stable::full({2}, 7);
         const Tensor y = detail::to<Tensor>(send("Tensor", detail::from(x)));
         expect(y.data_ptr() == x.data_ptr());
       }},
      {"Tensor",
       "AtenTensorHandle of a RAII class",
       "AtenTensorHandle, owning",
       [] {
         const Tensor x = torch::stable::full({2}, 7);
         AtenTensorHandle handle = nullptr;
         TORCH_ERROR_CODE_CHECK(aoti_torch_new_tensor_handle(x.get(), &handle));
         const StableIValue slot = send("Tensor", detail::from(handle));
         const std::unique_ptr<
             AtenTensorOpaque,
             decltype(&aoti_torch_delete_tensor_object)>
             y(detail::to<AtenTensorHandle>(slot),
               &aoti_torch_delete_tensor_object);
         void* data = nullptr;
         TORCH_ERROR_CODE_CHECK(aoti_torch_get_data_ptr(y.get(), &data));
         expect(data == x.data_ptr());
       }},
      {"ScalarType",
       "torch::headeronly::ScalarType",
       "a code from aoti_torch_dtype_*()",
       [] {
         round_trip<ScalarType>(
             "ScalarType", {ScalarType::BFloat16, ScalarType::Float8_e5m2});
         const int32_t code = aoti_torch_dtype_float16();
         expect(detail::to<int32_t>(send("ScalarType", code)) == code);
       }},
      {"Layout",
       "torch::headeronly::Layout",
       "a code from aoti_torch_layout_*()",
       [] {
         round_trip<Layout>("Layout", {Layout::Strided, Layout::Jagged});
         const int32_t code = aoti_torch_layout_sparse_csr();
         expect(detail::to<int32_t>(send("Layout", code)) == code);
       }},
      {"MemoryFormat",
       "torch::headeronly::MemoryFormat",
       "a code from aoti_torch_memory_format_*()",
       [] {
         round_trip<MemoryFormat>(
             "MemoryFormat",
             {MemoryFormat::Preserve, MemoryFormat::ChannelsLast});
         const int32_t code = aoti_torch_memory_format_channels_last_3d();
         expect(detail::to<int32_t>(send("MemoryFormat", code)) == code);
       }},
      {"bool",
       "bool",
       "its byte",
       [] {
         round_trip<bool>("bool", {true, false});
       }},
      {"int",
       "int64_t",
       "its bytes",
       [] {
         round_trip<int64_t>("int", {-1, INT64_MIN, INT64_MAX});
       }},
      {"float",
       "double",
       "its bytes",
       [] {
         round_trip<double>("float", {0.1, -0.0, 1e308});
       }},
      {"Device",
       "torch::stable::Device",
       "index in bits 0 to 31, type in bits 32 to 63",
       [] {
         round_trip<Device>(
             "Device",
             {Device(c10::DeviceType::CPU), Device(c10::DeviceType::CUDA, 3)});
       }},
      {"Stream", "", "", refuse("Stream")},
      {"complex", "", "", refuse("complex")},
      {"Scalar",
       "",
       "",
       refuse("Scalar"),
       [] {
         StableIValue slot = detail::from(torch::stable::full({}, 1));
         call_op("aten::item", "", &slot);
       }},
      {"str",
       "std::string",
       "StringHandle, owning",
       [] {
         const std::string text("a\0b", 3);
         expect(to_string(send("str", from_string(text))) == text);
       }},
      {"Storage",
       "",
       "",
       refuse("Storage"),
       [] {
         intercept("set_.source_Storage_storage_offset");
         StableIValue stack[] = {
             detail::from(torch::stable::full({1}, 1)),
             detail::from(torch::stable::full({1}, 1))};
         call_op("aten::set_", "source_Tensor", stack);
       }},
      {"Generator",
       "torch::stable::Generator, from 2.13",
       "AtenGeneratorHandle, owning",
       [] {
         // Passed on unopened; then ATen draws from what comes back.
         auto* inner = new StableIValue(send("Generator", default_generator()));
         StableIValue stack[] = {
             detail::from(torch::stable::full({1}, 2)),
             detail::from(0.0),
             detail::from(1.0),
             detail::from(inner)};
         call_op("aten::uniform_", "", stack);
         const auto x = detail::to<Tensor>(stack[0]);
         expect(*x.const_data_ptr<float>() < 1);
       }},
      {"Type[]",
       "std::vector<T>, HeaderOnlyArrayRef<T>",
       "StableListHandle, owning",
       [] {
         round_trip<std::vector<int64_t>>("int_list", {{1, -2, 3}, {}});
       }},
      {"(Type, ...)", "", "", refuse("tuple")},
      {"SymInt",
       "int64_t",
       "its bytes",
       [] {
         round_trip<int64_t>("SymInt", {-1, 1 << 30});
       }},
      {"SymFloat",
       "",
       "",
       [] { define("symfloat(SymFloat x) -> int"); },
       [] { define("symfloat(int x) -> SymFloat"); }},
      {"SymBool",
       "",
       "",
       refuse("SymBool"),
       [] {
         StableIValue stack[] = {
             detail::from(torch::stable::full({1}, 1)),
             detail::from(MemoryFormat::Contiguous)};
         call_op("aten::sym_is_contiguous", "", stack);
       }},
      {"QScheme",
       "",
       "",
       refuse("QScheme"),
       [] {
         StableIValue stack[] = {
             detail::from(torch::stable::empty({1}, ScalarType::Byte)),
             detail::from(1.0),
             detail::from(int64_t{0})};
         call_op("aten::_make_per_tensor_quantized_tensor", "", stack);
         call_op("aten::qscheme", "", stack);
       }},
  };
  return rows;
}

// None of any optional, and an empty list of any type: no element is looked at.
inline void none(const Op& op) {
  expect(send(std::string(op.name) + "_maybe", 0) == 0);
}
inline void empty_list(const Op& op) {
  StableListHandle list = nullptr;
  TORCH_ERROR_CODE_CHECK(torch_new_list_reserve_size(0, &list));
  const StableIValue slot =
      send(std::string(op.name) + "_list", detail::from(list));
  TORCH_ERROR_CODE_CHECK(torch_delete_list(detail::to<StableListHandle>(slot)));
}

struct Verdict {
  enum Kind { kConverts, kRefused, kCrashes } kind;
  std::string text;  // libtorch's reason, or the name of the signal
  double leaked = 0; // bytes a call, where it converts
};

// Runs an experiment in a child process, and, if it converts and `calls` says
// so, so many times again to see what it leaks.
inline Verdict run(const std::function<void()>& experiment, int calls = 0) {
  int ends[2];
  if (pipe(ends) != 0) {
    throw std::runtime_error("pipe");
  }
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    // A crash is the verdict here: no sanitizer need report it.
    for (const int signal : {SIGSEGV, SIGABRT, SIGBUS}) {
      std::signal(signal, SIG_DFL);
    }
    std::string text;
    int status = Verdict::kConverts;
    try {
      experiment();
      if (calls > 0) {
        for (int i = 0; i < 100; ++i) {
          experiment();
        }
        // What each call loses shows in every series; what libtorch or libc
        // allocates once and keeps, in one of them.
        double lost = INFINITY;
        for (int series = 0; series < 3; ++series) {
          const size_t before = mallinfo2().uordblks;
          for (int i = 0; i < calls; ++i) {
            experiment();
          }
          const auto grown = static_cast<double>(mallinfo2().uordblks) - before;
          lost = std::min(lost, grown / calls);
        }
        text = std::to_string(lost);
      }
    } catch (const std::exception& error) {
      status = Verdict::kRefused;
      text = error.what();
    }
    (void)!write(ends[1], text.data(), text.size());
    _exit(status);
  }
  close(ends[1]);
  Verdict verdict{Verdict::kCrashes, "", 0};
  std::array<char, 4096> buffer;
  for (ssize_t size = 0;
       (size = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    verdict.text.append(buffer.data(), static_cast<size_t>(size));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) {
    verdict.kind = static_cast<Verdict::Kind>(WEXITSTATUS(status));
  } else {
    verdict.text = std::string("SIG") + sigabbrev_np(WTERMSIG(status));
  }
  if (verdict.kind == Verdict::kConverts && calls > 0) {
    verdict.leaked = std::atof(verdict.text.c_str());
    verdict.text.clear();
  }
  return verdict;
}

} // namespace workbook::rows

STABLE_TORCH_LIBRARY(wb02_rows, m) {
  for (const auto& op : workbook::rows::kOps) {
    const std::string name = op.name;
    const std::string type = op.type;
    // A tuple as a return would read as several returns.
    const auto result = [&](const char* suffix) {
      return type[0] == '(' ? "int" : type + suffix;
    };
    m.def((name + "(" + type + " x) -> " + result("")).c_str());
    m.def((name + "_maybe(" + type + "? x) -> " + result("?")).c_str());
    m.def((name + "_list(" + type + "[] x) -> " + result("[]")).c_str());
  }
}

STABLE_TORCH_LIBRARY_IMPL(wb02_rows, CompositeExplicitAutograd, m) {
  for (const auto& op : workbook::rows::kOps) {
    for (const char* suffix : {"", "_maybe", "_list"}) {
      m.impl((std::string(op.name) + suffix).c_str(), workbook::rows::pass);
    }
  }
}
