"""Layers for `kernelize`: it takes `forward` and puts it into the module that
it replaces. So a layer has nothing of its own: no constructor, no buffers, no
members but the two flags (has_backward is true where it is not written)."""

import torch
from torch import nn

from ._ops import ops


class SiluAndMul(nn.Module):
    """silu(x[..., :d]) * x[..., d:]"""

    can_torch_compile = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ops.silu_and_mul_functional(x)


class MulAndSilu(nn.Module):
    """x[..., :d] * silu(x[..., d:])"""

    can_torch_compile = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ops.mul_and_silu_functional(x)


class GeluAndMul(nn.Module):
    """gelu(x[..., :d]) * x[..., d:]"""

    can_torch_compile = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ops.gelu_and_mul_functional(x)


class GeluTanhAndMul(nn.Module):
    """gelu_tanh(x[..., :d]) * x[..., d:]"""

    can_torch_compile = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ops.gelu_tanh_and_mul_functional(x)


#! [fatrelu]
class _Threshold:
    def __init__(self, threshold: float = 0.0):
        self.threshold = threshold


class FatreluAndMul(nn.Module, _Threshold):
    """fatrelu(x[..., :d]) * x[..., d:], with its threshold, or that of the module
    it replaces, or 0."""

    # nn.Module's constructor, which is the only one that is allowed, goes on to
    # _Threshold's. A module whose forward is replaced has only its own.
    call_super_init = True
    # TODO(08.5): no constructor, but the flag can_torch_compile.
    def __init__(self, threshold: float = 0.0):
        super().__init__()
        self.threshold = threshold

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ops.fatrelu_and_mul_functional(x, self.threshold)  # TODO(08.5)
#! [fatrelu]


class Silu(nn.Module):
    """x * sigmoid(x)"""

    can_torch_compile = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ops.silu_functional(x)


class Gelu(nn.Module):
    """x * Phi(x)"""

    can_torch_compile = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ops.gelu_functional(x)


class GeluTanh(nn.Module):
    """gelu by its approximation with tanh"""

    can_torch_compile = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ops.gelu_tanh_functional(x)


class FastGELU(nn.Module):
    """gelu by its approximation with tanh"""

    can_torch_compile = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ops.gelu_fast_functional(x)


class NewGELU(nn.Module):
    """gelu by its approximation with tanh"""

    can_torch_compile = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ops.gelu_new_functional(x)


class QuickGELU(nn.Module):
    """x * sigmoid(1.702 x)"""

    can_torch_compile = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ops.gelu_quick_functional(x)
