#include "blocks.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

namespace workbook::trace {

namespace {

#define WORKBOOK_TLS thread_local __attribute__((tls_model("initial-exec")))

WORKBOOK_TLS bool busy = false;
WORKBOOK_TLS const void* reading = nullptr;
WORKBOOK_TLS Place releasing{Role::kFree};

constexpr size_t kKept = size_t{1} << 15;
constexpr size_t kStringSize = 32; // of std::string, by the C++ ABI

struct Table {
  std::mutex mutex;
  std::unordered_map<Hidden, Block> blocks;
  std::deque<Hidden> kept; // dead, from the oldest
  uint32_t process = 0;
};

// Never destroyed: what is released after everything else asks it, too.
Table& table() {
  static Table* const table = [] {
    auto* made = new Table;
    pthread_atfork(
        [] { trace::table().mutex.lock(); },
        [] { trace::table().mutex.unlock(); },
        [] {
          ++trace::table().process;
          trace::table().mutex.unlock();
        });
    return made;
  }();
  return *table;
}

// How many followed blocks share a hash: most of what is freed has none.
std::atomic<uint32_t> filter[1 << 16];

std::atomic<uint32_t>& bucket(const void* address) {
  const auto bits = reinterpret_cast<uintptr_t>(address) >> 4;
  return filter[(bits ^ bits >> 16) & 0xffff];
}

bool maybe_followed(const void* address) {
  return bucket(address).load(std::memory_order_relaxed) != 0;
}

// What operator new was last asked for, for a few slots each: malloc gives no
// block for one, two or four of them alone. An entry is an address, hidden, and
// how many slots; its place is by the address.
constexpr size_t kMostSlots = 15;
std::atomic<uint64_t> asked[1 << 12];

std::atomic<uint64_t>& asked_at(const void* address) {
  return asked[reinterpret_cast<uintptr_t>(address) >> 4 & 0xfff];
}

void note_asked(const void* address, size_t bytes) {
  asked_at(address).store(
      hide(address) - bytes / sizeof(uint64_t), std::memory_order_relaxed);
}

void forget_asked(const void* address) {
  std::atomic<uint64_t>& entry = asked_at(address);
  if (hide(address) - entry.load(std::memory_order_relaxed) <= kMostSlots) {
    entry.store(0, std::memory_order_relaxed);
  }
}

class Locked {
 public:
  Locked() : lock_(table().mutex) {}

 private:
  Busy busy_; // the table's own memory
  std::lock_guard<std::mutex> lock_;
};

void real_free(void* address) {
  static std::atomic<void (*)(void*)> real{nullptr};
  if (real.load(std::memory_order_relaxed) == nullptr) {
    real = reinterpret_cast<void (*)(void*)>(dlsym(RTLD_NEXT, "free"));
  }
  real.load(std::memory_order_relaxed)(address);
}

// True if the block is kept, and so must not be freed.
bool on_free(void* address) {
  Block second;
  {
    const Locked locked;
    const auto found = table().blocks.find(hide(address));
    if (found == table().blocks.end()) {
      return false;
    }
    if (!found->second.dead) {
      found->second.dead = true;
      found->second.released = found->second.given.role != Role::kNone &&
              releasing.role == Role::kFree
          ? Place{Role::kLibtorch}
          : releasing;
      table().kept.push_back(hide(address));
      if (table().kept.size() > kKept) {
        auto* const oldest = reinterpret_cast<void*>(~table().kept.front());
        table().kept.pop_front();
        table().blocks.erase(hide(oldest));
        --bucket(oldest);
        real_free(oldest);
      }
      return true;
    }
    second = found->second;
  }
  const Busy ours;
  on_second_release(address, second, releasing);
  return true;
}

} // namespace

Busy::Busy() : before_(busy) {
  busy = true;
}
Busy::~Busy() {
  busy = before_;
}
bool Busy::now() {
  return busy;
}

State look(const void* address, Block* block) {
  if (!maybe_followed(address)) {
    return State::kUnknown;
  }
  const Locked locked;
  const auto found = table().blocks.find(hide(address));
  if (found == table().blocks.end()) {
    return State::kUnknown;
  }
  if (block != nullptr) {
    *block = found->second;
  }
  return found->second.dead ? State::kDead : State::kAlive;
}

size_t slots_asked_for(const void* address) {
  const uint64_t slots =
      hide(address) - asked_at(address).load(std::memory_order_relaxed);
  return slots <= kMostSlots && releases_are_seen() ? slots : 0;
}

bool follow(const void* address, Kind kind, const Place& made) {
  const Locked locked;
  const auto [found, first] = table().blocks.try_emplace(hide(address));
  if (first) {
    ++bucket(address);
  } else if (found->second.dead) {
    return false;
  }
  found->second = {kind, false, false, table().process, made, {}, {}};
  return true;
}

void give(const void* address, const Place& given) {
  if (maybe_followed(address)) {
    const Locked locked;
    const auto found = table().blocks.find(hide(address));
    if (found != table().blocks.end() && !found->second.dead) {
      found->second.given = given;
    }
  }
}

void mark_told(const void* address) {
  const Locked locked;
  const auto found = table().blocks.find(hide(address));
  if (found != table().blocks.end()) {
    found->second.told = true;
  }
}

void set_releasing(const Place& place) {
  releasing = place.role == Role::kNone ? Place{Role::kFree} : place;
}

bool releases_are_seen() {
  static const bool seen = [] {
    const bool before = std::exchange(busy, false);
    void* const block = ::operator new(sizeof(uint64_t));
    follow(block, Kind::kHeapSlot, {});
    ::operator delete(block);
    busy = before;
    const bool dead = look(block) == State::kDead;
    forget(block);
    return dead;
  }();
  return seen;
}

void forget(const void* address) {
  const Locked locked;
  const auto found = table().blocks.find(hide(address));
  if (found != table().blocks.end() && !found->second.dead) {
    table().blocks.erase(found);
    --bucket(address);
  }
}

void each_alive(const std::function<void(Hidden, const Block&)>& visit) {
  const Locked locked;
  for (const auto& [address, block] : table().blocks) {
    if (!block.dead && block.process == table().process) {
      visit(address, block);
    }
  }
}

void set_reading_string(const void* string) {
  reading = string;
}

} // namespace workbook::trace

using namespace workbook::trace;

extern "C" __attribute__((visibility("default"))) void free(void* address) {
  forget_asked(address);
  if (address == nullptr ||
      (!busy && maybe_followed(address) && on_free(address))) {
    return;
  }
  real_free(address);
}

__attribute__((visibility("default"))) void* operator new(size_t bytes) {
  using New = void* (*)(size_t);
  static const auto real = reinterpret_cast<New>(dlsym(RTLD_NEXT, "_Znwm"));
  void* const address = real(bytes);
  if (bytes <= kMostSlots * sizeof(uint64_t)) {
    note_asked(address, bytes);
  }
  if (reading != nullptr && bytes == kStringSize && !busy) {
    Block string;
    if (look(reading, &string) == State::kAlive) {
      follow(address, Kind::kCopy, string.made);
      give(address, string.given);
    }
  }
  return address;
}
