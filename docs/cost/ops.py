"""Wrap ops in Python: by a custom_op, and by gradients of two kinds."""

import torch

stable = torch.ops.cost_stable


#! [custom_op]
@torch.library.custom_op("cost_python::tensor", mutates_args=())
def custom(x: torch.Tensor) -> None:
    stable.tensor(x)
#! [custom_op]


@torch.library.custom_op("cost_python::writes", mutates_args=["x"])
def custom_that_writes(x: torch.Tensor) -> None:
    stable.tensor(x)


#! [registered]
def _setup(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _backward(ctx, grad):
    x, y = ctx.saved_tensors
    return stable.product(grad, y), stable.product(grad, x)


torch.library.register_autograd(
    "cost_stable::product_python", _backward, setup_context=_setup)
#! [registered]


#! [where_needed]
class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return stable.product(x, y)

    backward = staticmethod(_backward)


def product(x, y):
    """Return x * y, with a gradient only where one is needed."""
    if torch.is_grad_enabled() and (x.requires_grad or y.requires_grad):
        return _Product.apply(x, y)
    return stable.product(x, y)
#! [where_needed]
