"""The ops of this package, on the CPU and on a GPU. Without a GPU the kernels for
CUDA are compiled, not run."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from contract import Contract, inputs
from cuda_activation_kernel import ops

DTYPES = [torch.float, torch.half, torch.bfloat16]
needs_gpu = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="compiled, not run: no GPU")


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

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_values(self, dtype):
        x = torch.randn(3, 34).to(dtype)
        assert torch.equal(self.run(x), ops.silu_and_mul(x))


class TestBackward(Contract):
    op = ops.silu_and_mul_backward.default

    def arguments(self, x):
        return x.chunk(2, -1)[1], x

    def expected(self, grad, x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(silu_and_mul(x), x, grad)[0]


class OnCuda:
    """The same tests on a GPU; there is no kernel for double there."""

    @pytest.fixture(autouse=True)
    def on_cuda(self):
        with torch.device("cuda"):
            yield

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_values(self, dtype):
        super().test_values(dtype)

    def test_gradient(self):
        x = torch.randn(3, 6, requires_grad=True)
        ops.silu_and_mul(x).sum().backward()
        want, = torch.autograd.grad(silu_and_mul(x).sum(), x)
        torch.testing.assert_close(x.grad, want)


@needs_gpu
class TestSiluAndMulOnCuda(OnCuda, TestSiluAndMul):
    pass


@needs_gpu
class TestOutOnCuda(OnCuda, TestOut):
    pass


@needs_gpu
class TestBackwardOnCuda(OnCuda, TestBackward):
    pass


# --- accuracy, shapes, errors, on both ----------------------------------------

DEVICES = ["cpu", pytest.param("cuda", marks=needs_gpu)]


def off(result, input):
    """Return how far the result is off, in ulp; of float below 2^-120, in those of
    2^-120, which is more than it needs."""
    gate, up = input.double().chunk(2, -1)
    wanted = gate * torch.sigmoid(gate) * up
    dtype = result.dtype
    smallest = 2.0**-120 if dtype == torch.float else torch.finfo(dtype).tiny
    _, exponent = torch.frexp(wanted.abs().clamp(min=smallest))
    unit = torch.finfo(dtype).eps * 2.0**(exponent.double() - 1)
    distance = (result.double() - wanted).abs() / unit
    return distance.max().item() if distance.numel() else 0


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_rounded_once_at_any_stride(dtype, device):
    for shape in ((1, 2), (3, 10), (2, 5, 64), (33, 4100), (0, 8), (4, 0)):
        wide = torch.randn(*shape[:-1], shape[-1] + 16).to(device, dtype)
        n = shape[-1]
        # A slice of wider rows, and one that is not aligned.
        for x in (*(x.to(device) for x in inputs(*shape, dtype=dtype)),
                  wide[..., 8:8 + n], wide[..., 1:1 + n]):
            result = ops.silu_and_mul(x)
            assert off(result, x) <= (8 if dtype == torch.float else 0.51)


def capture(device):
    """Capture a graph, and replay it with another input."""
    input = torch.zeros(64, 4096, device=device)
    out = torch.empty(64, 2048, device=device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        ops.silu_and_mul.out(out, input)
    input.normal_()
    graph.replay()
    assert off(out, input) <= 8


@needs_gpu
def test_graph_capture():
    capture("cuda")


@needs_gpu
def test_first_launch_in_a_graph_capture():
    """A new process has to load the kernel while a graph is captured."""
    code = "import test_silu_and_mul as t; t.capture('cuda')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parent, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("call, words", [
    (lambda: ops.silu_and_mul(torch.randn(2, 5)), ["input", "even", "[2, 5]"]),
    (lambda: ops.silu_and_mul.out(torch.empty(2, 3), torch.randn(2, 4)),
     ["out", "[2, 4]", "[2, 3]"]),
    (lambda: ops.silu_and_mul.out(torch.ones(2).double(), torch.randn(4)),
     ["out", "Float", "Double"]),
    (lambda: ops.silu_and_mul.out(torch.empty(2, 2).t(), torch.randn(2, 4)),
     ["out", "contiguous", "[1, 2]"]),
    (lambda: ops.silu_and_mul_backward(torch.randn(2, 4), torch.randn(2, 6)),
     ["grad", "[2, 4]", "[2, 6]"]),
])
def test_an_error_says_what_came(call, words, device):
    with torch.device(device), pytest.raises(RuntimeError) as error:
        call()
    for word in words:
        assert word in str(error.value)


@needs_gpu
def test_two_devices_and_double():
    x = torch.randn(2, 4, device="cuda")
    with pytest.raises(RuntimeError, match="out must be on input's device"):
        ops.silu_and_mul.out(torch.empty(2, 2), x)
    with pytest.raises(RuntimeError, match="on CUDA, got Double"):
        ops.silu_and_mul(x.double())
