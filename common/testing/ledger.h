// What is allocated and deleted, block by block. Replaces operator new and
// delete of the whole process, libtorch's too: include it in one file only.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <utility>

namespace workbook {

// Follows what this thread allocates while it lives. A deleted block is kept
// until the ledger's end, so a second deletion is counted and does no harm.
// One at a time.
class Ledger {
 public:
  Ledger() {
    size_ = 0;
    active_ = true;
  }
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

  // How often a block was deleted: 0 while it is alive; kUnknown if it was
  // allocated before the ledger, by another thread, or not by operator new.
  static int deletions(const void* address) {
    const Block* block = find(address);
    return block == nullptr ? kUnknown : block->deletions;
  }
  static size_t alive() {
    return count([](const Block& block) { return block.deletions == 0; });
  }
  static size_t deleted_twice() {
    return count([](const Block& block) { return block.deletions > 1; });
  }

  // The allocation after the next `n` fails; -1: none does. True if the failure
  // that was asked for before has not come.
  static bool fail_after(int n) {
    return std::exchange(fail_after_, n) >= 0;
  }

  // While a Pause lives, this thread's new blocks are not followed; while a
  // Follow lives in it, they are again.
  template <bool kPaused>
  class Switch {
   public:
    Switch() : before_(std::exchange(paused_, kPaused)) {}
    ~Switch() {
      paused_ = before_;
    }
    Switch(const Switch&) = delete;
    Switch& operator=(const Switch&) = delete;

   private:
    bool before_;
  };
  using Pause = Switch<true>;
  using Follow = Switch<false>;

  static void* allocate(size_t bytes) {
    const bool follow = active_ && !paused_;
    if (follow && fail_after_ >= 0 && fail_after_-- == 0) {
      throw std::bad_alloc();
    }
    void* address = std::malloc(bytes == 0 ? 1 : bytes);
    if (address == nullptr) {
      throw std::bad_alloc();
    }
    if (follow) {
      if (size_ == kCapacity) {
        std::fputs("ledger: too many allocations\n", stderr);
        std::abort();
      }
      blocks_[size_++] = {address, 0};
    }
    return address;
  }
  // True if the block is one of the ledger's, which then keeps it.
  static bool count_deletion(const void* address) {
    Block* block = find(address);
    if (block != nullptr) {
      ++block->deletions;
    }
    return block != nullptr;
  }

 private:
  struct Block {
    void* address;
    int deletions;
  };
  static constexpr size_t kCapacity = size_t{1} << 14;

  // From the newest: what is looked for is mostly young.
  static Block* find(const void* address) {
    for (size_t i = active_ ? size_ : 0; i > 0; --i) {
      if (blocks_[i - 1].address == address) {
        return &blocks_[i - 1];
      }
    }
    return nullptr;
  }
  template <class Predicate>
  static size_t count(const Predicate& predicate) {
    size_t result = 0;
    for (size_t i = 0; i < size_; ++i) {
      result += predicate(blocks_[i]);
    }
    return result;
  }

  static inline thread_local bool active_ = false;
  static inline thread_local bool paused_ = false;
  static inline int fail_after_ = -1;
  static inline size_t size_ = 0;
  static inline Block blocks_[kCapacity];
};

} // namespace workbook

void* operator new(size_t bytes) {
  return workbook::Ledger::allocate(bytes);
}
void operator delete(void* address) noexcept {
  if (address != nullptr && !workbook::Ledger::count_deletion(address)) {
    std::free(address);
  }
}
void operator delete(void* address, size_t) noexcept {
  operator delete(address);
}
