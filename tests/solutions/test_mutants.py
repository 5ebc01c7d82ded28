"""Each wrong solution of mutants.toml is caught, by the step it names."""

import re

import pytest

from support import Implementation
from workbook.project import ROOT, read_toml
from workbook.sheets import chapters, find_chapter

MUTANTS = read_toml(ROOT / "tests/solutions/mutants.toml")["mutant"]
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
    assert verdict.kind in CAUGHT, verdict
    assert verdict.step == mutant["step"], verdict
    # What does not compile has run no step.
    assert verdict.kind == "compile" or all(
        verdict.steps[s.id] == "pass"
        for s in chapter.steps if s.id < mutant["step"]), verdict


@pytest.mark.parametrize("chapter", chapters(), ids=lambda c: c.number)
def test_five_mutants_a_chapter(chapter):
    mine = [m for m in MUTANTS if m["file"].startswith(chapter.name + "/")]
    assert len(mine) >= 5
    for mutant in mine:
        assert set(mutant) - {"bugs"} == {"file", "old", "new", "step", "why"}
        chapter.step(mutant["step"])
