#include "reach.h"

#include <dirent.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

namespace workbook::trace {

namespace {

struct Region {
  uint64_t begin, end;
};

// Added to what the tracer notes, so that it is taken for no address.
constexpr uint64_t kHidden = uint64_t{1} << 62;
constexpr uint64_t kLargest = uint64_t{1} << 30; // that is looked through
constexpr uint64_t kArena = uint64_t{64} << 20;

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
        chunks.push_back(at + kHidden);
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

// The name of the file that the tracer was loaded from.
const char* own_name() {
  Dl_info info{};
  dladdr(reinterpret_cast<const void*>(&own_name), &info);
  static char path[4096];
  return realpath(info.dli_fname, path) == nullptr ? "?" : path;
}

// Returns where the stack of a waiting thread ends; 0 if the thread still runs
// when all tries, a millisecond each, are over.
uint64_t find_stack_pointer(const char* thread, int& tries) {
  char path[300];
  std::snprintf(path, sizeof(path), "/proc/self/task/%s/syscall", thread);
  for (; tries > 0; --tries) {
    std::FILE* const file = std::fopen(path, "r");
    if (file == nullptr) { // it has ended
      return 0;
    }
    char line[256];
    const char* const text = std::fgets(line, sizeof(line), file);
    std::fclose(file);
    // The last words are the stack's address and the code's.
    const char* space = text == nullptr ? nullptr : std::strrchr(text, ' ');
    while (space != nullptr && space > text && *--space != ' ') {
    }
    uint64_t pointer = 0;
    if (space != nullptr && std::sscanf(space, " %" SCNx64, &pointer) == 1) {
      return pointer;
    }
    usleep(1000); // "running", or about to
  }
  return 0;
}

// Returns where the stacks of the other threads end; `all` says whether that
// was seen of each thread.
std::vector<uint64_t> find_stack_pointers(bool& all) {
  std::vector<uint64_t> found;
  all = true;
  int tries = 200; // of all of them, for some may spin for ever
  DIR* const threads = opendir("/proc/self/task");
  while (const dirent* thread =
             threads == nullptr ? nullptr : readdir(threads)) {
    if (*thread->d_name == '.' ||
        std::atol(thread->d_name) == syscall(SYS_gettid)) {
      continue;
    }
    if (const uint64_t pointer = find_stack_pointer(thread->d_name, tries)) {
      found.push_back(pointer + kHidden);
    } else {
      all = all && tries > 0;
    }
  }
  if (threads != nullptr) {
    closedir(threads);
  }
  return found;
}

// Writable memory: what malloc has its blocks in, and all else but the tracer's
// the C library's, which knows the free blocks, and the stacks; of those what
// is above the frame of this thread, and above the `others` of the others. If
// these are not `all`, a stack in which none of them lies is a whole root.
void read_regions(
    uint64_t frame,
    const std::vector<uint64_t>& others,
    bool all,
    std::vector<Region>& heaps,
    std::vector<Region>& roots) {
  std::FILE* const maps = std::fopen("/proc/self/maps", "r");
  char line[8192];
  uint64_t guard = 0, ours = 0; // where the region before ended
  static const char* const own = own_name();
  while (maps != nullptr && std::fgets(line, sizeof(line), maps) != nullptr) {
    Region region{};
    char mode[5] = {}, name[4096] = {};
    std::sscanf(
        line,
        "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %*s %4095s",
        &region.begin,
        &region.end,
        mode,
        name);
    const bool thread_stack = guard == region.begin && name[0] == 0;
    guard = std::strncmp(mode, "---", 3) == 0 ? region.end : 0;
    const bool tracer = std::strcmp(name, own) == 0 ||
        std::strstr(name, "/libc.so") || std::strstr(name, "/libc-2") ||
        (ours == region.begin && name[0] == 0);
    ours = tracer ? region.end : 0;
    if (region.begin <= frame && frame < region.end) {
      roots.push_back({frame & ~uint64_t{7}, region.end});
    }
    bool found = false;
    for (const uint64_t hidden : others) {
      const uint64_t other = hidden & ~kHidden;
      if (region.begin <= other && other < region.end) {
        roots.push_back({other & ~uint64_t{7}, region.end});
        found = true;
      }
    }
    if (thread_stack && !found && !all) {
      roots.push_back(region);
    }
    // Processes share memory by two names in /dev. Its other files are devices.
    const bool device = std::strstr(name, "/dev/") &&
        !std::strstr(name, "/dev/zero") && !std::strstr(name, "/dev/shm/");
    if (tracer || thread_stack || std::strncmp(mode, "rw", 2) != 0 ||
        std::strstr(name, "[stack") || device ||
        region.end - region.begin > kLargest) {
      continue;
    }
    // An arena of malloc begins at a multiple of kArena, and is no larger. What
    // a heap has grown by since a fork is a region of its own.
    const bool of_program = std::strcmp(name, "[heap]") == 0;
    const bool arena = name[0] == 0 && region.begin % kArena == 0;
    const bool grown = !heaps.empty() && heaps.back().end == region.begin &&
        (of_program ||
         (name[0] == 0 && heaps.back().begin % kArena == 0 &&
          region.begin - heaps.back().begin < kArena));
    if (grown) {
      heaps.back().end = region.end;
    } else if (of_program || arena) {
      heaps.push_back(region);
    } else {
      roots.push_back(region);
    }
  }
  if (maps != nullptr) {
    std::fclose(maps);
  }
}

// The address that an int of Python holds whose digits are this word; 0 if it
// is of none. A digit has 30 bits.
uint64_t int_of_python(uint64_t at, uint64_t begin, uint64_t type) {
  constexpr uint64_t kDigit = (uint64_t{1} << 30) - 1;
  const uint64_t digits = word(at), low = digits & kDigit;
  const uint64_t high = digits >> 32 & kDigit;
  if (type == 0 || digits != (high << 32 | low) || high == 0 ||
      at - begin < 24 || word(at - 16) != type) {
    return 0;
  }
  const uint64_t owners = word(at - 24); // or the next free block
  return owners != 0 && owners >> 40 == 0 ? high << 30 | low : 0;
}

// Looks through memory, from all that is no heap.
class Search {
 public:
  Search(const std::unordered_set<Hidden>& addresses, uint64_t frame)
      : addresses_(addresses),
        python_(
            reinterpret_cast<uint64_t>(dlsym(RTLD_DEFAULT, "PyLong_Type"))) {
    const uint64_t free = mark_of_free() == 0 ? 1 : mark_of_free();
    std::vector<Region> heaps;
    bool all = true;
    const std::vector<uint64_t> others = find_stack_pointers(all);
    read_regions(frame, others, all, heaps, work_);
    size_t most = 0;
    for (const Region& heap : heaps) {
      most += (heap.end - heap.begin) / 32;
    }
    chunks_.reserve(most); // so that no heap grows while it is looked through
    heaps.clear();
    work_.clear();
    read_regions(frame, others, all, heaps, work_);
    for (const Region& heap : heaps) {
      append_chunks(heap, free, chunks_);
    }
    seen_.resize(chunks_.size());
  }

  std::unordered_set<Hidden> run() {
    while (!work_.empty()) {
      const Region region = {
          work_.back().begin & ~kHidden, work_.back().end & ~kHidden};
      work_.pop_back();
      for (uint64_t at = region.begin; at + 8 <= region.end; at += 8) {
        visit(word(at));
        if (const uint64_t held = int_of_python(at, region.begin, python_)) {
          visit(held);
        }
      }
    }
    return std::move(found_);
  }

 private:
  // The low bits may be a mark, of an address that is a block's first.
  void visit(uint64_t bits) {
    const uint64_t address = bits & ~uint64_t{7};
    const auto next =
        std::upper_bound(chunks_.begin(), chunks_.end(), address + kHidden);
    if (next == chunks_.begin()) {
      return;
    }
    const uint64_t chunk = *(next - 1) - kHidden;
    const uint64_t end = chunk + size_of(chunk) - 8;
    const auto index = static_cast<size_t>(next - 1 - chunks_.begin());
    if (address >= end || seen_[index] ||
        (bits != address && address != chunk) ||
        look(reinterpret_cast<const void*>(chunk)) == State::kDead) {
      return;
    }
    seen_[index] = true;
    work_.push_back({chunk + kHidden, end + kHidden});
    if (addresses_.count(~chunk) != 0) {
      found_.insert(~chunk);
    }
  }

  const std::unordered_set<Hidden>& addresses_;
  const uint64_t python_; // the type of its ints
  std::vector<Region> work_;
  std::vector<uint64_t> chunks_; // in use, in order
  std::vector<bool> seen_;
  std::unordered_set<Hidden> found_;
};

thread_local sigjmp_buf* given_up = nullptr;

// Another thread may unmap what is being looked through.
void give_up(int number) {
  if (given_up != nullptr) {
    siglongjmp(*given_up, 1);
  }
  signal(number, SIG_DFL); // and comes again
}

} // namespace

std::unordered_set<Hidden> reachable(
    const std::unordered_set<Hidden>& addresses, const void* frame) {
  if (addresses.empty()) {
    return {};
  }
  struct sigaction ours {
  }, before[2];
  ours.sa_handler = &give_up;
  sigaction(SIGSEGV, &ours, &before[0]);
  sigaction(SIGBUS, &ours, &before[1]);
  sigjmp_buf here;
  given_up = &here;
  std::unordered_set<Hidden> found;
  if (sigsetjmp(here, 1) == 0) {
    Search search(addresses, reinterpret_cast<uint64_t>(frame));
    found = search.run();
  } else {
    found = addresses; // none is called lost
  }
  given_up = nullptr;
  sigaction(SIGSEGV, &before[0], nullptr);
  sigaction(SIGBUS, &before[1], nullptr);
  return found;
}

} // namespace workbook::trace
