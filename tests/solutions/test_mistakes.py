"""Each wrong solution of a chapter is caught, at the step that it names, and each right
one in other words passes. Both stand in tests/NN_name/mistakes.toml:

    [[mistake]]
    step    the step that must catch it
    what    what goes wrong, for a learner or for a user
    file    of the implementation
    old     occurs there once, in the starter that is done up to the step
    new     what is wrong
    bugs    links of public reports, read to their end: docs/pitfalls.md shows them

With these three it has a text in verdicts.txt, what the tool says, to be read as one
who made the mistake:

    seen    where: "with readers", "plausible"
    kind    of the verdict
    at      a part of the line that is to be edited

    [[right]]
    file, old, new    all of a chapter's are made together, in the solution

Our words, the file and the line are compared, the compiler's own words are not."""

import re
import time

import pytest

from base.building import compiler, implementation_build
from base.hunks import starter_with
from base.project import ROOT
from base.sheets import chapters
from learn import screen
from support import Implementation
from torch_stable_abi.files import read_toml

CAUGHT = {"test", "leak", "sanitizer", "crash", "timeout", "compile", "load"}
ADDRESS = re.compile(r"0x(?:0000)?[567][0-9a-f]{11}\b")  # of a handle, of data
CALLED_AT = re.compile(r"(called at [^:\s]+):\d+")  # the number of its line
FIELDS = {"step", "what", "file", "old", "new"}
TEXT = {"seen", "kind", "at"}


def mistakes(chapter):
    return read_toml(chapter.tests / "mistakes.toml")["mistake"]


def name(mistake):
    return f"{mistake['step']}-" + re.sub(r"\W+", "-", mistake["what"][:40])


@pytest.mark.full
@pytest.mark.parametrize("chapter, mistake", [
    pytest.param(chapter, mistake, id=name(mistake))
    for chapter in chapters() for mistake in mistakes(chapter)])
def test_mistake(chapter, mistake, capsys, request):
    step = mistake["step"]
    mine = make(chapter, mistake)
    found = mine.check(at=step)
    assert found.step == step, found
    assert found.kind == mistake["kind"] if has_text(mistake) else found.kind in CAUGHT
    assert not found.ran or found.passed_up_to(
        max((s.id for s in chapter.steps if s.id < step), default="")), found
    if has_text(mistake):
        said = text_of(chapter, mistake, found, capsys)
        if request.config.getoption("--record"):
            record(chapter, mistake, said)
        elif "clang" in compiler():  # another's sanitizer has other words
            assert said == golden(chapter)[heading(mistake)].rstrip()


def make(chapter, mistake):
    """Return the starter, done up to the step, with the mistake in it."""
    mine = Implementation(chapter).become(starter_with(chapter, mistake["step"]))
    if chapter.number == "08":  # a build keeps the id that it has
        header = implementation_build(mine.folder) / "cpu/extension_name.h"
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text("#define TORCH_EXTENSION_NAME _activation_cpu_1a2b3c4d\n")
    time.sleep(0.01)  # what is saved last has a later time
    mine.replace(mistake["file"], mistake["old"], mistake["new"])
    return mine


# --- what the tool says -----------------------------------------------------------


def has_text(mistake):
    return "kind" in mistake


def heading(mistake):
    return f"## {mistake['step']} {mistake['what']} ({mistake['seen']})"


def golden(chapter):
    """{heading: what is said}"""
    file = chapter.tests / "verdicts.txt"
    text = file.read_text() if file.exists() else ""
    return dict(re.findall(r"^(## [^\n]*)\n\n(.*?)\n*(?=^## |\Z)", text,
                           re.M | re.S))


def text_of(chapter, mistake, found, capsys):
    """Return what is said of a verdict, without what differs from run to run."""
    lines = (ROOT / found.file).read_text().splitlines()
    assert mistake["at"] in lines[found.line - 1], found
    if found.kind == "compile":
        found.message = ["(the compiler's text)"]
    found.file = found.file.rpartition("/")[2]
    capsys.readouterr()
    screen.show_verdict(chapter, found, "save it")
    edit = f"Edit {found.file}:{found.line}, then save it"
    said = capsys.readouterr().out.replace(
        edit, f"Edit {found.file}: {lines[found.line - 1].strip()}").rstrip()
    return ADDRESS.sub("0x...", CALLED_AT.sub(r"\1", said))


def record(chapter, mistake, said):
    known = {**golden(chapter), heading(mistake): said}
    order = [heading(m) for m in mistakes(chapter) if has_text(m)]
    (chapter.tests / "verdicts.txt").write_text("\n\n".join(
        f"{h}\n\n{known[h].rstrip()}" for h in order if h in known) + "\n")


# --- the table --------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("chapter", chapters(), ids=lambda c: c.number)
def test_right_in_other_words(chapter):
    mine = Implementation(chapter).copy_of(chapter.solution)
    changes = read_toml(chapter.tests / "mistakes.toml")["right"]
    assert changes
    for change in changes:
        mine.replace(change["file"], change["old"], change["new"])
    verdict = mine.check()
    assert verdict.passed, verdict


@pytest.mark.parametrize("chapter", chapters(), ids=lambda c: c.number)
def test_no_program_is_there_twice(chapter):
    """A mistake in two wordings is one, which no verdict could tell apart."""
    programs = {}
    for mistake in mistakes(chapter):
        text = (chapter.solution / mistake["file"]).read_text()
        wrong = text.replace(mistake["old"], mistake["new"])
        program = "".join(re.sub(r"//.*", "", wrong).split())
        if wrong != text:  # else it is in what a later step replaces
            same = programs.setdefault((mistake["step"], program), mistake["what"])
            assert same is mistake["what"], f"{same!r} and {mistake['what']!r}"


@pytest.mark.parametrize("chapter", chapters(), ids=lambda c: c.number)
def test_each_step_has_three_mistakes_with_a_text(chapter):
    for mistake in mistakes(chapter):
        fields = set(mistake) - {"bugs"}
        assert fields == (FIELDS | TEXT if has_text(mistake) else FIELDS), mistake
        chapter.step(mistake["step"])
    steps = [m["step"] for m in mistakes(chapter) if has_text(m)]
    for step in chapter.steps:
        assert steps.count(step.id) >= 3, step.id
    assert set(golden(chapter)) == {
        heading(m) for m in mistakes(chapter) if has_text(m)}
