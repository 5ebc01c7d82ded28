"""How long from saving a file to its verdict, in each chapter, beside the same
loop for a file that includes <torch/extension.h>: save, compile, link, load,
call, in one run. On a quiet machine, where ./workbook test has been run:

    TORCH_ROOT=TORCH .venv/bin/python common/bench/save_to_verdict.py \\
        docs/results/save_to_verdict.json [NN...]

Ours: `./workbook check NN` on a copy of the solution, with sanitizers, ten
times (08: three), each with another comment in the file that most steps edit.
Theirs: one function behind pybind11, -O0, no sanitizers, one call from Python.
"""

import collections
import datetime
import json
import os
import resource
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
sys.path.insert(0, str(ROOT / "common/tool"))
from workspace import (chapters, find_chapter, implementation_build,  # noqa: E402
                       read_json, source_files, torch_version)
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


def comment(file: Path, text: str) -> str:
    return ("# " if file.suffix in (".py", ".txt") else "// ") + text


def ours(chapter, folder: Path) -> dict:
    """Saves of the file that most of the chapter's steps edit."""
    for path in source_files(chapter.solution):
        copy = folder / path.relative_to(chapter.solution)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    name = collections.Counter(
        step.file for step in chapter.steps).most_common(1)[0][0]
    edited = folder / name
    text = edited.read_text()
    check = [ROOT / "workbook", "check", chapter.number, "--impl", folder]
    seconds(check)  # configures, and compiles what is not edited
    times, parts, before = [], [], resource.getrusage(resource.RUSAGE_CHILDREN)
    for i in range(OURS if chapter.number < "08" else THEIRS):
        edited.write_text(f"{text}{comment(edited, f'save {i} {os.getpid()}')}\n")
        times.append(seconds(check))
        parts.append(read_json(
            implementation_build(folder) / "verdict.json")["seconds"])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"chapter": chapter.number, "edited": name, "all": times,
            "median": statistics.median(times), "cpu": cpu / len(times),
            **{part: statistics.median(p[part] for p in parts)
               for part in ("build", "test")}}


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
    load = os.getloadavg()[0]
    rows = []
    for number in sys.argv[2:] or [c.number for c in chapters()]:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(ours(find_chapter(number), Path(folder)))
            print(f"{number} {rows[-1]['median']:.2f} s, {rows[-1]['cpu']:.2f} s "
                  "of CPU", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        there = theirs(Path(folder))
    result = {
        "schema": 2, "what": "save to verdict, seconds",
        "date": datetime.date.today().isoformat(),
        "hardware": {**stamp.hardware(), "load": f"{load:.1f}"},
        "compiler": stamp.compiler(),
        "libtorch": torch_version(), "chapters": rows,
        "torch/extension.h": {"median": statistics.median(there), "all": there}}
    print(f"torch/extension.h {statistics.median(there):.1f} s")
    if len(sys.argv) > 1 and sys.argv[1] != "-":
        Path(sys.argv[1]).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
