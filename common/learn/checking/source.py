"""A learner's files: which lines are theirs, which step each belongs to, where a step
is edited."""

import difflib
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from base.hunks import hunks
from base.project import read_source
from base.sheets import Chapter

Place = tuple[Path, int]  # a file, and a line of it


class Source:
    """The files of an implementation of a chapter."""

    def __init__(self, chapter: Chapter, folder: Path):
        self.chapter = chapter
        self.folder = folder.resolve()
        self.edited = {self.folder / step.file for step in chapter.steps}
        self._compared: dict[Path, list[tuple[bool, range, range]]] = {}

    def place(self, step: str, sentence: str = "") -> Place:
        return place_of_step(self.chapter, self.folder, step, sentence)

    def find_named(self, step: str, name: str, text: str) -> Place | None:
        """Return the file and the line that LOOK_AT names; None if the step is not
        edited there, or has a TODO there."""
        file = (self.folder / name).resolve()
        here = {self.folder / h.file for h in hunks(self.chapter) if h.step == step}
        if file not in here or not file.is_file() or self.has_todo(step, name):
            return None
        lines = read_source(file).splitlines()
        mine = [new for _, new in self._changes(file)  # empty: deleted there
                if self.step_at(file, new.start) == step]
        own = [n for new in mine for n in new if text in lines[n - 1]]
        above = next((n for n, line in enumerate(lines, 1) if text in line), 0)
        begins = [new.start for new in mine]
        found = own or [n for n in begins if n > above] or begins
        return (file, min(found[0], len(lines))) if found else None

    def has_todo(self, step: str, name: str) -> bool:
        file = self.folder / name
        return file.is_file() and f"TODO({step})" in read_source(file)

    def is_untouched(self, step: str) -> bool:
        """Return whether all that a step is to change is as in the starter."""
        mine = [hunk for hunk in hunks(self.chapter) if hunk.step == step]
        return all((self.folder / hunk.file).is_file() and "".join(hunk.old) in
                   read_source(self.folder / hunk.file) for hunk in mine)

    def is_undone(self, step: str) -> bool:
        """Return whether a TODO of a step stands, with the code that it is about: a
        comment may be left over."""
        for hunk in hunks(self.chapter):
            file = self.folder / hunk.file
            if hunk.step == step and file.is_file():
                code = [s for s in hunk.old if not re.match(r"\s*(//|#\s)", s)]
                text = read_source(file)
                if f"TODO({step})" in text and "".join(code or hunk.old) in text:
                    return True
        return False

    def text_of(self, step: str) -> str:
        """Return what stands in the place of all that a step is to change."""
        texts = []
        for hunk in hunks(self.chapter):
            file = self.folder / hunk.file
            if hunk.step == step and file.is_file():
                lines = read_source(file).splitlines()
                texts += [line for old, new in self._changes(file)
                          if hunk.begin < old.stop and old.start < hunk.end
                          for line in lines[new.start - 1:new.stop - 1]]
        return "\n".join(texts)

    def read_todo(self, step: str) -> str:
        """Return the line of a step's TODO, without the marks of a comment."""
        file, line = self.place(step)
        return read_source(file).splitlines()[line - 1].strip(" #/\\")

    def owns(self, file: Path | str) -> bool:
        return Path(file).resolve().is_relative_to(self.folder)

    def step_at(self, file: Path | str, line: int) -> str | None:
        """Return the step that a line belongs to. A given line belongs to the step
        that ends above it, as where a ; is missing."""
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
        """Return a tuple for each block of a file: whether it equals the starter's, its
        lines in the starter, counted from 0, and its lines in the file, counted from
        1."""
        if file not in self._compared:
            self._compared[file] = self._compare(file)
        return self._compared[file]

    def _compare(self, file: Path) -> list[tuple[bool, range, range]]:
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
        """Return whether a line is the learner's, not the starter's."""
        return self.owns(file) and any(
            line in new for _, new in self._changes(Path(file).resolve()))

    def wrote_statement(self, file: str, line: str | int) -> bool:
        """Return whether a line is the learner's of the statement that begins there."""
        if not self.owns(file):
            return False
        lines = read_source(Path(file)).splitlines()
        first = int(line)
        last = next((n for n in range(first, len(lines)) if ";" in lines[n - 1]), first)
        return any(self.wrote(file, n) for n in range(first, last + 1))

    def is_left(self, file: Path, line: int) -> bool:
        """Return whether a line is the starter's and a step is to change it."""
        name = str(file.relative_to(self.folder))
        return any(h.file == name and
                   h.begin <= old.start + line - new.start < h.end
                   for equal, old, new in self._blocks(file)
                   if equal and line in new for h in hunks(self.chapter))

    def nearest(self, places: Iterable[tuple[str, str | int]], step: str = ""
                ) -> Place | None:
        """Return the place to show, of places from the fault outwards: the first line
        that the learner wrote or still has to change, of `step` if one is; else the
        first line of a file that they edit; else the first line of the
        implementation."""
        mine = [(Path(file).resolve(), int(line or 0)) for file, line in places
                if self.owns(file) and Path(file).is_file()]
        theirs = [p for p in mine if self.wrote(*p) or self.is_left(*p)]
        of_step = [p for p in theirs if self.step_at(*p) == step]
        in_edited = [p for p in mine if p[0] in self.edited]
        return next(iter([*of_step, *theirs, *in_edited, *mine]), None)


def places_of_step(chapter: Chapter, folder: Path, id: str,
                   sentence: str = "") -> list[Place]:
    """Return where a step is edited: at its TODOs, or where they were in the starter.
    If the sentence that says what is wrong begins with a name, the place of this name
    comes first. Then comes what is left to do, first in the file that the sheet names,
    then what was saved last."""
    marker = f"TODO({id})"
    name = re.match(r"[a-z_]\w*(?:\(\))? ", sentence)
    about = re.compile(rf"\b{name[0].rstrip(' ()')}\b" if name else r"(?!)")
    found = []
    for hunk in hunks(chapter):
        file = folder / hunk.file
        if hunk.step != id or not file.is_file():
            continue
        lines = read_source(file).splitlines()
        todo = [n for n, line in enumerate(lines, 1) if marker in line]
        begin = hunk.begin if hunk.begin < hunk.end else 0
        line = todo[0] if todo else _line_now(
            (chapter.exercise / hunk.file).read_text().splitlines(), lines,
            begin)
        other = bool(todo) and hunk.file != chapter.step(id).file
        found.append((_distance(lines, line, about), not todo, other,
                      -file.stat().st_mtime, (file, line)))
    found.sort(key=lambda entry: entry[:-1])
    return [entry[-1] for entry in found]


def place_of_step(chapter: Chapter, folder: Path, id: str,
                  sentence: str = "") -> Place:
    return next(iter(places_of_step(chapter, folder, id, sentence)),
                (folder / chapter.step(id).file, 1))


def _distance(lines: list[str], line: int, name: re.Pattern) -> int:
    """Return how far the nearest line with the name is, with no line between that is
    empty or begins with }."""
    found = []
    for step in (-1, 1):
        n = line
        while 0 < n <= len(lines) and not re.match(r"\s*$|}", lines[n - 1]):
            if name.search(lines[n - 1]) and not lines[n - 1].startswith("//!"):
                found.append(abs(n - line))
            n += step
    return min(found, default=sys.maxsize)


def _line_now(old: list[str], new: list[str], at: int) -> int:
    """Return where line `at` of `old`, counted from 0, is in `new`, counted from 1."""
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for tag, i1, i2, j1, _ in matcher.get_opcodes():
        if i1 <= at < i2:
            return j1 + 1 + (at - i1 if tag == "equal" else 0)
    return 1


def find_python_frames(text: str) -> list[tuple[str, str]]:
    """Return file and line of each frame of a traceback, from the fault outwards."""
    return re.findall(r'^ +File "(.*?)", line (\d+)', text, re.M)[::-1]


def find_frames(text: str) -> list[tuple[str, str]]:
    """Return file and line of each frame of a sanitizer's stack; "" for no line."""
    return re.findall(r"^ *#\d+ .*? (/[^\n:()]*)(?::(\d+))?(?::\d+)?$", text, re.M)
