// How a launch is cut: elements in a vector, vectors in a thread, threads in a
// block. On the host.
#pragma once

#include "kernels.h"
#include "rows.h"

#include <cstdint>

#pragma GCC visibility push(hidden)
namespace wb {

// Vectors of each operand that a thread has on their way at once.
constexpr int kInFlight = 2;

// The most that a launch takes: so a vector's number has 32 bits, and a thread
// beyond the end as well.
constexpr int64_t kMaxVectors = int64_t{1} << 31;

//! [vector_width]
// The elements that one access takes: 16 bytes of them if every row of every
// operand begins at a multiple of 16 bytes, else 1. Or 0, if it takes the plain
// kernel: for columns that are not side by side, or too many vectors.
inline int vector_width(const Rows& r, int element_size) {
  const int width = 16 / element_size;
  const auto aligned = [](const void* pointer) {
    return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
  };
  const bool wide = aligned(r.gate) && aligned(r.up) && aligned(r.out) &&
      r.d % width == 0 && r.row_stride % width == 0;
  const int chosen = wide ? width : 1;
  const bool few = r.rows * r.d / chosen <= kMaxVectors;
  return r.column_stride == 1 && few ? chosen : 0;
}
//! [vector_width]

//! [grid_for]
struct Grid {
  uint32_t blocks;
  uint32_t threads; // in a block
};

// Blocks of 256 threads, or of fewer where some of the GPU's multiprocessors
// would have no block.
inline Grid grid_for(int64_t vectors, uint32_t multiprocessors) {
  Grid grid{0, kMaxThreads};
  const auto blocks = [&] {
    const int64_t in_block = int64_t{grid.threads} * kInFlight;
    return static_cast<uint32_t>((vectors + in_block - 1) / in_block);
  };
  while (grid.threads > 64 && blocks() < multiprocessors) {
    grid.threads /= 2;
  }
  grid.blocks = blocks();
  return grid;
}
//! [grid_for]

} // namespace wb
#pragma GCC visibility pop
