"""Builds the steps of the port one after another in one folder, as an author
does, and passes each of them the same test."""

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from base.project import ROOT
from porting import STEPS, files

HERE = ROOT / "docs/porting"
# C++ of libtorch, which changes with every version. What is in torch::stable
# and torch::headeronly is compiled into the extension.
UNSTABLE = re.compile(r"\b(?:at|c10|torch)::(?!stable\b|headeronly\b)")


def run(*command, **environment) -> str:
    done = subprocess.run(list(map(str, command)), text=True,
                          env={**os.environ, **environment},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        sys.exit(f"{done.stdout.strip()}\n\nfailed: "
                 f"{' '.join(map(str, command))}")
    return done.stdout


def take(step: Path, source: Path) -> None:
    """Make `source` the step. Only what differs is written, so that only this
    is compiled."""
    source.mkdir(parents=True, exist_ok=True)
    for name, path in files(step).items():
        copy = source / name
        if not copy.exists() or copy.read_bytes() != path.read_bytes():
            shutil.copyfile(path, copy)


def build(step: Path, torch: Path, folder: Path) -> Path:
    """Return the step's library."""
    take(step, folder / "source")
    run("cmake", "-G", "Ninja", "-S", folder / "source", "-B",
        folder / "build", f"-DTORCH_ROOT={torch}", "-DCMAKE_CXX_FLAGS=-Werror")
    run("cmake", "--build", folder / "build")
    library = folder / step.name / "librowops.so"
    library.parent.mkdir(exist_ok=True)
    shutil.copyfile(folder / "build/librowops.so", library)
    return library


def unstable_symbols(library: Path) -> list[str]:
    text = run("nm", "-D", "-C", "--undefined-only", library)
    names = [line.split(maxsplit=1)[1] for line in text.splitlines()]
    return [name for name in names if UNSTABLE.search(name)]


def needed(library: Path) -> list[str]:
    return re.findall(r"\(NEEDED\).*\[(.*)\]",
                      run("readelf", "-d", library, LC_ALL="C"))


def test(library: Path) -> str:
    """The last line of pytest."""
    text = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
               "--confcutdir", HERE, HERE / "test_rowops.py",
               ROWOPS_LIBRARY=str(library))
    return re.search(r"\d+ passed", text)[0]


def all_steps(torch: Path, folder: Path) -> list[dict]:
    """Return what each step's library is like; a test runs while the next is built."""
    rows = []
    with ThreadPoolExecutor(1) as pool:
        for step in STEPS:
            library = build(step, torch, folder)
            rows.append({
                "step": step.name, "library": library,
                "unstable_symbols": unstable_symbols(library),
                "needed": needed(library), "test": pool.submit(test, library)})
        for row in rows:
            row["test"] = row["test"].result()
    return rows
