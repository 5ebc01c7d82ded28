"""test: the workbook's own tests. The last line is "N passed, N failed"."""

import argparse
import re
import subprocess
import sys
import time

import screen
from workspace import ROOT, CannotRun, build_root, install, run


def run_all(full: bool) -> int:
    start = time.monotonic()
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for preset, title in (
            ("learn", "Solutions under AddressSanitizer, UBSan, LeakSanitizer"),
            ("release", "Solutions and benchmarks, optimised")):
        build_root(preset, ["all"])
        _stage(title, ["ctest", "--preset", preset], counts, _ctest_counts)
    _need_pytest()
    try:
        install("requirements-hub.txt")
    except CannotRun as error:  # the tests of chapter 08 will fail, and say so
        print(error)
    _stage("The workbook's rules, tool and templates" if not full else
           "The same, with ladders, mutants, documentation and lint",
           [sys.executable, "-m", "pytest", "-q", "-rs", "--color=no",
            "-p", "no:cacheprovider", "-n", "auto", "--dist", "loadgroup", "tests",
            *(["--full"] if full else [])], counts, _pytest_counts)
    if full:
        _stage("Each solution on each libtorch, with the headers of each",
               [sys.executable, ROOT / "common/matrix"], counts, _pytest_counts)
    print(f"{time.monotonic() - start:.0f} s")
    text = f"{counts['passed']} passed, {counts['failed']} failed"
    if counts["skipped"]:
        text += f", {counts['skipped']} skipped"
    print(text)
    return 1 if counts["failed"] or not counts["passed"] else 0


def _stage(title, command, counts, count):
    print(screen.bold(f"== {title}"), flush=True)
    process = subprocess.Popen(
        list(map(str, command)), cwd=ROOT, text=True, errors="replace",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT)
    lines = []
    for line in process.stdout:
        lines.append(line)
        print(line, end="", flush=True)
    found = count("".join(lines))
    if process.wait() != 0 and not found["failed"]:
        found["failed"] = 1  # it stopped before it could count
    for key in counts:
        counts[key] += found[key]


def _ctest_counts(text):
    found = re.search(r"(\d+) tests failed out of (\d+)", text)
    failed, total = (int(found[1]), int(found[2])) if found else (0, 0)
    return {"passed": total - failed, "failed": failed, "skipped": 0}


def _pytest_counts(text):
    last = text.strip().splitlines()[-1] if text.strip() else ""
    found = {word: int(n) for n, word in re.findall(r"(\d+) (\w+)", last)}
    return {"passed": found.get("passed", 0),
            "failed": found.get("failed", 0) + found.get("error", 0) +
            found.get("errors", 0),
            "skipped": found.get("skipped", 0)}


def _need_pytest():
    if run([sys.executable, "-c", "import pytest, xdist"]).returncode == 0:
        return
    wanted = re.findall(r"^(?!torch==)\S+==\S+", (ROOT / "requirements.txt")
                        .read_text(), re.M)
    done = run([sys.executable, "-m", "pip", "install", "-q", *wanted])
    if done.returncode != 0:
        raise CannotRun(f"pytest could not be installed:\n{done.stdout[-500:]}"
                        f"{sys.executable} -m pip install {' '.join(wanted)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="./workbook test",
                                     description="The workbook's own tests.")
    parser.add_argument("--full", action="store_true",
                        help="with ladders, mutants, documentation, lint and "
                             "the matrix")
    sys.exit(run_all(parser.parse_args().full))
