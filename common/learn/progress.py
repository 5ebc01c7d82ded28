"""The chapter and the step that the learner is at."""

import os

from base.project import MINE, ROOT
from base.sheets import Chapter, Step, chapters, find_chapter
from learn import checking, screen
from torch_stable_abi.files import refuse_odd_folder


def is_done(chapter: Chapter) -> bool:
    steps, changed = checking.last_states(chapter)
    return not changed and all(state == "pass" for state in steps.values())


def current_chapter() -> Chapter | None:
    """Return the chapter that was opened, saved or checked last, or the one after it if
    all of it passes; None if that was the last one."""
    refuse_odd_folder(MINE)
    begun = [c for c in chapters() if c.mine.exists()]
    last = max(begun, default=chapters()[0],  # a copy has one time for all
               key=lambda c: (int(checking.find_time_of_use(c)), c.number))
    return following(last) if last.mine.exists() and is_done(last) else last


def following(chapter: Chapter) -> Chapter | None:
    """Return the next that is not known to pass; None behind the last one."""
    after = chapters()[chapters().index(chapter) + 1:]
    return next((c for c in after if not (c.mine.exists() and is_done(c))), None)


def step_to_do(chapter: Chapter) -> Step:
    """Return the chapter's first step that did not pass at the last check, or its last
    step if all passed."""
    steps, _ = checking.last_states(chapter)
    return chapter.step(next((id for id, state in steps.items()
                              if state != "pass"), chapter.steps[-1].id))


def chapter_and_step(what: str | None) -> tuple[Chapter, Step | None]:
    """Return the chapter and the step of "04", "4" or "04.2"; of nothing, those that
    the learner is at."""
    number, _, step = (what or "").partition(".")
    chapter = find_chapter(number.zfill(2)) if number else \
        current_chapter() or chapters()[-1]
    return chapter, chapter.step(f"{chapter.number}.{step}") if step else None


def say_next(chapter: Chapter | None,
             then: str | None = None) -> None:
    if chapter is None:
        say_the_end()
        return
    step = step_to_do(chapter)
    file, line = checking.place_of_step(chapter, chapter.mine, step.id)
    print(f"\n{screen.bold(f'Step {step.id} {step.title}')} "
          f"({step.minutes} minutes)\n"
          f"  read chapters/{chapter.name}/README.md:"
          f"{_line_to_read(chapter, step.id)}")
    here = "" if chapter == current_chapter() else f" {chapter.number}"
    print(screen.bold(f"Edit {os.path.relpath(file, ROOT)}:{line}, "
                      f"then {then or 'run ./workbook check' + here}"))


def say_the_end() -> None:
    left = [c.number for c in chapters() if not (c.mine.exists() and is_done(c))]
    print(screen.bold("\nThat was the last chapter."))
    if not left:
        print("You can now write an op that one library brings to every PyTorch since\n"
              "2.10, say who owns each slot of a call, and ship it as a wheel or on\n"
              "the Hub.")
    print("Next:\n"
          "  ./workbook new NAME --from 04   an extension of your own, on the CPU\n"
          "                                  (07: CUDA, 08: for the Hub)\n"
          "  ./workbook port SOURCES         one that you have already\n"
          "  ./workbook tour                 all solutions at work")
    if left:
        print(f"You have not done {', '.join(left)}: ./workbook check {left[0]}")


def _line_to_read(chapter: Chapter, id: str) -> int:
    """Return the line of the step's section; that of the first step is the sheet's
    first, since the introduction comes before it."""
    if id == chapter.steps[0].id:
        return 1
    lines = (chapter.exercise / "README.md").read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1)
                if line.startswith(f"## {id} "))
