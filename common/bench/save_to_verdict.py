"""How long from saving a file to its verdict, beside the same loop for a file
that includes <torch/extension.h>: save, compile, link, load, call, in one run.

    ./workbook must have been run before; then
    TORCH_ROOT=... .venv/bin/python common/bench/save_to_verdict.py [OUT.json]

Ours: `./workbook check 01` on a copy of the solution, with sanitizers, each
time with another comment in headeronly_types.cpp. Theirs: the same element
function behind pybind11, -O0, without sanitizers, one test call from Python.
"""

import datetime
import json
import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
import stamp  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
OURS, THEIRS = 10, 3

EXTENSION = """#include <torch/extension.h>
#include <cmath>

at::Tensor silu_and_mul(const at::Tensor& input) {
  auto halves = input.chunk(2, -1);
  return at::silu(halves[0]) * halves[1];
}

PYBIND11_MODULE(loop_ext, m) { m.def("silu_and_mul", &silu_and_mul); }
"""


def seconds(*commands, **options):
    start = time.monotonic()
    for command in commands:
        subprocess.run(list(map(str, command)), check=True, text=True,
                       stdout=subprocess.DEVNULL, **options)
    return time.monotonic() - start


def ours(folder: Path) -> list[float]:
    source = ROOT / "solutions/01_headeronly_types"
    for path in source.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    edited = folder / "headeronly_types.cpp"
    text = edited.read_text()
    check = [ROOT / "workbook", "check", "01", "--impl", folder]
    seconds(check)  # configures, and compiles what is not edited
    times = []
    for i in range(OURS):
        edited.write_text(f"{text}// save {i} {os.getpid()}\n")
        times.append(seconds(check))
    return times


def theirs(folder: Path) -> list[float]:
    torch = Path(os.environ["TORCH_ROOT"])
    include = torch / "include"
    source = folder / "loop_ext.cpp"
    compile = [
        "g++", "-std=c++20", "-O0", "-fPIC", "-shared", source,
        "-o", folder / "loop_ext.so", f"-I{include}",
        f"-I{include}/torch/csrc/api/include",
        f"-I{sysconfig.get_path('include')}", "-DTORCH_EXTENSION_NAME=loop_ext",
        f"-L{torch}/lib", "-ltorch_python", "-ltorch_cpu", "-lc10", "-ltorch"]
    call = [sys.executable, "-c",
            "import torch, loop_ext; x = torch.randn(2, 8);"
            "assert loop_ext.silu_and_mul(x).shape == (2, 4)"]
    times = []
    for i in range(THEIRS):
        source.write_text(f"{EXTENSION}// save {i}\n")
        times.append(seconds(compile, call, cwd=folder,
                             stderr=subprocess.DEVNULL))
    return times


def main() -> None:
    with tempfile.TemporaryDirectory() as one, \
            tempfile.TemporaryDirectory() as two:
        here, there = ours(Path(one)), theirs(Path(two))
    result = {
        "schema": 1, "what": "save to verdict, seconds",
        "date": datetime.date.today().isoformat(),
        "hardware": stamp.hardware(),
        "ours": {"median": statistics.median(here), "all": here},
        "torch/extension.h": {"median": statistics.median(there), "all": there},
        "ratio": statistics.median(here) / statistics.median(there)}
    print(f"ours {result['ours']['median']:.2f} s, torch/extension.h "
          f"{statistics.median(there):.1f} s: 1/{1 / result['ratio']:.0f}")
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
