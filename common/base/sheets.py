"""The chapters: what their sheets say, and which files they consist of."""

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from base.project import MINE, ROOT
from torch_stable_abi.files import copy_file
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
        """The sheet, and those files of the starter that are not the
        solution's."""
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
        """Where it is, the chapter's steps are tested by pytest."""
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
        raise CannotRun(f"chapter {self.number} has no step {id}: it has "
                        f"{self.steps[0].id} to {self.steps[-1].id}")


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
    return tuple(read_sheet(path.parent)
                 for path in sorted(ROOT.glob("chapters/*/README.md")))


def find_chapter(number: str) -> Chapter:
    for chapter in chapters():
        if number in (chapter.number, chapter.name):
            return chapter
    raise CannotRun(f"there is no chapter {number}: "
                    f"./workbook list shows all of them")


def source_files(folder: Path) -> list[Path]:
    """Return what an implementation consists of: its files without the sheet."""
    return sorted(
        path for path in folder.rglob("*")
        if path.is_file() and str(path.relative_to(folder)) not in NO_SOURCES
        and not any(part.startswith((".", "__pycache__"))
                    for part in path.relative_to(folder).parts)
        and not any(part.startswith("build")
                    for part in path.relative_to(folder).parent.parts))


def missing(chapter: Chapter) -> str:
    """Return a file that the learner's copy lacks, or ""."""
    return next((name for name in chapter.starter_files()
                 if not (chapter.mine / name).exists()), "")


def open_chapter(chapter: Chapter) -> None:
    """Make the learner's copy. A file that is there is never written over."""
    there = chapter.mine.exists()
    for name, path in chapter.starter_files().items():
        copy = chapter.mine / name
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy_file(path, copy)
            if there:
                print(f"my/{chapter.name}/{name} was missing; it is the "
                      "starter's again")
