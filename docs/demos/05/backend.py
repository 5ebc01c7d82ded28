"""What each way of backend.cpp leaves of a gradient, and does without data."""

import sys

import torch

torch.ops.load_library(sys.argv[1])
for name in ("by_name", "shim", "backend_shim"):
    op = getattr(torch.ops.demo05, name)
    gradient = op(torch.ones(2, requires_grad=True)).grad_fn
    try:
        without_data = f"a tensor on {op(torch.ones(2, device='meta')).device}"
    except RuntimeError:
        without_data = "RuntimeError"
    print(f"{name:<13} grad_fn {gradient and gradient.name()}; "
          f"on meta: {without_data}")
