"""Chapter 03: a kernel whose returns are not those of its schema, boxed by hand
and by stack.h, and the one that is right."""

import os
import sys
from collections.abc import Callable

from base.project import ROOT
from learn.demos import FOLDER
from torch_stable_abi.libtorch.installed import torch_root
from torch_stable_abi.programs import CannotRun, run

OTHERS: list[str] = []  # only the one that is here
RECORDED = OTHERS

SOURCES = ROOT / "docs/demos/03"
STACK = ROOT / "solutions/03_stack_conventions"


def show(versions: list[str], say: Callable[[str], None]) -> bool:
    came = {}
    for kernel in ("by_hand", "counted", "right"):
        FOLDER.mkdir(parents=True, exist_ok=True)
        library = FOLDER / "quantise.so"
        say(f"$ c++ -shared -DKERNEL={kernel} quantise.cpp -o quantise.so")
        _run_python("c++", "-shared", "-fPIC", "-std=c++17", f"-DKERNEL={kernel}",
              f"-I{STACK}", "-DTORCH_TARGET_VERSION=0x020a000000000000",
              "-isystem", torch_root() / "include", SOURCES / "quantise.cpp",
              "-o", library, torch_root() / "lib/libtorch_cpu.so")
        say("$ python quantise.py quantise.so")
        came[kernel] = _run_python(sys.executable, SOURCES / "quantise.py", library)
        say(came[kernel])
    return "2 types for 1 slots" in came["counted"] and \
        came["right"].endswith(" 0 MB more")


def _run_python(*words: object) -> str:
    done = run([*words], env={
        **os.environ, "PYTHONPATH": str(torch_root().parent)})
    if done.returncode != 0:
        raise CannotRun(done.stdout[-1500:])
    return done.stdout.rstrip("\n")
