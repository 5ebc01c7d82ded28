"""The contract of chapters/ and solutions/, file by file."""

import re

import pytest

from base.hunks import TODO, hunks
from base.project import ROOT
from base.sheets import chapters, read_sheet, source_files
from learn.work import hints
from support import checkout_files

EACH = pytest.mark.parametrize("chapter", chapters(), ids=lambda c: c.name)


def tracked(folder):
    place = str(folder.relative_to(ROOT))
    return {name.removeprefix(f"{place}/") for name in checkout_files(place)}


@EACH
def test_an_exercise_holds_only_what_is_edited(chapter):
    for name in tracked(chapter.exercise) - {"README.md", "hints.md"}:
        assert (chapter.solution / name).read_bytes() != \
            (chapter.exercise / name).read_bytes(), f"{name} is given: delete it"


@EACH
def test_each_hunk_begins_at_its_todo(chapter):
    for hunk in hunks(chapter):
        assert hunk.step is not None, \
            f"{hunk.file}:{hunk.begin + 1} differs without a TODO:\n" + \
            "".join(hunk.old or hunk.new)


@EACH
def test_each_step_has_a_todo_and_no_other(chapter):
    found = set()
    for path in source_files(chapter.exercise):
        found |= set(TODO.findall(path.read_text()))
    assert found == {step.id for step in chapter.steps}
    for path in source_files(chapter.solution):
        assert not TODO.search(path.read_text()), path


@EACH
def test_diff_is_small(chapter):
    lines = sum(len(h.old) + len(h.new) for h in hunks(chapter))
    if chapter.number == "00":  # ten minutes: one step, which edits one line
        assert (len(chapter.steps), lines) == (1, 2)
        return
    assert lines <= 90
    assert 5 <= len(chapter.steps) <= 7


def test_chapter_00_is_short():
    for text in ("chapters/00_first_extension/README.md",
                 "docs/00_first_extension.md"):
        assert 600 <= len((ROOT / text).read_text().split()) <= 1200, text


@EACH
def test_sheet(chapter):
    text = (chapter.exercise / "README.md").read_text()
    sections = re.split(r"^## ", text, flags=re.M)[1:]
    steps = [s for s in sections if re.match(r"\d\d\.\d ", s)]
    assert [s[:4] for s in steps] == [step.id for step in chapter.steps]
    assert [f"{chapter.number}.{n}" for n in range(1, len(steps) + 1)] == \
        [step.id for step in chapter.steps]
    for section, step in zip(steps, chapter.steps):
        assert "**Done when**" in section, step.id
        assert len(hints(chapter, step.id)) == 3, step.id
        assert (chapter.exercise / step.file).is_file(), step.file
        shown = re.sub(r"^<details>.*?^</details>$", "", section, flags=re.M | re.S)
        assert len(shown.splitlines()) <= 60, step.id
    assert sections[-1].startswith("What next")
    assert sum(step.minutes for step in chapter.steps) == chapter.minutes


@EACH
def test_solution_stands_alone(chapter):
    for path in source_files(chapter.solution):
        text = path.read_text()
        assert not re.search(r'#include [<"](testing|bench|common|doctest)', text)


@EACH
def test_every_step_has_a_case(chapter):
    text = "".join(p.read_text() for p in chapter.tests.glob("*.*"))
    for step in chapter.steps:
        assert re.search(rf'TEST_CASE\(\s*"{step.id} ', text) or \
            f"def test_{step.id.replace('.', '_')}_" in text


def test_a_broken_sheet_is_refused(tmp_path):
    from torch_stable_abi.programs import CannotRun
    (tmp_path / "README.md").write_text("# 01 Title\n")
    with pytest.raises(CannotRun, match="is not a sheet"):
        read_sheet(tmp_path)
