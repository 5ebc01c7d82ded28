#include "reach.h"

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace workbook::trace {

namespace {

struct Region {
  uint64_t begin, end;
};

// Added to what the tracer notes, so that it is taken for no address.
constexpr uint64_t kOdd = 1;
constexpr uint64_t kLargest = uint64_t{1} << 30; // that is looked through

uint64_t word(uint64_t address) {
  return *reinterpret_cast<const uint64_t*>(address);
}

// As malloc of the C library notes it before a block.
uint64_t size_of(uint64_t chunk) {
  return word(chunk - 8) & ~uint64_t{7};
}

// The blocks in use of a heap of malloc, where each begins at the end of the
// one before, to the heap's end. The first is behind what malloc itself notes.
void append_chunks(
    const Region& heap, uint64_t free, std::vector<uint64_t>& chunks) {
  const size_t before = chunks.size();
  for (uint64_t first = 16; first < 8192; first += 16) {
    uint64_t at = heap.begin + first;
    while (at < heap.end && size_of(at) >= 32 && size_of(at) % 16 == 0 &&
           size_of(at) <= heap.end - at) {
      const uint64_t next = at + size_of(at);
      if ((word(next - 8) & 1) != 0 && word(at + 8) != free) {
        chunks.push_back(at + kOdd);
      }
      at = next;
    }
    // The last, which is free, ends where the heap does.
    if (at < heap.end && at - 16 + size_of(at) == heap.end) {
      return;
    }
    chunks.resize(before);
  }
}

// What malloc writes into the second word of a small block that is free; 0 if
// it writes nothing there.
uint64_t mark_of_free() {
  auto* const block = static_cast<uint64_t*>(std::malloc(24));
  const auto address = reinterpret_cast<uint64_t>(block);
  block[1] = 0;
  std::free(block);
  return reinterpret_cast<const volatile uint64_t*>(address)[1];
}

// Writable memory: what malloc has its blocks in, and all else but the tracer's
// the C library's, which knows the free blocks, and the stacks; of the stack of
// this thread what is above the frame.
void read_regions(
    uint64_t frame, std::vector<Region>& heaps, std::vector<Region>& roots) {
  std::FILE* const maps = std::fopen("/proc/self/maps", "r");
  char line[512];
  uint64_t guard = 0, ours = 0; // where the region before ended
  while (maps != nullptr && std::fgets(line, sizeof(line), maps) != nullptr) {
    Region region{};
    char mode[5] = {}, name[256] = {};
    std::sscanf(
        line,
        "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %*s %255s",
        &region.begin,
        &region.end,
        mode,
        name);
    const bool thread_stack = guard == region.begin && name[0] == 0;
    guard = std::strncmp(mode, "---", 3) == 0 ? region.end : 0;
    const bool tracer = std::strstr(name, "libworkbook_trace") ||
        std::strstr(name, "/libc.so") || std::strstr(name, "/libc-2") ||
        (ours == region.begin && name[0] == 0);
    ours = tracer ? region.end : 0;
    if (region.begin <= frame && frame < region.end) {
      roots.push_back({frame & ~uint64_t{7}, region.end});
    }
    if (tracer || thread_stack || std::strncmp(mode, "rw", 2) != 0 ||
        std::strstr(name, "[stack") || std::strstr(name, "/dev/") ||
        region.end - region.begin > kLargest) {
      continue;
    }
    // Arenas of malloc begin at multiples of 64 MiB.
    const bool arena = name[0] == 0 && region.begin % (64 << 20) == 0;
    if (std::strcmp(name, "[heap]") == 0 || arena) {
      heaps.push_back(region);
    } else {
      roots.push_back(region);
    }
  }
  if (maps != nullptr) {
    std::fclose(maps);
  }
}

} // namespace

std::unordered_set<Hidden> reachable(
    const std::unordered_set<Hidden>& addresses, const void* frame) {
  std::unordered_set<Hidden> found;
  if (addresses.empty()) {
    return found;
  }
  const uint64_t free = mark_of_free() == 0 ? 1 : mark_of_free();
  const auto at = reinterpret_cast<uint64_t>(frame);
  std::vector<Region> heaps, work;
  std::vector<uint64_t> chunks; // in use, in order
  read_regions(at, heaps, work);
  size_t most = 0;
  for (const Region& heap : heaps) {
    most += (heap.end - heap.begin) / 32;
  }
  chunks.reserve(most); // so that no heap grows while it is looked through
  heaps.clear();
  work.clear();
  read_regions(at, heaps, work);
  for (const Region& heap : heaps) {
    append_chunks(heap, free, chunks);
  }
  std::vector<bool> seen(chunks.size());
  while (!work.empty()) {
    const Region region = work.back();
    work.pop_back();
    for (uint64_t at = region.begin; at + 8 <= region.end; at += 8) {
      const uint64_t bits = word(at);
      const auto next =
          std::upper_bound(chunks.begin(), chunks.end(), bits + kOdd);
      if (bits % 8 != 0 || next == chunks.begin()) {
        continue;
      }
      const uint64_t chunk = *(next - 1) - kOdd;
      const uint64_t end = chunk + size_of(chunk) - 8;
      const auto index = static_cast<size_t>(next - 1 - chunks.begin());
      if (bits < end && !seen[index] &&
          look(reinterpret_cast<const void*>(chunk)) != State::kDead) {
        seen[index] = true;
        work.push_back({chunk, end});
        if (addresses.count(~chunk) != 0) {
          found.insert(~chunk);
        }
      }
    }
  }
  return found;
}

} // namespace workbook::trace
