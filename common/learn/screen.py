"""The tool's output for a learner: 80 columns, colour on a terminal only."""

import itertools
import os
import select
import sys
import textwrap

from base.sheets import Chapter
from learn.checking.verdict import CALLED, FAIL, PASS, Verdict

PRINTED = 10  # lines of what the learner's code printed
NOTES = 3
DRAWN = 8  # lines of a drawing; of a longer one this many that are wrong:
WRONG = 5
_COLOUR = sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def paint(text: str, code: str) -> str:
    return f"\033[{code}m{text}\033[0m" if _COLOUR else text


def bold(text: str) -> str:
    return paint(text, "1")


def marks(steps: dict[str, str], here: str | None) -> str:
    """Return the steps with their states, "01.1 ok  01.2 <-  01.3 -": `here` is the
    step that the verdict tells of."""
    words = []
    for id, state in steps.items():
        if state == "pass":
            words.append(paint(f"{id} ok", "32"))
        elif id == here:
            words.append(paint(f"{id} <-", "33;1"))
        else:
            words.append(f"{id} - ")
    return "  ".join(words)


def bar(done: int, all: int) -> str:
    """Return a bar such as "[####......] 4 of 10 steps"."""
    width = min(all, 20)
    full = done * width // all
    return f"[{'#' * full}{'.' * (width - full)}] {done} of {all} " + \
        ("step" if all == 1 else "steps")


class Keys:
    """Single keys of the terminal, which is as it was after close()."""

    def __init__(self):
        import termios
        import tty
        self._before = termios.tcgetattr(sys.stdin)
        tty.setcbreak(sys.stdin)

    def wait(self, seconds: float) -> str:
        """Return the key that is pressed within `seconds`, else ""."""
        if select.select([sys.stdin], [], [], seconds)[0]:
            return os.read(sys.stdin.fileno(), 1).decode(errors="replace") or "q"
        return ""

    def close(self) -> None:
        import termios
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._before)


def wrap(text: str, indent: str = "  ") -> str:
    """Fold at 80 columns; what cannot be folded (a path) stays whole."""
    return textwrap.fill(text, 80, initial_indent=indent,
                         subsequent_indent=indent + "  ",
                         break_long_words=False, break_on_hyphens=False)


def show_verdict(chapter: Chapter, verdict: Verdict, then: str) -> None:
    """Print the verdict on one step. `then` says what to do after the edit: "save
    it"."""
    kind, step = verdict.kind, verdict.step
    title = f"{step} {chapter.step(step).title}" if step else \
        f"{chapter.number} {chapter.title}"
    if verdict.passed:
        print(bold(paint(f"{title}: pass", "32")))
        print(wrap(f"Shown: {verdict.sentence}."))
        for remark in verdict.message:
            print(wrap(f"Note: {remark}."))
        print(f"  Compare yours with ours: ./workbook diff {step}")
        print(f"  What others get wrong here: ./workbook mistakes {step}")
        return
    print(bold(f"{title}: ") +
          paint(CALLED[kind], "33;1" if kind == "todo" else "31;1"))
    lines = [line for line in verdict.message if not line.startswith("in: ")]
    where = [line for line in verdict.message if line not in lines]
    points = any("<- " in row for line in lines for row in line.splitlines()[1:])
    if verdict.sentence and not points:  # a drawing that points to the fault says all
        lines.insert(1 if kind == "test" else len(lines), verdict.sentence)
    for number, line in enumerate(lines):
        # A compiler's caret lines keep their columns; the rest is folded.
        # So do the lines of a drawing, which follow a first one.
        first, *drawn = line.splitlines() or [""]
        drawn = fold(drawn)
        print(f"  {first}"[:80] if " | " in first else wrap(first))
        for situation in where if number == 0 else []:
            print(wrap(situation))
        for row in drawn:
            print(f"  {row}")
    if verdict.help:
        print(wrap(verdict.help))
        print("  The whole text: " + (
            "key f" if then == "save it"
            else then.removeprefix("run ") + " --full"))
    if verdict.printed:
        more = len(verdict.printed) - PRINTED
        print("  Your code printed" +
              (f" {len(verdict.printed)} lines; the last {PRINTED}:"
               if more > 0 else ":"))
        for line in verdict.printed[-PRINTED:]:
            print(f"    {line}"[:80])
    show_notes(verdict)
    print(bold(f"Edit {verdict.file}:{verdict.line}, then {then}"))


def what_next(chapter: Chapter) -> str:
    """Return the place of a sheet's last section."""
    lines = (chapter.exercise / "README.md").read_text().splitlines()
    return f"chapters/{chapter.name}/README.md:{lines.index('## What next') + 1}"


def fold(drawn: list[str]) -> list[str]:
    """Return of a long drawing the slots that are wrong; the others are counted."""
    if len(drawn) <= DRAWN:
        return drawn
    rows: list[str] = []
    for wrong, group in itertools.groupby(drawn[1:], lambda row: "<-" in row):
        found = list(group)
        at = found[0][:len(found[0]) - len(found[0].lstrip())]
        kept = found[:WRONG] if wrong or len(found) == 1 else []
        left = len(found) - len(kept)
        rows += kept + [f"{at}({left} more)" if wrong else
                        f"{at}({left} that are as they should be)"] * (left > 0)
    return [drawn[0], *rows]


def show_notes(verdict: Verdict) -> None:
    for note in verdict.notes[:NOTES]:
        print(wrap(f"Note: {note}."))
    if len(verdict.notes) > NOTES:
        print(f"  and {len(verdict.notes) - NOTES} more; all: {verdict.log}")


class Telling:
    """Shows a check's verdicts: first that on the step the learner is at, as
    soon as it is there, then what else there is to say."""

    def __init__(self, chapter: Chapter, then: str,
                 before: dict[str, str] | None = None):
        self.chapter, self.then = chapter, then
        self.before = before  # how the steps stood, if that is known
        self.told: Verdict | None = None

    def tell(self, verdict: Verdict) -> None:
        self.told = verdict
        if verdict.kind in ("todo", PASS):
            return  # first of all what was done has to be right
        show_verdict(self.chapter, verdict, self.then)
        if verdict.kind == "leak":
            print("  Looking for the line that made it ...")

    def end(self, found: Verdict) -> bool:
        """Return True if the learner goes on to another step."""
        told = self.told
        new = not (told and told.step == found.step)
        if told and told.passed and found.kind in ("todo", PASS):
            show_verdict(self.chapter, told, self.then)
            too = [step for step, state in found.steps.items()
                   if self.before is not None and self.before.get(step) != PASS
                   and state == PASS and step != told.step]
            if too and not found.passed:
                print(wrap("Passes as well: " + ", ".join(too), ""))
        if found.passed:
            what = "its step passes" if len(found.steps) == 1 else \
                f"all {len(found.steps)} steps pass"
            print(bold(paint(f"{self.chapter.number} {self.chapter.title}: "
                             f"{what}", "32")))
            from learn import demos
            if self.chapter.number in demos.MODULES:
                print(f"  {demos.invitation(self.chapter.number)}")
            print(f"  What next: {what_next(self.chapter)}")
            show_notes(found)
        elif told and told.kind == "leak" and not new:
            for line in found.message:
                print(wrap(line))
            print(bold(f"Edit {found.file}:{found.line}, then {self.then}"))
        elif new == (found.kind != "todo"):
            show_verdict(self.chapter, found, self.then)
        also = [step for step, state in found.steps.items()
                if state == FAIL and step != found.step]
        if also and found.step and found.kind != "todo":
            print(wrap("Fails as well, maybe of the same cause: "
                       + ", ".join(also), ""))
        if found.ran:
            print(marks(found.steps, found.step))
        return found.passed or (found.kind == "todo" and new)
