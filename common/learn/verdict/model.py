"""What a check says: the verdict, and the place to edit."""

import difflib
import re
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

from base.hunks import hunks
from base.project import ROOT, read_source
from base.sheets import Chapter

# The kinds of verdicts but "pass": how each is called, and a sentence that helps.
CALLED = {
    "configure": "CMake stops", "compile": "does not compile",
    "link": "does not link", "load": "does not load", "todo": "to do",
    "test": "not right yet", "sanitizer": "undefined behaviour",
    "crash": "crashed", "leak": "leaks", "timeout": "has no end"}
HELP = {
    "configure": "The error is in this folder's CMakeLists.txt.",
    "compile": "This is the first error; others often follow from it.",
    "link": "Something is declared and used but defined nowhere.",
    "load": "The library was built, but it cannot be loaded.",
    "todo": "",
    "test": "",
    "sanitizer": "Memory or arithmetic is used in a way that C++ does not "
                 "define.",
    "crash": "Often that is a handle released twice, or a pointer that is none.",
    "leak": "What is created must be released once; this never was.",
    "timeout": "Is there an endless loop?",
}
MISSING = "A missing ; or } often belongs to the line above."
DIVIDED = "An integer was divided by 0."
THROWN = "What a destructor or a noexcept function throws ends the process."
PASS, FAIL, NOT_REACHED = "pass", "fail", "not reached"


@dataclass
class Verdict:
    """On one implementation of a chapter; `check --json` prints it."""
    chapter: str
    implementation: str  # its folder, relative to the workbook if inside
    kind: str  # "pass" or a key of HELP
    steps: dict[str, str]  # {"01.1": "pass", "01.2": "fail", ...}
    step: str | None = None  # the first that is not passed, or that is told of
    file: str | None = None  # where to look or to edit
    line: int | None = None
    message: list[str] = field(default_factory=list)
    sentence: str = ""  # what is wrong, or what a pass has proved
    printed: list[str] = field(default_factory=list)  # by the learner's code
    log: str = ""  # where the whole text is
    notes: list[str] = field(default_factory=list)  # and what was not checked
    seconds: dict[str, float] = field(default_factory=dict)
    known: dict[str, str] = field(default_factory=dict)  # steps, when last run

    @property
    def passed(self) -> bool:
        return self.kind == PASS

    @property
    def help(self) -> str:
        if self.kind == "compile" and re.match("expected |extraneous ", self.first):
            return MISSING
        if self.kind == "crash" and re.match(r"ended by (SIG)?FPE", self.first):
            return DIVIDED
        thrown = any(line.startswith("what()") for line in self.message)
        return THROWN if self.kind == "crash" and thrown else HELP[self.kind]

    @property
    def first(self) -> str:
        return self.message[0] if self.message else ""

    @property
    def ran(self) -> bool:
        return self.kind not in ("configure", "compile", "link", "load")

    def passed_up_to(self, step: str) -> bool:
        return all(state == PASS for id, state in self.steps.items()
                   if id <= step)

    def as_dict(self) -> dict:
        return asdict(self)


def short(path: Path) -> str:
    """Relative to the workbook, if it is inside."""
    path = path.resolve()
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


class Place(NamedTuple):
    file: Path
    line: int


def places_of_step(chapter: Chapter, folder: Path, id: str,
                   sentence: str = "") -> list[Place]:
    """Where a step is edited: at its TODOs, or where they were in the starter.
    First comes what a sentence begins with that says what is wrong, if that is a
    name, then what is left to do, in the file that the sheet names, then what was
    saved last."""
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
                      -file.stat().st_mtime, Place(file, line)))
    found.sort(key=lambda entry: entry[:-1])
    return [entry[-1] for entry in found]


def place_of_step(chapter: Chapter, folder: Path, id: str,
                  sentence: str = "") -> Place:
    return next(iter(places_of_step(chapter, folder, id, sentence)),
                Place(folder / chapter.step(id).file, 1))


def _distance(lines: list[str], line: int, name: re.Pattern) -> int:
    """To the nearest line with the name, as far as no line is empty or begins
    with }."""
    found = []
    for step in (-1, 1):
        n = line
        while 0 < n <= len(lines) and not re.match(r"\s*$|}", lines[n - 1]):
            if name.search(lines[n - 1]) and not lines[n - 1].startswith("//!"):
                found.append(abs(n - line))
            n += step
    return min(found, default=sys.maxsize)


def _line_now(old: list[str], new: list[str], at: int) -> int:
    """Where line `at` of `old`, counted from 0, is in `new`, counted from 1."""
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for tag, i1, i2, j1, _ in matcher.get_opcodes():
        if i1 <= at < i2:
            return j1 + 1 + (at - i1 if tag == "equal" else 0)
    return 1
