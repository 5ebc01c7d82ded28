"""docs/examples: what docs/names_by_example.md shows compiles without a warning with
the oldest headers and the newest, and gives what the page says."""

import os
import re
import subprocess
import sys

import pytest

import snippets
from base import nvcc
from base.project import ROOT
from support import fetch_libtorch
from torch_stable_abi.libtorch import runtimes, surface
from torch_stable_abi.libtorch.installed import torch_root
from torch_stable_abi.libtorch.versions import supported

HERE = ROOT / "docs/examples"
VALUES = ROOT / "tests/docs/example_values.py"
PAGE = ROOT / "docs/names_by_example.md"
OLDEST, NEWEST = supported()[0], supported()[-1]


def compile_strictly(version, target, *options):
    done = subprocess.run(
        ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-isystem",
         fetch_libtorch(version) / "include",
         f"-DTORCH_TARGET_VERSION={snippets.pack_version(target)}",
         HERE / "names.cpp", *options],
        text=True, capture_output=True, env={**os.environ, "LC_ALL": "C"})
    assert done.returncode == 0, done.stderr


@pytest.mark.full
@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_the_examples_give_what_the_page_says(version, tmp_path):
    """Run each library in a process of its own, since both define one namespace."""
    pytest.importorskip("torch")
    target = 10 if version == OLDEST else snippets.minor(runtimes.installed())
    library = tmp_path / "names.so"
    compile_strictly(version, f"2.{target}", "-shared", "-fPIC", "-o", library,
                     f"-L{torch_root()}/lib", "-ltorch_cpu")
    done = subprocess.run(
        [sys.executable, VALUES, library, str(snippets.minor(version)), str(target)],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout[-4000:]
    assert "modes: x is not contiguous" in done.stdout  # the warning


@pytest.mark.full
def test_the_examples_compile_for_the_newest_target():
    compile_strictly(NEWEST, f"2.{snippets.minor(NEWEST)}", "-fsyntax-only")


@pytest.mark.full
@pytest.mark.parametrize("version, target", [
    (OLDEST, "2.10"), (NEWEST, f"2.{snippets.minor(NEWEST)}")])
def test_the_examples_for_nvcc_compile(version, target, tmp_path):
    if nvcc.find() is None:
        pytest.skip("no nvcc: ./workbook nvcc --fetch")
    made = tmp_path / "names.ptx"
    done = subprocess.run(
        [nvcc.find(), "-std=c++17", "-arch=sm_90", "-ptx", "-DNDEBUG", "-DUSE_CUDA",
         "-isystem", fetch_libtorch(version) / "include", "-o", made,
         f"-DTORCH_TARGET_VERSION={snippets.pack_version(target)}", HERE / "names.cu"],
        text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    ptx = made.read_text()
    assert ptx.count(".minnctapersm 4") == 2 and ptx.count(".maxntid 256") == 3
    assert "assertfail" in ptx  # CUDA_KERNEL_ASSERT, with NDEBUG too


def test_names_in_the_tables_of_the_page_are_public_and_used():
    """The first column of a table has names of code in docs/examples."""
    code = "".join((HERE / name).read_text() for name in ("names.cpp", "names.cu"))
    page = PAGE.read_text().partition("\n## Not tried")[0]
    public = {row["name"].rpartition("::")[2] for row in surface.names()}
    cells = re.findall(r"^\| (`.*?) \|", page, re.M)
    named = {name.rpartition("::")[2] for cell in cells
             for name in re.findall(r"`([\w:]+)", cell)}
    assert len(named) > 60
    assert sorted(named - public) == []
    assert [name for name in sorted(named) if not re.search(rf"\b{name}\b", code)] == []
