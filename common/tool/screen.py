"""What the learner sees: 80 columns, colour on a terminal only."""

import os
import select
import sys
import textwrap

from verdict import HELP
from workspace import Chapter

_COLOUR = sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def paint(text: str, code: str) -> str:
    return f"\033[{code}m{text}\033[0m" if _COLOUR else text


def bold(text: str) -> str:
    return paint(text, "1")


def marks(chapter: Chapter, steps: dict[str, str]) -> str:
    """01.1 ok  01.2 <-  01.3 -"""
    words = []
    here = False
    for id, state in steps.items():
        if state == "pass":
            words.append(paint(f"{id} ok", "32"))
        elif not here:
            here = True
            words.append(paint(f"{id} <-", "33;1"))
        else:
            words.append(f"{id} - ")
    return "  ".join(words)


def bar(done: int, all: int) -> str:
    """[####......] 4 of 10 steps"""
    width = min(all, 20)
    full = done * width // all
    return f"[{'#' * full}{'.' * (width - full)}] {done} of {all} steps"


class Keys:
    """Single keys of the terminal, which is as it was after close()."""

    def __init__(self):
        import termios
        import tty
        self._before = termios.tcgetattr(sys.stdin)
        tty.setcbreak(sys.stdin)

    def wait(self, seconds: float) -> str:
        """The key that is pressed within `seconds`, else ""."""
        if select.select([sys.stdin], [], [], seconds)[0]:
            return os.read(sys.stdin.fileno(), 1).decode(errors="replace") or "q"
        return ""

    def close(self) -> None:
        import termios
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._before)


def wrap(text: str, indent: str = "  ") -> str:
    """Folds at 80 columns; what cannot be folded (a path) stays whole."""
    return textwrap.fill(text, 80, initial_indent=indent,
                         subsequent_indent=indent + "  ",
                         break_long_words=False, break_on_hyphens=False)


def show_verdict(chapter: Chapter, verdict: dict, then: str) -> None:
    """`then` says what to do after the edit: "run ./workbook check"."""
    kind, step = verdict["class"], verdict["step"]
    total = verdict["seconds"].get("build", 0) + verdict["seconds"].get("test", 0)
    if kind == "pass":
        print(bold(paint(f"{chapter.number} {chapter.title}: all "
                         f"{len(chapter.steps)} steps pass ({total:.1f} s)",
                         "32")))
    else:
        title = chapter.step(step).title if step else chapter.title
        print(bold(f"{step or chapter.number} {title}: ") +
              paint(kind, "33;1" if kind == "todo" else "31;1"))
        for line in verdict["message"]:
            # A compiler's caret lines keep their columns; the rest is folded.
            # So do the lines of a drawing, which follow a first one.
            first, *drawn = line.splitlines() or [""]
            print(f"  {first}"[:80] if " | " in first else wrap(first))
            for row in drawn:
                print(wrap(row, "    "))
        if kind != "test" or "values: " in str(verdict["message"]):
            print(wrap(HELP[kind]))
        if kind not in ("todo", "test"):
            print(f"  The whole text: {verdict['log']}")
    for note in verdict["notes"]:
        print(wrap(f"Note: {note}."))
    if kind not in ("configure", "compile", "link", "load"):
        print(marks(chapter, verdict["steps"]))
    if kind != "pass":
        print(bold(f"Edit {verdict['file']}:{verdict['line']}, "
                   f"then {then}"))
