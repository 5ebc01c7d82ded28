"""list: the chapters, and how far you are."""

import argparse

from base.sheets import Chapter, chapters
from learn import checking, screen, work
from learn.progress import current_chapter, say_next


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(arguments: argparse.Namespace) -> int:
    show()
    return 0


def show(then: str | None = None, current: Chapter | None = None) -> None:
    """Print the chapters, and what is next in `current`, by default the chapter that
    the learner is at."""
    for chapter in chapters():
        steps, changed = checking.last_states(chapter) if chapter.mine.exists() \
            else ({}, False)
        done = sum(state == "pass" for state in steps.values())
        given = len(work.find_given(chapter.mine)) if steps else 0
        print(f"{chapter.number} {chapter.title:<28} {chapter.minutes:>3} min  "
              f"{screen.bar(done, len(chapter.steps))}" +
              f", {given} given" * (given > 0) +
              ("  changed since its last check" if changed else ""))
    current = current or current_chapter()
    if current is None or current.mine.exists():
        say_next(current, then)
    else:
        print(screen.bold("Start with ./workbook"))
