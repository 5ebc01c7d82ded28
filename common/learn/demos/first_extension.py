"""Chapter 00: one op, twice: with the stable ABI and with the ordinary C++ API.
Both are built with the PyTorch that is here, and run on others."""

import re
from collections.abc import Callable
from pathlib import Path

from base.project import ROOT
from learn.demos import INDENT, build_once, call_op
from torch_stable_abi.libtorch import runtimes
from torch_stable_abi.libtorch.installed import torch_root
from torch_stable_abi.libtorch.versions import supported
from torch_stable_abi.programs import run

# The ordinary twin of 2.10 loads into 2.11 as well.
OTHERS = ["2.13.0" if runtimes.installed().startswith("2.10.") else "2.11.0"]
RECORDED = ["2.11.0", "2.12.1", supported()[-1]]

SOURCES = {"stable": "solutions/00_first_extension/first_extension.cpp",
           "ordinary": "tests/00_first_extension/unstable.cpp"}


def show(versions: list[str], say: Callable[[str], None]) -> bool:
    here = runtimes.installed()
    libraries = {
        "stable": build_once("libstable.so", ROOT / SOURCES["stable"], "-std=c++17",
                        "-shared", "-DTORCH_TARGET_VERSION=0x020a000000000000"),
        "ordinary": build_once("libordinary.so", ROOT / SOURCES["ordinary"],
                          "-std=c++20", "-shared",
                          torch_root() / "lib/libc10.so")}
    say(f"One op, written twice and built with PyTorch {here}:")
    for name, source in SOURCES.items():
        say(f"  {name:<9} {source}\n{INDENT}calls {_calls(libraries[name])}")
    good = True
    for version in [here, *versions]:
        say(f"\nOn libtorch {version}" +
            (", which both were built with:" if version == here else ":"))
        for name, library in libraries.items():
            works, text = call_op(version, library, "silu")
            good = good and (works or name == "ordinary")
            say(f"  {name:<9} {text}")
    return good


def _calls(library: Path) -> str:
    """Return what it wants of libtorch, by the names in its symbol table."""
    names = run(["nm", "-DC", "--undefined-only", library]).stdout
    shim = len(re.findall(r" U (?:aoti_)?torch_\w+$", names, re.M))
    cpp = len(re.findall(r" U .*\b(?:at|c10|torch)::", names))
    return f"{cpp} C++ functions of libtorch" if cpp else \
        f"{shim} C functions of libtorch, and no C++"
