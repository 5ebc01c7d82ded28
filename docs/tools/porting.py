"""What changes from one step of the port to the next. A step holds only the files
that it changes; the others are the step's before. Lines that are only indented
anew count as equal."""

import difflib
import re
from pathlib import Path

from base.project import ROOT
from tables import read
from tables import table as grid

STEPS = sorted((ROOT / "docs/porting").glob("step_*"))


def files(step: Path) -> dict[str, Path]:
    """{name: where it is} of each file of the library at this step."""
    return {path.name: path for one in STEPS[:STEPS.index(step) + 1]
            for path in sorted(one.iterdir())}


def _lines(path: Path | None) -> list[str]:
    """None of a file that is not there yet, and no marks for the pages."""
    text = path.read_text() if path else ""
    return [line for line in text.splitlines() if not line.startswith("//! [")]


def _matcher(old: list[str], new: list[str]) -> difflib.SequenceMatcher:
    return difflib.SequenceMatcher(
        None, [line.strip() for line in old],
        [line.strip() for line in new], False)


def changed(step: Path) -> list[tuple[str, list[str], list[str]]]:
    """(file, old lines, new lines) of the step's files; a new file has no old
    lines."""
    before = files(STEPS[STEPS.index(step) - 1])
    return [(path.name, _lines(before.get(path.name)), _lines(path))
            for path in sorted(step.iterdir())]


def diff(name: str) -> str:
    """New files are left out: the page shows them itself."""
    text = []
    for file, old, new in changed(ROOT / "docs/porting" / name):
        if not old:
            continue
        lines = [f"@@ {file} @@"]
        for group in _matcher(old, new).get_grouped_opcodes(2):
            lines += ["   ..."] if len(lines) > 1 else []
            for tag, a, b, c, d in group:
                if tag == "equal":
                    lines += [f"  {line}" for line in new[c:d]]
                else:
                    lines += [f"- {line}" for line in old[a:b]]
                    lines += [f"+ {line}" for line in new[c:d]]
        code = "\n".join(line.rstrip() for line in lines)
        text.append(f"```diff\n{code}\n```\n")
    return "\n".join(text)


def size(step: Path) -> tuple[int, int]:
    """Lines that go, and lines that come."""
    gone = come = 0
    for _, old, new in changed(step):
        for tag, a, b, c, d in _matcher(old, new).get_opcodes():
            if tag != "equal":
                gone += b - a
                come += d - c
    return gone, come


def table() -> str:
    result = read("porting")
    rows = []
    for step, row in zip(STEPS, result["steps"]):
        libraries = [name for name in row["needed"]
                     if re.match("lib(torch|c10|gomp)", name)]
        rows.append([row["step"], *(size(step) if rows else ("", "")),
                     row["unstable_symbols"], ", ".join(libraries)])
    return f"{result['compiler']}, headers of torch {result['torch']}; " \
        f"{result['date']}.\n\n" + grid(
            ["step", "lines that go", "that come", "unstable symbols",
             "needs, of torch's and OpenMP's"], rows)
