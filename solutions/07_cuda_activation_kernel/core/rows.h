// What the kernels work on, in words that both sides know.
#pragma once

#include <cstdint>

namespace wb {

enum class Dtype { kFloat, kHalf, kBFloat16 };

inline int element_size(Dtype dtype) {
  return dtype == Dtype::kFloat ? 4 : 2;
}

// rows x d results of two operands, each of which has row r, column c at
// element r * row_stride + c * column_stride.
struct Rows {
  const void* gate;
  const void* up;
  void* out; // without gaps
  int64_t rows;
  int64_t d;
  int64_t row_stride;
  int64_t column_stride;
};

} // namespace wb
