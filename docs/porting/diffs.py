"""What changes from one step of the port to the next, as HTML. Lines that are
only indented anew count as equal."""

import difflib
import html
import re
from pathlib import Path

STEPS = sorted(Path(__file__).resolve().parent.glob("step_*"))


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines()
            if not line.startswith("//! [")]  # marks for the pages


def _matcher(old: list[str], new: list[str]) -> difflib.SequenceMatcher:
    return difflib.SequenceMatcher(
        None, [line.strip() for line in old],
        [line.strip() for line in new], False)


def changed(step: Path) -> list[tuple[str, list[str], list[str]]]:
    """(file, old lines, new lines) of the files that differ from the step
    before; a new file has no old lines."""
    before = STEPS[STEPS.index(step) - 1]
    found = []
    for path in sorted(step.iterdir()):
        old = before / path.name
        lines = _lines(old) if old.exists() else []
        if lines != _lines(path):
            found.append((path.name, lines, _lines(path)))
    return found


def size(step: Path) -> tuple[int, int]:
    """Lines that go, and lines that come."""
    gone = come = 0
    for _, old, new in changed(step):
        for tag, a, b, c, d in _matcher(old, new).get_opcodes():
            if tag != "equal":
                gone += b - a
                come += d - c
    return gone, come


def page(step: Path) -> str:
    """New files are left out: the page shows them itself."""
    text = ""
    for name, old, new in changed(step):
        if not old:
            continue
        text += f'<div class="fragment"><div class="line">{name}</div>'
        for group in _matcher(old, new).get_grouped_opcodes(2):
            text += '<div class="line">...</div>'
            for tag, a, b, c, d in group:
                if tag == "equal":
                    parts = [("", " ", new[c:d])]
                else:
                    parts = [(" gone", "-", old[a:b]), (" come", "+", new[c:d])]
                for kind, sign, lines in parts:
                    text += "".join(
                        f'<div class="line{kind}">{sign} {html.escape(line)}'
                        "</div>" for line in lines)
        text += "</div>\n"
    return re.sub(r'(</div>)(?=<div class="line)', r"\1\n", text)


def table(result: dict) -> str:
    out = [f"{result['compiler']}, headers of torch {result['torch']}; "
           f"{result['date']}.", "",
           "| step | lines that go | that come | unstable symbols | "
           "needs, of torch's and OpenMP's |", "|---|---|---|---|---|"]
    for step, row in zip(STEPS, result["steps"]):
        gone, come = ("", "") if step == STEPS[0] else size(step)
        libraries = [name for name in row["needed"]
                     if re.match("lib(torch|c10|gomp)", name)]
        out.append(f"| {row['step']} | {gone} | {come} | "
                   f"{row['unstable_symbols']} | {', '.join(libraries)} |")
    return "\n".join(out) + "\n"
