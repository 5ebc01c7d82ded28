"""silu_and_mul and its relatives, as PyTorch ops of the namespace wb04."""

from pathlib import Path

import torch

torch.ops.load_library(Path(__file__).with_name("libboxed_kernels.so"))

ops = torch.ops.wb04


def silu_and_mul(input, out=None):
    """silu(left half) * right half of the last dimension; differentiable
    unless it writes to `out`."""
    if out is None:
        return ops.silu_and_mul(input)
    ops.silu_and_mul.out(out, input)
    return out


def swiglu(input, bias=None, *, alpha=1.0, limit=None):
    """gate * sigmoid(alpha * gate) * up of input + bias, clamped by limit."""
    return ops.swiglu(input, bias, alpha=alpha, limit=limit)


def silu_and_mul_amax(input):
    """silu_and_mul and the largest magnitude of each row, [..., 1]."""
    return ops.silu_and_mul_amax(input)


def _setup_context(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _backward(ctx, grad):
    return ops.silu_and_mul_backward(grad, *ctx.saved_tensors)


torch.library.register_autograd(
    "wb04::silu_and_mul", _backward, setup_context=_setup_context)
