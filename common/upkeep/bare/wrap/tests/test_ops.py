"""Each op, as PyTorch's opcheck sees it: schema, fake tensors, registration."""

import pytest
import torch

from NAME import ops

# The inputs of each op, made when its test runs, as in
#     "scale": lambda: (torch.randn(3, 8), 0.5),
# The test of an op without inputs fails.
INPUTS = {}
# The ops of INPUTS that have kernels for CUDA alone.
FOR_CUDA: set[str] = set()


@pytest.mark.parametrize("name", INPUTS)
def test_opcheck(name):
    assert INPUTS[name] is not None, (
        f"TODO(wrap): {name} is not tested yet: tests/test_ops.py has no inputs for it")
    if name in FOR_CUDA and not torch.cuda.is_available():
        pytest.skip("compiled, not run: no GPU")
    op, _, overload = name.partition(".")
    torch.library.opcheck(
        getattr(getattr(ops, op), overload or "default"), INPUTS[name]())


def test_there_are_ops():
    assert INPUTS, "TODO(wrap): no op was found in the sources"
