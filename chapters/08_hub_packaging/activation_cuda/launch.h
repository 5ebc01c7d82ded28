// The line between activation.cu, which knows CUDA, and activation_cuda.cpp,
// which knows torch: neither includes the other's headers.
#pragma once

#include "../activation_cpu/rows.h"
#include "plan.h"

// Puts the kernel on `stream`, a cudaStream_t of the current device. A row of
// the input holds `d` elements, or 2 d where the op has halves. Gives nullptr,
// or why it could not; neither waits nor allocates.
const char* launch(
    Op op,
    Dtype dtype,
    const activation::Problem& problem,
    int64_t d,
    const Numbers& numbers,
    const activation::Plan& plan,
    void* stream);
