// silu_and_mul over one row. Given, not an exercise: the page explains it.
#pragma once

#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

#include <cstdint>

// out[i] = silu(gate[i]) * up[i] for i < d, computed in float, rounded once.
// The three rows must not overlap. With `streaming`, `out` is written past the
// cache; call silu_and_mul_fence() after the last row, before another thread
// reads it.
void silu_and_mul_row(
    float* out, const float* gate, const float* up, int64_t d, bool streaming);
void silu_and_mul_row(
    c10::Half* out,
    const c10::Half* gate,
    const c10::Half* up,
    int64_t d,
    bool streaming);
void silu_and_mul_row(
    c10::BFloat16* out,
    const c10::BFloat16* gate,
    const c10::BFloat16* up,
    int64_t d,
    bool streaming);

void silu_and_mul_fence();
