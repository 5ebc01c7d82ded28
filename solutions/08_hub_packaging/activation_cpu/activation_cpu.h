// Every op on CPU.
#pragma once

#include "op_kind.h"
#include "rows.h"

#include <cstdint>

#pragma GCC visibility push(hidden)
namespace wb {

// Writes op(gate, up) to `out`, in as many threads as libtorch has.
void activation_cpu(
    OpKind op,
    Dtype dtype,
    const Rows& rows,
    const Options& options,
    int32_t device);

} // namespace wb
#pragma GCC visibility pop
