// Makes the k-th allocation, or the k-th call into libtorch, fail that an op's
// own code makes. Its kernels are called directly, as libtorch would call them,
// so that what they throw arrives here and the ledger sees nothing else.
#pragma once

#include "abi/torch_stable_abi/trace/slots.h"
#include "testing/ledger.h"
#include "testing/replaced.h"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/inductor/aoti_torch/generated/c_shim_aten.h>
#include <torch/csrc/stable/c/shim.h>
#include <torch/headeronly/util/shim_utils.h>

#include <algorithm>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

namespace failing {

using workbook::Schema;
using Kernel = void (*)(StableIValue*, uint64_t, uint64_t);

struct State {
  std::map<TorchLibraryHandle, std::string> libraries; // "wb04", "wb04 CPU"
  std::map<std::string, Kernel> kernels; // "wb04 CPU silu_and_mul.out"
  std::map<std::string, Schema> schemas; // "wb04::silu_and_mul.out"
};
inline State& state() {
  static State state;
  return state;
}

// What is counted, and how many of it are left before one fails; -1: none does.
enum class What { kAllocation, kCall };
inline What what = What::kAllocation;
inline long left = -1;
inline bool armed = false;
inline thread_local int in_libtorch = 0;
inline std::string failed; // the name of what failed
inline long calls = 0;     // into libtorch, until then

inline bool fails(What kind, const char* name) {
  if (!armed || in_libtorch > 0 || !failed.empty()) {
    return false;
  }
  calls += kind == What::kCall;
  if (kind != what || left-- != 0) {
    return false;
  }
  const workbook::Ledger::Pause pause;
  failed = name;
  return true;
}

struct InLibtorch {
  InLibtorch() {
    ++in_libtorch;
  }
  ~InLibtorch() {
    --in_libtorch;
  }
};

inline void* allocate(size_t bytes) {
  if (fails(What::kAllocation, "operator new")) {
    throw std::bad_alloc();
  }
  return ::operator new(bytes);
}

// A function of the C shim: fails without doing anything.
template <auto real>
struct Shim {
  static constexpr bool can_fail = false;
  static inline const char* name = nullptr;
  static void call() {}
};
template <class... A, AOTITorchError (*real)(A...)>
struct Shim<real> {
  static constexpr bool can_fail = sizeof...(A) > 0; // else it is a constant
  static inline const char* name = nullptr;
  static AOTITorchError call(A... arguments) {
    if (fails(What::kCall, name)) {
      return TORCH_FAILURE;
    }
    const InLibtorch inside;
    return real(arguments...);
  }
};

// "name(Tensor x, *, float y=1.0) -> (Tensor, Tensor)", as types.
inline std::vector<std::string> types(std::string text) {
  std::vector<std::string> all;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(", ", at), text.size());
    std::string type = text.substr(at, end - at);
    type = type.substr(0, type.find(' '));
    type = type.substr(0, type.find_first_of("(!"));
    if (type != "*" && !type.empty()) {
      all.push_back(type);
    }
    at = end + 2;
  }
  return all;
}
inline void define(const std::string& ns, const std::string& text) {
  const size_t open = text.find('('), arrow = text.rfind(" -> ");
  const size_t close = text.rfind(')', arrow);
  std::string returns = text.substr(arrow + 4);
  if (returns[0] == '(') {
    returns = returns.substr(1, returns.size() - 2);
  }
  state().schemas[ns + "::" + text.substr(0, open)] = {
      types(text.substr(open + 1, close - open - 1)), types(returns)};
}

// What the solutions call by name besides their own ops.
inline const bool kKnown = [] {
  for (const char* text :
       {"chunk(Tensor self, int chunks, int dim) -> Tensor[]",
        "clone(Tensor self, MemoryFormat? memory_format) -> Tensor",
        "contiguous(Tensor self, MemoryFormat memory_format) -> Tensor",
        "copy_(Tensor self, Tensor src, bool non_blocking) -> Tensor",
        "linear(Tensor input, Tensor weight, Tensor? bias) -> Tensor",
        "mul.Tensor(Tensor self, Tensor other) -> Tensor",
        "mul.out(Tensor self, Tensor other, Tensor out) -> Tensor",
        "permute(Tensor self, int[] dims) -> Tensor",
        "silu(Tensor self) -> Tensor",
        "unbind.int(Tensor self, int dim) -> Tensor[]",
        "unflatten.int(Tensor self, int dim, int[] sizes) -> Tensor",
        "empty_like(Tensor self, ScalarType? dtype, Layout? layout, "
        "Device? device, bool? pin_memory, MemoryFormat? format) -> Tensor",
        "new_empty(Tensor self, int[] size, ScalarType? dtype, "
        "Layout? layout, Device? device, bool? pin_memory) -> Tensor"}) {
    define("aten", text);
  }
  return true;
}();

inline const Schema& schema_of(const std::string& op) {
  const auto found = state().schemas.find(op);
  if (found == state().schemas.end()) {
    throw std::logic_error(
        "failing.h does not know the schema of " + op + ", which is called");
  }
  return found->second;
}

// A call of an op by name, from a case (depth 0) or from the op under test. It
// fails as a callee that throws does: the arguments are gone.
inline AOTITorchError dispatch(
    decltype(&torch_call_dispatcher) real,
    const std::string& op,
    const char* overload,
    StableIValue* stack,
    const std::string& key) {
  if (armed) {
    const std::string name = *overload ? op + "." + overload : op;
    if (fails(What::kCall, name.c_str())) {
      const auto& arguments = schema_of(name).arguments;
      for (size_t i = 0; i < arguments.size(); ++i) {
        workbook::slots::release(arguments[i], stack[i]);
      }
      return TORCH_FAILURE;
    }
  } else if (!key.empty()) {
    const std::string name = *overload ? op + "." + overload : op;
    const size_t colons = name.find("::");
    const auto found = state().kernels.find(
        name.substr(0, colons) + " " + key + " " + name.substr(colons + 2));
    if (found != state().kernels.end()) {
      const Schema& schema = schema_of(name);
      struct Armed {
        Armed() : before(in_libtorch) {
          armed = true;
          in_libtorch = 0;
        }
        ~Armed() {
          armed = false;
          in_libtorch = before;
        }
        int before;
      } const now;
      found->second(stack, schema.arguments.size(), schema.returns.size());
      return TORCH_SUCCESS;
    }
  }
  const InLibtorch inside;
  return real(op.c_str(), overload, stack, TORCH_ABI_VERSION);
}

} // namespace failing
