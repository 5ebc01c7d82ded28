"""Format, static analysis, scripts, and that the project speaks of itself."""

import ast
import re
import shutil
import subprocess

import pytest

from base.project import ROOT
from base.sheets import chapters
from support import PYTHON, checkout_files, passes
from torch_stable_abi.files import read_toml
from torch_stable_abi.libtorch.installed import torch_root


def lint(program, *arguments):
    assert shutil.which(program), \
        f"{program} is not installed: apt-get install {program}"
    passes(program, *arguments, cwd=ROOT)


@pytest.mark.full
def test_clang_format():
    lint("clang-format", "--dry-run", "--Werror",
         *checkout_files("*.cpp", "*.h", "*.cu", "*.cuh"))


def first_in(chapter):
    """Return the chapter's sources, without those that are carried to it unchanged, and
    without the library that chapter 09 ports, which has other headers."""
    first = {}
    for name in checkout_files("solutions/*.cpp"):  # in the chapters' order
        first.setdefault((ROOT / name).read_bytes(), name)
    return [n for n in first.values() if n.startswith(f"solutions/{chapter.name}/")
            and "/original/" not in n]


@pytest.mark.full
@pytest.mark.parametrize("chapter", chapters(), ids=lambda c: c.name)
def test_clang_tidy(chapter):
    build = ROOT / "build/release/solutions" / chapter.name
    lint("clang-tidy", "--quiet", "-p", build, *first_in(chapter), "--",
         "-std=c++17", *(f"-I{folder}" for folder in chapter.solution.rglob("*")
                         if folder.is_dir()), "-isystem", f"{torch_root()}/include",
         "-DTORCH_TARGET_VERSION=0x020a000000000000",
         "-DTORCH_EXTENSION_NAME=activation")


@pytest.mark.full
def test_shell_scripts():
    lint("shellcheck", "workbook", ".ci/run", *checkout_files("*.sh"))


def test_python_is_checked():
    passes(PYTHON, "-m", "ruff", "check", "--no-cache", cwd=ROOT)


@pytest.mark.full
def test_docstrings_still_to_be_written_anew():
    """The list in pyproject.toml only shrinks: each file on it breaks the rule."""
    ignored = read_toml(ROOT / "pyproject.toml")["tool"]["ruff"]["lint"][
        "per-file-ignores"]
    listed = {file for file, rules in ignored.items()
              if rules == ["D401"] and "*" not in file}
    done = subprocess.run(
        [PYTHON, "-m", "ruff", "check", "--isolated", "--select", "D401",
         "--output-format", "concise", *sorted(listed)], cwd=ROOT, text=True,
        capture_output=True)
    broken = {line.partition(":")[0] for line in done.stdout.splitlines()}
    assert listed <= broken, f"take out of pyproject.toml: {listed - broken}"


def test_a_docstring_begins_with_its_subject():
    wrong = []
    for file in checkout_files("common/*.py", "tests/*.py"):
        for node in ast.walk(ast.parse((ROOT / file).read_text())):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                text = ast.get_docstring(node) or ""
                if re.match("(Of|By|As|And|Also|With|But|From|In) ", text):
                    wrong.append(f"{file}: {text}")
    assert wrong == []


@pytest.mark.full
def test_types_of_the_tool():
    passes(PYTHON, "-m", "mypy", "--cache-dir=build/mypy", cwd=ROOT)


def test_no_trailing_blanks_and_no_long_code_lines():
    for name in checkout_files("*.cpp", "*.h", "*.py", "*.cmake", "*.txt", "*.md"):
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
            assert line == line.rstrip(), f"{name}:{number}: trailing blank"
            if name.endswith((".cpp", ".h")):
                assert len(line) <= 100, f"{name}:{number}"


@pytest.mark.full
def test_spelling():
    passes(PYTHON, "-m", "codespell_lib", *checkout_files(), cwd=ROOT)


def test_places_that_contributing_names_are_there():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    table = text.partition("## Where things are")[2].partition("\n## ")[0]
    names = re.findall(r"`((?:common|tests|docs|requirements)/[\w./]*)`", table)
    assert len(names) >= 10
    assert [n for n in names if "NN" not in n and not (ROOT / n).exists()] == []
