#include "calls.h"

#include "faults.h"
#include "frames.h"
#include "slots.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace workbook::trace {

namespace {

using slots::bits;
using slots::pointer;

thread_local const Op* running = nullptr;
thread_local size_t depth = 0;

// The last function that failed on this thread, and for which nothing was
// thrown since.
struct Failed {
  const char* function = nullptr;
  char reason[256] = "";
};
thread_local Failed failed;

// Why libtorch's last function on this thread failed; "" if it does not tell,
// as before 2.13.
std::string read_reason() {
  static const auto what = reinterpret_cast<const char* (*)()>(
      in_libtorch("torch_exception_get_what_without_backtrace"));
  const std::string text = what == nullptr ? "" : what();
  return text.substr(0, std::min(text.find('\n'), sizeof(Failed::reason) - 1));
}

// --- a call, or a kernel that is called --------------------------------------

struct Line {
  size_t slot;
  std::string text;
  std::vector<Part> parts;
  std::string fate;
  const Type* type = nullptr; // of a slot with which nothing is wrong
  StableIValue bits = 0;
};

// The slot that a handle is in, and its place there.
struct Owner {
  size_t slot;
  std::string where;
};

class Record {
 public:
  Record(const Op& op, const char* how, const std::string& library)
      : op_(op), how_(how), library_(library) {}

  // Looks at slots; true if no error is in them. `made`: where they came from,
  // if libtorch has made them. `before`: what was in the slots of returns.
  bool add(
      const std::vector<Type>& types,
      const char* role,
      const StableIValue* stack,
      const Place* made,
      size_t room,
      const StableIValue* before = nullptr) {
    bool good = true;
    std::map<const void*, Owner> seen;
    for (size_t i = 0; i < types.size(); ++i) {
      if (i >= room) {
        add_short_array(i, role, types[i].text, room);
        return false;
      }
      Place place = made == nullptr ? Place{} : *made;
      place.slot = i;
      Line line{i, "", {}, "", &types[i], stack[i]};
      Fault wrong = find_fault(
          types[i], stack[i], made == nullptr ? nullptr : &place, line.parts);
      if (before != nullptr && stack[i] == before[i] && !wrong.text.empty()) {
        wrong = describe_unwritten(i, stack[i], wrong);
      }
      const bool returned = before != nullptr;
      if (returned && types[i].base == Base::kInt &&
          wrong.rule == std::string("handle-for-value")) {
        // Python may keep it so.
        const size_t end = wrong.text.rfind(", where a value");
        wrong = {Class::kNote, "handle-as-int", wrong.text.substr(0, end)};
      }
      if (made == nullptr && wrong.text.empty()) {
        wrong = find_second_owner(line, seen);
      }
      if (!wrong.text.empty()) {
        good = good && wrong.of != Class::kError;
        add_fault(i, role, types[i].text, stack[i], wrong);
        if (wrong.of == Class::kSuspicious) {
          lines_.back().parts = std::move(line.parts);
        } else if (made == nullptr) { // their loss follows from it
          for (const Part& part : line.parts) {
            mark_told(part.address);
          }
        }
      } else {
        lines_.push_back(std::move(line));
      }
    }
    if ((op_.shown && !is_summary()) || !findings_.empty()) {
      draw_lines(role);
    }
    return good;
  }

  // The array is too short for this slot.
  void add_short_array(
      size_t slot, const char* role, const std::string& type, size_t room) {
    add_fault(
        slot,
        role,
        type,
        0,
        {Class::kError,
         "short-array",
         "beyond the end of the caller's array, which has room for " +
             counted(room, "slot")});
  }

  void add_fault(
      size_t slot,
      const std::string& role,
      const std::string& type,
      StableIValue bits,
      const Fault& fault) {
    const std::string detail = fault.bits.empty() ? "" : ": " + fault.bits;
    lines_.push_back(
        {slot,
         role + " " + type + "  " + hex(bits),
         {},
         "<- " + fault.text + detail});
    findings_.push_back(
        {fault.of,
         fault.rule,
         op_.name + ", " + role + " " + std::to_string(slot) + " (" + type +
             "): " + fault.text,
         op_.name,
         static_cast<int>(slot),
         detail});
  }

  std::vector<Line>& lines() {
    return lines_;
  }

  // Shows it, if all is shown, and what is wrong with it.
  void show(const char* what) {
    if (findings_.empty() && (is_summary() || !op_.shown)) {
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
    for (const Finding& finding : findings_) {
      report_finding(finding, shown ? "" : text);
      shown = true;
    }
    if (!shown) {
      print(text);
    }
    findings_.clear();
    lines_.clear();
  }

 private:
  static Fault describe_unwritten(
      size_t slot, StableIValue bits, const Fault& wrong) {
    return {
        wrong.of,
        "not-written",
        look(pointer<const void*>(bits)) == State::kDead
            ? "was not written: it still is argument " + std::to_string(slot) +
                ", which was released"
            : "was not written"};
  }

  // What two slots refer to.
  static Fault find_second_owner(
      const Line& line, std::map<const void*, Owner>& seen) {
    for (const Part& part : line.parts) {
      const auto [found, first] =
          seen.emplace(part.address, Owner{line.slot, part.where});
      if (!first) {
        mark_told(part.address);
        const auto& [slot, where] = found->second;
        return {
            Class::kError,
            "two-owners",
            "the same " + text_of(part.kind) + part.where + " as" +
                (slot == line.slot ? "" : " in slot " + std::to_string(slot)) +
                where + ": two owners need two"};
      }
    }
    return {};
  }

  void draw_lines(const char* role) {
    for (Line& line : lines_) {
      if (line.text.empty() && line.type != nullptr) {
        line.text = std::string(role) + " " + line.type->text + "  " +
            hex(line.bits) + "  " + draw_value(*line.type, line.bits);
      }
    }
  }

  const Op& op_;
  const char* how_;
  const std::string& library_;
  std::vector<Line> lines_;
  std::vector<Finding> findings_;
};

// The arguments of the running kernel, as it got them; null outside of one.
thread_local const std::vector<Line>* running_arguments = nullptr;

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

void note_failure(const char* function) {
  failed.function = function;
  std::snprintf(
      failed.reason, sizeof(failed.reason), "%s", read_reason().c_str());
}

void forget_failure() {
  failed.function = nullptr;
}

std::string describe_origin_of_null() {
  if (failed.function != nullptr) {
    return std::string(", since ") + failed.function + " failed";
  }
  std::string slots;
  for (const Line& line : running_arguments == nullptr ? std::vector<Line>()
                                                       : *running_arguments) {
    if (line.bits == 0 && line.type != nullptr &&
        line.type->base == Base::kOptional) {
      slots += (slots.empty() ? "" : " or ") + std::to_string(line.slot);
    }
  }
  return slots.empty() ? ""
                       : ", as is argument " + slots + " of " + running->name;
}

namespace {

// Looks at what is given with a call; returns what then is libtorch's.
std::vector<Part> look_at_arguments(
    const Op& op, const StableIValue* stack, const Caller& caller) {
  const Busy ours;
  Record record(op, "call", caller_library(caller.address));
  if (op.asked && op.schema.empty()) {
    report_finding(
        {Class::kError,
         "no-such-op",
         op.name + ": this libtorch has no such op; called by " +
             library_of(caller.address),
         op.name});
  }
  const size_t slots = std::max(op.arguments.size(), op.returns.size());
  const size_t has =
      room(stack, slots * sizeof(StableIValue), caller) / sizeof(StableIValue);
  record.add(op.arguments, "argument", stack, nullptr, has);
  if (has < op.returns.size() && has >= op.arguments.size()) {
    record.add_short_array(has, "return", op.returns[has].text, has);
  }
  std::vector<Part> given;
  for (const Line& line : record.lines()) {
    for (const Part& part : line.parts) {
      give(part.address, {Role::kArgument, &op, nullptr, line.slot});
      given.push_back(part);
    }
  }
  record.show("");
  return given;
}

// Says why, and that libtorch may not have taken what it was given.
void look_at_failure(
    const Op& op, const std::vector<Part>& given, const Place& at) {
  const Busy ours;
  for (const Part& part : given) {
    Block block;
    if (look(part.address, &block) == State::kAlive) {
      block.given.role = Role::kLibtorch;
      give(part.address, block.given);
    }
  }
  std::string reason = read_reason();
  Finding finding{
      Class::kNote,
      "failed-call",
      op.name + " failed" + text_of_caller(at),
      op.name};
  if (are_confused(op.returns)) {
    if (reason.find(" but got ") != std::string::npos ||
        reason.find("ivalue.h") != std::string::npos) { // an assertion there
      finding.of = Class::kError;
      finding.rule = "confused-returns";
    }
    reason += (reason.empty() ? "" : "; ") + describe_confusion();
  }
  if (!reason.empty()) {
    reason.insert(0, ": ");
  }
  finding.detail = reason;
  report_finding(finding);
  if (!is_summary() && op.shown) {
    print(
        std::string(2 * depth, ' ') + "call " + op.name + " failed" + reason +
        "\n");
  }
  note_failure(op.name.c_str());
}

void look_at_call_returns(
    const Op& op, const StableIValue* stack, const Place& made) {
  const Busy ours;
  if (op.returns.empty()) {
    return;
  }
  Record record(op, "call", caller_library(made.from));
  bool confused = false;
  for (size_t i = 0; i < op.returns.size(); ++i) {
    const Fault fault = find_confusion(op.returns, i, stack[i]);
    if (!fault.text.empty()) {
      record.add_fault(i, "return", op.returns[i].text, stack[i], fault);
      confused = true;
    }
  }
  if (!confused) {
    record.add(op.returns, "return", stack, &made, op.returns.size());
  }
  record.show(" has returned");
}

} // namespace

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
  const auto given = look_at_arguments(*op, stack, caller);
  const StableIValue* const before = std::exchange(under_way, stack);
  set_running(op->name.c_str());
  ++depth;
  const AOTITorchError code = real();
  --depth;
  set_running(running == nullptr ? "" : running->name.c_str());
  under_way = before;
  const Place made{Role::kReturn, op, nullptr, 0, running, caller.address};
  if (code != 0) {
    look_at_failure(*op, given, made);
  } else {
    look_at_call_returns(*op, stack, made);
  }
  return code;
}

// --- kernels -----------------------------------------------------------------

namespace {

struct Registration {
  std::string name;
  std::string library;
  Kernel kernel = nullptr;
  std::atomic<const Op*> op = nullptr; // set by the first call, in any thread
};

constexpr size_t kKernels = 4096;
constexpr size_t kGuards = 8;
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
  Running(const Op* op, const std::vector<Line>* arguments)
      : before_(std::exchange(running, op)),
        arguments_before_(std::exchange(running_arguments, arguments)) {
    set_running(op->name.c_str());
  }
  ~Running() {
    running = before_;
    running_arguments = arguments_before_;
    set_running(before_ == nullptr ? "" : before_->name.c_str());
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  const Op* before_;
  const std::vector<Line>* arguments_before_;
};

// A stack of the kernel's own, so that what is written beyond its end is seen.
struct Stack {
  size_t slots;
  std::vector<StableIValue> before, now;

  Stack(const StableIValue* stack, uint64_t arguments, uint64_t returns)
      : slots(std::max(arguments, returns)), before(stack, stack + arguments) {
    for (size_t i = arguments; i < slots + kGuards; ++i) {
      before.push_back(kNothing + i);
    }
    now = before;
  }

  bool is_written(size_t slot) const {
    return now[slot] != before[slot];
  }
};

// Adds what the kernel wrote where nobody takes it.
void add_lost_writes(Record& record, const Stack& stack, size_t returns) {
  for (size_t i = returns; i < stack.now.size(); ++i) {
    const StableIValue slot = stack.now[i];
    Block block;
    const bool lost = slot != 0 && i < stack.slots &&
        look(pointer<const void*>(slot), &block) == State::kAlive;
    if (!stack.is_written(i) || (i < stack.slots && !lost)) {
      continue;
    }
    if (lost) {
      mark_told(pointer<const void*>(slot));
    }
    record.add_fault(
        i,
        "slot",
        lost ? text_of(block.kind) : "?",
        slot,
        {Class::kError,
         "written-beyond",
         lost ? "was written behind the " + counted(returns, "return") +
                 ": nobody takes it"
              : "was written beyond the end of the stack, which has " +
                 counted(stack.slots, "slot")});
  }
}

// Draws the arguments that the kernel keeps, or has lost.
void draw_unreleased(
    Record& record,
    const std::vector<Line>& arguments,
    const std::vector<Part>& given) {
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

void look_at_kernel_returns(
    const Registration& registration,
    const Stack& stack,
    const std::vector<Line>& arguments) {
  const Op& op = *registration.op;
  Record record(op, "kernel", registration.library);
  const size_t returns = op.returns.size();
  for (size_t i = op.arguments.size(); i < returns; ++i) {
    if (!stack.is_written(i)) {
      record.add_fault(
          i,
          "return",
          op.returns[i].text,
          0,
          {Class::kError, "not-written", "was not written"});
      record.show(" has returned");
      return;
    }
  }
  record.add(
      op.returns,
      "return",
      stack.now.data(),
      nullptr,
      returns,
      stack.before.data());
  const auto given = parts_of(record.lines());
  add_lost_writes(record, stack, returns);
  for (const Line& line : record.lines()) {
    for (const Part& part : line.parts) {
      give(part.address, {Role::kReturn, &op, nullptr, line.slot});
    }
  }
  if (!is_summary() && op.shown) {
    draw_unreleased(record, arguments, given);
  }
  record.show(" has returned");
}

// What failed in the kernel, which returns as if nothing had.
void look_at_ignored_failure(const Registration& registration) {
  const Op& op = *registration.op;
  const std::string reason = failed.reason;
  report_finding(
      {Class::kNote,
       "ignored-failure",
       std::string(failed.function) + " failed in " + op.name + " (" +
           registration.library + "), and the kernel returned all the same",
       op.name,
       -1,
       reason.empty() ? "" : ": " + reason});
}

std::vector<Line> look_at_kernel_arguments(
    const Registration& registration, const StableIValue* stack) {
  const Op& op = *registration.op;
  Record record(op, "kernel", registration.library);
  const Place made{Role::kArgument, &op, nullptr, 0};
  record.add(op.arguments, "argument", stack, &made, op.arguments.size());
  std::vector<Line> lines = record.lines();
  record.show("");
  return lines;
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
  const Op* found = registration.op;
  if (found == nullptr || found->schema.empty()) {
    registration.op = found = op_of(registration.name);
  }
  const Op& op = *found;
  const bool known = op.arguments.size() == arguments &&
      op.returns.size() == returns && !op.schema.empty();
  std::optional<Stack> own;
  std::vector<Line> lines;
  {
    const Busy ours;
    own.emplace(stack, arguments, returns);
    if (known) {
      lines = look_at_kernel_arguments(registration, stack);
    }
  }
  const char* const before = std::exchange(failed.function, nullptr);
  {
    const Running now(&op, &lines);
    ++depth;
    const Overtaken overtaken{op, lines};
    registration.kernel(own->now.data(), arguments, returns);
  }
  --depth;
  const Busy ours;
  if (failed.function != nullptr) {
    look_at_ignored_failure(registration);
  }
  failed.function = before;
  if (known) {
    look_at_kernel_returns(registration, *own, lines);
  }
  for (size_t i = 0; i < own->slots; ++i) {
    if (own->is_written(i)) {
      stack[i] = own->now[i];
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

InKernel::InKernel(const Op* op) : before_(std::exchange(running, op)) {}
InKernel::~InKernel() {
  running = before_;
}

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
    report_finding(
        {Class::kNote,
         "untraced-kernel",
         "only the first " + std::to_string(kKernels) + " kernels are traced"});
    return kernel;
  }
  registrations[size].name = op;
  registrations[size].library =
      library_of(reinterpret_cast<const void*>(kernel));
  registrations[size].kernel = kernel;
  return trampolines[size++];
}

} // namespace workbook::trace
