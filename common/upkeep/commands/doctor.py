"""doctor: what this machine has, each part with a verdict and its cure."""

import argparse
import os
import platform
import re
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from base import nvcc
from base.building import chosen_compiler, compiler
from base.project import ROOT
from learn import screen
from torch_stable_abi.libtorch.installed import is_for_cuda, torch_root, torch_version
from torch_stable_abi.programs import CannotRun
from torch_stable_abi.programs import run as run_program


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(arguments: argparse.Namespace) -> int:
    """Print the table; status 1 if something that is needed is missing."""
    missing = 0
    for name, found, state, note in _rows():
        colour = {"ok": "32", "missing": "31;1"}.get(state, "33")
        missing += state == "missing"
        print(f"{name:<12} {screen.paint(f'{state:<9}', colour)} {found}")
        if note:
            print(screen.wrap(note, " " * 23))
    print(screen.bold("Everything that is needed is here." if not missing else
                      f"Missing: {missing}. The cure stands beside it."))
    return 1 if missing else 0


def _version(program, *arguments, pattern=r"\d+(?:\.\d+)+"):
    path = shutil.which(program)
    if path is None:
        return None
    done = run_program([path, *(arguments or ["--version"])])
    if done.returncode:
        return None
    found = re.search(pattern, done.stdout)
    return found[0] if found else "of unknown version"


def _rows():
    yield "python", platform.python_version(), "ok", ""
    try:
        cxx, wrong = compiler(), ""
        program = shlex.split(chosen_compiler())[0]
        version = _version(program)
        yield ("compiler", version or "", "ok" if version else "missing",
               "" if version else f"{program} --version fails")
    except CannotRun as error:
        cxx, wrong = "", str(error)
        yield "compiler", "", "missing", wrong
    for name, program, package in (
            ("cmake", "cmake", "cmake"), ("ninja", "ninja", "ninja-build")):
        version = _version(program)
        numbers = re.findall(r"\d+", version or "")[:2]
        old = name == "cmake" and version and list(map(int, numbers)) < [3, 22]
        yield (name, version or "", "ok" if version and not old else "missing",
               "" if version and not old else ("3.22 is needed: " if old else "")
               + f"sudo apt-get install -y {package}")
    clang = "clang" in cxx
    yield ("clang", "builds what is checked" if clang else "",
           "ok" if clang else "optional",
           "" if clang else "CXX is set to another" if os.environ.get("CXX")
           else "verdicts come faster: sudo apt-get install clang llvm "
           "libclang-rt-dev")
    version = _version("mold")
    yield ("mold", version or "", "ok" if version else "optional",
           "" if version else "links faster: sudo apt-get install mold")
    for name, header, package in (
            ("doctest", "doctest/doctest.h", "doctest-dev"),
            ("benchmark", "benchmark/benchmark.h", "libbenchmark-dev")):
        there = Path("/usr/include", header).exists()
        yield (name, "installed" if there else "fetched from its sources",
               "ok" if there else "optional",
               "" if there else f"builds faster: sudo apt-get install {package}")

    yield from _rows_of_torch(torch_root())
    yield _sanitizers() if cxx else ("sanitizers", "", "missing", wrong)

    version = _version(nvcc.find() or "nvcc", pattern=r"release (\d+\.\d+)")
    yield ("nvcc", version or "", "ok" if version else "optional",
           "" if version else "for chapters 07 and 08: ./workbook nvcc --fetch")
    driver = _version("nvidia-smi", "--query-gpu=name,driver_version",
                      "--format=csv,noheader", pattern=r".+")
    yield ("GPU", driver or "", "ok" if driver else "optional",
           "" if driver else "CUDA code is compiled, not run")
    kernels = run_program([sys.executable, "-I", "-c",
                   "from importlib.metadata import version as v;"
                   "print(v('kernels'))"])
    there = kernels.returncode == 0
    yield ("kernels", kernels.stdout.strip() if there else "",
           "ok" if there else "optional",
           "" if there else "only chapter 08 uses the Hub's loader")
    free = shutil.disk_usage(ROOT).free / 2**30
    yield ("disk", f"{free:.0f} GiB free", "ok" if free > 2 else "missing",
           "" if free > 2 else "a full build takes about 2 GiB")


def _rows_of_torch(root):
    yield "torch", f"{torch_version()} at {root}", "ok", ""
    if (ROOT / ".venv/needs-missing").exists():
        yield ("in Python", "", "optional",
               "chapter 08 needs what torch needs: ./workbook py fetches it")
    yield ("stable ABI", f"headers {_abi(root)}, target 2.10", "ok", "")
    yield ("libtorch", "CPU and CUDA" if is_for_cuda() else "CPU only", "ok", "")


def _abi(root):
    text = (root / "include/torch/headeronly/version.h").read_text()
    number = {key: re.search(rf"#define TORCH_VERSION_{key} (\d+)", text)
              for key in ("MAJOR", "MINOR")}
    return ".".join(found[1] for found in number.values() if found) or "unknown"


def _sanitizers():
    """Compile a program that leaks, and see whether that is found."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "leak.cpp"
        source.write_text("int main() { volatile auto* p = new int(1); p = "
                          "nullptr; return p != nullptr; }\n")
        program = Path(folder) / "leak"
        built = run_program([compiler(), "-fsanitize=address", source, "-o",
                             program])
        if built.returncode != 0:
            return ("sanitizers", "", "missing",
                    "the compiler has no AddressSanitizer: install g++")
        if "detected memory leaks" in run_program([program]).stdout:
            return "sanitizers", "Address, UB, Leak", "ok", ""
        return ("sanitizers", "Address, UB", "limited",
                "LeakSanitizer finds nothing here (a container without "
                "ptrace?): leaks will not be checked")

