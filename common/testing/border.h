// Who owns what lies in the slots of a stack: each call by name that passes the
// border to libtorch, and each kernel that a test calls in libtorch's place, is
// drawn slot by slot, with what became of its content. Include it in one file.
#pragma once

#include "ledger.h"

#include <torch/csrc/stable/c/shim.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/shim_utils.h>

#include <dlfcn.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace workbook {

// Types as they stand in a schema: "Tensor", "int[]?".
struct Schema {
  std::vector<std::string> arguments;
  std::vector<std::string> returns;
};

// One slot of a given type, made, drawn and released through C shims alone.
namespace slots {

namespace detail = torch::stable::detail;

inline bool ends_with(const std::string& type, const char* end) {
  const std::string tail(end);
  return type.size() > tail.size() &&
      type.compare(type.size() - tail.size(), tail.size(), tail) == 0;
}
inline std::string inner(const std::string& type) {
  return type.substr(0, type.size() - (ends_with(type, "[]") ? 2 : 1));
}
inline bool is_handle(const std::string& type) {
  return type == "Tensor" || type == "str" || ends_with(type, "[]");
}

template <class Pointer>
Pointer pointer(StableIValue slot) {
  return reinterpret_cast<Pointer>(slot);
}
inline StableIValue bits(const void* pointer) {
  return reinterpret_cast<StableIValue>(pointer);
}

inline std::vector<StableIValue> elements(StableIValue list) {
  size_t size = 0;
  torch_list_size(pointer<StableListHandle>(list), &size);
  std::vector<StableIValue> result(size);
  for (size_t i = 0; i < size; ++i) {
    torch_list_get_item(pointer<StableListHandle>(list), i, &result[i]);
  }
  return result;
}

// A slot of `type`. Tensors are new handles to `tensor`; an optional has a
// value if `some`; lists have two elements, of which an optional one is then
// None.
inline StableIValue make(
    const std::string& type, AtenTensorHandle tensor, bool some = true) {
  if (ends_with(type, "?")) {
    return some ? bits(new StableIValue(make(inner(type), tensor))) : 0;
  }
  if (ends_with(type, "[]")) {
    StableListHandle list = nullptr;
    torch_new_list_reserve_size(2, &list);
    torch_list_push_back(list, make(inner(type), tensor, some));
    torch_list_push_back(list, make(inner(type), tensor, !some));
    return bits(list);
  }
  if (type == "Tensor") {
    AtenTensorHandle handle = nullptr;
    aoti_torch_new_tensor_handle(tensor, &handle);
    return bits(handle);
  }
  if (type == "str") {
    const std::string text(some ? "longer than the small buffer" : "");
    StringHandle handle = nullptr;
    torch_new_string_handle(text.data(), text.size(), &handle);
    return bits(handle);
  }
  static const std::map<std::string, StableIValue> plain = {
      {"bool", detail::from(some)},
      {"int", detail::from(int64_t{-1} << 40)},
      {"SymInt", detail::from(int64_t{1} << 62)},
      {"float", detail::from(0.1)},
      {"ScalarType", detail::from(aoti_torch_dtype_bfloat16())},
      {"Layout", detail::from(aoti_torch_layout_sparse_csr())},
      {"MemoryFormat", detail::from(aoti_torch_memory_format_channels_last())},
      {"Device", StableIValue{0xffffffff}}, // cpu, no index
  };
  return plain.at(type);
}

// Names of tensors in pictures, by the address of their data.
inline std::map<const void*, std::string>& names() {
  static std::map<const void*, std::string> names;
  return names;
}

// The content as text: two slots are alike if their texts are.
inline std::string draw(const std::string& type, StableIValue slot) {
  std::ostringstream text;
  if (ends_with(type, "?")) {
    return slot == 0 ? "None"
                     : draw(inner(type), *pointer<StableIValue*>(slot));
  }
  if (ends_with(type, "[]")) {
    for (const StableIValue element : elements(slot)) {
      text << (text.tellp() == 0 ? "[" : ", ") << draw(inner(type), element);
    }
    text << "]";
  } else if (type == "Tensor") {
    void* data = nullptr;
    aoti_torch_get_data_ptr(pointer<AtenTensorHandle>(slot), &data);
    const auto name = names().find(data);
    name == names().end() ? text << data : text << name->second;
  } else if (type == "str") {
    const char* data = nullptr;
    torch_string_c_str(pointer<StringHandle>(slot), &data);
    text << '"' << data << '"';
  } else {
    text << "0x" << std::hex << slot;
  }
  return text.str();
}

inline void release(const std::string& type, StableIValue slot) {
  if (slot == 0) {
    return;
  }
  if (ends_with(type, "?")) {
    release(inner(type), *pointer<StableIValue*>(slot));
    delete pointer<StableIValue*>(slot);
  } else if (ends_with(type, "[]")) {
    for (const StableIValue element : elements(slot)) {
      release(inner(type), element);
    }
    torch_delete_list(pointer<StableListHandle>(slot));
  } else if (type == "Tensor") {
    aoti_torch_delete_tensor_object(pointer<AtenTensorHandle>(slot));
  } else if (type == "str") {
    torch_delete_string(pointer<StringHandle>(slot));
  }
}

// What a slot refers to, each with its name: "Tensor[]", "Tensor in [1]".
using Blocks = std::vector<std::pair<std::string, const void*>>;

inline Blocks blocks(const std::string& type, StableIValue slot) {
  Blocks result;
  if (slot == 0) {
    return result;
  }
  const auto* block = pointer<const void*>(slot);
  if (ends_with(type, "?")) {
    result = blocks(inner(type), *pointer<StableIValue*>(slot));
    result.emplace_back("box of " + type, block);
  } else if (is_handle(type)) {
    const bool drawn = type == "Tensor" && Ledger::deletions(block) == 0;
    result.emplace_back(drawn ? type + " " + draw(type, slot) : type, block);
  }
  if (ends_with(type, "[]") && Ledger::deletions(block) == 0) {
    size_t i = 0;
    for (const StableIValue element : elements(slot)) {
      for (const auto& [what, inside] : blocks(inner(type), element)) {
        result.emplace_back(what + " in [" + std::to_string(i) + "]", inside);
      }
      ++i;
    }
  }
  return result;
}

} // namespace slots

class Border {
 public:
  // Watches this thread's calls of these ops: {"aten::div.Tensor", schema}.
  explicit Border(std::map<std::string, Schema> ops) : ops_(std::move(ops)) {
    current_ = this;
  }
  ~Border() {
    current_ = nullptr;
  }
  Border(const Border&) = delete;
  Border& operator=(const Border&) = delete;

  static Border* current() {
    return current_;
  }

  // Calls a kernel on `stack` as libtorch does: hands the arguments over and
  // releases the returns, after `use` has seen them. What it throws passes.
  template <class Use>
  void call_kernel(
      const std::string& name,
      void (*kernel)(StableIValue*, uint64_t, uint64_t),
      const Schema& schema,
      StableIValue* stack,
      const Use& use) {
    const Ledger::Pause pause;
    heading(name);
    add(schema.arguments, "argument", stack);
    const std::vector<StableIValue> before(
        stack, stack + schema.arguments.size());
    try {
      const Ledger::Follow follow;
      kernel(stack, schema.arguments.size(), schema.returns.size());
    } catch (...) {
      for (size_t i = 0; i < schema.returns.size(); ++i) {
        if ((i >= before.size() || stack[i] != before[i]) &&
            Ledger::deletions(slots::pointer<void*>(stack[i])) == 0) {
          fault(i, "return", "<- written before the exception: it leaks");
        }
      }
      throw;
    }
    if (!check(schema.returns, "return", stack)) {
      return;
    }
    add(schema.returns, "return", stack);
    use(stack);
    for (size_t i = 0; i < schema.returns.size(); ++i) {
      slots::release(schema.returns[i], stack[i]);
    }
  }

  // False if libtorch must not see these slots.
  bool before_call(const std::string& op, const StableIValue* stack) {
    const auto found = ops_.find(op);
    if (found == ops_.end()) {
      return true;
    }
    const Schema& schema = found->second;
    heading(op);
    if (!check_size(schema, stack) ||
        !check(schema.arguments, "argument", stack)) {
      refused_ = true;
      return false;
    }
    add(schema.arguments, "argument", stack);
    return true;
  }
  void after_call(const std::string& op, const StableIValue* stack) {
    const auto found = ops_.find(op);
    if (found != ops_.end()) {
      add(found->second.returns, "return", stack);
    }
  }

  // Each slot was handed over as it should, and released exactly once.
  bool clean() const {
    return std::all_of(
        records_.begin(), records_.end(), [](const Record& record) {
          return record.fault.empty() &&
              (record.block == nullptr || Ledger::deletions(record.block) == 1);
        });
  }

  // The slots of each call, one a line, and the fate of what was in them.
  std::string picture() const {
    std::ostringstream text;
    for (const Record& record : records_) {
      text << '\n' << record.text;
      if (!record.fault.empty()) {
        text << ": " << record.fault;
      } else if (record.block != nullptr) {
        const int times = Ledger::deletions(record.block);
        text << ": "
             << (times == 1 ? "released once"
                     : times == 0
                     ? "<- never released: nobody owns it now, it leaks"
                     : "<- released twice: it had two owners");
      }
    }
    return text.str();
  }

  // Throws unless all is clean; then forgets it, to go on with the next.
  void require_clean() {
    if (!clean()) {
      throw std::runtime_error("not clean:");
    }
    clear();
  }
  void clear() {
    records_.clear();
    refused_ = false;
  }
  // A call never reached libtorch, which therefore has no text for it.
  bool refused() const {
    return refused_;
  }

 private:
  struct Record {
    std::string text;
    const void* block;
    std::string fault;
  };

  void heading(const std::string& name) {
    records_.push_back({"  " + name, nullptr, ""});
  }
  static std::string line(size_t slot, const std::string& what) {
    return "    slot " + std::to_string(slot) + "  " + what;
  }
  void fault(size_t slot, const std::string& what, const std::string& fault) {
    records_.push_back({line(slot, what), nullptr, fault});
  }

  void add(
      const std::vector<std::string>& types,
      const std::string& role,
      const StableIValue* stack) {
    for (size_t i = 0; i < types.size(); ++i) {
      const auto blocks = slots::blocks(types[i], stack[i]);
      for (const auto& [what, block] : blocks) {
        records_.push_back({line(i, role + " " + what), block, ""});
      }
      if (blocks.empty()) {
        const std::string bits = slots::draw(types[i], stack[i]);
        records_.push_back(
            {line(i, role + " " + types[i] + " " + bits), nullptr, ""});
      }
    }
  }

  // AddressSanitizer knows where the array of an instrumented caller ends; it
  // would not look when libtorch reads or writes beyond.
  bool check_size(const Schema& schema, const StableIValue* stack) {
#if defined(__SANITIZE_ADDRESS__)
    const size_t arguments = schema.arguments.size();
    const size_t returns = schema.returns.size();
    const size_t size = std::max(arguments, returns);
    const void* outside = __asan_region_is_poisoned(
        const_cast<StableIValue*>(stack), size * sizeof(StableIValue));
    if (outside != nullptr) {
      const auto* slot = static_cast<const StableIValue*>(outside);
      fault(
          static_cast<size_t>(slot - stack),
          "beyond the end of the stack",
          "<- " + std::to_string(arguments) + " argument(s) and " +
              std::to_string(returns) + " return(s) need " +
              std::to_string(size) + " slots");
      return false;
    }
#else
    (void)schema, (void)stack;
#endif
    return true;
  }

  // Records what is wrong with slots that change hands; true if nothing is.
  bool check(
      const std::vector<std::string>& types,
      const std::string& role,
      const StableIValue* stack) {
    bool good = true;
    std::map<const void*, size_t> seen;
    for (size_t i = 0; i < types.size(); ++i) {
      if (stack[i] == 0 && slots::is_handle(types[i])) {
        fault(i, role + " " + types[i], "<- empty: it was handed over before");
        good = false;
      }
      for (const auto& [what, block] : slots::blocks(types[i], stack[i])) {
        const int times = Ledger::deletions(block);
        const auto [other, first] = seen.emplace(block, i);
        if (first && times == 0) {
          continue;
        }
        fault(
            i,
            role + " " + what,
            !first ? "<- the same as in slot " + std::to_string(other->second) +
                    ": two owners need two"
                : times == Ledger::kUnknown
                ? "<- not the stack's own: borrowed from its owner"
                : "<- was released before it was handed over");
        good = false;
      }
    }
    return good;
  }

  std::map<std::string, Schema> ops_;
  std::vector<Record> records_;
  bool refused_ = false;
  static inline thread_local Border* current_ = nullptr;
};

// Gives tensors their names in pictures, while it lives.
class Named {
 public:
  Named(std::initializer_list<std::pair<torch::stable::Tensor, std::string>>
            tensors) {
    for (const auto& [tensor, name] : tensors) {
      slots::names()[tensor.data_ptr()] = name;
    }
  }
  ~Named() {
    slots::names().clear();
  }
  Named(const Named&) = delete;
  Named& operator=(const Named&) = delete;
};

// Runs `act` under a border, thrice, for libtorch may keep what a first call
// allocates. "" if everything in the slots was released exactly once and the
// third run left nothing behind; else what went wrong, with the picture. What
// libtorch itself loses is allowed for by number.
template <class Act>
std::string watch(
    const std::map<std::string, Schema>& ops,
    const Act& act,
    std::string* picture = nullptr,
    size_t lost_by_libtorch = 0) {
  Border border(ops);
  const Ledger ledger;
  std::string verdict;
  size_t alive = 0;
  for (int i = 0; i < 3 && verdict.empty(); ++i) {
    border.clear();
    alive = Ledger::alive();
    try {
      act(border);
    } catch (const std::exception& error) {
      const Ledger::Pause pause;
      verdict = (border.refused() ? "stopped before libtorch:" : error.what()) +
          border.picture();
    }
    const Ledger::Pause pause;
    if (verdict.empty() && !border.clean()) {
      verdict = border.picture();
    }
  }
  const Ledger::Pause pause;
  if (picture != nullptr) {
    *picture = border.picture();
  }
  const size_t twice = Ledger::deleted_twice();
  if (verdict.empty() && twice > 0) {
    verdict = std::to_string(twice) +
        " blocks deleted twice, in no slot: was a borrowed handle adopted?" +
        border.picture();
  }
  alive += lost_by_libtorch;
  if (verdict.empty() && Ledger::alive() > alive) {
    verdict = std::to_string(Ledger::alive() - alive) +
        " blocks never released, in no slot" + border.picture();
  }
  return verdict;
}

} // namespace workbook

// These take the place of libtorch's own, which they call.
namespace workbook::border_detail {

template <class Function>
Function* next(const char* name, Function*) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// Once dead, an object is not destroyed again, only counted.
template <class Function, class Handle>
AOTITorchError destroy(Function* real, Handle handle) {
  if (workbook::Ledger::deletions(handle) > 0) {
    workbook::Ledger::count_deletion(handle);
    return TORCH_SUCCESS;
  }
  return real(handle);
}

} // namespace workbook::border_detail

#define WORKBOOK_NEXT(name) workbook::border_detail::next(#name, &name)

extern "C" AOTITorchError torch_call_dispatcher(
    const char* op,
    const char* overload,
    StableIValue* stack,
    uint64_t version) {
  static auto* const real = WORKBOOK_NEXT(torch_call_dispatcher);
  workbook::Border* const border = workbook::Border::current();
  if (border == nullptr) {
    return real(op, overload, stack, version);
  }
  const workbook::Ledger::Pause pause;
  const std::string name =
      *overload == 0 ? std::string(op) : op + std::string(".") + overload;
  if (!border->before_call(name, stack)) {
    return TORCH_FAILURE;
  }
  const auto code = [&] {
    const workbook::Ledger::Follow follow;
    return real(op, overload, stack, version);
  }();
  if (code == TORCH_SUCCESS) {
    border->after_call(name, stack);
  }
  return code;
}
extern "C" AOTITorchError aoti_torch_delete_tensor_object(
    AtenTensorHandle handle) {
  static auto* const real = WORKBOOK_NEXT(aoti_torch_delete_tensor_object);
  return workbook::border_detail::destroy(real, handle);
}
extern "C" AOTITorchError torch_delete_string(StringHandle handle) {
  static auto* const real = WORKBOOK_NEXT(torch_delete_string);
  return workbook::border_detail::destroy(real, handle);
}
extern "C" AOTITorchError torch_delete_list(StableListHandle handle) {
  static auto* const real = WORKBOOK_NEXT(torch_delete_list);
  return workbook::border_detail::destroy(real, handle);
}
#undef WORKBOOK_NEXT
