"""The ops as Python sees them. Run it after `pip install .`: pytest"""

import os

# Inductor keeps compiled graphs on disk, and does not see that a schema changed.
os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

import boxed_kernels
from boxed_kernels import ops

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def expected(input, bias=None, alpha=1.0, limit=float("inf")):
    gate, up = (input if bias is None else input + bias).chunk(2, -1)
    gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
    return gate * torch.sigmoid(alpha * gate) * up


def inputs(*shape, dtype=torch.float32):
    """Contiguous, transposed, and every third column."""
    torch.manual_seed(0)
    *rows, columns = shape
    return [torch.randn(*shape, dtype=dtype),
            torch.randn(columns, *rows, dtype=dtype).movedim(0, -1),
            torch.randn(*rows, 3 * columns, dtype=dtype)[..., ::3]]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(8,), (3, 8), (2, 3, 34), (0, 8), (3, 0)])
def test_values(shape, dtype):
    for input in inputs(*shape, dtype=dtype):
        want = expected(input.double())
        got = boxed_kernels.silu_and_mul(input)
        torch.testing.assert_close(got.double(), want, rtol=1e-2, atol=1e-6)
        out = torch.empty_like(got)
        assert boxed_kernels.silu_and_mul(input, out=out) is out
        assert torch.equal(out, got)


def test_optional_arguments_and_defaults():
    input, bias = torch.randn(5, 16) * 4, torch.randn(16)
    close = torch.testing.assert_close
    close(boxed_kernels.swiglu(input), expected(input))
    close(boxed_kernels.swiglu(input, bias), expected(input, bias))
    close(boxed_kernels.swiglu(input, bias, alpha=1.702, limit=2),
          expected(input, bias, 1.702, 2))
    close(ops.swiglu(input), ops.swiglu(input, None, alpha=1.0, limit=None))


def test_several_returns():
    out, amax = boxed_kernels.silu_and_mul_amax(torch.randn(4, 3, 16))
    assert torch.equal(amax, out.abs().amax(-1, keepdim=True))


# --- what PyTorch asks of an op ----------------------------------------------

SAMPLES = [
    (ops.silu_and_mul.default, lambda x: (x,), {}),
    (ops.silu_and_mul.out, lambda x: (x[..., ::2].contiguous(), x), {}),
    (ops.silu_and_mul_backward.default, lambda x: (x[..., ::2], x), {}),
    (ops.silu_and_mul_amax.default, lambda x: (x,), {}),
    (ops.swiglu.default, lambda x: (x,), {}),
    (ops.swiglu.default, lambda x: (x, x[0, 0].contiguous()),
     {"alpha": 1.7, "limit": 7.0}),
]


@pytest.mark.parametrize("op, arguments, keywords", SAMPLES)
def test_opcheck(op, arguments, keywords):
    """Schema, autograd registration, fake tensors, and dynamic shapes."""
    for input in inputs(2, 3, 16):
        torch.library.opcheck(op, arguments(input), keywords)


def test_opcheck_with_gradient():
    for input in inputs(2, 3, 16):
        input = input.detach().requires_grad_()
        torch.library.opcheck(ops.silu_and_mul.default, (input,))


def test_gradient():
    for input in inputs(2, 3, 6, dtype=torch.float64):
        input = input.detach().requires_grad_()
        assert torch.autograd.gradcheck(boxed_kernels.silu_and_mul, (input,))
    input = torch.randn(3, 6, requires_grad=True)
    boxed_kernels.silu_and_mul(input).sum().backward()  # an expanded gradient
    want, = torch.autograd.grad(expected(input).sum(), input)
    torch.testing.assert_close(input.grad, want)


@pytest.mark.parametrize("call", [
    boxed_kernels.silu_and_mul,
    lambda x: boxed_kernels.silu_and_mul(
        x, out=torch.empty_like(x.chunk(2, -1)[0]).contiguous()),
    lambda x: ops.silu_and_mul_backward(x.chunk(2, -1)[1], x),
    boxed_kernels.silu_and_mul_amax,
    lambda x: boxed_kernels.swiglu(x, x[0, 0], alpha=1.7, limit=7.0),
])
def test_three_shapes_compile_once(call):
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(
        call, backend=counter, fullgraph=True, dynamic=True)
    for rows, columns in ((3, 8), (5, 12), (7, 32)):
        input = torch.randn(2, rows, columns)
        torch.testing.assert_close(compiled(input), call(input))
    assert counter.frame_count == 1


@pytest.mark.parametrize("dynamic", [False, True])
def test_inductor_keeps_what_is_written(dynamic):
    def call(input):
        out = input.new_empty(input.shape[0], input.shape[1] // 2)
        boxed_kernels.silu_and_mul(input, out=out)
        return out, boxed_kernels.silu_and_mul(input)

    torch._dynamo.reset()
    input = torch.randn(4, 16)
    compiled = torch.compile(call, fullgraph=True, dynamic=dynamic)
    for got in compiled(input):
        torch.testing.assert_close(got, expected(input))


# --- errors ------------------------------------------------------------------


@pytest.mark.parametrize("call, text", [
    (lambda: ops.silu_and_mul(torch.randn(2, 5)),
     r"input must end in an even size, got \[2, 5\]"),
    (lambda: ops.silu_and_mul(torch.ones(2, 4, dtype=torch.int32)),
     "not implemented for 'Int'"),
    (lambda: ops.silu_and_mul.out(torch.empty(2, 3), torch.randn(2, 4)),
     r"out must be half of input's \[2, 4\], got \[2, 3\]"),
    (lambda: ops.silu_and_mul.out(torch.ones(2).double(), torch.randn(4)),
     "out must have input's dtype Float, got Double"),
    (lambda: ops.silu_and_mul.out(torch.empty(2, 2).t(), torch.randn(2, 4)),
     r"out must be contiguous, got strides \[1, 2\]"),
    (lambda: ops.swiglu(torch.randn(2, 4), torch.randn(3)),
     r"bias must be \[4\], got \[3\]"),
    (lambda: ops.silu_and_mul_backward(torch.randn(2, 4), torch.randn(2, 4)),
     r"grad must be half of input's \[2, 4\], got \[2, 4\]"),
])
def test_errors(call, text):
    with pytest.raises(RuntimeError, match=text):
        call()
