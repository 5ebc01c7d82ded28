#include "ledger.h"

#include <cstdio>
#include <cstdlib>
#include <new>

namespace workbook {

namespace {

struct Block {
  void* address;
  int deletions;
};

// No container: operator new asks here.
constexpr size_t kCapacity = size_t{1} << 14;
Block blocks[kCapacity];
size_t size = 0;
int failing_after = -1;
thread_local bool active = false;

// From the newest: what is looked for is mostly young.
Block* find(const void* address) {
  for (size_t i = active ? size : 0; i > 0; --i) {
    if (blocks[i - 1].address == address) {
      return &blocks[i - 1];
    }
  }
  return nullptr;
}

template <typename Predicate>
size_t count(const Predicate& predicate) {
  size_t result = 0;
  for (size_t i = 0; i < size; ++i) {
    result += predicate(blocks[i]);
  }
  return result;
}

} // namespace

Ledger::Ledger() {
  size = 0;
  active = true;
}

Ledger::~Ledger() {
  active = false;
  for (size_t i = 0; i < size; ++i) {
    if (blocks[i].deletions > 0) {
      std::free(blocks[i].address);
    }
  }
}

int Ledger::deletions(const void* address) {
  const Block* block = find(address);
  return block == nullptr ? kUnknown : block->deletions;
}

size_t Ledger::allocated() {
  return size;
}

size_t Ledger::alive() {
  return count([](const Block& block) { return block.deletions == 0; });
}

size_t Ledger::deleted_twice() {
  return count([](const Block& block) { return block.deletions > 1; });
}

bool Ledger::fail_after(int n) {
  return std::exchange(failing_after, n) >= 0;
}

void* Ledger::allocate(size_t bytes) {
  const bool follow = active && !paused_;
  if (follow && failing_after >= 0 && failing_after-- == 0) {
    throw std::bad_alloc();
  }
  void* address = std::malloc(bytes == 0 ? 1 : bytes);
  if (address == nullptr) {
    throw std::bad_alloc();
  }
  if (follow) {
    if (size == kCapacity) {
      std::fputs("ledger: too many allocations\n", stderr);
      std::abort();
    }
    blocks[size++] = {address, 0};
  }
  return address;
}

void Ledger::deallocate(void* address) {
  if (address != nullptr && !count_deletion(address)) {
    std::free(address);
  }
}

bool Ledger::count_deletion(const void* address) {
  Block* block = find(address);
  if (block != nullptr) {
    ++block->deletions;
  }
  return block != nullptr;
}

} // namespace workbook
