"""Each row of the migration table compiles: the unstable half with the
installed headers, the stable half with the headers and the target that it names
and all newer ones, and with neither one version lower."""

import os
import re
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import ROOT
from workspace import CannotRun, torch_root

sys.path += [str(ROOT / "common/matrix"), str(ROOT / "docs")]
import gates  # noqa: E402
import migration  # noqa: E402
import runtimes  # noqa: E402
from migration import ROWS  # noqa: E402
from versions import supported  # noqa: E402

VERSIONS = supported()
STABLE = [row for row in ROWS if "stable" in row]


def least(row):
    return gates.minor(row["headers"]), gates.minor(row["target"])


def all_of(tasks):
    """tasks: (rows, kind, TORCH_ROOT, target). Each a compilation, on all
    cores; gives what the compiler said of each."""
    def one(task):
        rows, kind, root, target = task
        return gates.compile(migration.stable_code(rows, kind), root,
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
    for group in migration.groups():
        assert f"\\htmlinclude {migration.name(group)}.html" in page
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
        migration.unstable_code(rows), torch_root(), None, "-fsyntax-only",
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
