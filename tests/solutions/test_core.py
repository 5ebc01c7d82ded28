"""core/ of a template: what any op needs, all of it needed, nothing of the op in it."""

import re
import subprocess

import pytest

from base.sheets import find_chapter
from support import copy_solution
from torch_stable_abi.libtorch.installed import torch_root

TEMPLATES = ["04", "07", "08"]
EACH = pytest.mark.parametrize("number", TEMPLATES)


def list_core(folder):
    return sorted(path for path in folder.rglob("core/*") if path.is_file())


def preprocess(folder, include):
    """Return what the preprocessor says of the first source that it refuses, or ""."""
    folders = [path for path in folder.rglob("*") if path.is_dir()]
    for source in sorted([*folder.rglob("*.cpp"), *folder.rglob("*.cu")]):
        done = subprocess.run(
            ["g++", "-std=c++17", "-E", "-xc++", source, "-o", "/dev/null",
             *(f"-I{path}" for path in [*folders, include]),
             "-isystem", torch_root() / "include", "-DCUDA_KERNEL",
             "-DTORCH_TARGET_VERSION=0x020a000000000000",
             "-DTORCH_EXTENSION_NAME=activation"], text=True, capture_output=True)
        if done.returncode:
            return done.stderr
    return ""


def check_all_is_needed(folder, include):
    """Without a file of core/ no build gets to its end."""
    (include / "cuda_runtime.h").write_text("")
    assert preprocess(folder, include) == ""
    cmake = (folder / "CMakeLists.txt").read_text()
    files = list_core(folder)
    for path in files:
        if path.suffix == ".cpp":
            assert str(path.relative_to(folder)) in cmake
            continue
        text = path.read_text()
        path.unlink()
        assert f"{path.name}: No such file" in preprocess(folder, include), path
        path.write_text(text)
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
