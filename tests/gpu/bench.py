"""Measures chapter 07 on a GPU: the solution beside its own steps, a kernel of
the same traffic, an empty one, ATen, torch.compile, and kernels in the style of
vLLM, FlashInfer and sglang, all in one run. Needs torch with CUDA.

    bench.py --library libcuda_activation_kernel.so --versions libversions.so
             [--json FILE] [--seconds N] [--quick]

Every member is a CUDA graph of N calls over buffers that are used in turn, as
many as hold five times the L2 cache, so that no call finds its operands there;
but at most 512, so that the smallest do ("L2").
Graphs are replayed in turn, A B B A, and timed by CUDA events; a member's ratio
is its time over the floor's next to it, and the median over the repetitions is
given with its quartiles. The floor is the same traffic without arithmetic; up
to 1 MB it is an empty kernel in the same graph. "solution again" shows how far
two equal members are apart. An engine's kernel has, for each shape, the block
size that is best for it. Results are checked before and after. FILE is written
after each shape. Exit status 77: there is no GPU, so the kernels were compiled,
not run.
"""

import argparse
import ctypes
import statistics
import subprocess
import sys
import time
from pathlib import Path

from device import exact, has_gpu, ulps
from measure import write

EMPTY, COPY, MINE, AGAIN = "empty", "same traffic", "solution", "solution again"
STEPS = ["plain", "32 bits", "16 bytes", "fast arithmetic"]
# Threads of a block: the engine's own first, then what else is tried.
ENGINES = {"vLLM style": (1024, 512, 256, 128),
           "FlashInfer style": (256, 512, 128),
           "FlashInfer style, PDL": (256, 512, 128),
           "sglang style": (256, 512, 128),
           "sglang style, PDL": (256, 512, 128)}
# From 4 KB to 4 GB of 16 bits; what is worth most comes first.
BFLOAT16 = [(1, 704), (16, 4096), (16384, 14336), (1, 14336), (256, 14336),
            (4096, 14336), (16, 10240), (1, 4096), (1024, 14336),
            (8192, 14336), (49152, 14336)]
GROUPS = [*(("bfloat16", *shape) for shape in BFLOAT16),
          *((dtype, *shape) for shape in BFLOAT16[:6]
            for dtype in ("float", "half"))]
SMALL = 1 << 20  # bytes, up to which the floor is an empty kernel
TURNS, SECONDS = 40, 4.0  # of a group: whichever ends first


def summary(name: str, role: str, ratios: list, seconds: list, **more) -> dict:
    low, middle, high = statistics.quantiles(ratios, n=4)
    return {"name": name, "role": role, "ratio": middle, "low": low,
            "high": high, "repetitions": len(ratios),
            "seconds": statistics.median(seconds), **more}


def role(name: str, floor: str) -> str:
    return {floor: "floor", MINE: "subject", AGAIN: "again"}.get(
        name, "step" if name in (*STEPS, COPY) else "peer")


def compare(names: list[str], seconds, turns: int, limit: float) -> dict:
    """{name: (ratios to the first, seconds)}; seconds(name) replays once."""
    floor = names[0]
    ratios: dict = {name: [] for name in names}
    times: dict = {name: [] for name in names}
    end = time.monotonic() + limit
    for turn in range(turns):
        for name in names if turn % 2 == 0 else names[::-1]:
            before, here, mine, after = (
                seconds(n) for n in (floor, name, name, floor))
            ratios[name].append((here + mine) / (before + after))
            times[name].append((here + mine) / 2)
        if turn >= 7 and time.monotonic() > end:
            break
    return {name: (ratios[name], times[name]) for name in names}


def query(what: str) -> str:
    try:
        done = subprocess.run(
            ["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader"],
            text=True, capture_output=True)
    except OSError:
        return "unknown"
    return done.stdout.strip().split("\n")[0]


class Run:
    def __init__(self, options):
        import torch
        self.torch = torch
        torch.ops.load_library(options.library)
        self.version = ctypes.CDLL(options.versions).wb07_version
        self.version.argtypes = [
            ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p,
            ctypes.c_int64, ctypes.c_int64, ctypes.c_int, ctypes.c_void_p]
        self.quick = options.quick
        self.cache = 5 * torch.cuda.get_device_properties(0).L2_cache_size

    def _formula(self, x):
        gate, up = x.chunk(2, dim=-1)
        return self.torch.nn.functional.silu(gate) * up

    def _aten(self, x, out):
        d = out.shape[1]
        self.torch.ops.aten.silu.out(x[:, :d], out=out)
        out.mul_(x[:, d:])

    def _solution(self, x, out):
        self.torch.ops.wb07.silu_and_mul.out(out, x)

    def _seconds(self, run) -> float:
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3

    def _plan(self, size: int) -> tuple[int, int]:
        """Return how many buffers there are, and calls in a graph."""
        copies = 1 if size >= self.cache else min(512, -(-self.cache // size))
        return copies, max(copies, 64 if size <= SMALL else 4)

    def _of_version(self, name: str, dtype: str, threads: int = 256):
        def call(x, out):
            code = self.version(
                name.encode(), dtype.encode(), x.data_ptr(), out.data_ptr(),
                out.shape[0], out.shape[1], threads,
                self.torch.cuda.current_stream().cuda_stream)
            assert code == 0, (name, dtype, threads, code)
        return call

    def _calls(self, dtype: str, small: bool) -> dict:
        """Return {member: call(input, out)}, the floor first."""
        torch = self.torch
        names = [*([EMPTY, COPY] if small else [COPY]), *STEPS]
        found = {name: self._of_version(name, dtype) for name in names}
        found.update({MINE: self._solution, AGAIN: self._solution, "ATen": self._aten})
        try:
            import triton  # noqa: F401
            torch._dynamo.reset()  # a shape is compiled for itself
            compiled = torch.compile(self._formula, dynamic=False)
            results = []  # kept, so that each has its own memory, as the others'
            found["torch.compile"] = lambda x, out: results.append(compiled(x))
        except ImportError:
            pass
        return found

    def _check(self, name: str, call, input, out) -> None:
        """Check some rows: all of them in double would take too much memory."""
        rows = [*range(min(32, len(out))), len(out) - 1]
        if name in (EMPTY, COPY, "torch.compile"):
            return
        out.fill_(-77)
        call(input, out)
        # Who rounds silu before the product is off by up to an ulp more; and in
        # float __expf by dozens.
        peer = name in (*ENGINES, "ATen")
        most = (64 if peer else 8) if out.dtype.itemsize == 4 else \
            1.6 if peer else 0.51
        off = ulps(out[rows], exact(input[rows]))
        assert off <= most, (name, off)

    def _graph(self, call, inputs, outs, nodes: int):
        torch = self.torch
        side = torch.cuda.Stream()  # capture wants one of its own
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                call(inputs[0], outs[0])
        side.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for i in range(nodes):
                call(inputs[i % len(inputs)], outs[i % len(outs)])
        return graph

    def group(self, dtype: str, rows: int, d: int) -> dict:
        torch = self.torch
        kind = getattr(torch, dtype)
        size = rows * d * 3 * kind.itemsize
        small = size <= SMALL
        copies, nodes = self._plan(size)
        inputs = [torch.randn(rows, 2 * d, device="cuda", dtype=kind)
                  for _ in range(copies)]
        outs = [torch.empty(rows, d, device="cuda", dtype=kind)
                for _ in range(copies)]
        graphs, blocks = {}, {}

        def seconds(name):
            return self._seconds(graphs[name].replay) / nodes

        members = self._calls(dtype, small)
        for name, sizes in ENGINES.items():
            tried = {}
            for threads in sizes:
                call = self._of_version(name, dtype, threads)
                graphs[name] = self._graph(call, inputs, outs, nodes)
                seconds(name)
                tried[threads] = min(seconds(name) for _ in range(5))
            best = min(tried, key=tried.get)
            blocks[name] = {"block": best, "own": sizes[0],
                            "own_over_best": tried[sizes[0]] / tried[best]}
            members[name] = self._of_version(name, dtype, best)
        missing = {}
        for name, call in list(members.items()):
            try:
                self._check(name, call, inputs[0], outs[0])
                graphs[name] = self._graph(call, inputs, outs, nodes)
                seconds(name)
            except Exception as error:
                if role(name, next(iter(members))) != "peer":
                    raise
                missing[name] = repr(error)[-500:]  # as where no compiler is
                del members[name]
                print(f"{name} is left out: {missing[name]}", flush=True)
        names = list(members)
        found = compare(names, seconds, 8 if self.quick else TURNS, SECONDS)
        for name, call in members.items():
            self._check(name, call, inputs[0], outs[0])
        result = [summary(name, role(name, names[0]), *found[name],
                          **blocks.get(name, {})) for name in names]
        copy, = (m for m in result if m["name"] == COPY)
        clocks = query("clocks.sm,clocks.mem,temperature.gpu,power.draw")
        print(f"\n{dtype} {rows} x {d}, {size / 1e6:.4g} MB, {copies} buffers, "
              f"graph of {nodes}; {COPY} {copy['seconds'] * 1e6:.2f} us, "
              f"{size / copy['seconds'] / 1e9:.0f} GB/s; {clocks}")
        for row in result[1:]:
            block = f"  blocks of {row['block']}" if "block" in row else ""
            print(f"  {row['name']:18} {row['ratio']:7.3f}  "
                  f"({row['low']:.3f} to {row['high']:.3f}){block}")
        return {"name": f"{dtype}/{rows}x{d}", "dtype": dtype,
                "shape": f"{rows} x {d}",
                "cache": "cold" if copies * size >= self.cache / 2 else "L2",
                "bytes": size,
                "threads": 0, "floor": names[0], "clocks": clocks,
                "floor_gb_per_s": size / copy["seconds"] / 1e9,
                "members": result, "missing": missing}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--versions", required=True)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seconds", type=float, default=440,
                        help="no shape is begun after that")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if not has_gpu():
        return 77
    import torch
    begin = time.monotonic()
    run = Run(options)
    result: dict = {"groups": [], "left_out": []}
    wrong = []
    for shape in GROUPS[:3] if options.quick else GROUPS:
        name = "{} {} x {}".format(*shape)
        free, _ = torch.cuda.mem_get_info()
        kind = getattr(torch, shape[0])
        if time.monotonic() - begin > options.seconds or \
                free < 3 * 3 * kind.itemsize * shape[1] * shape[2]:
            result["left_out"].append(name)
            continue
        try:
            result["groups"].append(run.group(*shape))
        except Exception as error:  # the other shapes go on
            wrong.append(f"{name}: {error!r}")
            result["left_out"].append(name)
            print(wrong[-1], flush=True)
        torch.cuda.empty_cache()
        if options.json:
            write(options.json, result)
    if result["left_out"]:
        print("left out:", ", ".join(result["left_out"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
