// Every op on CUDA.
#pragma once

#include "../activation_cpu/rows.h"

#include <torch/csrc/stable/tensor.h>

// Writes op(input) to `out`, on the current stream of input's device.
void activation_cuda(
    Op op,
    const torch::stable::Tensor& out,
    const torch::stable::Tensor& input,
    const Numbers& numbers);
