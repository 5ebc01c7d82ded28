"""Gated activations for CUDA and CPU, as PyTorch ops of the namespace wb07."""

from pathlib import Path

import torch

torch.ops.load_library(
    Path(__file__).with_name("libcuda_activation_kernel.so"))

ops = torch.ops.wb07


def _gated(op, input, out):
    if out is None:
        out = input.new_empty(*input.shape[:-1], input.shape[-1] // 2)
    op(out, input)
    return out


def silu_and_mul(input, out=None):
    """silu(left half) * right half of the last dimension."""
    return _gated(ops.silu_and_mul, input, out)


def mul_and_silu(input, out=None):
    """left half * silu(right half)."""
    return _gated(ops.mul_and_silu, input, out)


def gelu_and_mul(input, out=None):
    """gelu(left half) * right half."""
    return _gated(ops.gelu_and_mul, input, out)


def gelu_tanh_and_mul(input, out=None):
    """gelu(left half, approximate="tanh") * right half."""
    return _gated(ops.gelu_tanh_and_mul, input, out)
