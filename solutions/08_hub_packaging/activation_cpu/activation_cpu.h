// Every op on CPU.
#pragma once

#include "rows.h"

#include <torch/csrc/stable/tensor.h>

// Writes op(input) to `out`, in as many threads as libtorch has.
void activation_cpu(
    Op op,
    const torch::stable::Tensor& out,
    const torch::stable::Tensor& input,
    const Numbers& numbers);
