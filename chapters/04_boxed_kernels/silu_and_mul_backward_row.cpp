#include "silu_and_mul_backward_row.h"
#include "row_loop.h"
#include "silu.h"
#include "widen_narrow.h"

#include <algorithm>

namespace wb {
namespace {

//! [gradient]
// With s = 1 / (1 + e^-x): silu(x) = x * s, silu'(x) = s * (1 + x * (1 - s)).
template <typename T>
[[gnu::always_inline]] inline void span(
    T* grad_gate,
    T* grad_up,
    const T* grad,
    const T* gate,
    const T* up,
    int64_t n) {
  // TODO(04.5): both gradients in one loop, and one e^-x for the two.
  (void)grad_gate, (void)grad_up, (void)grad, (void)gate, (void)up, (void)n;
}
//! [gradient]

// Half goes by way of float, tile by tile, where the processor converts it.
[[gnu::always_inline]] inline void span(
    Half* grad_gate,
    Half* grad_up,
    const Half* grad,
    const Half* gate,
    const Half* up,
    int64_t n) {
  constexpr int64_t kSize = kTile<Half>;
  int64_t i = 0;
  for (; converts_half() && i + kSize <= n; i += kSize) {
    float dy[kSize];
    float x[kSize];
    float y[kSize];
    widen(grad + i, dy, kSize);
    widen(gate + i, x, kSize);
    widen(up + i, y, kSize);
    float of_gate[kSize];
    float of_up[kSize];
    span<float>(of_gate, of_up, dy, x, y, kSize);
    narrow(of_gate, grad_gate + i, kSize);
    narrow(of_up, grad_up + i, kSize);
  }
  span<Half>(grad_gate + i, grad_up + i, grad + i, gate + i, up + i, n - i);
}

template <typename T>
X86_64_LEVELS void whole_row(
    T* grad_gate,
    T* grad_up,
    const T* grad,
    const T* gate,
    const T* up,
    int64_t d,
    bool non_temporal) {
  int64_t i = 0;
  // The tiles of both results have to be aligned at the same columns.
  if (non_temporal && until_aligned(grad_gate) == until_aligned(grad_up)) {
    i = std::min(d, until_aligned(grad_gate));
    span(grad_gate, grad_up, grad, gate, up, i);
    for (; i + kTile<T> <= d; i += kTile<T>) {
      alignas(64) T gate_tile[kTile<T>];
      alignas(64) T up_tile[kTile<T>];
      prefetch(grad + i);
      prefetch(gate + i);
      prefetch(up + i);
      span(gate_tile, up_tile, grad + i, gate + i, up + i, kTile<T>);
      store_non_temporal(grad_gate + i, gate_tile);
      store_non_temporal(grad_up + i, up_tile);
    }
  }
  span(grad_gate + i, grad_up + i, grad + i, gate + i, up + i, d - i);
}

} // namespace

template <typename T>
void silu_and_mul_backward_row(
    T* grad_gate,
    T* grad_up,
    const T* grad,
    const T* gate,
    const T* up,
    int64_t d,
    bool non_temporal) {
  whole_row(grad_gate, grad_up, grad, gate, up, d, non_temporal);
}

template void silu_and_mul_backward_row(
    double*,
    double*,
    const double*,
    const double*,
    const double*,
    int64_t,
    bool);
template void silu_and_mul_backward_row(
    float*, float*, const float*, const float*, const float*, int64_t, bool);
template void silu_and_mul_backward_row(
    Half*, Half*, const Half*, const Half*, const Half*, int64_t, bool);
template void silu_and_mul_backward_row(
    BFloat16*,
    BFloat16*,
    const BFloat16*,
    const BFloat16*,
    const BFloat16*,
    int64_t,
    bool);

} // namespace wb
