"""The demos of `./workbook demo NN`: a chapter's subject going wrong and going right,
with the real libtorch. A module here is a chapter's demo:

    OTHERS               versions that it uses beside the one that is here
    RECORDED             the same, for the recording
    prepare()            if it is there: installs what the demo needs besides
    show(versions, say)  builds, runs, and says what came; True if what should
                         be right is
"""

import importlib
import os
import re
import sys
import textwrap
from pathlib import Path
from types import ModuleType

from base.project import BUILD, ROOT
from torch_stable_abi.libtorch import runtimes
from torch_stable_abi.libtorch.installed import torch_root
from torch_stable_abi.programs import CannotRun, run

MODULES = {"00": "first_extension", "01": "headeronly_types",
           "02": "stableivalue_conversions", "03": "stack_conventions",
           "04": "boxed_kernels", "05": "torch_call_dispatcher",
           "06": "version_gating", "07": "cuda_activation_kernel",
           "08": "hub_packaging", "09": "port_an_extension"}
FOLDER = BUILD / "demo"
INDENT = " " * 12


def find(number: str) -> ModuleType:
    if number not in MODULES:
        raise CannotRun(f"chapter {number} has no demo; these have one: " +
                        ", ".join(MODULES))
    return importlib.import_module(f"learn.demos.{MODULES[number]}")


def about(number: str) -> str:
    """Return what there is to see, in a sentence: that of the module."""
    text = " ".join((find(number).__doc__ or "").split()).partition(": ")[2]
    return text[:1].upper() + text[1:]


def invitation(number: str) -> str:
    """Return the line that sends a learner on to a demo."""
    how = "with several versions of PyTorch" if find(number).OTHERS else \
        "go wrong, then right"
    return f"See it {how}: ./workbook demo {number}"


def recording(number: str) -> Path:
    return ROOT / f"docs/results/demo_{number}.txt"


def compile_source(target: Path, source: Path, *options: object) -> str:
    """Return what the compiler says, with the headers that are here; "" if all is
    well."""
    torch = torch_root()
    target.parent.mkdir(parents=True, exist_ok=True)
    done = run([os.environ.get("CXX", "c++"), "-O1", "-w", "-fPIC",
                "-isystem", torch / "include", f"-I{ROOT}/common", source,
                "-o", target, torch / "lib/libtorch_cpu.so", *options])
    return done.stdout if done.returncode else ""


def build_once(name: str, source: Path, *options: object) -> Path:
    """Compile a source, unless that has been done since it was changed."""
    target = FOLDER / runtimes.installed() / name
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        place = os.path.relpath(source, ROOT)
        print(f"Compiling {place} ...", file=sys.stderr)
        text = compile_source(target, source, *options)
        if text:
            raise CannotRun(f"{place} does not compile:\n{text[-1500:]}")
    return target


def call_op(version: str, library: Path, op: str) -> tuple[bool, str]:
    """Return whether the op of a library works on a libtorch, and what came."""
    program = build_once("demo", Path(__file__).with_name("run.cpp"), "-std=c++20",
                    "-DTORCH_TARGET_VERSION=0x020a000000000000", "-ldl")
    done = run([program, library, op], env={
        **os.environ, "LD_LIBRARY_PATH": str(runtimes.root(version) / "lib")})
    text = next((line for line in done.stdout.splitlines() if line.startswith(
        ("silu", "built with", "does not load", "loads"))),
        f"ended the process with status {done.returncode}")
    text = text.replace(f"{library}: ", "").replace("wb00::silu: ", "")
    text = re.sub(r"\[\S+ \S+ \S+\] Exception in aoti_torch: ", "", text)
    text = re.sub(r"( backend\.).*", r"\1", text)  # its list of keys is long
    symbol = re.search(r"undefined symbol: (_Z\S+)", text)
    if symbol:
        readable = run(["c++filt", symbol[1]]).stdout.strip()
        readable = re.sub(r", std::allocator<[\w:]+> ", "", readable)
        text = f"{text[:65]}...\n" + fold(f"{INDENT}that is {readable}")
    else:
        text = fold(INDENT + text).strip()
    return done.returncode == 0, text


def fold(text: str) -> str:
    return textwrap.fill(text, 80, subsequent_indent=INDENT,
                         break_long_words=False)
