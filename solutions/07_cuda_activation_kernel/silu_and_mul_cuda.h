// The line between silu_and_mul.cu, which knows CUDA, and the ops, which know
// torch: neither includes the other's headers.
#pragma once

#include "rows.h"

#include <cstdint>

#pragma GCC visibility push(hidden)
namespace wb::cuda {

// The gradient reads two tensors and writes one. None has gaps.
struct BackwardRows {
  const void* grad;  // [rows, d]
  const void* input; // [rows, 2d]
  void* result;      // [rows, 2d]
  int64_t rows;
  int64_t d;
};

// Both put a kernel on `stream`, a cudaStream_t of the current device. They
// return nullptr, or why they could not. They neither wait nor allocate, but
// for what CUDA does when it loads a kernel.
const char* launch_silu_and_mul(Dtype dtype, const Rows& rows, void* stream);
const char* launch_silu_and_mul_backward(
    Dtype dtype, const BackwardRows& rows, void* stream);

} // namespace wb::cuda
#pragma GCC visibility pop
