"""What ./workbook trace --summary costs: a model's step without it and with it, in
turn, each in processes of its own. It writes docs/results/trace.json.

    PYTHONPATH=common docs/tools/trace_cost.py    by the Python that has torch
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from base import stamp
from base.project import ROOT
from torch_stable_abi.libtorch.installed import torch_version
from torch_stable_abi.trace import library as tracer

# Two layers of a transformer, their gated units by chapter 04's op and its
# gradient; then the op alone, on a row of cached shape and on nothing.
STEP = """
import statistics, sys, time, torch
from torch import nn
torch.ops.load_library(sys.argv[1])
op = torch.ops.wb04
torch.set_num_threads(1)
torch.manual_seed(0)

class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return op.silu_and_mul(x)
    @staticmethod
    def backward(ctx, grad):
        return op.silu_and_mul_backward(grad.contiguous(), *ctx.saved_tensors)

class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.attention = nn.MultiheadAttention(d, 4, batch_first=True)
        self.norms = nn.ModuleList([nn.LayerNorm(d), nn.LayerNorm(d)])
        self.up, self.down = nn.Linear(d, 8 * d // 3 * 2), nn.Linear(8 * d // 3, d)
    def forward(self, x):
        y = self.norms[0](x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.down(Gated.apply(self.up(self.norms[1](x))))

model = nn.Sequential(Layer(192), Layer(192))
x = torch.randn(4, 64, 192)
def step():
    model(x).square().mean().backward()
def timed(f, times, repeats):
    for _ in range(repeats): f()
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        for _ in range(repeats): f()
        seconds.append((time.perf_counter() - start) / repeats)
    return min(seconds)
row, small = torch.randn(32, 2048), torch.randn(1, 2)
print(timed(step, 15, 2), timed(lambda: op.silu_and_mul(row), 30, 200),
      timed(lambda: op.silu_and_mul(small), 30, 200))
"""
WHAT = ["a step of two transformer layers, forward and backward",
        "silu_and_mul of 32 x 2048 floats", "silu_and_mul of two floats"]
REPEATS = 5


def times(words: list[str]) -> list[float]:
    done = subprocess.run(words, text=True, capture_output=True, check=True, env={
        **os.environ, "PYTHONPATH": str(Path(os.environ["TORCH_ROOT"]).parent)})
    return [float(word) for word in done.stdout.split()]


def main() -> None:
    tracer.library()
    with tempfile.TemporaryDirectory() as folder:
        for command in (["cmake", "-G", "Ninja", "-S",
                         ROOT / "solutions/04_boxed_kernels", "-B", folder,
                         f"-DTORCH_ROOT={os.environ['TORCH_ROOT']}"],
                        ["cmake", "--build", folder]):
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        library, = Path(folder).glob("*.so")
        plain = [sys.executable, "-c", STEP, str(library)]
        traced = [str(ROOT / "workbook"), "trace", "--summary", "--", *plain]
        runs = [(times(plain), times(traced)) for _ in range(REPEATS)]
    rows = []
    for i, what in enumerate(WHAT):
        ratios = [with_it[i] / without[i] for without, with_it in runs]
        rows.append({"what": what,
                     "microseconds": round(1e6 * statistics.median(
                         without[i] for without, _ in runs), 1),
                     "ratio": round(statistics.median(ratios), 2),
                     "low": round(min(ratios), 2), "high": round(max(ratios), 2)})
        print(rows[-1])
    (ROOT / "docs/results/trace.json").write_text(json.dumps({
        "hardware": stamp.machine(), "torch": torch_version(), "repeats": REPEATS,
        "rows": rows}, indent=1) + "\n")


main()
