// What is allocated and deleted, block by block: replaces operator new and
// delete of the whole process, libtorch included. Include it in one file only.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace workbook {

// Follows what this thread allocates from its construction to its end, and
// keeps each deleted block until then, so that a second deletion is counted
// and does no harm. One at a time.
class Ledger {
 public:
  Ledger() {
    size_ = 0;
    active_ = true;
  }
  // Really frees what was deleted; what is alive stays as it is.
  ~Ledger() {
    active_ = false;
    for (size_t i = 0; i < size_; ++i) {
      if (blocks_[i].deletions > 0) {
        std::free(blocks_[i].address);
      }
    }
  }
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  static constexpr int kUnknown = -1;

  // How often a block was deleted: 0 while it is alive, kUnknown if it was not
  // allocated since the ledger was opened.
  static int deletions(const void* address) {
    const Block* block = find(address);
    return block == nullptr ? kUnknown : block->deletions;
  }

  // Counts a deletion. True if the block is a known one that is dead already,
  // or was before: its destructor must not run again.
  static bool dead(const void* address) {
    Block* block = find(address);
    return block != nullptr && block->deletions > 0;
  }

  // Blocks that were allocated since, and are alive.
  static size_t alive() {
    size_t count = 0;
    for (size_t i = 0; i < size_; ++i) {
      count += blocks_[i].deletions == 0;
    }
    return count;
  }

  // For operator new and delete.
  static void allocated(void* address, size_t bytes) {
    if (active_) {
      if (size_ == kCapacity) {
        std::fputs("ledger: too many allocations\n", stderr);
        std::abort();
      }
      blocks_[size_++] = {address, bytes, 0};
    }
  }
  static bool deleted(void* address) {
    Block* block = find(address);
    if (block != nullptr) {
      ++block->deletions;
    }
    return block != nullptr;
  }

 private:
  struct Block {
    void* address;
    size_t bytes;
    int deletions;
  };
  static constexpr size_t kCapacity = size_t{1} << 14;

  static Block* find(const void* address) {
    for (size_t i = active_ ? size_ : 0; i > 0; --i) {
      if (blocks_[i - 1].address == address) {
        return &blocks_[i - 1];
      }
    }
    return nullptr;
  }

  static inline thread_local bool active_ = false;
  static inline size_t size_ = 0;
  static inline Block blocks_[kCapacity];
};

} // namespace workbook

void* operator new(size_t bytes) {
  void* address = std::malloc(bytes == 0 ? 1 : bytes);
  if (address == nullptr) {
    throw std::bad_alloc();
  }
  workbook::Ledger::allocated(address, bytes);
  return address;
}
void operator delete(void* address) noexcept {
  if (!workbook::Ledger::deleted(address)) {
    std::free(address);
  }
}
void operator delete(void* address, size_t) noexcept {
  operator delete(address);
}
