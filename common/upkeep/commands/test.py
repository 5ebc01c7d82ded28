"""test: the workbook's own tests; --full: everything.

With a file or more, only those tests are run, by pytest:
./workbook test -- tests/solutions/test_ladder.py -k 04

--unneeded asks which cases of the steps are needed, in the chapters named after it."""

import argparse
import contextlib
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable

from base import nvcc
from base.building import build_root
from base.project import BUILD, ROOT
from base.requirements import install, install_with_torch
from learn import screen
from torch_stable_abi.libtorch import runtimes
from torch_stable_abi.libtorch.versions import listed
from torch_stable_abi.programs import CannotRun

TITLES = {"learn": "Solutions under AddressSanitizer, UBSan, LeakSanitizer",
          "release": "Solutions, optimised"}


TAKES_COMMAND = True  # after --: words for pytest


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--full", action="store_true",
                        help="with benchmarks, ladders, mutants, templates, "
                             "stress, documentation, lint and every libtorch")
    parser.add_argument("--unneeded", action="store_true",
                        help="which cases of the steps catch no mistake and no mutant "
                             "that others miss (takes minutes)")
    parser.add_argument("pytest", nargs="*", metavar="...",
                        help="a file or more, after -- with pytest's options")


def run(arguments: argparse.Namespace) -> int:
    if arguments.unneeded:
        folders = ("common", "common/abi", "tests", "tests/solutions")
        return subprocess.run(
            [sys.executable, ROOT / "tests/solutions/unneeded.py", *arguments.pytest],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": os.pathsep.join(
                str(ROOT / folder) for folder in folders)}).returncode
    if arguments.pytest or arguments.command:
        _install_what_tests_need()
        return subprocess.run([
            sys.executable, "-m", "pytest", "--full", *arguments.pytest,
            *arguments.command], cwd=ROOT).returncode
    start = time.monotonic()
    os.environ.setdefault("CUDAARCHS", "90-real")  # compiled; one will do
    if arguments.full:  # beside what is built
        multiprocessing.Process(target=_fetch_versions, daemon=True).start()
    if nvcc.find() is None:
        try:
            nvcc.fetch()
        except CannotRun as error:
            print(f"Chapter 07 is built for CPU only: {error}")
    counts: Counter[str] = Counter()
    for preset, title in TITLES.items():
        if preset == "release" and not arguments.full:  # tests in Python load them
            build_root(preset, ["solutions"])
            continue
        build_root(preset, ["all" if arguments.full else "without_benchmarks"])
        counts += _stage(title, ["ctest", "--preset", preset,
                                 "--parallel", os.cpu_count(),
                                 *([] if arguments.full else ["-E", r"\.bench$"])],
                         _of_ctest)
    _install_what_tests_need()
    _compile_once()
    counts += _stage("Rules, tool and templates", [
        sys.executable, "-m", "pytest", "-q", "-rs", "--color=no",
        "-n", "auto", "--dist", "loadgroup", "--no-loadscope-reorder",
        *(["--full"] * arguments.full)],
        _of_pytest)
    print(f"{time.monotonic() - start:.0f} s")
    skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    print(f"{counts['passed']} passed, {counts['failed']} failed{skipped}")
    return 1 if counts["failed"] or not counts["passed"] else 0


def _fetch_versions() -> None:
    """Fetch what the matrix and aarch64 need, without a word. A test says what could
    not be had."""
    sys.stderr = open(os.devnull, "w")
    for version, machine in [*((v, runtimes.HERE) for v in listed()),
                             (runtimes.installed(), "aarch64")]:
        with contextlib.suppress(CannotRun):
            runtimes.fetch(version, machine)


def _compile_once() -> None:
    """Let ccache, where it is, keep what several tests compile alike in folders
    of their own. It begins with nothing, so no run counts on an earlier one."""
    ccache = shutil.which("ccache")
    if ccache is None:
        return
    cache = BUILD / "ccache"
    shutil.rmtree(cache, ignore_errors=True)
    os.environ |= {f"CMAKE_{language}_COMPILER_LAUNCHER": ccache
                   for language in ("C", "CXX", "CUDA")}
    os.environ |= {"CCACHE_DIR": str(cache), "CCACHE_NOHASHDIR": "1",
                   "CCACHE_BASEDIR": tempfile.gettempdir()}


def _stage(title: str, command: list, count: Callable[[str], Counter[str]]
           ) -> Counter[str]:
    print(screen.bold(f"== {title}"), flush=True)
    process = subprocess.Popen(
        list(map(str, command)), cwd=ROOT, text=True, errors="replace",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT)
    lines = []
    assert process.stdout
    for line in process.stdout:
        lines.append(line)
        print(line, end="", flush=True)
    found = count("".join(lines))
    if process.wait() != 0 and not found["failed"]:
        found["failed"] = 1  # it stopped before it could count
    return found


def _of_ctest(text: str) -> Counter[str]:
    found = re.search(r"(\d+) tests failed out of (\d+)", text)
    failed, total = (int(found[1]), int(found[2])) if found else (0, 0)
    skipped = text.count("***Skipped")
    return Counter(passed=total - failed - skipped, failed=failed,
                   skipped=skipped)


def _of_pytest(text: str) -> Counter[str]:
    """Count the last line, such as "3 failed, 200 passed, 1 skipped, 2 errors in
    9.8s"."""
    last = text.strip().splitlines()[-1:]
    found = {word: int(n) for n, word in
             re.findall(r"(\d+) (\w+)", "".join(last))}
    return Counter(
        passed=found.get("passed", 0), skipped=found.get("skipped", 0),
        failed=sum(found.get(word, 0) for word in
                   ("failed", "error", "errors")))


def _install_what_tests_need() -> None:
    """Install what tests need, since set-up may have been without a network."""
    install("tools")
    try:
        install_with_torch("hub")
    except CannotRun as error:  # the tests of chapter 08 will fail, and say so
        print(error)
