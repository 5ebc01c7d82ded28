// Memory for tensors that are wider than they are large: zeros, of which only
// the pages that are written take room.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>

namespace workbook {

template <class T>
class Sparse {
 public:
  explicit Sparse(size_t elements) : bytes_(elements * sizeof(T)) {
    void* pages = mmap(
        nullptr,
        bytes_,
        PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
        -1,
        0);
    if (pages == MAP_FAILED) {
      throw std::bad_alloc();
    }
    data_ = static_cast<T*>(pages);
  }
  ~Sparse() {
    munmap(data_, bytes_);
  }
  Sparse(const Sparse&) = delete;
  Sparse& operator=(const Sparse&) = delete;

  T* data() const {
    return data_;
  }

 private:
  size_t bytes_;
  T* data_ = nullptr;
};

} // namespace workbook
