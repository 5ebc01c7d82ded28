"""Each error of tests/errors.toml is provoked and says what docs/errors.md shows:
here with the installed libtorch where it can be, common/errors with all."""

import json
import subprocess
import sys

import pytest
from conftest import ROOT
from workspace import CannotRun

sys.path[:0] = [str(ROOT / "common/matrix"), str(ROOT / "common/errors")]
import provoking  # noqa: E402
import runtimes  # noqa: E402

RECORD = json.loads((ROOT / "docs/results/errors.json").read_text())


@pytest.fixture(scope="module")
def said():
    """{id: {version: what was said}}, and why a version is missing."""
    here, missing = runtimes.installed(), {}

    def versions(error):
        possible = provoking.versions_of(error)
        if here in possible:
            return [here]
        for version in possible:  # the matrix needs it as well
            try:
                if not runtimes.whole(version):
                    runtimes.fetch(version)
            except CannotRun as reason:
                missing[error["id"]] = str(reason)
        return possible if error["id"] not in missing else []
    return provoking.provoke(provoking.ERRORS, versions), missing


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
    errors = {e["id"]: e for e in provoking.ERRORS}
    assert list(RECORD["said"]) == list(errors) and len(errors) >= 20
    assert provoking.wrong(RECORD["said"]) == []
    for id, by_version in RECORD["said"].items():
        assert set(errors[id]) <= {
            "id", "when", "what", "code", "python", "script", "target", "flags",
            "unlinked", "on", "text", "signal", "means", "cure", "bugs", "page"}
        for version, found in by_version.items():
            assert any(text in found["message"] for text in
                       provoking.wanted(errors[id], version)), (id, version)
            assert errors[id].get("signal") in (None, found.get("signal"))


def test_an_unknown_id_is_refused():
    done = subprocess.run([sys.executable, ROOT / "common/errors", "gone"],
                          text=True, capture_output=True)
    assert done.returncode == 2
    assert "gone is none of unstable_header, " in done.stderr
