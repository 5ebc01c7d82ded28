"""The chapters: what their sheets say, and which files they consist of."""

import functools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from base.project import MINE, ROOT
from torch_stable_abi.files import (
    copy_file,
    describe_special,
    leads_nowhere,
    place,
    refuse_odd_folder,
    refuse_utf_16,
)
from torch_stable_abi.programs import CannotRun

# In the folder of an implementation, but no part of it.
NO_SOURCES = ("README.md", "hints.md", "compile_commands.json")


@dataclass(frozen=True)
class Step:
    id: str  # "01.3"
    title: str
    minutes: int
    file: str


@dataclass(frozen=True)
class Chapter:
    name: str  # "01_headeronly_types"
    title: str
    minutes: int
    torch: str
    needs: str
    steps: tuple[Step, ...]

    @property
    def number(self) -> str:
        return self.name[:2]

    @property
    def exercise(self) -> Path:
        """Return the folder of the sheet, and of those files of the starter that are
        not the solution's."""
        return ROOT / "chapters" / self.name

    @property
    def solution(self) -> Path:
        return ROOT / "solutions" / self.name

    def starter_files(self) -> dict[str, Path]:
        """Return the solution, with the exercise laid over it: {name: file}."""
        return {str(path.relative_to(folder)): path
                for folder in (self.solution, self.exercise)
                for path in source_files(folder)}

    @property
    def steps_in_python(self) -> Path:
        """Return the steps of a chapter that pytest tests; others have no such file."""
        return self.tests / "steps.py"

    @property
    def tests(self) -> Path:
        return ROOT / "tests" / self.name

    @property
    def mine(self) -> Path:
        return MINE / self.name

    def step(self, id: str) -> Step:
        for step in self.steps:
            if step.id == id:
                return step
        first, last = self.steps[0].id, self.steps[-1].id
        raise CannotRun(f"chapter {self.number} has no step {id}: it has {first} " +
                        (f"to {last}" if first != last else "alone"))


def read_sheet(folder: Path) -> Chapter:
    """Return the chapter of a sheet, which is the only source of its title, times and
    steps."""
    text = (folder / "README.md").read_text()
    title = re.search(r"^# \d\d (.+)$", text, re.M)
    facts = re.search(r"^\| *(\d+) *\| *([\d.]+) *\| *(.+?) *\|$", text, re.M)
    steps = re.findall(
        r"^## (\d\d\.\d) (.+)\n\n\*(\d+) minutes · `([^`]+)`", text, re.M)
    if not (title and facts and steps):
        raise CannotRun(f"{folder}/README.md is not a sheet: it lacks its "
                        "title, its table or its steps")
    return Chapter(
        folder.name, title[1], int(facts[1]), facts[2], facts[3],
        tuple(Step(id, name, int(minutes), file)
              for id, name, minutes, file in steps))


@functools.cache
def chapters() -> tuple[Chapter, ...]:
    found = tuple(read_sheet(path.parent)
                  for path in sorted(ROOT.glob("chapters/*/README.md")))
    for folder in [chapter.solution for chapter in found] or [ROOT / "chapters/00"]:
        if not folder.is_dir():
            raise CannotRun(f"there is no {folder.relative_to(ROOT)}: bring it back, "
                            f"for example by git restore {folder.parent.name}")
    return found


def find_chapter(number: str) -> Chapter:
    for chapter in chapters():
        if number in (chapter.number, chapter.name):
            return chapter
    raise CannotRun(f"there is no chapter {number}: "
                    f"./workbook list shows all of them")


def source_files(folder: Path) -> list[Path]:
    """Return what an implementation consists of: its files without the sheet."""
    return sorted(path for path in _find_parts(folder) if path.is_file())


@functools.cache
def _given_folders() -> set[str]:
    """Return the folders in a solution, such as tests."""
    return {os.path.relpath(path, solution) for solution in ROOT.glob("solutions/*")
            for path in solution.rglob("*") if path.is_dir()}


def _find_parts(folder: Path) -> Iterator[Path]:
    """Yield what belongs to an implementation: no hidden file, none that an editor or
    git left beside a source, no build folder. A link in place of a folder that a
    solution has is followed; another one may lead anywhere."""
    hidden, left = (".", "#", "__pycache__"), ("~", ".orig")
    for at, folders, names in os.walk(folder, followlinks=True):
        inside = Path(at).relative_to(folder)
        folders[:] = [
            name for name in folders if not name.startswith((*hidden, "build")) and
            (not os.path.islink(os.path.join(at, name)) or
             str(inside / name) in _given_folders())]
        for name in names:
            if not (name.startswith(hidden) or name.endswith(left)) and \
                    str(inside / name) not in NO_SOURCES:
                yield folder / inside / name


def refuse_odd_files(chapter: Chapter, folder: Path) -> None:
    """Refuse an implementation that has, among its files, one that may have no end,
    and what stands in place of a file of the starter and is none: a folder, a link
    that leads nowhere, text of two bytes a character."""
    for name in chapter.starter_files():
        path = folder / name
        if path.is_dir():
            raise CannotRun(f"{place(path)} is a folder, where a file is expected: "
                            "move it away")
        if path.is_file():
            refuse_utf_16(path)
    for path in _find_parts(folder):
        what = describe_special(path)
        if not what and not leads_nowhere(path):
            continue
        given = str(path.relative_to(folder)) in chapter.starter_files()
        again = f", and ./workbook check {chapter.number} brings the starter's" \
            if given and folder == chapter.mine else ""
        if what:
            raise CannotRun(f"{place(path)} is {what}, where a file is expected: "
                            f"remove it{again}")
        if given:
            raise CannotRun(f"{place(path)} is a link to {path.readlink()}, which is "
                            f"not there: bring that back, or remove the link{again}")


def missing(chapter: Chapter) -> str:
    """Return a file that the learner's copy lacks, or ""."""
    return next((name for name in chapter.starter_files()
                 if not (chapter.mine / name).exists()
                 and not (chapter.mine / name).is_symlink()), "")


def open_chapter(chapter: Chapter) -> None:
    """Make the learner's copy. A file that is there is never written over, nor a
    link."""
    refuse_odd_folder(MINE)
    refuse_odd_folder(chapter.mine)
    refuse_odd_files(chapter, chapter.mine)
    there = chapter.mine.exists()
    for name, path in chapter.starter_files().items():
        copy = chapter.mine / name
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy_file(path, copy)
            if there:
                print(f"my/{chapter.name}/{name} was missing; it is the "
                      "starter's again")
