"""The page of proofs: a figure comes from a recorded result, or there is none."""

import json
import re
import sys

from conftest import ROOT
from workspace import chapters

sys.path.insert(0, str(ROOT / "docs"))
import make_quality  # noqa: E402


def proofs(results):
    return {what: figure for section in make_quality.PROOFS.values()
            for of in section for what, _, figure in of(results)}


def test_without_results_nothing_is_claimed_but_what_the_repository_holds(
        tmp_path):
    counted = {w: f for w, f in proofs(tmp_path).items()
               if make_quality.NOT_YET not in f}
    assert set(counted) == {"Steps with a test of their own",
                            "Test cases in C++"}
    assert counted["Steps with a test of their own"] == \
        str(sum(len(c.steps) for c in chapters()))


def test_figures_are_those_of_the_results(tmp_path):
    for name, value in {
            "mutation": {"chapters": {"01_a": {
                "generated": 90, "tried": 50, "test": 30, "crash": 8,
                "survived": 2, "invalid": 9, "equal": 1, "survivors": [{}]}}},
            "fire": {"command": "fire it", "proofs": [
                {"name": "04", "what": "calls", "figure": 1200, "unit": "M"}]},
            "machines": {"machines": [{"machine": "clang", "passed": True},
                                      {"machine": "user", "passed": False}]},
            "site": {"links": {"followed": 7, "files": 3, "broken": 0},
                     "axe": {"views": 8, "rules": 1}},
            "test": {"full": {
                "passed": 70, "failed": 0, "skipped": 1, "seconds": 600,
                "cpu_seconds": 1200, "hardware": {"cores": 2},
                "stages": [{"title": "Under AddressSanitizer", "passed": 8,
                            "failed": 0}],
                "files": {"tests/meta/test_ladder.py": {"passed": 64}}}},
    }.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    text = make_quality.page(tmp_path)
    for figure in ("38 of 40 caught (95%), 1 chapters",
                   "| Calls | 1,200 M | `fire it` |",
                   "| passes: clang; fails: user; not measured yet: debian, ",
                   "7 followed in 3 files, 0 broken",
                   "1 rules violated in 8 views", "| 64 rungs |",
                   "| 8 passed, 0 failed |", "70 passed, 0 failed, 1 skipped; "
                   "10.0 minutes on 2 cores, 20 CPU minutes"):
        assert figure in text


def test_page_has_the_results_that_are_recorded():
    assert (ROOT / "docs/quality.md").read_text() == \
        make_quality.page(ROOT / "docs/results"), "python3 docs/make_quality.py"


def test_page_04_says_in_words_what_its_benchmark_counted():
    groups = json.loads(
        (ROOT / "docs/results/04_boxed_kernels.json").read_text())["groups"]
    ratio = {m["name"]: m["ratio"] for g in groups
             if g["name"] == "instructions/call" for m in g["members"]}
    by_hand, checked = ratio["by hand, Tensor"], ratio["the same, checked"]
    text = " ".join((ROOT / "docs/04_boxed_kernels.md").read_text().split())
    assert f"missed with this C library: {ratio['by hand, handles']:.2f} and " \
        f"{ratio['TORCH_BOX']:.2f}." in text
    assert f"are {checked / by_hand - 1:.0%} of a hand-boxed call".replace(
        "%", " %") in text


def test_changelog_begins_with_the_version():
    version = re.search(r"^project\(\w+ VERSION (\S+)",
                        (ROOT / "CMakeLists.txt").read_text(), re.M)[1]
    first = re.search(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.M)[1]
    assert first in (version, "Unreleased")
