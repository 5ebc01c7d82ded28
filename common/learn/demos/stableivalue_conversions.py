"""Chapter 02: an op that takes a string, boxed by the headers of two versions of
PyTorch, and with the conversions of slot.h."""

import os
import sys
from collections.abc import Callable

from base.project import ROOT
from learn.demos import FOLDER
from torch_stable_abi.libtorch import runtimes
from torch_stable_abi.libtorch.installed import torch_root
from torch_stable_abi.libtorch.versions import numbers, supported
from torch_stable_abi.programs import CannotRun, run

OTHERS = RECORDED = [supported()[-1]]

SOURCES = ROOT / "docs/demos/02"
SOLUTION = ROOT / "solutions/02_stableivalue_conversions"


def show(versions: list[str], say: Callable[[str], None]) -> bool:
    versions = sorted([*versions, runtimes.installed()], key=numbers)
    for version in versions:
        _run(version, [], say)
    by_hand = _run(versions[0], ["-DBY_HAND"], say)
    return by_hand.count("+ 0.0 MB") == 2


def _run(version: str, flags: list[str], say: Callable[[str], None]) -> str:
    FOLDER.mkdir(parents=True, exist_ok=True)
    library = FOLDER / "length.so"
    say(" ".join(["$ c++ -shared", *flags, f"-isystem torch-{version}/include",
                  "length.cpp -o length.so"]))
    done = run(["c++", "-shared", "-fPIC", "-std=c++17", *flags,
                f"-I{SOLUTION}", "-DTORCH_TARGET_VERSION=0x020a000000000000",
                "-isystem", runtimes.root(version) / "include",
                SOURCES / "length.cpp", "-o", library,
                torch_root() / "lib/libtorch_cpu.so"])
    if done.returncode == 0:
        say("$ python calls.py length.so")
        done = run([sys.executable, SOURCES / "calls.py", library], env={
            **os.environ, "PYTHONPATH": str(torch_root().parent)})
    if done.returncode != 0:
        raise CannotRun(done.stdout[-1500:])
    text = done.stdout.rstrip("\n")
    say(text)
    return text
