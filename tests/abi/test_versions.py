"""A version of torch is one line in libtorch/versions.txt: the matrix, the
schemas and the tables follow."""

import os
import shutil
import subprocess
import sys

import pytest

from base.project import ROOT
from torch_stable_abi.libtorch import runtimes
from torch_stable_abi.libtorch.versions import listed, numbers, supported

NEW, OLD = "2.99.0", "2.12.1"
LAST = listed()[-1]
RECORD = "./workbook test -- tests/abi/test_matrix.py --record"


@pytest.fixture
def copy(tmp_path):
    """Return what reads the list, in a folder of its own."""
    for folder in ("chapters", "common", "docs", "solutions", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    return tmp_path


def change(copy, old, new):
    path = copy / "common/abi/torch_stable_abi/libtorch/versions.txt"
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def run(*command, **environment):
    done = subprocess.run([sys.executable, *map(str, command)], text=True,
                          env={**os.environ, **environment},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, " ".join(done.stdout.split())


def tables(copy):
    return run("-c", "import tables; print(tables.conversions(), tables.ownership(), "
               "tables.matrix())", PYTHONPATH=os.pathsep.join(
                   [str(copy / "common"), str(copy / "docs/tools"),
                    str(copy / "tests/gpu"), str(copy / "tests/abi")]))


def matrix_runs(copy):
    status, text = run(copy / "common", "matrix", "--help")
    assert status == 0, text
    return text


def supported_in(copy):
    return run("-c", "import base; from torch_stable_abi.libtorch import versions; "
               "print(*versions.supported())", PYTHONPATH=str(copy / "common"))[1]


def test_a_version_is_taken_away_in_one_line(copy):
    assert OLD in matrix_runs(copy) and OLD in supported_in(copy)
    assert f"| {OLD} |" in tables(copy)[1]
    change(copy, f"{OLD}\n", "")
    assert OLD not in matrix_runs(copy) and OLD not in supported_in(copy)
    status, text = tables(copy)
    assert status == 0 and f"| {OLD} |" not in text


def test_a_version_is_added_in_one_line(copy):
    change(copy, f"{OLD}\n", f"{OLD}\n{NEW}\n")
    assert NEW in matrix_runs(copy) and NEW in supported_in(copy)
    # No table is made as if nothing were missing.
    status, text = tables(copy)
    assert status == 1
    assert f"no result of {NEW}: run {RECORD}" in text
    results = copy / "docs/results"
    for kind in ("conversions", "ownership"):
        text = (results / kind / f"{LAST}.json").read_text()
        (results / kind / f"{NEW}.json").write_text(text.replace(LAST, NEW))
    status, text = tables(copy)
    assert status == 1
    assert f"holds no {NEW}: run {RECORD}" in text
    matrix = (results / "matrix.json").read_text()
    (results / "matrix.json").write_text(matrix.replace(LAST, NEW))
    change(copy, f"{LAST}\n", "")
    status, text = tables(copy)
    assert status == 0 and f"| {NEW} |" in text


def test_a_line_that_is_no_version(copy):
    change(copy, f"{OLD}\n", "2.12\n")
    status, text = run(copy / "common", "matrix", "--help")
    assert status != 0
    assert "expected a version such as 2.10.0, not '2.12'" in text


@pytest.mark.full
def test_nothing_is_recorded_if_a_version_is_missing(copy):
    """The record of that version would be dropped, as of one no longer listed."""
    results = copy / "docs/results"
    before = {p: p.read_bytes() for p in results.rglob("*.json")}
    shutil.copy(ROOT / "pyproject.toml", copy)
    status, text = run("-m", "pytest", "-c", copy / "pyproject.toml", "--full",
                       copy / "tests/abi/test_matrix.py", "--record",
                       PIP_NO_INDEX="1", XDG_CACHE_HOME=str(copy / "empty"))
    assert status != 0
    assert "--record is of every version" in text and f"{LAST}: torch" in text
    assert before == {p: p.read_bytes() for p in results.rglob("*.json")}


def test_nothing_else_lists_versions():
    """A second list would go stale in silence."""
    here = numbers(runtimes.installed())
    newer = [v for v in listed() if v == LAST or numbers(v) > here]
    for path in sorted(ROOT.glob("common/**/*.py")) + \
            sorted(ROOT.glob("docs/tools/*.py")):
        text = path.read_text()
        for version in newer:
            assert f'"{version.rpartition(".")[0]}' not in text, path


def test_results_are_of_the_listed_versions():
    for kind in ("conversions", "ownership"):
        files = {p.stem for p in (ROOT / "docs/results" / kind).glob("*.json")}
        assert files == set(supported()), \
            f"docs/results/{kind}: run {RECORD}"


def test_a_library_that_no_wheel_brought_is_not_loaded(tmp_path, monkeypatch):
    monkeypatch.setattr(runtimes, "CACHE", tmp_path)
    library = tmp_path / "2.99.0/torch/lib/libtorch_cpu.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"")
    of_nothing = "sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"
    (tmp_path / "2.99.0/sums.json").write_text(
        f'{{"torch/lib/libtorch_cpu.so": ["{of_nothing}", 0]}}')
    assert runtimes.whole("2.99.0")
    (library.parent / "libgcc_s.so.1").touch()
    assert not runtimes.whole("2.99.0")


def test_a_list_of_sums_that_was_cut_off_is_not_trusted(tmp_path, monkeypatch):
    monkeypatch.setattr(runtimes, "CACHE", tmp_path)
    (tmp_path / "2.99.0").mkdir()
    (tmp_path / "2.99.0/sums.json").write_text('{"torch/lib/libtorch_cpu.so": ["sh')
    assert not runtimes.whole("2.99.0")


def test_libraries_of_the_users_are_found_behind_libtorch(monkeypatch):
    from torch_stable_abi.libtorch import extension
    monkeypatch.setenv("LD_LIBRARY_PATH", "/of/mine")
    paths = extension.make_environment(runtimes.installed())["LD_LIBRARY_PATH"]
    assert paths == f"{runtimes.root(runtimes.installed())}/lib:/of/mine"
