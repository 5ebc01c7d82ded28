"""Another machine: every solution compiles for aarch64, and chapter 01, which
needs no libtorch, passes its tests there under an emulator."""

import json
import re
import shlex
import shutil

import pytest

from support import passes
from workbook.building import library_of
from workbook.installed import torch_root
from workbook.project import ROOT
from workbook.sheets import chapters, find_chapter

GXX = "aarch64-linux-gnu-g++"
QEMU = "qemu-aarch64"
pytestmark = [pytest.mark.full, pytest.mark.skipif(
    not (shutil.which(GXX) and shutil.which(QEMU)),
    reason="apt-get install g++-aarch64-linux-gnu qemu-user")]


def configured(chapter, build):
    passes("cmake", "-G", "Ninja", "-S", chapter.solution, "-B", build,
           "-DCMAKE_SYSTEM_NAME=Linux", "-DWITH_CUDA=OFF",
           "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
           f"-DCMAKE_CXX_COMPILER={GXX}",
           "-DCMAKE_CXX_FLAGS=-Werror -Wno-float-conversion",
           f"-DTORCH_ROOT={torch_root()}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    return build


@pytest.mark.parametrize("chapter", chapters(), ids=lambda c: c.name)
def test_compiles(chapter, tmp_path):
    build = configured(chapter, tmp_path)
    commands = json.loads((build / "compile_commands.json").read_text())
    assert commands
    headers = re.findall(r"^(\S+\.h): CUSTOM_COMMAND", passes(
        "ninja", "-C", build, "-t", "targets", "all"), re.M)
    if headers:
        passes("ninja", "-C", build, *headers)
    for entry in commands:  # not linked: this libtorch is another machine's
        passes("env", "-C", entry["directory"], *shlex.split(entry["command"]),
               "-fsyntax-only")


def test_chapter_01_passes_there(tmp_path):
    chapter = find_chapter("01")
    build = configured(chapter, tmp_path / "build")
    passes("cmake", "--build", build)
    test = tmp_path / "test"
    passes(GXX, "-std=c++20", "-O1", "-I", ROOT / "common", "-isystem",
           "/usr/include/doctest/..", "-isystem", torch_root() / "include",
           "-DTORCH_TARGET_VERSION=0x020a000000000000",
           ROOT / f"tests/{chapter.name}_test.cpp",
           ROOT / "common/testing/main.cpp", "-ldl", "-o", test)
    out = passes(QEMU, "-L", "/usr/aarch64-linux-gnu", test,
                 f"--library={library_of(build)}")
    assert "0 failed" in out, out
