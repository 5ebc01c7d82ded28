#include "calls.h"

#include "frames.h"

#include "slots.h"

#include <torch/headeronly/core/Layout.h>
#include <torch/headeronly/core/MemoryFormat.h>
#include <torch/headeronly/core/ScalarType.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <utility>

namespace workbook::trace {

namespace {

using slots::bits;
using slots::pointer;

thread_local const Op* running = nullptr;
thread_local size_t depth = 0;

// --- a slot ------------------------------------------------------------------

// Something that a slot refers to.
struct Part {
  const void* address;
  Kind kind;
  std::string where; // " in [1]"
};

struct Fault {
  Class of = Class::kError;
  std::string text; // "": none
};

std::string hex(StableIValue slot) {
  char text[17];
  std::snprintf(
      text, sizeof(text), "%016llx", static_cast<unsigned long long>(slot));
  return text;
}

Kind kind_of(Base base) {
  switch (base) {
    case Base::kTensor:
      return Kind::kTensor;
    case Base::kString:
      return Kind::kString;
    case Base::kList:
      return Kind::kList;
    case Base::kGenerator:
      return Kind::kGenerator;
    default:
      return Kind::kHeapSlot;
  }
}

bool is_block(Base base) {
  return base == Base::kOptional || base == Base::kList ||
      base == Base::kTensor || base == Base::kString ||
      base == Base::kGenerator;
}

Fault fault_of_block(Kind kind, StableIValue slot) {
  if (slot == 0) {
    return {Class::kError, "empty, where a " + text_of(kind) + " should be"};
  }
  Block block;
  switch (look(pointer<const void*>(slot), &block)) {
    case State::kAlive:
      if (block.kind != kind) {
        return {
            Class::kError,
            "a " + text_of(block.kind) + " (" + text_of(block.made) +
                "), where a " + text_of(kind) + " should be"};
      }
      return {};
    case State::kDead:
      tell(pointer<const void*>(slot));
      return {
          Class::kError,
          "was released before," + released_by(block) + "; it was " +
              text_of(block.made)};
    case State::kUnknown:
      break;
  }
  const std::string reason = no_heap_address(slot);
  if (!reason.empty()) {
    return {
        Class::kError, reason + ", where a " + text_of(kind) + " should be"};
  }
  if (kind == Kind::kTensor && !is_like_tensor(slot)) {
    return {Class::kError, "is the address of no tensor that is alive"};
  }
  if (kind == Kind::kList || kind == Kind::kString) {
    return {
        Class::kSuspicious,
        "is no " + text_of(kind) + " that was seen to be made"};
  }
  return {};
}

bool is_like_double(StableIValue slot) {
  const auto exponent = static_cast<int>(slot >> 52 & 0x7ff) - 1023;
  return -40 < exponent && exponent < 40;
}

template <typename Enum>
Fault fault_of_code(StableIValue slot, Enum count, const char* what) {
  // A newer libtorch may have more.
  return slot < static_cast<StableIValue>(count) + 8
      ? Fault{}
      : Fault{Class::kError, std::string("is the code of no ") + what};
}

Fault fault_of_value(Base base, StableIValue slot) {
  Block block;
  if (slot != 0 && look(pointer<const void*>(slot), &block) == State::kAlive) {
    return {
        Class::kError,
        "the address of a " + text_of(block.kind) + " (" + text_of(block.made) +
            "), where a value should be"};
  }
  switch (base) {
    case Base::kBool:
      return slot > 1 ? Fault{Class::kError, "a bool is 0 or 1"} : Fault{};
    case Base::kInt:
      return is_like_double(slot)
          ? Fault{Class::kSuspicious, "has the bits of a float"}
          : Fault{};
    case Base::kFloat: {
      const uint64_t magnitude = slot & ~(uint64_t{1} << 63);
      if (magnitude != 0 && magnitude >> 52 == 0) {
        return {
            Class::kSuspicious,
            slot >> 23 != 0 ? "has the bits of a 32-bit float"
                            : "has the bits of an int"};
      }
      return slot >> 48 == 0xffff
          ? Fault{Class::kSuspicious, "has the bits of a negative int"}
          : Fault{};
    }
    case Base::kScalarType:
      return fault_of_code(slot, c10::ScalarType::NumOptions, "dtype");
    case Base::kLayout:
      return fault_of_code(slot, c10::Layout::NumOptions, "layout");
    case Base::kMemoryFormat:
      return fault_of_code(
          slot, c10::MemoryFormat::NumOptions, "memory format");
    case Base::kDevice: {
      const auto index = static_cast<int32_t>(slot & 0xffffffff);
      return slot >> 32 > 63 || index < -1 || index > 127
          ? Fault{Class::kError, "is no device"}
          : Fault{};
    }
    default:
      return {};
  }
}

// What the slot refers to, and what is wrong with it. Nothing is opened that
// is not alive. What libtorch has made is right: then `made` says where.
Fault walk(
    const Type& type,
    StableIValue slot,
    const Place* made,
    const std::string& where,
    std::vector<Part>& parts) {
  if (type.base == Base::kOther) {
    return {};
  }
  if (!is_block(type.base)) {
    return made != nullptr ? Fault{} : fault_of_value(type.base, slot);
  }
  if (slot == 0 && (type.base == Base::kOptional || made != nullptr)) {
    return {};
  }
  const Kind kind = kind_of(type.base);
  const auto* const address = pointer<const void*>(slot);
  if (made != nullptr) {
    follow(address, kind, *made);
  } else {
    const Fault fault = fault_of_block(kind, slot);
    if (!fault.text.empty()) {
      return fault;
    }
    if (look(address) == State::kUnknown) {
      follow(address, kind, {});
    }
  }
  parts.push_back({address, kind, where});
  if (type.base == Base::kOptional) {
    return walk(*type.inner, *pointer<StableIValue*>(slot), made, where, parts);
  }
  if (type.base == Base::kList && is_block(type.inner->base)) {
    size_t i = 0;
    for (const StableIValue element : slots::elements(slot)) {
      const std::string in = " in [" + std::to_string(i++) + "]";
      if (const Fault fault = walk(*type.inner, element, made, in, parts);
          !fault.text.empty()) {
        return {fault.of, "[" + std::to_string(i - 1) + "] " + fault.text};
      }
    }
  }
  return {};
}

std::string drawn_tensor(AtenTensorHandle tensor) {
  int32_t dtype = 0, device = 0;
  int64_t dim = 0, *sizes = nullptr;
  bool defined = false;
  aoti_torch_is_defined(tensor, &defined);
  if (!defined) {
    return "undefined";
  }
  aoti_torch_get_dtype(tensor, &dtype);
  aoti_torch_get_device_type(tensor, &device);
  std::string text = c10::toString(static_cast<c10::ScalarType>(dtype));
  // Sizes that are symbols cannot be had so.
  if (aoti_torch_get_dim(tensor, &dim) != 0 ||
      aoti_torch_get_sizes(tensor, &sizes) != 0) {
    return text;
  }
  text += " [";
  for (int64_t i = 0; i < dim; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(sizes[i]);
  }
  return text + "]" +
      (device == 0 ? "" : " on device " + std::to_string(device));
}

// The value, of what is alive and fits its type.
std::string drawn(const Type& type, StableIValue slot) {
  switch (type.base) {
    case Base::kOptional:
      return slot == 0 ? "None"
                       : drawn(*type.inner, *pointer<StableIValue*>(slot));
    case Base::kList: {
      std::string text = "[";
      const auto elements = slots::elements(slot);
      for (size_t i = 0; i < std::min(elements.size(), size_t{8}); ++i) {
        text += (i == 0 ? "" : ", ") + drawn(*type.inner, elements[i]);
      }
      return text + (elements.size() > 8 ? ", ...]" : "]");
    }
    case Base::kTensor:
      return slot == 0 ? "none" : drawn_tensor(pointer<AtenTensorHandle>(slot));
    case Base::kString:
      return slots::draw("str", slot);
    case Base::kBool:
      return slot != 0 ? "true" : "false";
    case Base::kInt:
      return std::to_string(static_cast<int64_t>(slot));
    case Base::kFloat: {
      double value = 0;
      std::memcpy(&value, &slot, sizeof(value));
      char text[32];
      std::snprintf(text, sizeof(text), "%.9g", value);
      return text;
    }
    case Base::kScalarType:
      return c10::toString(static_cast<c10::ScalarType>(slot));
    default:
      return "";
  }
}

// --- a call, or a kernel that is called
// ------------------------------------------

struct Line {
  size_t slot;
  std::string text;
  std::vector<Part> parts;
  std::string fate;
  const Type* type = nullptr; // of a slot with which nothing is wrong
  StableIValue bits = 0;
};

class Record {
 public:
  Record(const Op& op, const char* how, const std::string& library)
      : op_(op), how_(how), library_(library) {}

  // Looks at slots; true if nothing is wrong with them. `made`: where they came
  // from, if libtorch has made them. `before`: what was in the slots of
  // returns.
  bool add(
      const std::vector<Type>& types,
      const char* role,
      const StableIValue* stack,
      const Place* made,
      size_t room,
      const StableIValue* before = nullptr) {
    bool good = true;
    std::map<const void*, size_t> seen;
    for (size_t i = 0; i < types.size(); ++i) {
      if (i >= room) {
        fault(
            i,
            role,
            types[i].text,
            0,
            {Class::kError,
             "beyond the end of the caller's array, which has room for " +
                 std::to_string(room) + " slots"});
        return false;
      }
      Place place = made == nullptr ? Place{} : *made;
      place.slot = i;
      Line line{i, "", {}, "", &types[i], stack[i]};
      const Fault wrong = walk(
          types[i],
          stack[i],
          made == nullptr ? nullptr : &place,
          "",
          line.parts);
      std::string text = wrong.text;
      if (before != nullptr && stack[i] == before[i] && !text.empty()) {
        text = look(pointer<const void*>(stack[i])) == State::kDead
            ? "was not written: it still is argument " + std::to_string(i) +
                ", which was released"
            : "was not written";
      }
      for (const Part& part : line.parts) {
        const auto [other, first] = seen.emplace(part.address, i);
        if (!first && text.empty() && made == nullptr) {
          text = "the same " + text_of(part.kind) + " as in slot " +
              std::to_string(other->second) + ": two owners need two";
          tell(part.address);
        }
      }
      if (!text.empty()) {
        fault(i, role, types[i].text, stack[i], {wrong.of, text});
        good = good && wrong.of != Class::kError;
        continue;
      }
      lines_.push_back(std::move(line));
    }
    if ((op_.shown && !is_summary()) || !faults_.empty()) {
      for (Line& line : lines_) {
        if (line.text.empty() && line.type != nullptr) {
          line.text = std::string(role) + " " + line.type->text + "  " +
              hex(line.bits) + "  " + drawn(*line.type, line.bits);
        }
      }
    }
    return good;
  }

  void fault(
      size_t slot,
      const std::string& role,
      const std::string& type,
      StableIValue bits,
      const Fault& fault) {
    lines_.push_back(
        {slot, role + " " + type + "  " + hex(bits), {}, "<- " + fault.text});
    faults_.emplace_back(
        fault.of,
        op_.name + ", " + role + " " + std::to_string(slot) + " (" + type +
            "): " + fault.text);
  }

  std::vector<Line>& lines() {
    return lines_;
  }

  // Shows it, if all is shown, and what is wrong with it.
  void show(const char* what) {
    if (faults_.empty() && (is_summary() || !op_.shown)) {
      lines_.clear();
      return;
    }
    const std::string indent(2 * depth, ' ');
    std::string text = indent + how_ + " " +
        (op_.schema.empty() || *what != 0 ? op_.name : op_.schema) + ", " +
        library_ + what + "\n";
    for (const Line& line : lines_) {
      if (!line.text.empty()) {
        text += indent + "  slot " + std::to_string(line.slot) + "  " +
            line.text + (line.fate.empty() ? "" : ": " + line.fate) + "\n";
      }
    }
    bool shown = false;
    for (const auto& [of, fault] : faults_) {
      find(of, fault, shown ? "" : text);
      shown = true;
    }
    if (!shown) {
      print(text);
    }
    faults_.clear();
    lines_.clear();
  }

 private:
  const Op& op_;
  const char* how_;
  const std::string& library_;
  std::vector<Line> lines_;
  std::vector<std::pair<Class, std::string>> faults_;
};

std::vector<Part> parts_of(const std::vector<Line>& lines) {
  std::vector<Part> parts;
  for (const Line& line : lines) {
    parts.insert(parts.end(), line.parts.begin(), line.parts.end());
  }
  return parts;
}

const std::string& caller_library(const void* address) {
  thread_local std::map<const void*, std::string> names;
  std::string& name = names[address];
  if (name.empty()) {
    name = "called by " + library_of(address);
  }
  return name;
}

} // namespace

const Op* running_op() {
  return running;
}

AOTITorchError call(
    const char* name,
    const char* overload,
    StableIValue* stack,
    const Caller& caller,
    const std::function<AOTITorchError()>& real) {
  // Libtorch's older function for calls may call the newer one.
  static thread_local const StableIValue* under_way = nullptr;
  if (Busy::now() || under_way == stack) {
    return real();
  }
  count_shim();
  count_call();
  const Op* const op = op_of(name, overload);
  std::vector<Part> given;
  {
    const Busy ours;
    Record record(*op, "call", caller_library(caller.address));
    if (op->asked && op->schema.empty()) {
      find(
          Class::kError,
          op->name + ": this libtorch has no such op; called by " +
              library_of(caller.address));
    }
    const size_t slots = std::max(op->arguments.size(), op->returns.size());
    const size_t has = room(stack, slots * sizeof(StableIValue), caller) /
        sizeof(StableIValue);
    record.add(op->arguments, "argument", stack, nullptr, has);
    if (has < op->returns.size() && has >= op->arguments.size()) {
      record.fault(
          has,
          "return",
          op->returns[has].text,
          0,
          {Class::kError,
           "beyond the end of the caller's array, which has room for " +
               std::to_string(has) + " slots"});
    }
    for (const Line& line : record.lines()) {
      for (const Part& part : line.parts) {
        give(part.address, {Role::kArgument, op, nullptr, line.slot});
        given.push_back(part);
      }
    }
    record.show("");
  }
  const StableIValue* const before = std::exchange(under_way, stack);
  set_running(op->name.c_str());
  ++depth;
  const AOTITorchError code = real();
  --depth;
  set_running(running == nullptr ? "" : running->name.c_str());
  under_way = before;
  const Busy ours;
  if (code != 0) {
    for (const Part& part : given) {
      Block block;
      if (look(part.address, &block) == State::kAlive) {
        block.given.role = Role::kLibtorch;
        give(part.address, block.given);
      }
    }
    if (!is_summary() && op->shown) {
      print(std::string(2 * depth, ' ') + "call " + op->name + " failed\n");
    }
    return code;
  }
  if (!op->returns.empty()) {
    Record record(*op, "call", caller_library(caller.address));
    const Place made{Role::kReturn, op, nullptr, 0};
    record.add(op->returns, "return", stack, &made, op->returns.size());
    record.show(" has returned");
  }
  return code;
}

// --- kernels
// -------------------------------------------------------------------

namespace {

struct Registration {
  const Op* op = nullptr;
  std::string name;
  std::string library;
  Kernel kernel = nullptr;
};

constexpr size_t kKernels = 4096;
constexpr size_t kGuards = 8;
constexpr StableIValue kNothing = 0xfeedfacefeed0000;
Registration registrations[kKernels];

// Looks at what an exception has overtaken.
struct Overtaken {
  const Op& op;
  const std::vector<Line>& lines;
  int before = std::uncaught_exceptions();

  ~Overtaken() {
    if (std::uncaught_exceptions() == before) {
      return;
    }
    const Busy ours;
    --depth;
    for (const Line& line : lines) {
      for (const Part& part : line.parts) {
        Block block;
        if (look(part.address, &block) == State::kAlive) {
          follow(
              part.address,
              block.kind,
              {Role::kArgument, &op, "whose kernel threw", line.slot});
        }
      }
    }
    if (!is_summary() && op.shown) {
      print(std::string(2 * depth, ' ') + "kernel " + op.name + " threw\n");
    }
  }
};

class Running {
 public:
  explicit Running(const Op* op) : before_(std::exchange(running, op)) {
    set_running(op->name.c_str());
  }
  ~Running() {
    running = before_;
    set_running(before_ == nullptr ? "" : before_->name.c_str());
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  const Op* before_;
};

void look_at_returns(
    const Op& op,
    const std::string& library,
    const std::vector<StableIValue>& before,
    const std::vector<StableIValue>& after,
    const std::vector<Line>& arguments) {
  Record record(op, "kernel", library);
  const size_t returns = op.returns.size();
  const size_t slots = std::max(returns, op.arguments.size());
  for (size_t i = 0; i < returns; ++i) {
    const std::string& type = op.returns[i].text;
    if (after[i] == before[i] && i >= op.arguments.size()) {
      record.fault(i, "return", type, 0, {Class::kError, "was not written"});
      record.show(" has returned");
      return;
    }
  }
  record.add(
      op.returns, "return", after.data(), nullptr, returns, before.data());
  const auto given = parts_of(record.lines());
  for (size_t i = returns; i < after.size(); ++i) {
    if (after[i] == before[i]) {
      continue;
    }
    Block block;
    const bool lost = after[i] != 0 && i < slots &&
        look(pointer<const void*>(after[i]), &block) == State::kAlive;
    if (i >= slots || lost) {
      if (lost) {
        tell(pointer<const void*>(after[i]));
      }
      record.fault(
          i,
          "slot",
          lost ? text_of(block.kind) : "?",
          after[i],
          {Class::kError,
           lost ? "was written behind the " + std::to_string(returns) +
                   " returns: nobody takes it"
                : "was written beyond the end of the stack, which has " +
                   std::to_string(slots) + " slots"});
    }
  }
  for (const Line& line : record.lines()) {
    for (const Part& part : line.parts) {
      give(part.address, {Role::kReturn, &op, nullptr, line.slot});
    }
  }
  if (!is_summary() && op.shown) {
    for (const Line& line : arguments) {
      for (const Part& part : line.parts) {
        const bool returned =
            std::any_of(given.begin(), given.end(), [&part](const Part& other) {
              return other.address == part.address;
            });
        if (!returned && look(part.address) == State::kAlive) {
          record.lines().push_back(
              {line.slot,
               "argument  " + hex(bits(part.address)) + "  " +
                   text_of(part.kind) + part.where,
               {},
               "not released"});
        }
      }
    }
  }
  record.show(" has returned");
}

void run(
    Registration& registration,
    StableIValue* stack,
    uint64_t arguments,
    uint64_t returns) {
  if (Busy::now()) {
    return registration.kernel(stack, arguments, returns);
  }
  count_shim();
  count_kernel();
  if (registration.op == nullptr || registration.op->schema.empty()) {
    registration.op = op_of(registration.name);
  }
  const Op& op = *registration.op;
  const bool known = op.arguments.size() == arguments &&
      op.returns.size() == returns && !op.schema.empty();
  std::vector<Line> lines;
  // Its own copy, so that what is written beyond the end is seen.
  const size_t slots = std::max(arguments, returns);
  std::vector<StableIValue> before, after;
  {
    const Busy ours;
    before.assign(stack, stack + arguments);
    for (size_t i = arguments; i < slots + kGuards; ++i) {
      before.push_back(kNothing + i);
    }
    after = before;
    if (known) {
      Record record(op, "kernel", registration.library);
      const Place made{Role::kArgument, &op, nullptr, 0};
      record.add(op.arguments, "argument", stack, &made, arguments);
      lines = record.lines();
      record.show("");
    }
  }
  {
    const Running now(&op);
    ++depth;
    const Overtaken overtaken{op, lines};
    registration.kernel(after.data(), arguments, returns);
  }
  --depth;
  const Busy ours;
  if (known) {
    look_at_returns(op, registration.library, before, after, lines);
  }
  for (size_t i = 0; i < slots; ++i) {
    if (after[i] != before[i]) {
      stack[i] = after[i];
    }
  }
}

// A kernel is called by its address alone, so each has a function of its own.
template <size_t kIndex>
void trampoline(StableIValue* stack, uint64_t arguments, uint64_t returns) {
  run(registrations[kIndex], stack, arguments, returns);
}

template <size_t... kIndices>
constexpr std::array<Kernel, sizeof...(kIndices)> trampolines_of(
    std::index_sequence<kIndices...>) {
  return {&trampoline<kIndices>...};
}
constexpr auto trampolines =
    trampolines_of(std::make_index_sequence<kKernels>());

} // namespace

Kernel wrap(const std::string& op, Kernel kernel) {
  static std::mutex mutex;
  static size_t size = 0;
  const Busy ours;
  const std::lock_guard<std::mutex> lock(mutex);
  for (size_t i = 0; i < size; ++i) { // for several keys
    if (registrations[i].kernel == kernel && registrations[i].name == op) {
      return trampolines[i];
    }
  }
  if (size == kKernels) {
    find(
        Class::kNote,
        "only the first " + std::to_string(kKernels) + " kernels are traced");
    return kernel;
  }
  registrations[size] = {
      nullptr, op, library_of(reinterpret_cast<const void*>(kernel)), kernel};
  return trampolines[size++];
}

} // namespace workbook::trace
