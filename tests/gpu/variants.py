"""Measures on a GPU what chapter 07's kernel might be instead: the variants of
variants.cu beside the solution, alone and within a small network.

    variants.py --library libcuda_activation_kernel.so --versions libversions.so
                --variants libvariants.so [--json FILE]

Graphs, buffers and pairs are those of bench.py; a ratio is a variant's time over
the solution's. Results are compared to the bit with the solution's. In a network
each call stands between two products of matrices, and a ratio is that of a whole
layer: as one graph, and launch by launch, behind a kernel that lasts until all are
queued. Exit status 77: there is no GPU.
"""

import argparse
import ctypes
import sys
from pathlib import Path

import bench
from device import has_gpu
from measure import write

# Each has: vectors a thread, bytes of a vector, threads a block, how it reads and
# writes (0: plainly, 1: evicted first, 2: past L1), blocks a multiprocessor that stay,
# overlap (1: waits, 2: and lets the next launch begin). The solution is 1, 16, 128, 0.
VARIANTS = {
    "two vectors in flight": (2, 16, 128, 0, 0, 0, 0),
    "four vectors in flight": (4, 16, 128, 0, 0, 0, 0),
    "32 bytes side by side": (1, 32, 128, 0, 0, 0, 0),
    "8 bytes": (1, 8, 128, 0, 0, 0, 0),
    "4 bytes": (1, 4, 128, 0, 0, 0, 0),
    "2 bytes": (1, 2, 128, 0, 0, 0, 0),
    "blocks of 64": (1, 16, 64, 0, 0, 0, 0),
    "blocks of 256": (1, 16, 256, 0, 0, 0, 0),
    "blocks of 512": (1, 16, 512, 0, 0, 0, 0),
    "reads evicted first": (1, 16, 128, 1, 0, 0, 0),
    "reads past L1": (1, 16, 128, 2, 0, 0, 0),
    "writes evicted first": (1, 16, 128, 0, 1, 0, 0),
    "blocks that stay": (1, 16, 256, 0, 0, 8, 0),
    "overlap: waits": (1, 16, 128, 0, 0, 0, 1),
    "overlap: waits, releases": (1, 16, 128, 0, 0, 0, 2)}
OVERLAPS = [name for name in VARIANTS if "overlap" in name]
ROWS = {"a grid of rows": 16, "a grid of rows, 8 bytes": 8}
TRANSFORM = "cub::DeviceTransform"
SHAPES = [(1, 704), (1, 14336), (16, 4096), (16, 10240), (64, 14336),
          (256, 14336), (4096, 14336), (16384, 14336)]
NETWORKS = [(16, 1024, 2816), (16, 4096, 14336)]  # tokens, width, inner width


class Run(bench.Run):
    def __init__(self, options):
        super().__init__(options)
        library = ctypes.CDLL(options.variants)
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        self.multiprocessors = self.torch.cuda.get_device_properties(
            0).multi_processor_count
        self.variant = library.wb07_variant
        self.variant.argtypes = [pointer, pointer, number, number,
                                 *[ctypes.c_int] * 7, pointer]
        self.rows = library.wb07_rows
        self.rows.argtypes = [pointer, pointer, number, number, ctypes.c_int,
                              pointer]
        self.transform = library.wb07_transform
        self.transform.argtypes = [pointer, pointer, number, pointer]

    def _stream(self):
        return self.torch.cuda.current_stream().cuda_stream

    def _of_variant(self, numbers):
        *others, blocks, overlap = numbers
        blocks *= self.multiprocessors

        def call(x, out):
            code = self.variant(x.data_ptr(), out.data_ptr(), *out.shape,
                                *others, blocks, overlap, self._stream())
            assert code == 0, (numbers, code)
        return call

    def _of_rows(self, width):
        def call(x, out):
            code = self.rows(x.data_ptr(), out.data_ptr(), *out.shape, width,
                             self._stream())
            assert code == 0, (width, code)
        return call

    def _of_transform(self, x, out):
        code = self.transform(x.data_ptr(), out.data_ptr(), out.numel(),
                              self._stream())
        assert code == 0, code

    def shape(self, rows: int, d: int) -> dict:
        torch = self.torch
        size = rows * d * 6
        copies, nodes = self._plan(size)
        inputs = [torch.randn(rows, 2 * d, device="cuda", dtype=torch.bfloat16)
                  for _ in range(copies)]
        outs = [torch.empty(rows, d, device="cuda", dtype=torch.bfloat16)
                for _ in range(copies)]
        wanted = torch.empty_like(outs[0])
        self._solution(inputs[0], wanted)
        members = {bench.MINE: self._solution, bench.AGAIN: self._solution}
        members.update({n: self._of_variant(v) for n, v in VARIANTS.items()})
        members.update({n: self._of_rows(width) for n, width in ROWS.items()})
        if rows == 1:
            members[TRANSFORM] = self._of_transform
        graphs = {}
        for name, call in members.items():
            outs[0].fill_(-77)
            call(inputs[0], outs[0])
            assert torch.equal(outs[0], wanted), name
            graphs[name] = self._graph(call, inputs, outs, nodes)
        if size <= bench.SMALL:  # each behind a kernel that releases nothing
            empty = self._of_version(bench.EMPTY, "bfloat16")
            for name in (bench.MINE, OVERLAPS[-1]):
                def both(x, out, call=members[name]):
                    empty(x, out)
                    call(x, out)
                graphs[f"empty kernel, {name}"] = self._graph(
                    both, inputs, outs, nodes)
        return self._result(
            f"{rows} x {d}", graphs,
            lambda name: self._seconds(graphs[name].replay) / nodes, bytes=size)

    def network(self, rows: int, width: int, d: int) -> dict:
        torch = self.torch
        layers = max(2, int(self.cache / (width * d * 6)))
        kind = {"device": "cuda", "dtype": torch.bfloat16}
        widen = [torch.randn(width, 2 * d, **kind) / 64 for _ in range(layers)]
        narrow = [torch.randn(d, width, **kind) / 64 for _ in range(layers)]
        x, out = torch.randn(rows, width, **kind), torch.empty(rows, width, **kind)
        inner, acted = (torch.empty(rows, n * d, **kind) for n in (2, 1))
        members = {bench.MINE: self._solution,
                   **{n: self._of_variant(VARIANTS[n]) for n in
                      ("two vectors in flight", *OVERLAPS)},
                   "sglang style, PDL": self._of_version(
                       "sglang style, PDL", "bfloat16"),
                   "ATen": self._aten,
                   "an empty kernel": self._of_version(bench.EMPTY, "bfloat16")}

        def layer(act):
            def call(w, n):
                torch.mm(x, w, out=inner)
                act(inner, acted)
                torch.mm(acted, n, out=out)
            return call

        def launched(act):
            def run():
                for pair in zip(widen, narrow):
                    layer(act)(*pair)
            return run
        runs = {n: self._graph(layer(act), widen, narrow, layers).replay
                for n, act in members.items()}
        runs.update({f"launched: {n}": launched(act) for n, act in members.items()})

        def seconds(name):
            if name.startswith("launched: "):
                torch.cuda._sleep(8_000_000)  # until all are queued
            return self._seconds(runs[name]) / layers
        return self._result(f"{rows} x {width} x {d}", runs, seconds, layers=layers)

    def _result(self, shape: str, names, seconds, **more) -> dict:
        for name in names:
            seconds(name)
        found = bench.compare(list(names), seconds, bench.TURNS, bench.SECONDS)
        rows = [bench.summary(name, "", *found[name]) for name in names]
        print(f"\n{shape}")
        for row in rows:
            print(f"  {row['name']:40} {row['ratio']:.3f} ({row['low']:.3f} to "
                  f"{row['high']:.3f}) {row['seconds'] * 1e6:.2f} us", flush=True)
        return {"shape": shape, **more, "members": rows}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    for name in ("library", "versions", "variants"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.quick = False
    if not has_gpu():
        return 77
    run = Run(options)
    result: dict = {"variants": [], "networks": []}
    wrong = []
    for what, call, shapes in (("networks", run.network, NETWORKS),
                               ("variants", run.shape, SHAPES)):
        for shape in shapes:
            try:
                result[what].append(call(*shape))
            except Exception as error:  # the others go on
                wrong.append(f"{shape}: {error!r}")
                print(wrong[-1], flush=True)
            run.torch.cuda.empty_cache()
            if options.json:
                write(options.json, result)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
