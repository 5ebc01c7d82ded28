"""The ops of boxed_kernels.cpp, against PyTorch's own."""

import pytest
import torch

from boxed_kernels import ops
from contract import Contract


def silu_and_mul(x):
    gate, up = x.chunk(2, -1)
    return torch.nn.functional.silu(gate) * up


class TestSiluAndMul(Contract):
    op = ops.silu_and_mul.default
    differentiable = True

    def expected(self, x):
        return silu_and_mul(x)


class TestOut(Contract):
    """The form that writes: what it returns is what is in out afterwards."""

    op = ops.silu_and_mul.out

    def arguments(self, x):
        return torch.empty_like(x.chunk(2, -1)[0]).contiguous(), x

    def run(self, x):
        arguments = self.arguments(x)
        assert self.op(*arguments) is None
        return arguments[0]

    @pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
    def test_values(self, dtype):
        x = torch.randn(3, 34, dtype=dtype)
        assert torch.equal(self.run(x), ops.silu_and_mul(x))

    def test_elements_at_odd_addresses(self):
        x = torch.randn(1024, 2048, dtype=torch.bfloat16)
        memory = bytearray(2 * 1024 * 1024 + 1)
        out = torch.frombuffer(memory, dtype=x.dtype, offset=1).view(1024, -1)
        assert self.op(out, x) is None
        assert torch.equal(out, ops.silu_and_mul(x))


class TestBackward(Contract):
    op = ops.silu_and_mul_backward.default

    def arguments(self, x):
        return x.chunk(2, -1)[1], x

    def expected(self, grad, x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(silu_and_mul(x), x, grad)[0]


class TestSwiglu(Contract):
    op = ops.swiglu.default
    shapes = [(8,), (3, 8), (2, 3, 34), (0, 8)]

    def expected(self, x, bias=0.0, alpha=1.0, limit=float("inf")):
        gate, up = (x + bias).chunk(2, -1)
        gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
        out = gate * torch.sigmoid(alpha * gate) * up
        return out, out.abs().amax(-1, keepdim=True)

    def test_optional_arguments_and_defaults(self):
        x, bias = torch.randn(5, 16) * 4, torch.randn(16)
        close = torch.testing.assert_close
        close(ops.swiglu(x, bias), self.expected(x, bias))
        close(ops.swiglu(x, bias, alpha=1.702, limit=2),
              self.expected(x, bias, 1.702, 2))
        close(ops.swiglu(x), ops.swiglu(x, None, alpha=1.0, limit=None))


def test_a_second_derivative_is_refused():
    x = torch.randn(2, 4, requires_grad=True)
    with pytest.raises(RuntimeError, match="cannot be differentiated twice"):
        ops.silu_and_mul(x).sum().backward(create_graph=True)


@pytest.mark.parametrize("call, words", [
    (lambda: ops.silu_and_mul(torch.randn(2, 5)), ["input", "even", "[2, 5]"]),
    (lambda: ops.silu_and_mul(torch.ones(2, 4, dtype=torch.int32)), ["'Int'"]),
    (lambda: ops.silu_and_mul.out(torch.empty(2, 3), torch.randn(2, 4)),
     ["out", "[2, 4]", "[2, 3]"]),
    (lambda: ops.silu_and_mul.out(torch.ones(2).double(), torch.randn(4)),
     ["out", "Float", "Double"]),
    (lambda: ops.silu_and_mul.out(torch.empty(2, 2).t(), torch.randn(2, 4)),
     ["out", "contiguous", "[1, 2]"]),
    (lambda: ops.swiglu(torch.randn(2, 4), torch.randn(3)),
     ["bias", "[4]", "[3]"]),
    (lambda: ops.swiglu(torch.randn(2, 4), limit=-1.5), ["limit", "-1.5"]),
    (lambda: ops.silu_and_mul_backward(torch.randn(2, 4), torch.randn(2, 6)),
     ["grad", "[2, 4]", "[2, 6]"]),
])
def test_an_error_says_what_came(call, words):
    with pytest.raises(RuntimeError) as error:
        call()
    for word in words:
        assert word in str(error.value)
