"""Layers for `kernelize`: it takes `forward` and puts it into the module that
it replaces. So a layer has nothing of its own: no constructor, no buffers, no
members but the two flags (has_backward is true where it is not written)."""

import torch
from torch import nn

from ._ops import ops


class AddScaled(nn.Module):
    """x + alpha * y, with the alpha of the module that it replaces, or 1."""

    can_torch_compile = True

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return ops.add_scaled(x, y, getattr(self, "alpha", 1.0))
