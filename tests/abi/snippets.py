"""Compiles code of snippets.toml at a chosen target with chosen headers."""

import functools
import os
import shutil
import subprocess
from pathlib import Path

import base  # noqa: F401  (lets the package be imported)
from torch_stable_abi.files import read_toml
from torch_stable_abi.libtorch import surface


@functools.cache
def read_table() -> dict[str, list[dict]]:
    return read_toml(Path(__file__).with_name("snippets.toml"))


def read(kind: str) -> list[dict]:
    """Return the entries of snippets.toml that are an "error" or a "gate"."""
    return read_table()[kind]


def read_gates() -> list[dict]:
    """Return the gates. What the reader of headers knows by its name has its two
    minima from there; an overload or a conversion has them in the table."""
    gates = read("gate")
    for gate in gates:
        if "headers" not in gate:
            row = surface.find_name(gate["api"])
            assert row, f"no headers have {gate['api']}"
            gate |= {"headers": row["headers"], "target": row["target"]}
    return gates


GATES = read_gates()

BAD_SCHEMA = """
#include <torch/csrc/stable/library.h>
STABLE_TORCH_LIBRARY(gate, m) { m.def("bad(Tensor x -> Tensor"); }
"""


def minor(version: str) -> int:
    """10 for "2.10" and for "2.10.0"."""
    return int(version.split(".")[1])


def pack_version(version: str) -> str:
    """"2.10" as TORCH_TARGET_VERSION has it."""
    return f"0x02{minor(version):02x}000000000000"


def compile(code: str, torch: Path, target: str | None = None,
            *options, by: str = "") -> str:
    """"" if the compiler takes `code`, else what it said. `target` is "2.10". `by`
    is the compiler; g++ by default, whose words are known."""
    define = [f"-DTORCH_TARGET_VERSION={pack_version(target)}"] if target else []
    done = subprocess.run(
        [by or shutil.which("g++") or "c++", "-std=c++17", "-w", "-isystem",
         str(torch / "include"), *define, "-xc++", "-",
         *map(str, options or ["-fsyntax-only"])],
        input=code, text=True, capture_output=True,
        env={**os.environ, "LC_ALL": "C"})
    return done.stderr if done.returncode else ""


def wrong(gate: dict, headers: dict[int, Path]) -> str:
    """"" if the gate is shut and open where its entry says, as far as
    `headers`, {minor: TORCH_ROOT}, can tell; else what is wrong."""
    least, target = minor(gate["headers"]), minor(gate["target"])
    with_it = [m for m in sorted(headers) if m >= least]
    older = [m for m in sorted(headers) if m < least]

    def try_code(headers_minor, target_minor):
        return compile(gate["code"], headers[headers_minor],
                       f"2.{target_minor}")
    if with_it:
        for m in {with_it[0], with_it[-1]}:
            text = try_code(m, target)
            if text:
                return f"headers 2.{m}, target 2.{target}: {text}"
            if target > 9:
                text = try_code(m, target - 1)
                if gate["message"] not in text:
                    return f"headers 2.{m}, target 2.{target - 1}: {text}"
    if older:
        m = older[-1]
        text = try_code(m, min(target, m))
        if not text:
            return f"headers 2.{m} have it too"
        if target == 9 and gate["message"] not in text:
            return f"headers 2.{m}: {text}"
    return ""
