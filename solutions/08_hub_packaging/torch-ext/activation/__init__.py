"""Activations and gated activations for CPU and CUDA, in float, half and
bfloat16. Each function writes to `out` and returns it; for a result that can be
differentiated use `layers`, or call `ops.<name>_functional` with `x` alone."""

import torch

from . import _autograd, layers  # noqa: F401
from ._ops import ops


def silu_and_mul(out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """silu(x[..., :d]) * x[..., d:]"""
    ops.silu_and_mul(out, x)
    return out


def mul_and_silu(out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """x[..., :d] * silu(x[..., d:])"""
    ops.mul_and_silu(out, x)
    return out


def gelu_and_mul(out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """gelu(x[..., :d]) * x[..., d:]"""
    ops.gelu_and_mul(out, x)
    return out


def gelu_tanh_and_mul(out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """gelu_tanh(x[..., :d]) * x[..., d:]"""
    ops.gelu_tanh_and_mul(out, x)
    return out


def fatrelu_and_mul(
    out: torch.Tensor, x: torch.Tensor, threshold: float = 0.0
) -> torch.Tensor:
    """x[..., :d] where above `threshold`, else 0, * x[..., d:]"""
    ops.fatrelu_and_mul(out, x, threshold)
    return out


def silu_and_mul_with_clamp(
    out: torch.Tensor, x: torch.Tensor, limit: float
) -> torch.Tensor:
    """silu_and_mul of a gate of at most `limit` and an up within +-limit."""
    ops.silu_and_mul_with_clamp(out, x, limit)
    return out


def swigluoai_and_mul(
    out: torch.Tensor, x: torch.Tensor, alpha: float = 1.702, limit: float = 7.0
) -> torch.Tensor:
    """gate * sigmoid(alpha * gate) * (up + 1), with gate = x[..., ::2] of at
    most `limit` and up = x[..., 1::2] within +-limit."""
    ops.swigluoai_and_mul(out, x, alpha, limit)
    return out


def silu(out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """x * sigmoid(x)"""
    ops.silu(out, x)
    return out


def gelu(out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """x * Phi(x), with the normal distribution's Phi"""
    ops.gelu(out, x)
    return out


def gelu_tanh(out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """gelu by its approximation with tanh"""
    ops.gelu_tanh(out, x)
    return out


def gelu_new(out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """gelu_tanh, by another name"""
    ops.gelu_new(out, x)
    return out


def gelu_fast(out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """gelu_tanh, by another name"""
    ops.gelu_fast(out, x)
    return out


def gelu_quick(out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """x * sigmoid(1.702 x)"""
    ops.gelu_quick(out, x)
    return out


#! [all]
__all__ = [
    "silu_and_mul",
    "mul_and_silu",
    "gelu_and_mul",
    "gelu_tanh_and_mul",
    "fatrelu_and_mul",
    "silu_and_mul_with_clamp",
    "swigluoai_and_mul",
    "silu",
    "gelu",
    "gelu_tanh",
    "gelu_new",
    "gelu_fast",
    "gelu_quick",
    "layers",
]
#! [all]
