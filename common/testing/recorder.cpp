#include "recorder.h"

#include "asan.h"

#include <algorithm>
#include <map>

#if WORKBOOK_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace workbook {

namespace {

const std::string kArrow = "<- "; // begins what is wrong

} // namespace

void Recorder::begin(const std::string& name) {
  records_.push_back({name, 0, "", nullptr, ""});
}

void Recorder::add(
    const std::vector<std::string>& types,
    const std::string& role,
    const StableIValue* stack) {
  for (size_t i = 0; i < types.size(); ++i) {
    const auto blocks = slots::blocks(types[i], stack[i], releases_);
    for (const auto& [what, block] : blocks) {
      records_.push_back({"", i, role + " " + what, block, ""});
    }
    if (blocks.empty()) {
      const std::string bits = slots::written(types[i], stack[i]);
      records_.push_back(
          {"", i, role + " " + types[i] + " " + bits, nullptr, ""});
    }
  }
}

void Recorder::fault(
    size_t slot, const std::string& what, const std::string& fault) {
  records_.push_back({"", slot, what, nullptr, fault});
}

bool Recorder::check_owned(
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
    for (const auto& [what, block] :
         slots::blocks(types[i], stack[i], releases_)) {
      const int times = releases_(block);
      const auto [other, first] = seen.emplace(block, i);
      if (first && times == 0) {
        continue;
      }
      fault(
          i,
          role + " " + what,
          !first ? "<- the same as in slot " + std::to_string(other->second) +
                  ": two owners need two"
              : times < 0 ? "<- not the stack's own: borrowed from its owner"
                          : "<- was released before it was handed over");
      good = false;
    }
  }
  return good;
}

bool Recorder::check_room(
    [[maybe_unused]] const Schema& schema,
    [[maybe_unused]] const StableIValue* stack) {
#if WORKBOOK_ASAN
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
#endif
  return true;
}

std::string Recorder::fate(const Record& record) const {
  if (!record.fault.empty() || record.block == nullptr) {
    return record.fault;
  }
  const int times = releases_(record.block);
  return times == 1 ? "released once"
      : times == 0  ? "<- never released: nobody owns it now, it leaks"
                    : "<- released twice: it had two owners";
}

std::string Recorder::first_fault() const {
  std::string first;
  size_t more = 0;
  for (const Record& record : records_) {
    const std::string became = fate(record);
    if (became.rfind(kArrow, 0) != 0) {
      continue;
    }
    if (first.empty()) {
      first = "slot " + std::to_string(record.slot) + ", " +
          record.what.substr(0, record.what.find(" 0x")) + ": " +
          became.substr(kArrow.size());
    } else {
      ++more;
    }
  }
  return more == 0 ? first : first + " (and " + std::to_string(more) + " more)";
}

std::string Recorder::drawing() const {
  std::string text;
  for (const Record& record : records_) {
    const std::string became = fate(record);
    text += "\n" +
        (record.name.empty()
             ? "    slot " + std::to_string(record.slot) + "  " + record.what
             : "  " + record.name) +
        (became.empty() ? "" : ": " + became);
  }
  return text;
}

void Recorder::clear() {
  records_.clear();
}

} // namespace workbook
