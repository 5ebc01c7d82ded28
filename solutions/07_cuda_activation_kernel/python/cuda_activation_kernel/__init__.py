"""The ops of cuda_activation_kernel.cpp: cuda_activation_kernel.ops.NAME."""

from pathlib import Path

import torch

torch.ops.load_library(Path(__file__).with_name("libcuda_activation_kernel.so"))
ops = torch.ops.wb07


def _register_gradient(name):
    """Register ops.NAME_backward(grad, *inputs) as the gradient of
    ops.NAME(*inputs): it returns one for each tensor among the inputs."""
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(
            *(x for x in inputs if isinstance(x, torch.Tensor)))
        ctx.others = [None if isinstance(x, torch.Tensor) else (x,)
                      for x in inputs]

    def backward(ctx, grad):
        if torch.is_grad_enabled():  # create_graph=True
            raise RuntimeError(f"{name} cannot be differentiated twice")
        saved = iter(ctx.saved_tensors)
        inputs = [other[0] if other else next(saved) for other in ctx.others]
        results = getattr(ops, f"{name}_backward")(grad, *inputs)
        results = iter(
            [results] if isinstance(results, torch.Tensor) else results)
        return tuple(None if other else next(results) for other in ctx.others)

    torch.library.register_autograd(
        f"wb07::{name}", backward, setup_context=setup_context)


_register_gradient("silu_and_mul")
