// Records calls that pass the ABI boundary, slot by slot, and draws them with
// what became of each slot's content. Needs no test: whoever sees the calls
// tells the recorder, and a function says how often a block was released.
#pragma once

#include "abi/torch_stable_abi/trace/slots.h"

#include <cstddef>
#include <string>
#include <vector>

namespace workbook {

class Recorder {
 public:
  explicit Recorder(slots::Releases releases) : releases_(releases) {}

  // A call, or a kernel that is called, of this name.
  void begin(const std::string& name);
  // Slots of these types, and what they refer to. `role` is "argument" or
  // "return".
  void add(
      const std::vector<std::string>& types,
      const std::string& role,
      const StableIValue* stack);
  // What is wrong with one slot.
  void fault(size_t slot, const std::string& what, const std::string& fault);

  // Record what is wrong with slots that change hands; true if nothing is.
  bool check_owned(
      const std::vector<std::string>& types,
      const std::string& role,
      const StableIValue* stack);
  // The same for a stack that is too short. AddressSanitizer knows where the
  // array of an instrumented caller ends; it would not look when libtorch reads
  // or writes beyond.
  bool check_room(const Schema& schema, const StableIValue* stack);

  // The first slot that was not handed over as it should, or not released
  // exactly once: "slot 1, return Tensor: never released, ..."; "" if there is
  // none.
  std::string first_fault() const;
  // The slots of each call, one a line, and the fate of what was in them.
  std::string drawing() const;
  void clear();

 private:
  struct Record {
    std::string name; // of a call, above its slots
    size_t slot;
    std::string what;
    const void* block;
    std::string fault;
  };

  std::string fate(const Record& record) const;

  slots::Releases releases_;
  std::vector<Record> records_;
};

} // namespace workbook
