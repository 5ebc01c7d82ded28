"""A program with two models, each of which wants a version of one kernel."""

from pathlib import Path

import torch
from kernels import get_local_kernel

x = torch.tensor([-100.0, 100.0])
for version in ("v1", "v2"):
    kernel = get_local_kernel(Path(version), backend="cpu")
    values = kernel.leaky_relu(x).tolist()
    print(f"  {version}: leaky_relu([-100, 100]) = "
          f"[{values[0]:g}, {values[1]:g}]", flush=True)
