"""Helpers of tests of several subjects."""

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pexpect
import pytest

from base.project import ROOT
from base.requirements import OF_PACKAGE, REQUIREMENTS
from base.sheets import Chapter, source_files
from learn import checking
from learn.checking.processes import Tests
from torch_stable_abi.libtorch import runtimes
from torch_stable_abi.libtorch.installed import torch_root
from torch_stable_abi.programs import CannotRun
from torch_stable_abi.projects import library_of


def passes(*command, **options) -> str:
    """Return what a program prints. Fail, and show it, if the status is not 0."""
    done = subprocess.run(
        list(map(str, command)), text=True, errors="replace",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, **options)
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


def lacks_inductor() -> str:
    """Return why PyTorch's Inductor cannot link here, or an empty text."""
    return "PyTorch's Inductor cannot link where torch's path has a space" \
        if " " in str(torch_root()) else ""


def fetch_libtorch(version: str) -> Path:
    """Return the folder of a libtorch, fetched if it is not here. Fail if it cannot
    be."""
    try:
        if not runtimes.whole(version):
            runtimes.fetch(version)
    except CannotRun as error:
        pytest.fail(str(error))
    return runtimes.root(version)


def checkout_files(*patterns: str) -> list[str]:
    """Return what git has or would take: what is to be committed counts as well."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard",
         *patterns], cwd=ROOT, text=True, capture_output=True,
        check=True).stdout.split("\0")
    return [name for name in names if name and (ROOT / name).is_file()]


def copy_checkout(folder: Path, with_venv: bool = True) -> Path:
    for name in checkout_files():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    if with_venv:
        (folder / ".venv").symlink_to(ROOT / ".venv")
    return folder


def copy_set_up(folder: Path) -> None:
    """Copy what ./workbook needs for setting up, and no tool."""
    for path in (REQUIREMENTS, OF_PACKAGE):
        shutil.copytree(path, folder / path.relative_to(ROOT))
    shutil.copy(ROOT / "workbook", folder)


def at_once(*calls):
    """Return the results of calls that each wait for a compiler."""
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(*call) for call in calls]
        return [future.result() for future in futures]


def compiler_after(folder: Path, head: str, *flags: str | Path):
    """Return a function that compiles code which follows a head, such as a chapter's
    header, without writing output. It returns the finished process. The head is
    compiled once, which saves most of the time."""
    header = folder / "head.h"
    header.write_text(head)
    command = ["g++", "-std=c++17", "-DTORCH_TARGET_VERSION=0x020a000000000000",
               "-isystem", torch_root() / "include", *flags]
    passes(*command, header, "-o", f"{header}.gch")

    def compiled(code: str):
        return subprocess.run(
            [*command, "-fsyntax-only", "-include", header, "-xc++", "-"],
            input=code, text=True, capture_output=True,
            env={**os.environ, "LC_ALL": "C"})
    return compiled


# --- implementations -----------------------------------------------------------


class Implementation:
    """A copy of a starter or a solution, to be changed and checked. It keeps its
    place, so that only what is changed is compiled, and the process of its tests."""

    tests: Tests | None = None  # of what was checked last

    def __init__(self, chapter: Chapter):
        self.chapter = chapter
        worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
        self.folder = ROOT / "build/scratch" / worker / chapter.name

    def copy_of(self, folder: Path) -> "Implementation":
        return self.become({
            str(path.relative_to(folder)): path.read_text()
            for path in source_files(folder)})

    def become(self, texts: dict[str, str]) -> "Implementation":
        for path in source_files(self.folder):
            if str(path.relative_to(self.folder)) not in texts:
                path.unlink()
        for name, text in texts.items():
            self.write(name, text)
        return self

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)

    def replace(self, name: str, old: str, new: str) -> None:
        text = (self.folder / name).read_text()
        assert text.count(old) == 1, f"{name} holds {text.count(old)} x {old!r}"
        self.write(name, text.replace(old, new))

    def line_of(self, name: str, text: str) -> int:
        lines = (self.folder / name).read_text().splitlines()
        found = [n for n, line in enumerate(lines, 1) if text in line]
        assert len(found) == 1, f"{text!r} is in lines {found} of {name}"
        return found[0]

    def check(self, at: str | None = None) -> checking.Verdict:
        tests = checking.begin_tests(self.chapter, self.folder, Implementation.tests,
                              lasting=True)
        Implementation.tests = tests
        return checking.check(self.chapter, self.folder, at=at, ready=tests)


def build_alone(source: Path, folder: Path, *options: str, by: str = ""
                ) -> Path | None:
    """Build a solution, or a copy of one, as a project of its own; a warning is
    an error. Gives its library."""
    passes("cmake", "-G", "Ninja", "-S", source, "-B", folder,
           f"-DTORCH_ROOT={torch_root()}", "-DCMAKE_CXX_FLAGS=-Werror",
           "-DACTIVATION_CUDA=OFF", *options,
           env={**os.environ, "CXX": by or os.environ.get("CXX", "c++")})
    passes("cmake", "--build", folder)
    return library_of(folder)


# --- terminals -------------------------------------------------------------------


def terminal(checkout: Path, *arguments: str, **environment: str
             ) -> pexpect.spawn:
    """./workbook there, on a terminal of 80 columns."""
    child = pexpect.spawn(
        "./workbook", list(arguments), cwd=str(checkout), encoding="utf-8",
        codec_errors="replace", dimensions=(40, 80), timeout=120,
        env={**os.environ, **environment},
        # A job in the background ignores it, and so would all it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    child.str_last_chars = 4000  # that are shown if something does not come
    return child


def until(child: pexpect.spawn, text: str, seconds: float = 120) -> str:
    child.expect_exact(text, timeout=seconds)
    return child.before + text


def ended(child: pexpect.spawn) -> tuple[int, str]:
    """Return the exit status, and what is printed until then."""
    child.expect(pexpect.EOF)
    child.wait()
    return child.exitstatus, child.before


# --- templates, as their users have them --------------------------------------------


def bare_environment(folder: Path) -> Path:
    """Return the bin/ of a Python environment that sees the torch, pip and the build
    tools that are here, and nothing of the workbook."""
    venv.create(folder)
    site, = folder.glob("lib/python*/site-packages")
    (site / "there.pth").write_text(
        f"{sysconfig.get_path('purelib')}\n{torch_root().parent}\n")
    return folder / "bin"


def alone(*command, cwd: Path, **environment: str) -> str:
    """Run a command without the variables that the workbook has set, and return its
    output."""
    left = {"TORCH_ROOT", "PYTHONPATH", "VIRTUAL_ENV"}
    return passes(*command, cwd=cwd, env={
        **{k: v for k, v in os.environ.items() if k not in left},
        **environment})


def copy_solution(chapter: Chapter, folder: Path) -> Path:
    for path in [*source_files(chapter.solution),
                 *chapter.solution.glob("README.md")]:
        target = folder / path.relative_to(chapter.solution)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    return folder


def passed(text: str) -> int:
    """Return how many tests passed, by pytest's last line, and fail if one did not."""
    assert "failed" not in text and "error" not in text.splitlines()[-1], text
    return int(re.search(r"(\d+) passed", text)[1])


PYTHON = sys.executable
