"""diff: yours against the solution, in the steps that you have done."""

import argparse

from base.sheets import Chapter
from learn import checking, work
from learn.progress import chapter_and_step


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="?", metavar="NN or NN.k",
                        help="default: the chapter you are at; NN.k is shown "
                        "even if it is not done")
    parser.add_argument("--all", action="store_true",
                        help="steps that are not done as well")


def run(arguments: argparse.Namespace) -> int:
    chapter, step = chapter_and_step(arguments.what)
    steps = {step.id} if step else {s.id for s in chapter.steps} \
        if arguments.all else steps_done(chapter)
    return 1 if show(chapter, steps) else 0


def steps_done(chapter: Chapter) -> set[str]:
    return {id for id, state in checking.last_states(chapter)[0].items()
            if state == checking.PASS}


def show(chapter: Chapter, steps: set[str]) -> bool:
    hidden = [s.id for s in chapter.steps if s.id not in steps]
    differs = work.diff(chapter, steps)
    if len(hidden) > 0 and len(steps) != 1:
        print(f"Not shown, since not done: {', '.join(hidden)}. To see one: "
              f"./workbook diff {hidden[0]}")
    return differs
