"""Each op, as PyTorch's opcheck sees it: schema, fake tensors, registration."""

import os
from pathlib import Path

import pytest
import torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault(
    "LOCAL_KERNELS", f"your-name/activation={Path(__file__).parents[1]}")

# The inputs of each op, made when its test runs, as in
#     "scale": lambda: (torch.randn(3, 8), 0.5),
# The test of an op without inputs fails.
INPUTS = {}
# The ops of INPUTS that have kernels for CUDA alone.
FOR_CUDA: set[str] = set()


@pytest.fixture(scope="session")
def ops():
    """Load the kernel as its users do: by the Hub's loader, from this folder."""
    from kernels import get_kernel
    backend = None if torch.cuda.is_available() else "cpu"
    kernel = get_kernel("your-name/activation", version=1, backend=backend)
    return getattr(torch.ops, kernel.__name__)


@pytest.mark.parametrize("name", INPUTS)
def test_opcheck(ops, name):
    assert INPUTS[name] is not None, (
        f"TODO(wrap): {name} is not tested yet: tests/test_ops.py has no inputs for it")
    if name in FOR_CUDA and not torch.cuda.is_available():
        pytest.skip("compiled, not run: no GPU")
    op, _, overload = name.partition(".")
    torch.library.opcheck(
        getattr(getattr(ops, op), overload or "default"), INPUTS[name]())


def test_there_are_ops():
    assert INPUTS, "TODO(wrap): no op was found in the sources"
