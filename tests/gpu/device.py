"""Runs chapter 07's ops on a GPU and compares them with double: dtypes, shapes,
alignments, strides, streams, graph capture, gradients, sizes beyond 2^31,
errors.

    device.py --library libcuda_activation_kernel.so [--small]
              [--first-in-capture] [--once ROWS D DTYPE]

--small leaves the big tensors out, for compute-sanitizer. --first-in-capture
makes the first launch of the process while a graph is captured, and nothing
else. --once calls one op, for a profiler. Exit status 77: there is no GPU, so
the kernels were compiled, not run.
"""

import argparse
import math
import sys


def has_gpu() -> bool:
    """Return whether torch can use a GPU here; prints it if not."""
    try:
        import torch
        if torch.cuda.is_available():
            return True
    except ImportError:
        pass
    print("compiled, not run: there is no GPU here that torch can use")
    return False


def bound(op: str, dtype) -> float:
    """How far a result may be off, in ulp: the bounds of
    tests/07_cuda_activation_kernel/steps.cpp, for all ops of 07 and 08."""
    if dtype.itemsize == 2 or op == "fatrelu_and_mul":
        return 0.51
    return 10 if op in ("gelu", "gelu_and_mul") else 8


def ulps(got, wanted) -> float:
    """The largest distance, where `wanted`, in double, is a number of the dtype.
    Of float below 2^-120, where exp and erfc are subnormal, in ulp of 2^-120."""
    import torch
    info = torch.finfo(got.dtype)
    smallest = 2.0 ** -120 if got.dtype == torch.float else info.tiny
    _, exponent = torch.frexp(wanted.abs().clamp(min=smallest))
    off = (got.double() - wanted).abs() / \
        (info.eps * 2.0 ** (exponent.double() - 1))
    off = off[wanted.abs() <= info.max]  # NaN compares as false
    return off.max().item() if off.numel() else 0


def exact(input):
    import torch
    gate, up = input.double().chunk(2, dim=-1)
    return gate * torch.sigmoid(gate) * up


def check(input):
    """`input` through the op, into an output with a guard at its end."""
    import torch
    rows, d = input.shape[:-1].numel(), input.shape[-1] // 2
    memory = input.new_full((rows * d + 64,), -77)
    out = memory[:rows * d].view(*input.shape[:-1], d)
    torch.ops.wb07.silu_and_mul.out(out, input)
    off = ulps(out, exact(input))
    assert off <= bound("silu_and_mul", input.dtype), (
        input.dtype, tuple(input.shape), input.stride(), f"{off} ulp")
    assert (memory[rows * d:] == -77).all(), "written behind the output"


def gates(dtype):
    """All numbers of 16 bits; of float those, and many in the steep tails."""
    import torch
    bits = torch.arange(65536, device="cuda", dtype=torch.int32)
    bfloat16 = (bits << 16).view(torch.float32)
    if dtype == torch.bfloat16:
        return bfloat16.to(dtype)
    half = bits.to(torch.int16).view(torch.half)
    return half if dtype == torch.half else torch.cat([
        bfloat16, half.float(), torch.linspace(-120, 100, 100001).cuda(),
        4 * torch.randn(100001, device="cuda")])


def check_values(small: bool) -> int:
    import torch
    count = 0
    shapes = [(1, 2), (3, 10), (2, 5, 64), (7, 512), (16, 8192), (33, 11008),
              (5, 4100), (0, 8), (4, 0), (300, 30)]
    for dtype in (torch.float, torch.half, torch.bfloat16):
        for shape in shapes[:4] + shapes[7:9] if small else shapes:
            n = shape[-1]
            wide = torch.randn(*shape[:-1], n + 24, device="cuda",
                               dtype=dtype) * 3
            for input in (wide[..., :n].contiguous(), wide[..., :n],
                          wide[..., 8:8 + n], wide[..., 4:4 + n],
                          wide[..., 2:2 + n], wide[..., 1:1 + n],
                          wide[..., :n].transpose(0, -1).contiguous()
                          .transpose(0, -1),
                          wide[..., :4 * (n // 4):2]):
                check(input)
                count += 1
        gate = gates(dtype)
        gate = gate[gate.isfinite()]
        for up in (torch.ones_like(gate), torch.randn_like(gate)):
            check(torch.cat((gate, up)))
    # Infinities and NaN are ATen's.
    for dtype in (torch.float, torch.half, torch.bfloat16):
        gate = gates(dtype)
        out = torch.empty_like(gate)
        torch.ops.wb07.silu_and_mul.out(
            out, torch.cat([gate, torch.ones_like(gate)]))
        wanted = torch.nn.functional.silu(gate)
        assert (out.isnan() == wanted.isnan()).all()
        assert (out.isinf() == wanted.isinf()).all()
    return count


def check_stream() -> None:
    """The result is ordered behind what made the input, on its stream."""
    import torch
    stream = torch.cuda.Stream()
    x = torch.zeros(4096, 8192, device="cuda", dtype=torch.bfloat16)
    out = torch.empty(4096, 4096, device="cuda", dtype=torch.bfloat16)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        for _ in range(20):
            x.add_(0.25)
        torch.ops.wb07.silu_and_mul.out(out, x)
    stream.synchronize()
    assert (out.float() - 5 * 5 / (1 + math.exp(-5))).abs().max() < 0.1


def check_capture() -> None:
    """Neither waits nor allocates; and loads its kernel, if it is the first."""
    import torch
    x = torch.zeros(64, 8192, device="cuda", dtype=torch.bfloat16)
    out = torch.empty(64, 4096, device="cuda", dtype=torch.bfloat16)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.ops.wb07.silu_and_mul.out(out, x)
    x.normal_()
    graph.replay()
    torch.cuda.synchronize()
    assert ulps(out, exact(x)) <= 0.51


def check_refusals() -> None:
    """Check what is refused, and that it leaves nothing behind."""
    import torch
    x = torch.randn(4, 16, device="cuda", dtype=torch.bfloat16)
    out = torch.zeros(4, 8, device="cuda", dtype=torch.bfloat16)
    for bad in ((out.cpu(), x), (out[:, :7], x), (out.half(), x)):
        try:
            torch.ops.wb07.silu_and_mul.out(*bad)
        except RuntimeError as error:
            assert "out must" in str(error), error
        else:
            raise AssertionError("not refused")
    check(x)


def check_gradient() -> None:
    """Beside autograd's in double; and that the functional form is the other."""
    import torch
    for dtype, rtol in ((torch.float, 1e-5), (torch.half, 2e-3),
                        (torch.bfloat16, 1e-2)):
        for shape in ((3, 10), (2, 5, 64), (33, 4100), (0, 8), (4, 0)):
            x = 3 * torch.randn(*shape, device="cuda", dtype=dtype)
            y = torch.ops.wb07.silu_and_mul(x)
            out = torch.empty_like(y)
            torch.ops.wb07.silu_and_mul.out(out, x)
            assert torch.equal(y, out)
            grad = torch.randn_like(y)
            wide = x.double().requires_grad_()
            want, = torch.autograd.grad(exact(wide), wide, grad.double())
            got = torch.ops.wb07.silu_and_mul_backward(grad, x)
            torch.testing.assert_close(
                got.double(), want, rtol=rtol, atol=rtol)


def check_big() -> None:
    """More than 2^31 elements; rows are checked one by one."""
    import torch
    free, _ = torch.cuda.mem_get_info()
    rows, d = 16400, 131072 + 8
    if free < 3 * 2 * rows * d + (1 << 30):
        print("not run: more than 2^31 elements, for want of memory")
        return
    x = torch.randn(rows, 2 * d, device="cuda", dtype=torch.bfloat16)
    out = torch.empty(rows, d, device="cuda", dtype=torch.bfloat16)
    odd = x[:, 1:2 * d - 7]  # more elements than vectors can be: `plain`
    for input, memory in ((x, out), (odd, out.view(-1)[:rows * (d - 4)])):
        result = memory.view(rows, -1)
        torch.ops.wb07.silu_and_mul.out(result, input)
        for row in (0, 1, 8191, 16383, 16384, rows - 1):
            assert ulps(result[row], exact(input[row])) <= 0.51, row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--first-in-capture", action="store_true")
    parser.add_argument("--once", nargs=3, metavar=("ROWS", "D", "DTYPE"))
    options = parser.parse_args()
    if not has_gpu():
        return 77
    import torch
    torch.ops.load_library(options.library)
    torch.manual_seed(1)
    if options.once:
        rows, d = map(int, options.once[:2])
        x = torch.randn(rows, 2 * d, device="cuda").to(
            getattr(torch, options.once[2]))
        torch.ops.wb07.silu_and_mul.out(x.new_empty(rows, d), x)
        torch.cuda.synchronize()
        return 0
    check_capture()
    if options.first_in_capture:
        print("the first launch of a process may be captured")
        return 0
    count = check_values(options.small)
    check_stream()
    check_refusals()
    check_gradient()
    if torch.cuda.device_count() > 1:
        check(torch.randn(3, 64, device="cuda:1"))
        assert torch.cuda.current_device() == 0
    if not options.small:
        check_big()
    print(f"{torch.cuda.get_device_name()}: {count} launches and their kin are "
          "right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
