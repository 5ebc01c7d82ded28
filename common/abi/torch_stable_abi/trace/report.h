// What was found, and the summary.
#pragma once

#include "blocks.h"

#include <cstddef>
#include <string>

namespace workbook::trace {

enum class Class {
  kError,
  kSuspicious, // by its bits it may be right
  kNote,       // libtorch's own, or none can say
};

// Shown at its first time, with the drawing, and counted from then on.
void find(Class of, const std::string& what, const std::string& drawing = "");
void print(const std::string& text);
bool is_summary();

void count_kernel();
void count_call();
void count_shim();
// What runs, for whoever sees the process end.
void set_running(const char* what);

std::string text_of(const Place& place);
std::string text_of(Kind kind);
// " by delete"
std::string released_by(const Block& block);
// "libmy.so" for an address in it.
std::string library_of(const void* address);

} // namespace workbook::trace
