// The gradient of silu_and_mul over one row.
#pragma once

#include <cstdint>

namespace wb {

// What `grad`, the gradient of out = silu(gate) * up, makes of its operands:
//   grad_gate[i] = grad[i] * up[i] * silu'(gate[i])
//   grad_up[i] = grad[i] * silu(gate[i])
// for i < d, computed and rounded as silu_and_mul_row does. Neither result may
// overlap another row.
template <typename T>
void silu_and_mul_backward_row(
    T* grad_gate,
    T* grad_up,
    const T* grad,
    const T* gate,
    const T* up,
    int64_t d,
    bool non_temporal);

} // namespace wb
