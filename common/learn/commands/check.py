"""check: build and test a chapter or a step; begins the chapter if need be."""

import argparse
import json
import shlex
from pathlib import Path

from base.project import ROOT
from base.sheets import chapters, open_chapter
from learn import checking, screen
from learn.progress import chapter_and_step, following, say_next
from torch_stable_abi import supervising
from torch_stable_abi.programs import CannotRun


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="?", metavar="NN or NN.k",
                        help="default: the chapter you are at")
    parser.add_argument("--impl", metavar="DIR",
                        help="this implementation instead of my/NN_name")
    parser.add_argument("--seed", type=int, help="of the tests' random shapes")
    parser.add_argument("--full", action="store_true",
                        help="and print all that was said, tests and sanitizers")
    parser.add_argument("--json", action="store_true",
                        help="print the verdict as JSON")


def run(arguments: argparse.Namespace) -> int:
    chapter, step = chapter_and_step(arguments.what)
    # Of the chapter: a step before the one that was named may fail.
    words = ["./workbook check"] + ([chapter.number] if arguments.what else [])
    if arguments.impl:
        if not arguments.what:
            raise CannotRun("--impl needs a chapter: "
                            "./workbook check 01 --impl DIR")
        folder, quoted = Path(arguments.impl), shlex.quote(arguments.impl)
        if not folder.is_dir():
            raise CannotRun(f"--impl {arguments.impl}: there is no such folder")
        other = {c.name: c.number for c in chapters()}.get(folder.resolve().name)
        if other not in (None, chapter.number):
            raise CannotRun(f"--impl {arguments.impl} is of chapter {other}: "
                            f"./workbook check {other} --impl {quoted}")
        edited = sorted({s.file for s in chapter.steps})
        if (folder / "CMakeLists.txt").exists() and not any(
                (folder / file).exists() for file in edited):
            raise CannotRun(f"--impl {arguments.impl} has no {' or '.join(edited)} of "
                            f"chapter {chapter.number}")
        words.append(f"--impl {quoted}")
    else:
        open_chapter(chapter)
        folder = chapter.mine
    telling = screen.Telling(
        chapter, "run " + " ".join(words),
        None if arguments.impl else checking.last_states(chapter)[0])
    silent = arguments.json or (step and arguments.impl)
    supervising.adopt_orphans()
    try:
        found = checking.check(
            chapter, folder, arguments.seed, step.id if step else None,
            (lambda verdict: None) if silent else telling.tell)
    finally:
        supervising.end_descendants()  # also what the learner's code has begun
    # Of a step it is enough that it and those before it pass.
    passed = found.passed_up_to(step.id) if step else found.passed
    if arguments.json:
        print(json.dumps(found.as_dict(), indent=2))
        return 0 if passed else 1
    if step and passed and arguments.impl:
        print(screen.bold(screen.paint(f"{step.id} {step.title}: pass", "32")))
        return 0
    goes_on = telling.end(found)
    if arguments.full:
        print((ROOT / found.log).read_text(errors="replace"))
    if goes_on and not arguments.impl:
        next_one = following(chapter) if found.passed else chapter
        if next_one is not None:
            open_chapter(next_one)
        say_next(next_one)
    elif goes_on and not found.passed:
        screen.show_verdict(chapter, found, telling.then)
    return 0 if passed else 1
