"""Records what eager, opcheck, torch.compile and export make of each shape of
schema, on each torch, in docs/results/compiled.json. It installs each torch for
Python first: 6 GB each where that is CUDA's.

    PYTHONPATH=common:tests/abi .venv/bin/python docs/tools/compiled/record.py
"""

import datetime
import json
import os
import subprocess
import tempfile
from pathlib import Path

import snippets
from base import stamp
from base.project import ROOT
from torch_stable_abi.libtorch import extension, runtimes
from torch_stable_abi.libtorch.installed import torch_root
from torch_stable_abi.libtorch.versions import in_order, supported
from torch_stable_abi.programs import CannotRun

HERE = Path(__file__).parent
FILE = ROOT / "docs/results/compiled.json"


def build(folder: Path) -> Path:
    """Compiles the kernels once, for all versions."""
    library = folder / "shapes.so"
    libtorch = torch_root() / "lib"
    said = snippets.compile(
        (HERE / "shapes.cpp").read_text(), torch_root(), "2.10", "-O1", "-shared",
        "-fPIC", "-fvisibility=hidden", f"-L{libtorch}", "-ltorch_cpu", "-o", library)
    if said:
        raise CannotRun(f"shapes.cpp does not compile:\n{said}")
    return library


def run_on(version: str, library: Path, folder: Path) -> dict[str, dict[str, str]]:
    done = subprocess.run(
        [extension.prepare_python(version, None) / "python", HERE / "running.py",
         library],
        text=True, capture_output=True, cwd=folder, env={
            **os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder / version),
            "CUDA_VISIBLE_DEVICES": ""})
    if done.returncode != 0:
        raise CannotRun(f"on torch {version}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        library = build(folder)
        versions = {version: run_on(version, library, folder) for version in
                    in_order(*supported(), runtimes.installed())}
    FILE.write_text(json.dumps({
        "schema": 1, "what": "compiled",
        "date": datetime.date.today().isoformat(),
        "compiler": stamp.compiler(), "versions": versions}, indent=1) + "\n")


if __name__ == "__main__":
    main()
