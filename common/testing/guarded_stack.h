// A stack of slots that ends where an inaccessible page begins: whoever reads
// or writes one slot too many is stopped by the hardware. AddressSanitizer does
// not see it where the access is in libtorch, which is not instrumented.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <sys/mman.h>

#include <cstddef>
#include <new>

namespace workbook {

class GuardedStack {
 public:
  explicit GuardedStack(size_t size) : size_(size) {
    void* pages = mmap(
        nullptr,
        2 * kPage,
        PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS,
        -1,
        0);
    if (pages == MAP_FAILED || size * sizeof(StableIValue) > kPage) {
      throw std::bad_alloc();
    }
    guard_ = static_cast<char*>(pages) + kPage;
    mprotect(guard_, kPage, PROT_NONE);
  }
  ~GuardedStack() {
    munmap(guard_ - kPage, 2 * kPage);
  }
  GuardedStack(const GuardedStack&) = delete;
  GuardedStack& operator=(const GuardedStack&) = delete;

  StableIValue* data() const {
    return reinterpret_cast<StableIValue*>(guard_) - size_;
  }
  StableIValue& operator[](size_t i) const {
    return data()[i];
  }
  size_t size() const {
    return size_;
  }

  // The slot at `address`, if that lies in the inaccessible page; else -1.
  long slot_beyond(const void* address) const {
    const auto offset = static_cast<const char*>(address) - guard_;
    return offset < 0 || offset >= static_cast<long>(kPage)
        ? -1
        : static_cast<long>(size_) + offset / 8;
  }

 private:
  static constexpr size_t kPage = 65536; // a multiple of every page size
  size_t size_;
  char* guard_ = nullptr;
};

} // namespace workbook
