"""start: tests the first solution once, then opens your next step; on a terminal,
each save of it gets a verdict."""

import argparse
import sys

from base.project import MINE
from base.sheets import chapters, open_chapter
from learn import checking, screen
from learn.progress import current_chapter, say_next


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(arguments: argparse.Namespace) -> int:
    chapter = current_chapter()
    if chapter is not None and not MINE.exists():
        if not _show_solution():
            return 1
        print("\nNow yours. Your copy of the starter is in "
              f"my/{chapter.name};\nbreak it as you like.")
    if chapter is not None:
        open_chapter(chapter)
        if sys.stdin.isatty() and sys.stdout.isatty():
            from learn.watch import watch
            return watch(chapter)
    say_next(chapter)
    return 0


def _show_solution() -> bool:
    chapter = chapters()[0]
    print(screen.bold(f"Chapter {chapter.number}'s solution, on this machine:"))
    found = checking.check(chapter, chapter.solution)
    if not found.passed:
        screen.show_verdict(chapter, found, f"run ./workbook check {chapter.number} "
                            f"--impl solutions/{chapter.name}")
        return False
    print("  it builds, and its test passes under AddressSanitizer, UBSan and\n"
          "  LeakSanitizer")
    return True
