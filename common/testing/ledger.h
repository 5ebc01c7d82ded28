// What is allocated and deleted, block by block. It is told by operator new and
// delete: a program that wants it links the library workbook_allocations.
#pragma once

#include <cstddef>
#include <utility>

namespace workbook {

// Follows what this thread allocates while it lives. A deleted block is kept
// until the ledger's end, so a second deletion is counted and does no harm.
// One at a time.
class Ledger {
 public:
  Ledger();
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  static constexpr int kUnknown = -1;

  // How often a block was deleted: 0 while it is alive; kUnknown if it was
  // allocated before the ledger, by another thread, or not by operator new.
  static int deletions(const void* address);
  static size_t allocated(); // blocks, those that are deleted too
  static size_t alive();
  static size_t deleted_twice();

  // The allocation after the next `n` fails; -1: none does. True if the failure
  // that was asked for before has not come.
  static bool fail_after(int n);

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

  // What operator new and delete do.
  static void* allocate(size_t bytes);
  static void deallocate(void* address);
  // True if the block is one of the ledger's, which then keeps it.
  static bool count_deletion(const void* address);

 private:
  static inline thread_local bool paused_ = false;
};

// Returns the number of blocks that every call of `body` leaves behind. The
// first calls are not counted: they fill libtorch's caches, and a call that
// fails leaves its message, once.
template <class Body>
double count_leaks(const Body& body) {
  body();
  const Ledger ledger;
  body();
  const auto once = static_cast<double>(Ledger::alive());
  body();
  body();
  return (static_cast<double>(Ledger::alive()) - once) / 2;
}

} // namespace workbook
