"""The hunks in which a starter and its solution differ: one or more a step."""

import difflib
import re
from dataclasses import dataclass

from base.sheets import Chapter, source_files

TODO = re.compile(r"TODO\((\d\d\.\d)\)")


@dataclass(frozen=True)
class Hunk:
    step: str | None  # of the TODO in its first line; None breaks the contract
    file: str
    begin: int  # lines of the starter, from 0
    end: int
    at: int  # the line of the solution where the new ones begin, from 0
    new: tuple[str, ...]  # lines of the solution
    old: tuple[str, ...]


def hunks(chapter: Chapter) -> list[Hunk]:
    """Return a chapter's hunks, in the order of the files' names, then of the lines."""
    found = []
    for path in source_files(chapter.exercise):
        name = path.relative_to(chapter.exercise)
        other = chapter.solution / name
        old = path.read_text().splitlines(keepends=True)
        new = other.read_text().splitlines(keepends=True)
        matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
        for tag, i1, i2, j1, j2 in matcher.get_opcodes():
            if tag != "equal":
                todo = TODO.search(old[i1]) if i1 < i2 else None
                found.append(Hunk(todo and todo[1], str(name), i1, i2, j1,
                                  tuple(new[j1:j2]), tuple(old[i1:i2])))
    return found


def starter_with(chapter: Chapter, last: str) -> dict[str, str]:
    """Return the starter's files with the solution's hunks of all steps up to `last` (a
    step's id, or "" for none)."""
    texts = {name: path.read_text().splitlines(keepends=True)
             for name, path in chapter.starter_files().items()}
    for hunk in reversed(hunks(chapter)):
        if hunk.step is not None and hunk.step <= last:
            texts[hunk.file][hunk.begin:hunk.end] = hunk.new
    return {name: "".join(lines) for name, lines in texts.items()}


def replace_places(old: list[str], new: list[str], places: list[tuple[int, int]],
             others: bool = False) -> list[str]:
    """Return `old`, where each change to `new` is made that touches these lines of
    `new`; or each of the others."""
    result: list[str] = []
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        touches = any(j1 <= end and begin <= j2 for begin, end in places)
        result += new[j1:j2] if tag != "equal" and touches != others \
            else old[i1:i2]
    return result
