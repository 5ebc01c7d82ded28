// Which kernel takes the rows, and how wide its vectors are. On the host.
#pragma once

#include "kernels.h"
#include "rows.h"

#include <cstdint>

#pragma GCC visibility push(hidden)
namespace wb::cuda {

// The most that a launch takes: so a vector's number has 32 bits, and a thread
// beyond the end as well.
constexpr int64_t kMaxVectors = int64_t{1} << 31;

//! [vector_width]
// The elements of an access, which has 16, 8, 4 or 2 bytes: the widest such
// that every row of every operand begins at a multiple of it. Or 0, for the
// plain kernel, if columns do not lie side by side or there are too many
// vectors.
inline int vector_width(const Rows& r, int element_size) {
  const auto address = [](const void* pointer) {
    return reinterpret_cast<uintptr_t>(pointer);
  };
  const auto bytes = [&](int64_t elements) {
    return static_cast<uintptr_t>(elements * element_size);
  };
  // TODO(07.6): so far everything takes the plain kernel
  KERNEL_ASSERT(r.d % (16 / element_size) && "TODO(07.6): how wide?");
  (void)address, (void)bytes;
  return 0;
}
//! [vector_width]

} // namespace wb::cuda
#pragma GCC visibility pop
