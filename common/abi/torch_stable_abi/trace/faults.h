// What a slot refers to, what is wrong with it, and how it is drawn.
#pragma once

#include "op.h"
#include "report.h"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <string>
#include <vector>

namespace workbook::trace {

// Something that a slot refers to.
struct Part {
  const void* address;
  Kind kind;
  std::string where; // " in [1]"
};

struct Fault {
  Class of = Class::kError;
  const char* rule = "";
  std::string text{}; // "": none
  std::string bits{}; // of a value
};

// What is wrong with the slot; `parts` are what it refers to. Nothing is opened
// that is not alive. What libtorch has made is right: then `made` says where.
Fault find_fault(
    const Type& type,
    StableIValue slot,
    const Place* made,
    std::vector<Part>& parts);

// What is wrong with a return of a call by name, which libtorch converts by the
// type of the return that is as far from the end.
Fault find_confusion(const std::vector<Type>& returns, size_t i, StableIValue);
bool are_confused(const std::vector<Type>& returns);
// "libtorch 2.13 confuses the types of ..."
std::string describe_confusion();

// The value, of what is alive and fits its type.
std::string draw_value(const Type& type, StableIValue slot);
// All of its bits.
std::string hex(StableIValue slot);

} // namespace workbook::trace
