"""The ops of boxed_kernels.cpp, against PyTorch's own."""

import pytest
import torch

from boxed_kernels import ops
from contract import Contract


class TestAddScaled(Contract):
    op = ops.add_scaled.default
    differentiable = True

    def arguments(self, x):
        return x, (x * x).detach(), 0.5

    def expected(self, x, y, alpha):
        return x + alpha * y


class TestBackward(Contract):
    op = ops.add_scaled_backward.default

    def arguments(self, x):
        return x * 2, x, x, 0.5

    def expected(self, grad, x, y, alpha):
        return grad, alpha * grad


def test_an_error_says_what_came():
    with pytest.raises(RuntimeError, match="other") as error:
        ops.add_scaled(torch.randn(2, 4), torch.randn(2, 5))
    assert "[2, 5]" in str(error.value)
