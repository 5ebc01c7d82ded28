"""The library that is loaded before the program, built at its first use."""

import hashlib
import os
import shlex
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from torch_stable_abi.files import CACHE, locked
from torch_stable_abi.libtorch.installed import torch_root
from torch_stable_abi.programs import CannotRun, run
from torch_stable_abi.trace import wrapping

SOURCES = Path(__file__).parent
OPTIONS = ["-std=c++20", "-O3", "-DNDEBUG", "-Wall", "-Wextra", "-fPIC",
           "-fvisibility=hidden", "-ffunction-sections",
           "-DTORCH_TARGET_VERSION=0x020a000000000000"]  # 2.10, the oldest
# The library is loaded before libtorch and must not need it, so what it does not use
# of slots.cpp goes.
LINKED = ["-shared", "-Wl,--gc-sections", "-ldl", "-lpthread"]


def library() -> Path:
    """Return the library for the torch that is here. One is kept for each state of
    its sources, compiler and headers."""
    cxx = os.environ.get("CXX", "c++")
    built = CACHE / "trace" / _digest(cxx) / "libtrace.so"
    with locked(CACHE / "trace"):
        if not built.exists():
            print("Building the tracer ...", file=sys.stderr)
            built.parent.mkdir(exist_ok=True)
            _build(shlex.split(cxx), built)
    return built


def _digest(cxx: str) -> str:
    headers = torch_root() / "include/torch/headeronly/version.h"
    digest = hashlib.sha256(
        f"{cxx} {torch_root()} {headers.stat().st_ctime_ns}".encode())
    for path in sorted(p for p in SOURCES.iterdir() if p.is_file()):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _build(compiler: list[str], built: Path) -> None:
    include = torch_root() / "include"
    wrapping.write(include, built.parent / "wrapped.inc")
    options = [*OPTIONS, f"-I{built.parent}", "-isystem", include]

    def compile(source: Path) -> Path:
        target = built.parent / f"{source.stem}.o"
        _run([*compiler, *options, "-c", source, "-o", target])
        return target

    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        objects = list(pool.map(compile, sorted(SOURCES.glob("*.cpp"))))
    part = built.with_suffix(".part")
    _run([*compiler, *objects, *LINKED, "-o", part])
    part.rename(built)


def _run(command: list) -> None:
    try:
        done = run(command)
    except FileNotFoundError:
        raise CannotRun(f"trace builds its library with {command[0]}, which is not "
                        "here; apt-get install g++, or set CXX to a compiler of "
                        "C++20") from None
    if done.returncode:
        raise CannotRun(f"{command[0]} does not build the tracer:\n"
                        f"{done.stdout[-2000:]}")
