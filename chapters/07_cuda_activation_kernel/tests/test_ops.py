"""Values, schemas, compilation and errors, on the CPU and on a GPU. Without a
GPU the kernels for CUDA are compiled, not run."""

import math

import pytest
import torch

import cuda_activation_kernel as package

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(
    not torch.cuda.is_available(), reason="compiled, not run: no GPU"))]
OPS = ["silu_and_mul", "mul_and_silu", "gelu_and_mul", "gelu_tanh_and_mul"]


def expected(op, input):
    left, right = input.double().chunk(2, dim=-1)
    if op == "mul_and_silu":
        left, right = right, left
    if op == "gelu_and_mul":
        left = 0.5 * left * torch.erfc(-left / math.sqrt(2))
    elif op == "gelu_tanh_and_mul":
        left = left * torch.sigmoid(
            math.sqrt(8 / math.pi) * (left + 0.044715 * left**3))
    else:
        left = left * torch.sigmoid(left)
    return left * right


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype, tolerance", [
    (torch.float, 1e-5), (torch.half, 2**-10), (torch.bfloat16, 2**-7)])
@pytest.mark.parametrize("op", OPS)
def test_values(op, dtype, tolerance, device):
    for shape in ((1, 2), (3, 10), (2, 5, 64), (33, 4100), (0, 8), (4, 0)):
        wide = torch.randn(*shape[:-1], shape[-1] + 16).to(device, dtype)
        n = shape[-1]
        # Contiguous, a slice of wider rows, and one that is not aligned.
        for input in (wide[..., :n].contiguous(), wide[..., 8:8 + n],
                      wide[..., 1:1 + n]):
            result = getattr(package, op)(input)
            torch.testing.assert_close(
                result.double(), expected(op, input), rtol=tolerance,
                atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_opcheck(device):
    input = torch.randn(4, 16, device=device)
    torch.library.opcheck(
        package.ops.silu_and_mul, (torch.empty(4, 8, device=device), input))


@pytest.mark.parametrize("device", DEVICES)
def test_compile(device):
    compiled = torch.compile(
        package.silu_and_mul, backend="aot_eager", fullgraph=True)
    input = torch.randn(4, 16, device=device)
    torch.testing.assert_close(compiled(input), package.silu_and_mul(input))


@pytest.mark.parametrize("device", DEVICES[1:])
def test_graph_capture(device):
    input = torch.zeros(64, 4096, device=device)
    out = torch.empty(64, 2048, device=device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        package.silu_and_mul(input, out)
    input.normal_()
    graph.replay()
    torch.testing.assert_close(
        out.double(), expected("silu_and_mul", input), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("out, input, text", [
    ((2, 2), (2, 5), r"even size, got \[2, 5\]"),
    ((2, 3), (2, 4), r"out must be \[2, 2\], got \[2, 3\]")])
def test_errors(out, input, text, device):
    with pytest.raises(RuntimeError, match=text):
        package.silu_and_mul(
            torch.empty(input, device=device), torch.empty(out, device=device))


@pytest.mark.parametrize("device", DEVICES[1:])
def test_two_devices(device):
    with pytest.raises(RuntimeError, match="out must be on input's device"):
        package.silu_and_mul(torch.empty(2, 4, device=device), torch.empty(2, 2))
