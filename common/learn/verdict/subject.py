"""The implementation that is being checked, and what is known of it so far."""

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from base.hunks import hunks
from base.project import read_source
from base.sheets import Chapter
from learn.verdict.model import NOT_REACHED, PASS, Verdict, place_of_step, short


@dataclass
class Subject:
    chapter: Chapter
    folder: Path
    build: Path
    test: Path  # the chapter's test: a program, or a file for pytest
    at: str  # the step that the learner is at, which is judged first
    seed: int | None = None
    superseded: Callable[[], bool] = lambda: False  # by a newer save
    steps: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)  # of cases that passed
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder = self.folder.resolve()
        self.edited = {self.folder / step.file for step in self.chapter.steps}
        self.steps = {step.id: NOT_REACHED for step in self.chapter.steps}

    def verdict(self, kind: str, message: list[str], step: str | None = None,
                place: tuple[Path, int] | None = None, log: str = "",
                **more) -> Verdict:
        """Without a place it is where the step is edited."""
        log_file = self.build / "log.txt"
        log_file.write_text(log)
        file, line = place or self.place(step or self.at)
        return Verdict(
            self.chapter.name, short(self.folder), kind, dict(self.steps), step,
            short(file), line, message, log=short(log_file),
            notes=self.notes + self.remarks if kind == PASS else self.notes,
            seconds=self.seconds, **more)

    def place(self, step: str, sentence: str = "") -> tuple[Path, int]:
        return place_of_step(self.chapter, self.folder, step, sentence)

    def named(self, step: str, name: str, text: str) -> tuple[Path, int] | None:
        """What LOOK_AT says; None as long as something of the step is undone there."""
        file = (self.folder / name).resolve()
        here = {self.folder / h.file for h in hunks(self.chapter) if h.step == step}
        if file not in here or not file.is_file() or \
                f"TODO({step})" in read_source(file):
            return None
        lines = read_source(file).splitlines()
        mine = [new for _, new in self._changes(file)  # empty: deleted there
                if self.step_at(file, new.start) == step]
        own = [n for new in mine for n in new if text in lines[n - 1]]
        above = next((n for n, line in enumerate(lines, 1) if text in line), 0)
        begins = [new.start for new in mine]
        found = own or [n for n in begins if n > above] or begins
        return (file, min(found[0], len(lines))) if found else None

    def owns(self, file: Path | str) -> bool:
        return Path(file).resolve().is_relative_to(self.folder)

    def step_at(self, file: Path | str, line: int) -> str | None:
        """The step whose lines these are. A given line is that of the step that
        ends above, as where a ; is missing."""
        file = Path(file).resolve()
        name = str(file.relative_to(self.folder)) if self.owns(file) else ""
        above = None
        for old, new in self._changes(file):
            if line >= new.start:
                above = next((h.step for h in hunks(self.chapter)
                              if h.file == name and h.begin < old.stop and
                              old.start < h.end), None)
                if line in new:
                    return above
        return above

    def _blocks(self, file: Path) -> list[tuple[bool, range, range]]:
        """Whether they are equal, lines of the starter, from 0, and those in their
        place, from 1."""
        starter = self.chapter.starter_files().get(
            str(file.relative_to(self.folder))) if self.owns(file) else None
        old = starter.read_text().splitlines() if starter else []
        new = read_source(file).splitlines()
        matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
        return [(tag == "equal", range(i1, i2), range(j1 + 1, j2 + 1))
                for tag, i1, i2, j1, j2 in matcher.get_opcodes()]

    def _changes(self, file: Path) -> list[tuple[range, range]]:
        return [(old, new) for equal, old, new in self._blocks(file) if not equal]

    def wrote(self, file: Path | str, line: int) -> bool:
        """Whether that is the learner's line, not the starter's."""
        return self.owns(file) and any(
            line in new for _, new in self._changes(Path(file).resolve()))

    def left(self, file: Path, line: int) -> bool:
        """Whether that is a line of the starter's which a step is to change."""
        name = str(file.relative_to(self.folder))
        return any(h.file == name and
                   h.begin <= old.start + line - new.start < h.end
                   for equal, old, new in self._blocks(file)
                   if equal and line in new for h in hunks(self.chapter))

    def nearest(self, places: Iterable[tuple[str, str | int]]
                ) -> tuple[Path, int] | None:
        """Of places from the fault outwards the first that the learner wrote or
        left as it was, else the first in a file that is edited, else in one that
        is given."""
        mine = [(Path(file).resolve(), int(line or 0)) for file, line in places
                if self.owns(file) and Path(file).is_file()]
        return next((p for p in mine if self.wrote(*p) or self.left(*p)), None) or \
            next((p for p in mine if p[0] in self.edited), None) or \
            (mine[0] if mine else None)


def python_frames(text: str) -> list[tuple[str, str]]:
    """File and line of those of the traceback, from the fault outwards."""
    return re.findall(r'^ +File "(.*?)", line (\d+)', text, re.M)[::-1]


def frames(text: str) -> list[tuple[str, str]]:
    """File and line of those of a sanitizer's stack; "" for no line."""
    return re.findall(r"^ *#\d+ .*? (/[^\n:()]*)(?::(\d+))?(?::\d+)?$", text, re.M)
