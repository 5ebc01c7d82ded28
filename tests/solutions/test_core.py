"""core/ of a template: what any op needs, all of it needed, nothing of the op in it."""

import re
from pathlib import Path

import pytest

from base.sheets import find_chapter
from support import copy_solution, passes
from torch_stable_abi.libtorch.installed import torch_root

TEMPLATES = ["04", "07", "08"]
EACH = pytest.mark.parametrize("number", TEMPLATES)


def list_core(folder):
    return sorted(path for path in folder.rglob("core/*") if path.is_file())


def list_included(folder, include):
    """Return the files of a project that its sources include, as the compiler finds
    them."""
    folders = [path for path in folder.rglob("*") if path.is_dir()]
    (include / "cuda_runtime.h").write_text("")
    words = passes(
        "g++", "-std=c++17", "-MM", "-xc++",
        *folder.rglob("*.cpp"), *folder.rglob("*.cu"),
        *(f"-I{path}" for path in [*folders, include]),
        "-isystem", torch_root() / "include", "-DCUDA_KERNEL",
        "-DTORCH_TARGET_VERSION=0x020a000000000000",
        "-DTORCH_EXTENSION_NAME=activation").split()
    return {Path(word).resolve() for word in words if word.startswith("/")}


def check_all_is_needed(folder, include):
    """Without a file of core/ no build gets to its end."""
    cmake = (folder / "CMakeLists.txt").read_text()
    files = list_core(folder)
    included = list_included(folder, include)
    for path in files:
        assert path.resolve() in included if path.suffix == ".h" else \
            str(path.relative_to(folder)) in cmake, path
    assert len({path.name for path in files}) == len(files)  # none hides another
    return files


@pytest.mark.full
@EACH
def test_all_of_core_is_needed(number, tmp_path):
    folder = copy_solution(find_chapter(number), tmp_path / "copy")
    assert len(check_all_is_needed(folder, tmp_path)) > 9


@pytest.mark.full
@pytest.mark.parametrize("options", [[one] for one in TEMPLATES] + [["08", "--cuda"]])
def test_all_of_core_is_needed_where_it_is_bare(workbook, options, tmp_path):
    folder = tmp_path / "mine"
    assert workbook(
        "new", "my_ops", folder, "--bare", "--from", *options).returncode == 0
    assert len(check_all_is_needed(folder, tmp_path)) > 7


@EACH
def test_core_includes_nothing_of_the_op(number):
    files = list_core(find_chapter(number).solution)
    names = {path.name for path in files}
    for path in files:
        included = set(re.findall(r'#include "([^"]+)"', path.read_text()))
        assert included <= names, path
