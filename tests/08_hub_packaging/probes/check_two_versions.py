"""Loads two versions of the kernel into one process, and calls both.

    python check_two_versions.py FOLDER OTHER_FOLDER"""

import sys
from pathlib import Path

import torch
from kernels import get_local_kernel

if __name__ == "__main__":
    a, b = (get_local_kernel(Path(p), backend="cpu") for p in sys.argv[1:])
    assert a.__name__ != b.__name__
    x = torch.randn(3, 8)
    one, two = a.silu_and_mul(torch.empty(3, 4), x), b.layers.SiluAndMul()(x)
    assert torch.equal(one, two)
    names = torch._C._dispatch_get_all_op_names()
    assert all(f"{k.__name__}::silu_and_mul" in names for k in (a, b))
