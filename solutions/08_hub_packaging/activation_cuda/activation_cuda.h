// Every op on CUDA.
#pragma once

#include "op_kind.h"
#include "rows.h"

#include <cstdint>

#pragma GCC visibility push(hidden)
namespace wb {

// Writes op(gate, up) to `out`, on the current stream of CUDA's `device`.
void activation_cuda(
    OpKind op,
    Dtype dtype,
    const Rows& rows,
    const Options& options,
    int32_t device);

} // namespace wb
#pragma GCC visibility pop
