// What something still points to when the program ends.
#pragma once

#include "blocks.h"

#include <unordered_set>

namespace workbook::trace {

// Those of the addresses that stand in a variable with static storage, on this
// thread's stack above the frame, or in a block on the heap that is reached
// from there.
std::unordered_set<Hidden> reachable(
    const std::unordered_set<Hidden>& addresses, const void* frame);

} // namespace workbook::trace
