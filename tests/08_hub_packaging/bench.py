"""Chapter 08's benchmark: the package, called from Python as its users do, the
floor, and the peers that live in Python. The statistic is that of the others:
workbook.ratios."""

import argparse
import datetime
import os
import time
from pathlib import Path

import torch
from reference import exact, ulps
from torch.nn import functional as F

from base import stamp
from learn import ratios

DTYPES = {"float": torch.float32, "half": torch.float16,
          "bfloat16": torch.bfloat16}


class Members:
    """All on the same tensors: input is [rows, 2 d], out is [rows, d]."""

    def __init__(self, kernel, dtype, rows, d, streaming):
        generator = torch.Generator().manual_seed(1)
        self.input = torch.randn(rows, 2 * d, generator=generator).to(dtype)
        self.out = torch.empty(rows, d, dtype=dtype)
        self.streaming = streaming
        self.kernel, self.dtype = kernel, dtype
        gate, up = self.input.chunk(2, -1)
        between = torch.empty_like(self.out)
        aten, out, x = torch.ops.aten, self.out, self.input

        torch._dynamo.reset()  # a shape and a dtype at a time

        @torch.compile(fullgraph=True, dynamic=False)
        def fused(out, x):
            gate, up = x.chunk(2, -1)
            out.copy_(F.silu(gate) * up)

        def in_place():
            aten.silu.out(gate, out=between)
            aten.mul.out(between, up, out=out)

        def fresh():
            out.copy_(F.silu(gate) * up)

        bytes_ = (self.out.view(torch.uint8), self.input.view(torch.uint8))
        self.calls = {
            "xor": lambda: torch.ops.workbook_floor.xor(*bytes_, streaming),
            "solution": lambda: kernel.silu_and_mul(out, x),
            "ATen, in place": in_place,
        }
        if " " not in torch.__file__:  # else Inductor cannot link
            self.calls["torch.compile"] = lambda: fused(out, x)
        theirs = torch.ops.kernels_community

        def original(out, x):  # as its Python side has it
            theirs.silu_and_mul(out, x)
            return out

        if hasattr(theirs, "silu_and_mul"):  # --peer
            self.calls["kernels-community"] = lambda: original(out, x)

    def check(self):
        """Each member's result, so that what is timed is what was asked for."""
        rows = [0, len(self.input) // 2, len(self.input) - 1]
        want = exact("silu_and_mul", self.input[rows])
        for name, call in self.calls.items():
            self.out.view(torch.uint8).fill_(255)
            call()
            if name == "xor":
                gate, up = self.input.view(torch.uint8).chunk(2, -1)
                right = torch.equal(self.out.view(torch.uint8)[rows],
                                    gate[rows] ^ up[rows])
            else:  # ATen rounds silu before the product
                right = ulps(self.out[rows], want) <= \
                    (4 if name == "solution" else 8)
            assert right, f"{name} is wrong"

    def time(self, repetitions, seconds):
        """Each in turn, floor first, in blocks of about `seconds`."""
        loops = {}
        for name, call in self.calls.items():
            call()
            start = time.perf_counter()
            call()
            once = max(time.perf_counter() - start, 1e-7)
            loops[name] = max(1, round(seconds / once))
        samples = {name: [] for name in self.calls}
        for repetition in range(repetitions):
            order = list(self.calls)
            for name in order if repetition % 2 else order[::-1]:
                call, count = self.calls[name], loops[name]
                start = time.perf_counter()
                for _ in range(count):
                    call()
                took = time.perf_counter() - start
                samples[name].append(
                    ratios.Sample(start + took / 2, took / count))
        return samples


def call_group(kernel, quick):
    """Measure what a call costs, on rows so short that computing them costs next to
    nothing."""
    torch.set_num_threads(1)
    members = Members(kernel, torch.float32, 1, 8, streaming=False)
    members.check()
    gate, up = members.input.chunk(2, -1)
    out = members.out
    members.calls = {
        "torch.ops.aten.mul.out":
            lambda: torch.ops.aten.mul.out(gate, up, out=out),
        "solution": members.calls["solution"],
        **{name: call for name, call in members.calls.items()
           if name not in ("xor", "solution")}}
    return summary(members.time(5 if quick else 31, 0.02),
                   "call/float", "float", "1 x 8", "warm", 0)


def group(kernel, kind, name, rows, d, quick):
    dtype = DTYPES[name]
    large = kind == "dram"
    torch.set_num_threads(os.cpu_count() if large else 1)
    members = Members(kernel, dtype, rows, d, streaming=large)
    members.check()
    samples = members.time(5 if quick else 31, 0.02 if quick else 0.05)
    members.check()
    return summary(samples, f"{kind}/{name}", name, f"{rows} x {d}",
                   "cold" if large else "warm", 3 * rows * d * dtype.itemsize)


def limits(kernel, quick):
    """Measure the kernel from one element to 1.6 GB moved, on one thread and on all."""
    for threads in sorted({1, os.cpu_count()}):
        torch.set_num_threads(threads)
        for name, dtype in DTYPES.items():
            for power in range(0, 19 if quick else 28, 3):
                n = 2 ** power
                d = min(n, 8192)
                size = 3 * n * dtype.itemsize
                members = Members(kernel, dtype, n // d, d,
                                  streaming=n * dtype.itemsize > 4 << 20)
                members.check()
                samples = members.time(5 if quick else 15, 0.01)
                yield summary(samples, f"limits/{name}/{threads}", name,
                              f"{n // d} x {d}", "warm" if size < 2 ** 24 else
                              "cold", size)


def summary(samples, name, dtype, shape, cache, size):
    """Return the summary of what Members.time() returned; the first is the floor."""
    floor = next(iter(samples))
    members = [ratios.Member(
        member, "floor" if member == floor else
        "subject" if member == "solution" else "peer", mine, {})
        for member, mine in samples.items()]
    group = ratios.make_group(name, dtype, shape, cache, size,
                              torch.get_num_threads(), members)
    print(ratios.table(group), end="", flush=True)
    return group


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    release = Path(__file__).resolve().parents[2] / "build/release"
    parser.add_argument("--library", type=Path, help="the variant's library",
                        default=next(release.glob(
                            "solutions/08_hub_packaging/torch*-cpu-*/*.so"), None))
    parser.add_argument("--floor", help="the library with the floor's op",
                        default=release / "tests/08_hub_packaging_bench.so")
    parser.add_argument("--peer", help="what hub_checkouts.py peer has built")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--limits", action="store_true", help="all sizes, "
                        "from one element, instead of four")
    arguments = parser.parse_args()
    if arguments.library is None:
        parser.error("no variant is built: ./workbook bench 08 builds one")
    os.environ["HF_HUB_OFFLINE"] = "1"
    from kernels import get_local_kernel
    kernel = get_local_kernel(arguments.library.parent.resolve(), backend="cpu")
    for library in filter(None, (arguments.floor, arguments.peer)):
        torch.ops.load_library(library)

    result = {
        "schema": 1, "chapter": "08_hub_packaging",
        "date": datetime.date.today().isoformat(), "quick": arguments.quick,
        "hardware": stamp.machine(), "software": {
            "compiler": "of the package: see its library",
            "libtorch": torch.__version__.split("+")[0],
            "headers": "", "target": "2.10", "os": stamp.system()}}
    print(ratios.heading(result), end="")
    measured = limits if arguments.limits else four_sizes
    result["groups"] = list(measured(kernel, arguments.quick))
    if arguments.json:
        arguments.json.write_text(ratios.text(result))


def four_sizes(kernel, quick):
    shapes = {"small": (1, 4096), "cache": (32, 1024), "dram": (4096, 8192)}
    if quick:
        shapes["dram"] = (2048, 8192)
    yield call_group(kernel, quick)
    for kind, (rows, d) in shapes.items():
        for dtype in ["bfloat16"] if quick else DTYPES:
            yield group(kernel, kind, dtype, rows, d, quick)


if __name__ == "__main__":
    main()
