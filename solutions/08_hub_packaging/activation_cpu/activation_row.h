// One row of every op. Its arithmetic is given data: formulas.h.
#pragma once

#include "op_kind.h"

#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

#include <cstdint>

#pragma GCC visibility push(hidden)
namespace wb {

struct RowOp {
  OpKind kind;
  Options options;
};

// out[i] = op(gate[i], up[i]) for i < d, computed in float, rounded once. T is
// float, Half or BFloat16. Of one operand `up` is not looked at. With
// `non_temporal` it is written past the cache: call non_temporal_fence() after
// the last row.
template <typename T>
void activation_row(
    const RowOp& op,
    T* out,
    const T* gate,
    const T* up,
    int64_t d,
    bool non_temporal);

} // namespace wb
#pragma GCC visibility pop
