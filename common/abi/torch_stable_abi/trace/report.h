// What was found, and the summary.
#pragma once

#include "blocks.h"

#include <cstddef>
#include <string>

namespace workbook::trace {

enum class Class {
  kError,
  kSuspicious, // by its bits it may be right
  kNote,       // nobody's fault, or none can say
  kPyTorch,    // a known fault of PyTorch's own
};

struct Finding {
  Class of;
  const char* rule;     // the same in each version of the tracer
  std::string what;     // two findings with the same text are one
  std::string op{};     // "" if it is of none
  int slot = -1;        // of the op, -1 if it is of none
  std::string detail{}; // of its first time
};

// Shown at its first time, with the drawing, and counted from then on.
void report_finding(const Finding& finding, const std::string& drawing = "");
void print(const std::string& text);
bool is_summary();

// What holds what, before the end of the process destroys it.
void look_before_end(const void* frame);
// The summary, once.
void end_process(const void* frame);
// False in a process that shares its parent's memory.
bool is_own_process();

void count_kernel();
void count_call();
void count_shim();
// What runs, for whoever sees the process end.
void set_running(const char* what);

std::string text_of(const Place& place);
// ", called in my::f (libmy.so)", of a call.
std::string text_of_caller(const Place& call);
std::string text_of(Kind kind);
// "1 slot", "2 slots"
std::string counted(size_t number, const char* what);
// " by delete"
std::string released_by(const Block& block);
// "libmy.so" for an address in it.
std::string library_of(const void* address);

} // namespace workbook::trace
