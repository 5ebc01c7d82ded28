// The line between add_scaled.cu, which knows CUDA, and cuda_ops.cpp, which
// knows torch.
#pragma once

#include "rows.h"

#include <cstdint>

namespace wb::cuda {

// out = gate + alpha * up, of `rows`, on `stream`, a cudaStream_t of the
// current device. Returns nullptr, or why it could not. It neither waits nor
// allocates, but for what CUDA does when it loads a kernel.
const char* launch_add_scaled(
    Dtype dtype, const Rows& rows, float alpha, void* stream);

} // namespace wb::cuda
