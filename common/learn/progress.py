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
    """Return the first chapter that is not known to pass; none if all do. Chapter 00 is
    for beginners: who has begun another one is not sent back to it."""
    refuse_odd_folder(MINE)
    first, *others = chapters()
    begun = first.mine.exists() or not any(c.mine.exists() for c in others)
    return next((c for c in (chapters() if begun else others)
                 if not (c.mine.exists() and is_done(c))), None)


def following(chapter: Chapter) -> Chapter | None:
    """Return the next that is not known to pass, else the first."""
    after = chapters()[chapters().index(chapter) + 1:]
    return next((c for c in after if not (c.mine.exists() and is_done(c))),
                current_chapter())


def step_to_do(chapter: Chapter) -> Step:
    """Return the first that did not pass when it was last checked, else the last."""
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
        print(screen.bold("All chapters pass. Compare: ./workbook tour"))
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


def _line_to_read(chapter: Chapter, id: str) -> int:
    """Return the line of the step's section; that of the first step is the sheet's
    first, since the introduction comes before it."""
    if id == chapter.steps[0].id:
        return 1
    lines = (chapter.exercise / "README.md").read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1)
                if line.startswith(f"## {id} "))
