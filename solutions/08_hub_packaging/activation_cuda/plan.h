// How a launch is cut: the width of a vector, what a thread takes, the threads
// of a block. On the host only; no torch.
#pragma once

#include "gated.h"

#include <algorithm>
#include <cstdint>

namespace activation {

//! [plan]
// Vectors of each operand that a thread has on their way at once.
constexpr uint32_t kInFlight = 2;

struct Plan {
  int width;   // elements in a vector
  int threads; // in a block

  uint32_t blocks(uint32_t vectors) const {
    const auto in_block = static_cast<uint32_t>(threads) * kInFlight;
    return (vectors + in_block - 1) / in_block;
  }
};
//! [plan]

// rows x d elements are to be computed.
struct Tensors {
  const void* input;
  void* out;
  int64_t rows;
  int64_t d;
  int64_t stride; // from one row of the input to the next
  int size;
};

//! [vector_width]
// The elements that one access takes: 16 bytes of them if every row of the
// input and of the output begins at a multiple of 16 bytes, else 1.
inline int vector_width(const Tensors& t) {
  const int width = 16 / t.size;
  const bool pointers = reinterpret_cast<uintptr_t>(t.input) % 16 == 0 &&
      reinterpret_cast<uintptr_t>(t.out) % 16 == 0;
  const bool rows = t.d % width == 0 && t.stride % width == 0;
  return pointers && rows ? width : 1;
}
//! [vector_width]

//! [plan_for]
// Enough blocks for each multiprocessor of an H100 or H200; a smaller GPU has
// more than enough.
constexpr uint32_t kMultiprocessors = 132;

inline Plan plan_for(uint32_t vectors, int width) {
  Plan plan{width, 256};
  while (plan.threads > 64 && plan.blocks(vectors) < kMultiprocessors) {
    plan.threads /= 2;
  }
  return plan;
}
//! [plan_for]

//! [for_each_piece]
// The most that a launch takes: so a vector's number has 32 bits, and a thread
// beyond the end as well.
constexpr int64_t kMostVectors = int64_t{1} << 31;

// Cuts the tensors into pieces of at most `most` vectors; call(problem) for
// each.
template <class Call>
void for_each_piece(
    const Tensors& all, int width, int64_t most, const Call& call) {
  const auto* input = static_cast<const char*>(all.input);
  auto* out = static_cast<char*>(all.out);
  const int64_t columns = std::min(all.d, most * width);
  const int64_t rows = std::max<int64_t>(1, most * width / all.d);
  for (int64_t r = 0; r < all.rows; r += rows) {
    for (int64_t c = 0; c < all.d; c += columns) {
      const auto in_row =
          static_cast<uint32_t>(std::min(columns, all.d - c) / width);
      call(Problem{
          input + (r * all.stride + c) * all.size,
          out + (r * all.d + c) * all.size,
          all.stride,
          in_row * static_cast<uint32_t>(std::min(rows, all.rows - r)),
          Rows(in_row)});
    }
  }
}
//! [for_each_piece]

//! [run_on_host]
// What the GPU does in parallel, one thread after the other: the blocks
// [begin, end) of a launch.
template <class T, class Layout, class F>
void run_on_host(
    const Problem& problem,
    const Layout& layout,
    const F& f,
    const Plan& plan,
    uint32_t begin,
    uint32_t end) {
  const auto threads = static_cast<uint32_t>(plan.threads);
  constexpr int kWide = 16 / sizeof(T);
  for (uint32_t b = begin; b < end; ++b) {
    for (uint32_t t = 0; t < threads; ++t) {
      plan.width == kWide
          ? run_thread<T, kWide, kInFlight>(problem, layout, f, {b, t, threads})
          : run_thread<T, 1, kInFlight>(problem, layout, f, {b, t, threads});
    }
  }
}
//! [run_on_host]

} // namespace activation
