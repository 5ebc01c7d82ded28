"""What PyTorch asks of any op, whatever it computes. A test of an op inherits
from Contract, and says which op and how it is called."""

import os

# Inductor keeps compiled graphs on disk, and does not see that a schema changed.
os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

SHAPES = [(8,), (3, 8), (2, 3, 34), (129, 512), (0, 8), (3, 0)]
FLOATING = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def inputs(*shape, dtype=torch.float32):
    """Return tensors: contiguous, transposed, and every third column of one."""
    torch.manual_seed(0)
    *rows, columns = shape
    return [torch.randn(*shape, dtype=dtype),
            torch.randn(columns, *rows, dtype=dtype).movedim(0, -1),
            torch.randn(*rows, 3 * columns, dtype=dtype)[..., ::3]]


class Contract:
    op = None  # torch.ops.NAMESPACE.NAME.default
    differentiable = False
    shapes = SHAPES
    tolerance = {}  # of assert_close; default: that of the result's dtype

    def arguments(self, x):
        """Return those of a call, made of a tensor whose sizes may be symbolic: by
        torch.arange, whereas linspace makes a constant of a size. Write numbers
        out: torch.compile traces those of a global variable."""
        return (x,)

    def expected(self, *arguments):
        """Return what the op returns, computed by PyTorch in double."""
        raise NotImplementedError

    def run(self, x):
        return self.op(*self.arguments(x))

    @pytest.mark.parametrize("dtype", FLOATING)
    def test_values(self, dtype):
        for shape in self.shapes:
            for x in inputs(*shape, dtype=dtype):
                arguments = self.arguments(x)
                want = self.expected(*(
                    a.double() if isinstance(a, torch.Tensor) else a
                    for a in arguments))
                torch.testing.assert_close(
                    self.op(*arguments), want, check_dtype=False,
                    **self.tolerance)

    def test_opcheck(self):
        """It tests schema, autograd registration, fake tensors, dynamic shapes."""
        for x in inputs(2, 3, 16):
            torch.library.opcheck(self.op, self.arguments(x))
            if self.differentiable:
                torch.library.opcheck(
                    self.op, self.arguments(x.detach().requires_grad_()))

    def test_gradient(self):
        if not self.differentiable:
            pytest.skip("the op has none")
        for x in inputs(2, 3, 6, dtype=torch.float64):
            arguments = [
                a.detach().requires_grad_() if isinstance(a, torch.Tensor)
                else a for a in self.arguments(x)]
            assert torch.autograd.gradcheck(self.op, arguments)
        x = torch.randn(3, 6, requires_grad=True)
        self.run(x).sum().backward()  # hands over an expanded gradient
        want, = torch.autograd.grad(
            self.expected(*self.arguments(x)).sum(), x)
        torch.testing.assert_close(x.grad, want)

    def test_three_shapes_compile_once(self):
        torch._dynamo.reset()
        counter = CompileCounterWithBackend("aot_eager")
        compiled = torch.compile(
            self.run, backend=counter, fullgraph=True, dynamic=True)
        for rows, columns in ((3, 8), (5, 12), (7, 32)):
            x = torch.randn(2, rows, columns)
            torch.testing.assert_close(compiled(x), self.run(x))
        assert counter.frame_count == 1, (
            f"{counter.frame_count} graphs: do arguments() or the fake kernel "
            "make a constant of a size?")

    @pytest.mark.parametrize("dynamic", [False, True])
    def test_inductor(self, dynamic):
        torch._dynamo.reset()
        compiled = torch.compile(self.run, fullgraph=True, dynamic=dynamic)
        x = torch.randn(4, 16)
        torch.testing.assert_close(compiled(x), self.run(x))
