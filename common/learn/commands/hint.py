"""hint: the next hint of a step; the third is its solution."""

import argparse

from learn import work
from learn.progress import chapter_and_step, is_done, step_to_do


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="?", metavar="NN.k",
                        help="default: the step you are at")


def run(arguments: argparse.Namespace) -> int:
    chapter, step = chapter_and_step(arguments.what)
    if step is None and is_done(chapter):
        print(f"All steps of {chapter.number} pass. Of one: ./workbook hint "
              f"{chapter.steps[0].id}")
        return 0
    id = (step or step_to_do(chapter)).id
    work.hint(chapter, id, f"./workbook hint {id}")
    return 0
