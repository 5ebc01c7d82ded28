"""scale(input, factor), for the CPU and for CUDA."""

from pathlib import Path

import torch

_here = Path(__file__).parent
torch.ops.load_library(_here / "libscale.so")
if torch.version.cuda and (_here / "libscale_cuda.so").exists():
    torch.ops.load_library(_here / "libscale_cuda.so")

scale = torch.ops.scale_ops.scale


@torch.library.register_fake("scale_ops::scale")
def _(input, factor):
    return torch.empty_like(input)
