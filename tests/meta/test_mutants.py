"""Each wrong solution of tests/mutants.toml is caught, by the step it names."""

import re

import pytest
from conftest import ROOT, Implementation
from workspace import chapters, find_chapter

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib

MUTANTS = tomllib.loads((ROOT / "tests/mutants.toml").read_text())["mutant"]
CAUGHT = {"test", "leak", "sanitizer", "crash", "timeout", "compile", "load"}


@pytest.mark.full
@pytest.mark.parametrize(
    "mutant", MUTANTS,
    ids=lambda m: f"{m['step']}-" + re.sub(r"\W+", "-", m["why"][:40]))
def test_mutant_is_caught(mutant):
    folder, name = mutant["file"].split("/", 1)
    chapter = find_chapter(folder)
    mine = Implementation(chapter).copy_of(chapter.solution)
    mine.replace(name, mutant["old"], mutant["new"])
    verdict = mine.check()
    assert verdict["class"] in CAUGHT, verdict
    assert verdict["step"] == mutant["step"], verdict
    # What does not compile has run no step.
    assert verdict["class"] == "compile" or all(
        verdict["steps"][s.id] == "pass"
        for s in chapter.steps if s.id < mutant["step"]), verdict


@pytest.mark.parametrize("chapter", chapters(), ids=lambda c: c.number)
def test_five_mutants_a_chapter(chapter):
    mine = [m for m in MUTANTS if m["file"].startswith(chapter.name + "/")]
    assert len(mine) >= 5
    for mutant in mine:
        assert set(mutant) - {"bugs"} == {"file", "old", "new", "step", "why"}
        chapter.step(mutant["step"])


def test_survivors_still_apply():
    """tests/survivors.toml excuses lines that are there, and no others."""
    path = ROOT / "tests/survivors.toml"
    for entry in tomllib.loads(path.read_text())["survivor"]:
        assert set(entry) == {"file", "old", "new", "why"}
        source = (ROOT / "solutions" / entry["file"]).read_text()
        lines = [line.strip() for line in source.splitlines()]
        assert entry["old"] in lines, entry
