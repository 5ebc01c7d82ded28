"""The cheat sheet says what the headers say."""

import re

import snippets
from base.project import ROOT
from torch_stable_abi.libtorch import surface
from torch_stable_abi.libtorch.installed import torch_root

PAGE = (ROOT / "docs/cheatsheet.md").read_text()
BLOCKS = re.findall(r"^```cpp\n(.*?)^```", PAGE, re.M | re.S)


def flat(code: str) -> str:
    """Return the code without comments, and with blanks between words only."""
    code = re.sub(r"\s+", " ", re.sub(r"//.*", "", code))
    return re.sub(r" ?([^\w ]) ?", r"\1", code).strip()


def versions_of(name: str) -> tuple[str, str] | None:
    """Return the oldest headers and target that have it, of 2.10 and newer."""
    row = surface.find_name(f"torch::stable::{name}") or surface.find_name(name)
    return row and tuple(row[of].replace("2.9", "2.10") for of in ("headers", "target"))


def test_each_declaration_stands_in_a_header():
    folder = torch_root() / "include/torch/csrc"
    headers = flat("".join((folder / name).read_text() for name in (
        "stable/c/shim.h", "inductor/aoti_torch/c/shim.h",
        "inductor/aoti_torch/generated/c_shim_aten.h")))
    shim = [block for block in BLOCKS if block.startswith("// target ")]
    declared = [(block.split()[2], line) for block in shim
                for line in flat(block).split(";") if line]
    assert len(declared) >= 20
    for target, line in declared:
        assert f" {line};" in headers, line
        assert versions_of(re.search(r"(\w+)\(", line)[1])[1] == target, line


def test_each_name_is_there_since_these_versions():
    rows = re.findall(r"^\| (`.*?) \| ([\d.]+) \| ([\d.]+) \|$", PAGE, re.M)
    assert len(rows) >= 10
    for cell, *since in rows:
        for name in re.findall(r"`([\w:]+)`", cell):
            assert versions_of(name) == tuple(since), name


def test_the_extension_compiles():
    code, = (block for block in BLOCKS if "STABLE_TORCH_LIBRARY" in block)
    assert snippets.compile(code, torch_root(), "2.10", "-fsyntax-only") == ""
