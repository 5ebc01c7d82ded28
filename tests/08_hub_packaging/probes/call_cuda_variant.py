"""Imports a variant for CUDA where torch is one for the CPU, and calls its CPU op.

    python call_cuda_variant.py VARIANT"""

import sys
from pathlib import Path

import torch

from import_package import find_package, read_id, run_package

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    package = find_package(read_id(folder), folder)
    run_package(package)
    x = torch.randn(3, 8)
    torch.testing.assert_close(
        package.silu_and_mul(torch.empty(3, 4), x),
        torch.nn.functional.silu(x[:, :4]) * x[:, 4:])
    assert torch._C._dispatch_has_kernel_for_dispatch_key(
        f"{package.__name__}::silu_and_mul", "CUDA")
