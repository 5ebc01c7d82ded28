"""The port of docs/porting: each step builds and passes the same test, fewer
and fewer symbols are unstable, and the last library runs on each libtorch."""

import datetime
import json
import os
import re
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import port
import porting as diffs
from base import stamp
from base.project import ROOT
from torch_stable_abi.libtorch import runtimes
from torch_stable_abi.libtorch.installed import torch_root
from torch_stable_abi.libtorch.versions import numbers, supported
from torch_stable_abi.programs import CannotRun

PORTING = ROOT / "docs/porting"
VERSIONS = supported()
UNSTABLE_INCLUDE = re.compile(
    r"#include <(ATen|c10|torch/(?!csrc/stable|headeronly))")


RECORD = ROOT / "docs/results/porting.json"


@pytest.fixture(scope="module")
def rows(request, tmp_path_factory):
    try:
        found = port.all_steps(torch_root(), tmp_path_factory.mktemp("port"))
    except SystemExit as error:
        pytest.fail(str(error))
    if request.config.getoption("--record"):
        RECORD.write_text(json.dumps({
            "schema": 1, "what": "porting",
            "date": datetime.date.today().isoformat(),
            "torch": runtimes.installed(), "compiler": stamp.compiler(),
            "steps": [{"step": row["step"], "test": row["test"],
                       "needed": row["needed"],
                       "unstable_symbols": len(row["unstable_symbols"])}
                      for row in found]}, indent=1) + "\n")
    return found


def fetched(version):
    if not runtimes.whole(version):
        try:
            runtimes.fetch(version)
        except CannotRun as error:
            pytest.fail(str(error))
    return runtimes.root(version) / "lib"


def test_a_step_changes_one_file_of_cpp():
    """It holds no file that is as it was, and the page shows what changes."""
    page = (ROOT / "docs/porting.md").read_text()
    for step in diffs.STEPS[1:]:
        changed = diffs.changed(step)
        assert [name for name, old, new in changed if old == new] == [], step.name
        names = [name for name, old, _ in changed if old]
        assert sum(name.endswith(".cpp") for name in names) <= 1, step.name
        assert "CMakeLists.txt" in names
        assert f"<!-- begin: diff {step.name} -->" in page
    own = re.sub("<!-- begin: .*?<!-- end -->", "", page, flags=re.S)
    assert "```" not in own, "code comes from the steps"


def test_one_file_leaves_the_unstable_headers_at_each_step():
    counts = [sum(bool(UNSTABLE_INCLUDE.search(path.read_text()))
                  for path in diffs.files(step).values()) for step in diffs.STEPS]
    assert counts == [4, 3, 2, 1, 0, 0]


def test_the_page_shows_these_steps():
    result = json.loads(RECORD.read_text())
    assert [row["step"] for row in result["steps"]] == \
        [step.name for step in diffs.STEPS]


@pytest.mark.full
def test_each_step_passes_the_same_test(rows):
    assert [row["step"] for row in rows] == [s.name for s in diffs.STEPS]
    assert len({row["test"] for row in rows}) == 1
    assert int(rows[0]["test"].split()[0]) >= 30


@pytest.mark.full
def test_unstable_symbols_become_fewer(rows):
    counts = [len(row["unstable_symbols"]) for row in rows]
    assert counts[:5] == sorted(set(counts[:5]), reverse=True), counts
    assert counts[4:] == [0, 0]
    assert any("at::_ops::div_Tensor" in s for s in rows[3]["unstable_symbols"])
    assert "libc10.so" in rows[4]["needed"]
    torch = [n for n in rows[5]["needed"] if re.match("lib(torch|c10|gomp)", n)]
    assert torch == ["libtorch_cpu.so"]


@pytest.mark.full
def test_only_a_type_of_error_differs(request, rows):
    """The page shows it. The files' folder is cut from texts."""
    libraries = [rows[0]["library"], rows[5]["library"]]
    done = subprocess.run(
        [ROOT / "workbook", "compare", *libraries, PORTING / "cases.py"], text=True,
        capture_output=True)
    said = re.sub(r"[^\s,]*/", "", done.stdout)
    words = " ".join(["compare", "old/librowops.so", "new/librowops.so", "cases.py"])
    file = ROOT / "docs/results/compare.txt"
    if request.config.getoption("--record"):
        file.write_text(f"$ ./workbook {words}\n{said}")
    assert done.returncode == 1 and "9 the same, 1 differ" in said, done.stderr
    assert file.read_text().partition("\n")[2] == said


@pytest.mark.full
def test_an_auditor_agrees(rows):
    if sys.version_info < (3, 11):
        pytest.skip("torch-abi-audit needs Python 3.11")
    audit = Path(sysconfig.get_path("scripts"), "torch-abi-audit")
    for i, row in enumerate(rows):
        done = subprocess.run([audit, "--json", row["library"]], text=True,
                              stdout=subprocess.PIPE)
        found = json.loads(done.stdout)["bundled_libs"][0]["torch"]
        assert len(found["unstable_symbols"]) == len(row["unstable_symbols"])
        assert found["stable"] == (i >= 4)
    assert found["min_torch_version"] == "2.10.0"


@pytest.mark.full
def test_the_last_step_runs_on_each_libtorch(rows, tmp_path):
    """One library and one program, from the oldest to the newest. What the
    first step has built does not load on the oldest."""
    program, torch = tmp_path / "run", torch_root()
    port.run("c++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror",
                "-DTORCH_TARGET_VERSION=0x020a000000000000", "-isystem",
                torch / "include", PORTING / "run.cpp", "-o", program,
                torch / "lib/libtorch_cpu.so")

    def run(task):
        version, row = task
        return subprocess.run(
            [program, row["library"]], text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LD_LIBRARY_PATH": str(fetched(version))})
    with ThreadPoolExecutor(2) as pool:
        tasks = [(version, rows[-1]) for version in VERSIONS]
        for (version, _), done in zip(tasks, pool.map(run, tasks)):
            minor = numbers(version)[1]
            assert done.stdout == f"pass on libtorch 2{minor:02x}\n"
            assert done.returncode == 0
    if numbers(runtimes.installed()) > numbers(VERSIONS[0]):
        done = run((VERSIONS[0], rows[0]))
        assert done.returncode != 0 and "undefined symbol" in done.stdout
