"""test: the workbook's own tests. The last line is "N passed, N failed"."""

import argparse
import datetime
import json
import os
import platform
import re
import resource
import subprocess
import sys
import time
from xml.etree import ElementTree

import screen
from workspace import (BUILD, ROOT, CannotRun, build_root, install, run,
                       torch_version)

sys.path.append(str(ROOT / "common"))
import stamp  # noqa: E402

REPORT = BUILD / "test.json"  # of the last run
CASES = BUILD / "pytest.xml"
RECORD = ROOT / "docs/results/test.json"


def run_all(full: bool, record: bool) -> int:
    start = time.monotonic()
    stages = []
    CASES.unlink(missing_ok=True)
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    os.environ.setdefault("CUDAARCHS", "90-real")  # compiled; one will do
    done = run([sys.executable, ROOT / "common/cuda/nvcc.py", "--fetch"])
    if done.returncode != 0:
        print(f"Chapter 07 is built for CPU only: {done.stdout.strip()}")
    for preset, title in (
            ("learn", "Solutions under AddressSanitizer, UBSan, LeakSanitizer"),
            ("release", "Solutions and benchmarks, optimised")):
        began = time.monotonic()
        build_root(preset, ["all"])
        _stage(title, ["ctest", "--preset", preset], counts, _ctest_counts,
               stages, began)
    _need_pytest()
    try:
        install("requirements-hub.txt")
    except CannotRun as error:  # the tests of chapter 08 will fail, and say so
        print(error)
    _stage("The workbook's rules, tool and templates" if not full else
           "The same, with ladders, mutants, documentation and lint",
           [sys.executable, "-m", "pytest", "-q", "-rs", "--color=no",
            "-p", "no:cacheprovider", "-n", "auto", "--dist", "loadgroup", "tests",
            "-o", "junit_family=xunit1", f"--junitxml={CASES}",
            *(["--full"] if full else [])], counts, _pytest_counts, stages)
    if full:
        _stage("Each solution on each libtorch, with the headers of each",
               [sys.executable, ROOT / "common/matrix"], counts, _pytest_counts,
               stages)
    _report(full, record, time.monotonic() - start, counts, stages)
    print(f"{time.monotonic() - start:.0f} s")
    text = f"{counts['passed']} passed, {counts['failed']} failed"
    if counts["skipped"]:
        text += f", {counts['skipped']} skipped"
    print(text)
    return 1 if counts["failed"] or not counts["passed"] else 0


def _report(full, record, seconds, counts, stages):
    """What ran, and how long it took; kept for the pages with --record."""
    used = [resource.getrusage(who) for who in
            (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    report = {
        "command": "./workbook test" + (" --full" if full else ""),
        "date": datetime.date.today().isoformat(),
        "hardware": stamp.hardware(),
        "versions": {"torch": torch_version(), "os": platform.platform(),
                     "compiler": stamp.compiler()},
        "seconds": round(seconds), **counts,
        "cpu_seconds": round(sum(u.ru_utime + u.ru_stime for u in used)),
        "stages": stages, "files": _by_file()}
    REPORT.write_text(json.dumps(report, indent=1) + "\n")
    if record:
        kept = json.loads(RECORD.read_text()) if RECORD.exists() else {}
        kept["full" if full else "quick"] = report
        RECORD.write_text(json.dumps(kept, indent=1) + "\n")


def _by_file():
    """How many of each file's tests in Python passed, and their seconds."""
    files = {}
    for case in ElementTree.parse(CASES).iter("testcase") \
            if CASES.exists() else ():
        of = files.setdefault(case.get("file"), {"passed": 0, "seconds": 0})
        of["passed"] += not case.findall("*[@message]")  # failed or skipped
        of["seconds"] = round(of["seconds"] + float(case.get("time")), 1)
    return dict(sorted(files.items()))


def _stage(title, command, counts, count, stages, began=None):
    began = began or time.monotonic()
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
    stages.append({"title": title, **found,
                   "seconds": round(time.monotonic() - began)})


def _ctest_counts(text):
    found = re.search(r"(\d+) tests failed out of (\d+)", text)
    failed, total = (int(found[1]), int(found[2])) if found else (0, 0)
    skipped = text.count("***Skipped")
    return {"passed": total - failed - skipped, "failed": failed,
            "skipped": skipped}


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
    parser.add_argument("--record", action="store_true",
                        help="keep counts and seconds in docs/results/test.json")
    arguments = parser.parse_args()
    sys.exit(run_all(arguments.full, arguments.record))
