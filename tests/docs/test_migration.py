"""Each row of the migration table compiles: the unstable half with the
installed headers, the stable half with the headers and the target that it names
and all newer ones, and with neither one version lower."""

import os
import re
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from migration import ROWS
from workbook.installed import torch_root
from workbook.libtorch import gates, runtimes
from workbook.libtorch.versions import supported
from workbook.project import ROOT, CannotRun

UNSTABLE_HEADERS = [
    "ATen/ATen.h", "ATen/Dispatch.h", "ATen/OpMathType.h", "ATen/Parallel.h",
    "ATen/cpu/vec/vec.h", "ATen/native/cpu/Loops.h",
    "c10/core/impl/VirtualGuardImpl.h", "torch/custom_class.h",
    "torch/csrc/autograd/custom_function.h", "torch/library.h"]
PARAMETERS = "{0} x, {0} y, {0} out, int64_t n, std::string s, void* p"
VERSIONS = supported()
STABLE = [row for row in ROWS if "stable" in row]


def placed(rows: list[dict], kind: str, tensor: str) -> str:
    """Snippets where they may stand. Rows do not see each other, and what the
    compiler says of the third is said of a file "row_3"."""
    text = ""
    for i, row in enumerate(rows):
        code = row[kind].strip()
        if row.get("scope") != "file":
            code = f"void f({PARAMETERS.format(tensor)}) {{\n{code}\n}}"
        text += f'#line 1 "row_{i}"\nnamespace row_{i} {{\n{code}\n}}\n'
    return text


def unstable_code(rows: list[dict]) -> str:
    names = list(UNSTABLE_HEADERS)
    if any(row.get("python") for row in rows):
        names.append("torch/extension.h")
    return "".join(f"#include <{name}>\n" for name in names) + \
        placed(rows, "unstable", "at::Tensor")


def stable_code(rows: list[dict], kind: str = "stable") -> str:
    """`kind` of each row, with the rows' own includes, as far as these exist,
    and those of the parameters around."""
    names = [name for row in rows for name in row["include"]]
    if any(row.get("scope") != "file" for row in rows):
        names += ["torch/csrc/stable/tensor.h", "cstdint", "string"]
    defines = {name for row in rows for name in row.get("define", [])}
    return "".join(f"#define {name}\n" for name in sorted(defines)) + "".join(
        f"#if __has_include(<{name}>)\n#include <{name}>\n#endif\n"
        for name in dict.fromkeys(names)) + \
        placed(rows, kind, "torch::stable::Tensor")


def least(row):
    return gates.minor(row["headers"]), gates.minor(row["target"])


def all_of(tasks):
    """tasks: (rows, kind, TORCH_ROOT, target). Each a compilation, on all
    cores; gives what the compiler said of each."""
    def one(task):
        rows, kind, root, target = task
        return gates.compile(stable_code(rows, kind), root,
                             f"2.{target}")
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(one, tasks))


def grouped(rows, key):
    found = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def accepted(rows, text):
    """The rows of which the compiler said nothing bad."""
    bad = {int(n) for n in re.findall(r"^row_(\d+):\d+:\d+: error", text, re.M)}
    return [row["what"] for i, row in enumerate(rows) if i not in bad]


@pytest.fixture(scope="module")
def headers():
    """{minor: TORCH_ROOT} of each version."""
    for version in VERSIONS:
        if not runtimes.whole(version):
            try:
                runtimes.fetch(version)
            except CannotRun as error:
                pytest.fail(str(error))
    return {gates.minor(v): runtimes.root(v)
            for v in sorted({*VERSIONS, runtimes.installed()})}


def test_rows_are_complete():
    names = [(row["group"], row["what"]) for row in ROWS]
    assert len(set(names)) == len(names) >= 50
    page = (ROOT / "docs/migration.md").read_text()
    for group in {row["group"] for row in ROWS}:
        assert f'<!-- begin: migration "{group}" -->' in page
    for row in ROWS:
        assert set(row) <= {
            "group", "what", "unstable", "stable", "refused", "include",
            "define", "headers", "target", "scope", "python",
            "note"}, row["what"]
        assert "stable" in row or "note" in row, \
            f"{row['what']} has no counterpart, and nothing says what to do"
        assert "refused" in row or "stable" in row, row["what"]


@pytest.mark.full
def test_unstable_half():
    python = Path(sysconfig.get_path("include"))
    rows = ROWS
    if not (python / "Python.h").exists():
        rows = [row for row in ROWS if not row.get("python")]
    include = torch_root() / "include/torch/csrc/api/include"
    assert gates.compile(
        unstable_code(rows), torch_root(), None, "-fsyntax-only",
        "-isystem", include, "-isystem", python) == ""
    if rows is not ROWS:
        pytest.skip("the other rows compile; two need Python.h: "
                    "apt-get install python3-dev")


@pytest.mark.full
def test_stable_half_at_its_minima(headers):
    """Rows that name the same includes are compiled together, with nothing
    else."""
    tasks = [(rows, "stable", headers[oldest], target)
             for (_, _, oldest, target), rows in grouped(STABLE, lambda row: (
                 tuple(row["include"]), tuple(row.get("define", [])),
                 *least(row))).items()]
    assert [text for text in all_of(tasks) if text] == []


@pytest.mark.full
def test_stable_half_with_newer_headers(headers):
    """All rows that a version has, at its own target; the newest at 2.10 too."""
    wanted = [(minor, minor) for minor in headers] + [(max(headers), 10)]
    tasks = [([row for row in STABLE if least(row)[0] <= minor and
               least(row)[1] <= target], "stable", headers[minor], target)
             for minor, target in wanted]
    assert [text for text in all_of(tasks) if text] == []


@pytest.mark.full
def test_not_below_its_minima(headers):
    """One version lower, of the headers or of the target, each row is refused."""
    lower = {}
    for row in STABLE:
        oldest, target = least(row)
        if oldest - 1 in headers:
            at = oldest - 1, min(target, oldest - 1)
            lower.setdefault(at, []).append(row)
        if target > 10:
            lower.setdefault((max(headers), target - 1), []).append(row)
    assert sum(map(len, lower.values())) >= 15
    tasks = [(rows, "stable", headers[minor], target)
             for (minor, target), rows in lower.items()]
    for task, text in zip(tasks, all_of(tasks)):
        assert accepted(task[0], text) == []


@pytest.mark.full
def test_what_is_refused_is_refused(headers):
    """By the newest headers at the newest target; if one is accepted, its row
    has to be written anew."""
    newest = max(headers)
    rows = [row for row in ROWS if "refused" in row]
    text, = all_of([(rows, "refused", headers[newest], newest)])
    assert accepted(rows, text) == []


def test_a_row_without_an_error_is_noticed():
    rows = [{"what": "wrong", "x": "no_such();", "include": []},
            {"what": "right", "x": "(void)n;", "include": []}]
    text, = all_of([(rows, "x", torch_root(), 10)])
    assert accepted(rows, text) == ["right"]
