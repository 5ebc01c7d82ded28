"""Measures chapter 07 on a GPU: the solution beside its own steps, a kernel of
the same traffic, an empty one, ATen, torch.compile, and kernels in the style of
vLLM, FlashInfer and sglang, all in one run. Needs torch with CUDA.

    bench.py --library libcuda_activation_kernel.so --versions libversions.so
             [--json FILE] [--quick]

Every member is a CUDA graph of N calls over buffers that are used in turn, as
many as hold five times the L2 cache, so that no call finds its operands there.
Graphs are replayed in turn, A B B A, and timed by CUDA events; a member's ratio
is its time over the floor's next to it, and the median over the repetitions is
given with its quartiles. The floor is the same traffic without arithmetic; up
to 1 MB it is an empty kernel in the same graph. Results are checked before and
after. Exit status 77: there is no GPU, so the kernels were compiled, not run.
"""

import argparse
import ctypes
import datetime
import json
import statistics
import subprocess
import sys
from pathlib import Path

EMPTY = "empty"
STEPS = ["naive", "16 bytes", "in flight", "shaped"]
PEERS = ["vLLM style", "FlashInfer style", "sglang style", "four in flight"]
SHAPES = [(1, 4096), (1, 14336), (16, 4096), (16, 10240), (256, 14336),
          (4096, 14336), (8192, 14336), (16384, 14336)]


def query(what: str) -> str:
    done = subprocess.run(
        ["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader"],
        text=True, capture_output=True)
    return done.stdout.strip().splitlines()[0] if done.stdout else "unknown"


class Run:
    def __init__(self, options):
        import torch
        self.torch = torch
        torch.ops.load_library(options.library)
        self.version = ctypes.CDLL(options.versions).wb07_version
        self.version.argtypes = [ctypes.c_char_p, ctypes.c_void_p,
                                 ctypes.c_void_p, ctypes.c_int64,
                                 ctypes.c_int64, ctypes.c_void_p]
        self.quick = options.quick
        self.properties = torch.cuda.get_device_properties(0)
        try:
            import triton  # noqa: F401
            self.compiled = torch.compile(self._formula, dynamic=False)
        except ImportError:
            self.compiled = None

    def _formula(self, x):
        gate, up = x.chunk(2, dim=-1)
        return self.torch.nn.functional.silu(gate) * up

    def calls(self, small: bool) -> dict:
        """{member: call(input, out)}"""
        torch = self.torch

        def of_version(name):
            def call(x, out):
                code = self.version(
                    name.encode(), x.data_ptr(), out.data_ptr(), out.shape[0],
                    out.shape[1], torch.cuda.current_stream().cuda_stream)
                assert code == 0, (name, code)
            return call

        def aten(x, out):
            d = out.shape[1]
            torch.ops.aten.silu.out(x[:, :d], out=out)
            out.mul_(x[:, d:])

        names = [EMPTY if small else "same traffic", *STEPS, *PEERS,
                 *(["same traffic"] if small else [])]
        found = {name: of_version(name) for name in names}
        found["solution"] = lambda x, out: torch.ops.wb07.silu_and_mul(out, x)
        found["ATen"] = aten
        if self.compiled is not None:
            found["torch.compile"] = lambda x, out: self.compiled(x)
        return found

    def group(self, rows: int, d: int) -> dict:
        torch = self.torch
        size = rows * d * 6
        small = size <= 1 << 20
        cache = 5 * self.properties.L2_cache_size
        copies = 1 if size >= cache else min(512, -(-cache // size))
        nodes = max(copies, 64 if small else 4)
        inputs = [torch.randn(rows, 2 * d, device="cuda", dtype=torch.bfloat16)
                  for _ in range(copies)]
        outs = [torch.empty(rows, d, device="cuda", dtype=torch.bfloat16)
                for _ in range(copies)]
        wanted = self._formula(inputs[0].double())
        members = self.calls(small)
        graphs = {}

        def wrong(name, call):
            if name in (EMPTY, "same traffic", "torch.compile"):
                return
            outs[0].fill_(-77)
            call(inputs[0], outs[0])
            off = (outs[0].double() - wanted).abs() / \
                (wanted.abs() * 2.0 ** -7 + 2.0 ** -126)
            limit = 2 if name in ("ATen", "vLLM style") else 1
            assert off.max() <= limit, (name, rows, d, off.max().item())

        for name, call in members.items():
            wrong(name, call)
            side = torch.cuda.Stream()  # capture wants one of its own
            with torch.cuda.stream(side):
                for _ in range(3):
                    call(inputs[0], outs[0])
            side.synchronize()
            graphs[name] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graphs[name]):
                for i in range(nodes):
                    call(inputs[i % copies], outs[i % copies])

        def seconds(name):
            begin, end = (torch.cuda.Event(enable_timing=True)
                          for _ in range(2))
            begin.record()
            graphs[name].replay()
            end.record()
            end.synchronize()
            return begin.elapsed_time(end) / 1e3 / nodes

        floor = next(iter(members))
        for name in graphs:  # warm
            seconds(name)
        ratios = {name: [] for name in members}
        times = {name: [] for name in members}
        for turn in range(6 if self.quick else 40):
            order = list(members) if turn % 2 == 0 else list(members)[::-1]
            for name in order:
                before, here, mine = (seconds(n) for n in (floor, name, name))
                after = seconds(floor)
                ratios[name].append((here + mine) / (before + after))
                times[name].append((here + mine) / 2)
        for name, call in members.items():
            wrong(name, call)
        result = []
        for name in members:
            low, middle, high = statistics.quantiles(ratios[name], n=4)
            role = {floor: "floor", "solution": "subject"}.get(name, "peer")
            result.append({
                "name": name, "role": role, "ratio": middle, "low": low,
                "high": high, "repetitions": len(ratios[name]),
                "seconds": statistics.median(times[name])})
        rate = size / result[0]["seconds"] / 1e9
        print(f"\nbfloat16 {rows} x {d}, {size / 1e6:.1f} MB, {copies} buffers, "
              f"graph of {nodes}; floor {floor}: "
              f"{result[0]['seconds'] * 1e6:.2f} us, {rate:.0f} GB/s")
        for row in result[1:]:
            print(f"  {row['name']:18} {row['ratio']:7.3f}  "
                  f"({row['low']:.3f} to {row['high']:.3f})")
        return {"name": f"{rows}x{d}", "dtype": "bfloat16",
                "shape": f"{rows} x {d}", "cache": "cold", "bytes": size,
                "threads": 0, "floor": floor, "floor_gb_per_s": rate,
                "members": result}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--versions", required=True)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    try:
        import torch
        there = torch.cuda.is_available()
    except ImportError:
        there = False
    if not there:
        print("compiled, not run: there is no GPU here that torch can use")
        return 77
    run = Run(options)
    clocks = "clocks.sm,clocks.max.sm,clocks.mem,temperature.gpu,power.draw"
    before = query(clocks)
    groups = [run.group(*shape) for shape in
              (SHAPES[:1] + SHAPES[4:5] if options.quick else SHAPES)]
    result = {
        "schema": 1, "chapter": "07_cuda_activation_kernel",
        "date": str(datetime.date.today()), "quick": options.quick,
        "hardware": {"gpu": run.properties.name,
                     "multiprocessors": run.properties.multi_processor_count,
                     "l2_mb": run.properties.L2_cache_size / 1e6,
                     "clocks": {"of": clocks, "before": before,
                                "after": query(clocks)}},
        "software": {"torch": torch.__version__, "cuda": torch.version.cuda,
                     "driver": query("driver_version")},
        "groups": groups}
    print(f"\n{run.properties.name}; {clocks}: before {before}, after "
          f"{result['hardware']['clocks']['after']}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
