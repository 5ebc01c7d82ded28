"""The gradient of each op."""

import torch

from ._ops import add_op_namespace_prefix


def _setup_context(ctx, inputs, output):
    ctx.alpha = inputs[2]


def _backward(ctx, grad):
    return grad, ctx.alpha * grad, None


torch.library.register_autograd(
    add_op_namespace_prefix("add_scaled"), _backward,
    setup_context=_setup_context)
