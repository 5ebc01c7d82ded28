// Rows shared by threads.
#pragma once

#include "row_loop.h"

#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <cstdint>

namespace wb {

constexpr int64_t kGrain = 32768; // elements worth a thread, as ATen has it

//! [for_each_piece]
// Calls f(row, first, n) for pieces of rows that together are [rows, columns]:
// the columns first ... first + n - 1. libtorch's threads share them as soon as
// there is work for two, even if there is but one row.
// f must not throw: on some libtorch its text does not reach the user.
template <typename F>
void for_each_piece(int64_t rows, int64_t columns, const F& f) {
  const int64_t size = std::clamp<int64_t>(columns, 1, kGrain);
  const int64_t pieces = (columns + size - 1) / size; // of a row
  torch::stable::parallel_for(
      0, rows * pieces, kGrain / size, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t first = i % pieces * size;
          f(i / pieces, first, std::min(size, columns - first));
        }
        non_temporal_fence(); // costs nothing where nothing was stored so
      });
}
//! [for_each_piece]

// Calls f(row) for whole rows, where one element depends on another.
template <typename F>
void for_each_row(int64_t rows, int64_t columns, const F& f) {
  const int64_t grain =
      std::max<int64_t>(1, kGrain / std::max<int64_t>(1, columns));
  torch::stable::parallel_for(0, rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      f(row);
    }
  });
}

} // namespace wb
