"""A solution copied out of the workbook builds alone, warning-free, from any
folder, and uses no symbol that it should not."""

import os
import re
import subprocess

import pytest

from base.building import build_root, compiler
from base.project import ROOT
from base.sheets import chapters, find_chapter
from support import build_alone, copy_solution, passes
from torch_stable_abi.libtorch.installed import torch_root
from torch_stable_abi.projects import library_of

EACH = pytest.mark.parametrize("chapter", chapters(), ids=lambda c: c.name)


@pytest.mark.full
@EACH
def test_copied_out_builds_and_tests(chapter, tmp_path):
    source = copy_solution(chapter, tmp_path / "a folder with spaces" /
                           chapter.name)
    library = build_alone(source, tmp_path / "build", by=compiler())
    assert library is not None
    if not (chapter.tests / "probe.cpp").exists():
        build_root("release", [f"{chapter.name}_test"])
        passes(ROOT / f"build/release/tests/{chapter.name}_test",
               f"--library={library}")


def test_torch_is_found_by_the_python_on_the_path(tmp_path):
    chapter = find_chapter("01")
    bin = tmp_path / "bin"
    bin.mkdir()
    (bin / "python3").symlink_to(ROOT / ".venv/bin/python")
    site = torch_root().parent
    env = {**os.environ, "PATH": f"{bin}:{os.environ['PATH']}",
           "PYTHONPATH": str(site)}
    env.pop("TORCH_ROOT")
    done = subprocess.run(
        ["cmake", "-G", "Ninja", "-S", chapter.solution, "-B", tmp_path / "b"],
        env=env, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert "TORCH_ROOT" not in done.stderr


@EACH
def test_torch_2_9_is_refused(chapter, tmp_path):
    """Its headers have the folder of the stable ABI, and not all of the files."""
    for folder in ("csrc/stable", "headeronly/core"):
        (tmp_path / "torch/include/torch" / folder).mkdir(parents=True)
    done = subprocess.run(
        ["cmake", "-G", "Ninja", "-S", chapter.solution, "-B", tmp_path / "b",
         f"-DTORCH_ROOT={tmp_path / 'torch'}"], text=True, capture_output=True)
    assert done.returncode != 0 and f"no torch of 2.10 or newer: " \
        f"TORCH_ROOT is '{tmp_path / 'torch'}'" in " ".join(done.stderr.split())


def symbols(library, *options):
    text = subprocess.run(["nm", "-D", "-C", *options, library], text=True,
                          capture_output=True, check=True).stdout
    return [line.split(maxsplit=1)[-1] for line in text.splitlines()]


def release_library(chapter):
    return library_of(ROOT / "build/release/solutions" / chapter.name)


def test_01_needs_no_torch():
    """The proof of chapter 01: no undefined symbol is torch's."""
    library = release_library(find_chapter("01"))
    for line in symbols(library, "--undefined-only"):
        assert not re.search(r"torch|c10|at::", line), line
    needed = subprocess.run(["readelf", "-d", library], text=True,
                            capture_output=True, check=True).stdout
    assert "torch" not in needed and "c10" not in needed


@EACH
def test_only_stable_symbols(chapter):
    """What is undefined in a solution is the C shim, or the C++ runtime's."""
    for line in symbols(release_library(chapter), "--undefined-only"):
        assert not re.search(r"\b(at|c10|torch)::", line), line


@EACH
def test_exports_only_what_it_means_to(chapter):
    for line in symbols(release_library(chapter), "--defined-only"):
        name = line.split()[-1]
        if name in ("__bss_start", "_edata", "_end"):
            continue  # GNU ld exports its own, because libtorch has them too
        assert name.startswith((f"wb{chapter.number}", "PyInit_")) or \
            "std::" in line or "typeinfo" in line or \
            name == "call_op_declared", line  # for ./workbook schemas
