// The line between silu_and_mul.cu, which knows CUDA, and the ops, which know
// torch: neither includes the other's headers.
#pragma once

#include "rows.h"

#include <cstdint>

#pragma GCC visibility push(hidden)
namespace wb::cuda {

// Both put a kernel on `stream`, a cudaStream_t of the current device. They
// return nullptr, or why they could not; they neither wait nor allocate.
const char* launch_silu_and_mul(Dtype dtype, const Rows& rows, void* stream);

// grad [rows, d], input and result [rows, 2d], none with gaps.
const char* launch_silu_and_mul_backward(
    Dtype dtype,
    const void* grad,
    const void* input,
    void* result,
    int64_t rows,
    int64_t d,
    void* stream);

} // namespace wb::cuda
#pragma GCC visibility pop
