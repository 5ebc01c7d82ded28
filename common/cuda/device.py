"""Runs chapter 07's ops on a GPU and compares them with double: dtypes, shapes,
alignments, strides, streams, graph capture, sizes beyond 2^31, errors.

    device.py --library libcuda_activation_kernel.so [--small]

--small leaves the big tensors out, for compute-sanitizer. Exit status 77: there
is no GPU, so the kernels were compiled, not run.
"""

import argparse
import math
import sys


def exact(torch, op, input):
    left, right = input.double().chunk(2, dim=-1)
    if op == "mul_and_silu":
        left, right = right, left
    if op == "gelu_and_mul":
        return 0.5 * left * torch.erfc(-left / math.sqrt(2)) * right
    if op == "gelu_tanh_and_mul":
        u = math.sqrt(8 / math.pi) * (left + 0.044715 * left ** 3)
        return left * torch.sigmoid(u) * right
    return left * torch.sigmoid(left) * right


def check(torch, op, input, ulps):
    """`input` through `op`, into an output with a guard at its end."""
    rows, d = input.shape[:-1].numel(), input.shape[-1] // 2
    memory = input.new_full((rows * d + 64,), -77)
    out = memory[:rows * d].view(*input.shape[:-1], d)
    getattr(torch.ops.wb07, op)(out, input)
    wanted = exact(torch, op, input)
    unit = torch.finfo(input.dtype).eps * wanted.abs() / 2 + \
        torch.finfo(input.dtype).tiny
    off = ((out.double() - wanted).abs() / unit).max().item() \
        if out.numel() else 0
    assert off <= ulps, (op, input.dtype, tuple(input.shape),
                         input.stride(), f"{off} half ulps")
    assert (memory[rows * d:] == -77).all(), "written behind the output"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    try:
        import torch
        there = torch.cuda.is_available()
    except ImportError:
        there = False
    if not there:
        print("compiled, not run: there is no GPU here that torch can use")
        return 77
    torch.ops.load_library(options.library)
    ops = torch.ops.wb07
    torch.manual_seed(1)
    count = 0
    for op in ("silu_and_mul", "mul_and_silu", "gelu_and_mul",
               "gelu_tanh_and_mul"):
        for dtype, ulps in ((torch.float, 64), (torch.half, 2),
                            (torch.bfloat16, 2)):
            for shape in ((1, 2), (3, 10), (2, 5, 64), (7, 512), (16, 8192),
                          (33, 11008), (5, 4100), (0, 8), (4, 0), (300, 30)):
                x = torch.randn(shape, device="cuda", dtype=dtype) * 3
                wide = torch.randn(*shape[:-1], shape[-1] + 24, device="cuda",
                                   dtype=dtype)
                inputs = [x, wide[..., :shape[-1]], wide[..., 8:8 + shape[-1]],
                          wide[..., 1:1 + shape[-1]]]
                for input in inputs:
                    check(torch, op, input, ulps)
                    count += 1
    # Every bfloat16 as the gate: ATen's infinities and NaN.
    bits = torch.arange(65536, device="cuda").to(torch.int32)
    gate = (bits << 16).view(torch.float32).to(torch.bfloat16)[None]
    out = torch.empty_like(gate)
    ops.silu_and_mul(out, torch.cat([gate, torch.ones_like(gate)], -1))
    wanted = torch.nn.functional.silu(gate)
    assert (out.isnan() == wanted.isnan()).all()
    assert (out.isinf() == wanted.isinf()).all()
    double = gate.double() * torch.sigmoid(gate.double())
    fits = torch.isfinite(double)
    off = (out.double() - double).abs() / \
        (double.abs() * 2.0 ** -7 + 2.0 ** -133)
    assert off[fits].max() <= 1, f"{off[fits].max()} ulp"
    # A stream of one's own: the result is ordered behind what made the input.
    stream = torch.cuda.Stream()
    x = torch.zeros(4096, 8192, device="cuda", dtype=torch.bfloat16)
    out = torch.empty(4096, 4096, device="cuda", dtype=torch.bfloat16)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        for _ in range(20):
            x.add_(0.25)
        ops.silu_and_mul(out, x)
    stream.synchronize()
    assert (out.float() - 5 * 5 / (1 + math.exp(-5))).abs().max() < 0.1
    # Graph capture: neither waits nor allocates.
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        ops.silu_and_mul(out, x)
    x.fill_(1)
    graph.replay()
    torch.cuda.synchronize()
    assert (out.float() - 1 / (1 + math.exp(-1))).abs().max() < 0.01
    # Refusals, and that nothing is left behind by them.
    for bad in ((out.cpu(), x), (out[:, :7], x), (out.half(), x)):
        try:
            ops.silu_and_mul(*bad)
            raise AssertionError("not refused")
        except RuntimeError as error:
            assert "out must" in str(error), error
    if torch.cuda.device_count() > 1:
        check(torch, "silu_and_mul", torch.randn(3, 64, device="cuda:1"), 64)
        assert torch.cuda.current_device() == 0
    if not options.small:  # more than 2^31 elements; rows checked one by one
        free, _ = torch.cuda.mem_get_info()
        rows, d = 16400, 131072 + 8
        if free > 3 * 2 * rows * d + (1 << 30):
            x = torch.randn(rows, 2 * d, device="cuda", dtype=torch.bfloat16)
            out = torch.full((rows, d), -77, device="cuda",
                             dtype=torch.bfloat16)
            ops.silu_and_mul(out, x)
            for row in range(0, rows, 257):
                wanted = exact(torch, "silu_and_mul", x[row:row + 1])
                off = (out[row:row + 1].double() - wanted).abs() / \
                    (wanted.abs() * 2.0 ** -7 + 2.0 ** -126)
                assert off.max() <= 1, (row, off.max())
            assert not (out == -77).any()
            count += 1
    torch.cuda.synchronize()
    print(f"{count} launches and more are right on "
          f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
