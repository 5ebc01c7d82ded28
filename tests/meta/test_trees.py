"""The contract of chapters/ and solutions/, file by file."""

import re
import subprocess

import pytest
from conftest import ROOT
from hunks import TODO, hunks
from workspace import chapters, read_sheet, source_files

EACH = pytest.mark.parametrize("chapter", chapters(), ids=lambda c: c.name)


def tracked(folder):
    names = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "."],
        cwd=folder, text=True, capture_output=True, check=True).stdout.split("\n")
    return {name for name in names if name}


@EACH
def test_same_files(chapter):
    assert tracked(chapter.starter) - {"README.md"} == \
        tracked(chapter.solution) - {"README.md"}


@EACH
def test_each_hunk_begins_at_its_todo(chapter):
    for hunk in hunks(chapter):
        assert hunk.step is not None, \
            f"{hunk.file}:{hunk.begin + 1} differs without a TODO:\n" + \
            "".join(hunk.old or hunk.new)


@EACH
def test_each_step_has_a_todo_and_no_other(chapter):
    found = set()
    for path in source_files(chapter.starter):
        found |= set(TODO.findall(path.read_text()))
    assert found == {step.id for step in chapter.steps}
    for path in source_files(chapter.solution):
        assert not TODO.search(path.read_text()), path


@EACH
def test_diff_is_small(chapter):
    lines = sum(len(h.old) + len(h.new) for h in hunks(chapter))
    assert lines <= 90
    assert 5 <= len(chapter.steps) <= 7


@EACH
def test_sheet(chapter):
    text = (chapter.starter / "README.md").read_text()
    sections = re.split(r"^## ", text, flags=re.M)[1:]
    steps = [s for s in sections if re.match(r"\d\d\.\d ", s)]
    assert [s[:4] for s in steps] == [step.id for step in chapter.steps]
    assert [f"{chapter.number}.{n}" for n in range(1, len(steps) + 1)] == \
        [step.id for step in chapter.steps]
    for section, step in zip(steps, chapter.steps):
        assert "**Done when**" in section, step.id
        assert section.count("<details>") == 2, step.id
        assert (chapter.starter / step.file).is_file(), step.file
        assert len(section.split("<details>")[0].splitlines()) <= 60, step.id
    assert sections[-1].startswith("What next")
    assert sum(step.minutes for step in chapter.steps) == chapter.minutes


@EACH
def test_solution_stands_alone(chapter):
    for path in source_files(chapter.solution):
        text = path.read_text()
        assert not re.search(r'#include [<"](testing|bench|common|doctest)', text)
        lines = text.count("\n")
        if path.name == "CMakeLists.txt":
            assert lines <= (35 if chapter.number != "08" else 150), path
        elif chapter.number != "08":
            assert lines <= 150, f"{path} has {lines} lines"


@EACH
def test_every_step_has_a_case(chapter):
    text = "".join(p.read_text() for p in ROOT.glob(f"tests/{chapter.number}_*"))
    text += "".join(p.read_text() for p in
                    ROOT.glob(f"tests/python/test_{chapter.number}_*"))
    for step in chapter.steps:
        assert f'TEST_CASE("{step.id} ' in text or \
            f"def test_{step.id.replace('.', '_')}_" in text


def test_carried_files_are_identical():
    """A file that a later solution carries keeps its bytes."""
    carried = {"slot.h", "stack.h", "silu_and_mul.h", "declared.h", "call_op.h",
               "compat.h", "gated.h", "plan.h", "functors.h"}
    for name in carried:
        copies = list(ROOT.glob(f"solutions/**/{name}"))
        assert len({path.read_bytes() for path in copies}) <= 1, copies


def test_a_chapter_of_doctest_cases_has_no_steps_in_python():
    """A file of that name would take their place."""
    for chapter in chapters():
        if chapter.python_test.exists():
            assert f"def test_{chapter.number}_1" in \
                chapter.python_test.read_text()


def test_readme_table_is_the_sheets():
    import tables
    assert tables.in_readme() == tables.chapter_table(), \
        "run: python3 common/tool/tables.py"


def test_a_broken_sheet_is_refused(tmp_path):
    from workspace import CannotRun
    (tmp_path / "README.md").write_text("# 01 Title\n")
    with pytest.raises(CannotRun, match="is not a sheet"):
        read_sheet(tmp_path)
