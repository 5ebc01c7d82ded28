"""Each error of tests/errors.toml is provoked and says what docs/errors.md shows:
here with the installed libtorch, and with older ones that are here anyway;
common/errors does it with all."""

import json
import subprocess
import sys

import pytest
from conftest import ROOT

sys.path[:0] = [str(ROOT / "common/matrix"), str(ROOT / "common/errors")]
import provoking  # noqa: E402
import runtimes  # noqa: E402

RECORD = json.loads((ROOT / "docs/results/errors.json").read_text())


@pytest.fixture(scope="module")
def said():
    """Of a pair (id, version), once for all tests."""
    here = runtimes.installed()

    def versions(error):
        possible = provoking.versions_of(error)
        if here in possible:
            return [here]
        return [v for v in possible if runtimes.whole(v)]
    return provoking.provoke(provoking.ERRORS, versions)


@pytest.mark.full
@pytest.mark.parametrize("error", provoking.ERRORS, ids=lambda e: e["id"])
def test_error_is_provoked(said, error):
    found = said[error["id"]]
    if not found:
        pytest.skip(f"needs torch {error['on'][0]}, which ./workbook matrix "
                    "fetches")
    assert provoking.wrong({error["id"]: found}) == []


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
            assert found.get("signal") == errors[id].get("signal")


def test_an_unknown_id_is_refused():
    done = subprocess.run([sys.executable, ROOT / "common/errors", "gone"],
                          text=True, capture_output=True)
    assert done.returncode == 2
    assert "gone is none of unstable_header, " in done.stderr
