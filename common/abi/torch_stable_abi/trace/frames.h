// What an address can be, and how far an array on the stack can reach.
#pragma once

#include "calls.h"

namespace workbook::trace {

// Returns whether it can be the address of a block of malloc, by its bits.
inline bool is_address(uint64_t bits) {
  return bits % 8 == 0 && bits >= 65536 && bits >> 47 == 0;
}
// Why it cannot be the address of something on the heap; "" if it can.
std::string no_heap_address(uint64_t bits);
// And of a tensor: what it refers to has a virtual table in a library.
bool is_like_tensor(uint64_t bits);

// Whether a signal has interrupted what this thread did.
bool is_in_signal_handler();

// How many bytes there can be at `array`: up to the end of its block on the
// heap, or to the return address of the function that it is a local of.
size_t room(const void* array, size_t wanted, const Caller& caller);

} // namespace workbook::trace
