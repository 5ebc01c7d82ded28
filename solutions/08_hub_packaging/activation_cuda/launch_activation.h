// The line between activation.cu, which knows CUDA, and activation_cuda.cpp,
// which knows torch: neither includes the other's headers.
#pragma once

#include "op_kind.h"
#include "rows.h"

#include <cstdint>

#pragma GCC visibility push(hidden)
namespace wb::cuda {

// Puts the kernel on `stream`, a cudaStream_t of the current device. Returns
// nullptr, or why it could not. It neither waits nor allocates, but for what
// CUDA does when it loads a kernel.
const char* launch_activation(
    OpKind op,
    Dtype dtype,
    const Rows& rows,
    const Options& options,
    void* stream);

} // namespace wb::cuda
#pragma GCC visibility pop
