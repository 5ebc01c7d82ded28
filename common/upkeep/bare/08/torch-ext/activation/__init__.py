"""What users of the kernel call. `__all__` is what they may rely on."""

import torch

from . import _autograd, layers  # noqa: F401
from ._ops import ops


def add_scaled(
    x: torch.Tensor, y: torch.Tensor, alpha: float = 1.0
) -> torch.Tensor:
    """x + alpha * y"""
    return ops.add_scaled(x, y, alpha)


__all__ = ["add_scaled", "layers"]
