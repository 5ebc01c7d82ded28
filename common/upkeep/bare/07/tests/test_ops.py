"""The op, against PyTorch's own."""

import pytest
import torch

from contract import Contract
from cuda_activation_kernel import ops


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


@pytest.mark.skipif(not torch.cuda.is_available(),
                    reason="compiled, not run: no GPU")
@pytest.mark.parametrize("dtype", [torch.float, torch.half, torch.bfloat16])
def test_on_cuda(dtype):
    x = torch.randn(3, 1000, device="cuda", dtype=dtype)
    torch.testing.assert_close(
        ops.add_scaled(x, x * x, 0.5),
        (x.float() + 0.5 * (x * x).float()).to(dtype))
    torch.testing.assert_close(
        ops.add_scaled_backward(x, x, x, 0.5), (x, 0.5 * x))
