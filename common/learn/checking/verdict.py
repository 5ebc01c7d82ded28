"""Findings and verdicts: what a check finds, and what it tells the learner."""

import re
from dataclasses import asdict, dataclass, field
from pathlib import Path

from base.project import ROOT
from learn.checking.source import Place

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
class Finding:
    """A finding on one step, or on the build."""
    kind: str  # "pass" or a key of HELP
    message: list[str] = field(default_factory=list)
    step: str | None = None  # None: of the step that the learner is at
    place: Place | None = None  # None: where the step is edited
    log: str = ""  # all of what was printed
    sentence: str = ""
    printed: list[str] = field(default_factory=list)


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
    written: dict[str, str] = field(default_factory=dict)  # sums of those that passed

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

    @property
    def repeats(self) -> bool:
        """Return whether checking the same files again would give this verdict. It
        might not where a build or a process was ended: the machine's memory, limits
        or load may be the cause."""
        return self.kind in (PASS, "todo", "test", "sanitizer", "leak")

    def passed_up_to(self, step: str) -> bool:
        return all(state == PASS for id, state in self.steps.items()
                   if id <= step)

    def as_dict(self) -> dict:
        return asdict(self)


def shorten(path: Path) -> str:
    """Return the path as text, relative to the workbook if it is inside."""
    path = path.resolve()
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)
