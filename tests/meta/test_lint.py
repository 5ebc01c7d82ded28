"""Format, static analysis, scripts, and that the project speaks of itself."""

import shutil
import subprocess
import sys

import pytest
from conftest import ROOT
from workspace import chapters, torch_root


def files(*patterns):
    text = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard",
         *patterns], cwd=ROOT, text=True, capture_output=True, check=True).stdout
    return [name for name in text.splitlines() if (ROOT / name).exists()]


def passes(command, **options):
    if shutil.which(command[0]) is None:
        pytest.fail(f"{command[0]} is not installed: "
                    f"apt-get install {command[0]}")
    done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **options)
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.full
def test_clang_format():
    passes(["clang-format", "--dry-run", "--Werror",
            *files("*.cpp", "*.h", "*.cu", "*.cuh")])


@pytest.mark.full
@pytest.mark.parametrize("chapter", chapters(), ids=lambda c: c.name)
def test_clang_tidy(chapter):
    build = ROOT / "build/release/solutions" / chapter.name
    passes(["clang-tidy", "--quiet", "-p", str(build),
            *files(f"solutions/{chapter.name}/*.cpp"), "--",
            "-std=c++17", "-isystem", f"{torch_root()}/include",
            "-DTORCH_TARGET_VERSION=0x020a000000000000",
            "-DTORCH_EXTENSION_NAME=activation"])


@pytest.mark.full
def test_shell_scripts():
    passes(["shellcheck", "workbook", ".ci/run", *files("*.sh")])


def test_python_compiles_without_a_warning():
    passes([sys.executable, "-W", "error", "-m", "py_compile", *files("*.py")])


def test_tool_stays_small():
    lines = sum((ROOT / name).read_text().count("\n")
                for name in files("common/tool/*.py"))
    assert lines <= 1500


def test_no_trailing_blanks_and_no_long_code_lines():
    for name in files("*.cpp", "*.h", "*.py", "*.cmake", "*.txt", "*.md"):
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
            assert line == line.rstrip(), f"{name}:{number}: trailing blank"
            if name.endswith((".cpp", ".h")):
                assert len(line) <= 100, f"{name}:{number}"


@pytest.mark.full
def test_spelling():
    passes([sys.executable, "-m", "codespell_lib", *files()])
