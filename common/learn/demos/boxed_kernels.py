"""Chapter 04: a kernel whose C++ type is not the schema's, boxed by TORCH_BOX
and by the template's CHECKED_BOX."""

import os
import re
import sys
from collections.abc import Callable

from base.project import ROOT
from learn.demos import FOLDER
from torch_stable_abi.libtorch.installed import torch_root
from torch_stable_abi.programs import CannotRun, run

OTHERS: list[str] = []  # only the one that is here
RECORDED = OTHERS

SOURCES = ROOT / "docs/demos/04"
TEMPLATE = ROOT / "solutions/04_boxed_kernels/core"


def show(versions: list[str], say: Callable[[str], None]) -> bool:
    _build_and_run("float", "TORCH_BOX", say)
    refused = not _build_and_run("float", "CHECKED_BOX", say)
    return _build_and_run("double", "CHECKED_BOX", say) and refused


def _build_and_run(number: str, box: str, say: Callable[[str], None]) -> bool:
    """Return False if the compiler refuses the kernel."""
    flags = [f"-DNUMBER={number}", f"-DBOX={box}"]
    FOLDER.mkdir(parents=True, exist_ok=True)
    library = FOLDER / "scale.so"
    say(f"$ c++ -shared {' '.join(flags)} scale.cpp -o scale.so")
    done = run(["c++", "-shared", "-fPIC", "-std=c++17", *flags,
                f"-I{TEMPLATE}", "-DTORCH_TARGET_VERSION=0x020a000000000000",
                "-isystem", torch_root() / "include", SOURCES / "scale.cpp",
                "-o", library, torch_root() / "lib/libtorch_cpu.so"])
    if done.returncode != 0:
        reason = re.search("error: (.*the schema.*)", done.stdout)
        if not reason:
            raise CannotRun(done.stdout[-1500:])
        say(f"  error: {reason[1]}")
        return False
    say("$ python scale.py scale.so")
    done = run([sys.executable, SOURCES / "scale.py", library], env={
        **os.environ, "PYTHONPATH": str(torch_root().parent)})
    if done.returncode != 0:
        raise CannotRun(done.stdout[-1500:])
    say(done.stdout.rstrip("\n"))
    return True
