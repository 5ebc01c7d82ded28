"""Each error of errors.toml is provoked and says what docs/errors.md shows. By
default with the installed libtorch where it can be; with --record by every
libtorch since 2.10, and docs/results/errors.json is written."""

import datetime
import json
import platform
from importlib import metadata

import pytest

from errors import provoking
from workbook import stamp
from workbook.libtorch import runtimes
from workbook.project import ROOT, CannotRun

FILE = ROOT / "docs/results/errors.json"


@pytest.fixture(scope="module")
def said(request):
    """{id: {version: what was said}}, and why a version is missing."""
    here, missing = runtimes.installed(), {}
    record = request.config.getoption("--record")

    def versions(error):
        possible = provoking.versions_of(error)
        if here in possible and not record:
            return [here]
        for one in possible:  # the matrix needs it as well
            try:
                if not runtimes.whole(one):
                    runtimes.fetch(one)
            except CannotRun as reason:
                missing[error["id"]] = str(reason)
        return possible if error["id"] not in missing else []
    texts = provoking.provoke(provoking.ERRORS, versions)
    if record and not missing and not provoking.wrong(texts):
        FILE.write_text(json.dumps({
            "schema": 1, "what": "errors",
            "date": datetime.date.today().isoformat(), "software": software(),
            "said": texts}, indent=1, ensure_ascii=False) + "\n")
    return texts, missing


def software():
    found = {"compiler": stamp.compiler(), "headers": runtimes.installed(),
             "python": platform.python_version()}
    for package in ("torch", "kernels"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            pass
    return found


@pytest.mark.full
@pytest.mark.parametrize("error", provoking.ERRORS, ids=lambda e: e["id"])
def test_error_is_provoked(said, error):
    texts, missing = said
    id = error["id"]
    assert texts[id], missing[id]
    assert provoking.wrong({id: texts[id]}) == []


def test_an_error_that_says_something_else_is_noticed(tmp_path):
    error = {"id": "x", "when": "call", "text": "gone",
             "python": "raise SystemExit('here')"}
    found = provoking.Provoked(error, tmp_path / "x").with_version(
        runtimes.installed())
    assert found["message"] == provoking.UNEXPECTED + "here"
    error["text"], error["signal"] = "here", "SIGSEGV"
    found = provoking.Provoked(error, tmp_path / "y").with_version(
        runtimes.installed())
    assert found["message"] == provoking.UNEXPECTED + "status 1: here"


def test_the_record_is_of_these_errors():
    recorded = json.loads(FILE.read_text())["said"]
    errors = {e["id"]: e for e in provoking.ERRORS}
    assert list(recorded) == list(errors) and len(errors) >= 20
    assert provoking.wrong(recorded) == []
    for id, by_version in recorded.items():
        assert set(errors[id]) <= {
            "id", "when", "what", "code", "python", "script", "target", "flags",
            "unlinked", "on", "text", "signal", "means", "cure", "bugs", "page"}
        for version, found in by_version.items():
            assert any(text in found["message"] for text in
                       provoking.wanted(errors[id], version)), (id, version)
            assert errors[id].get("signal") in (None, found.get("signal"))
