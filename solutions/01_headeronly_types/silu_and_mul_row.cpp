#include "silu_and_mul_row.h"
#include "row_loop.h"
#include "silu.h"
#include "widen_narrow.h"

#include <algorithm>

namespace wb {
namespace {

//! [row]
template <typename T>
[[gnu::always_inline]] inline void span(
    T* out, const T* gate, const T* up, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    narrow(silu(widen(gate[i])) * widen(up[i]), out[i]);
  }
}

// Half goes by way of float, tile by tile, where the processor converts it.
[[gnu::always_inline]] inline void span(
    Half* out, const Half* gate, const Half* up, int64_t n) {
  int64_t i = 0;
  for (; converts_half() && i + kTile<Half> <= n; i += kTile<Half>) {
    float x[kTile<Half>];
    float y[kTile<Half>];
    widen(gate + i, x, kTile<Half>);
    widen(up + i, y, kTile<Half>);
    span<float>(x, x, y, kTile<Half>);
    narrow(x, out + i, kTile<Half>);
  }
  span<Half>(out + i, gate + i, up + i, n - i);
}

template <typename T>
X86_64_LEVELS void whole_row(
    T* out, const T* gate, const T* up, int64_t d, bool non_temporal) {
  int64_t i = 0;
  if (non_temporal) {
    i = std::min(d, until_aligned(out));
    span(out, gate, up, i);
    for (; i + kTile<T> <= d; i += kTile<T>) {
      alignas(64) T tile[kTile<T>];
      prefetch(gate + i);
      prefetch(up + i);
      span(tile, gate + i, up + i, kTile<T>);
      store_non_temporal(out + i, tile);
    }
  }
  span(out + i, gate + i, up + i, d - i);
}
//! [row]

} // namespace

template <typename T>
void silu_and_mul_row(
    T* out, const T* gate, const T* up, int64_t d, bool non_temporal) {
  whole_row(out, gate, up, d, non_temporal);
}

template void silu_and_mul_row(
    double*, const double*, const double*, int64_t, bool);
template void silu_and_mul_row(
    float*, const float*, const float*, int64_t, bool);
template void silu_and_mul_row(Half*, const Half*, const Half*, int64_t, bool);
template void silu_and_mul_row(
    BFloat16*, const BFloat16*, const BFloat16*, int64_t, bool);

} // namespace wb
