// silu_and_mul over one row. Given, not an exercise: the page explains it.
#pragma once

#include <cstdint>

namespace wb {

// out[i] = silu(gate[i]) * up[i] for i < d, computed in compute_t<T>, rounded
// once. T is double, float, Half or BFloat16. `out` must not overlap the other
// two. With `non_temporal` it is written past the cache: call
// non_temporal_fence() after the last row.
template <typename T>
void silu_and_mul_row(
    T* out, const T* gate, const T* up, int64_t d, bool non_temporal);

} // namespace wb
