"""give: writes our lines of a step into your files, and marks it as given.

For a step that you skip: those after it can be done and checked."""

import argparse

from learn import work
from learn.progress import chapter_and_step
from torch_stable_abi.programs import CannotRun


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("step", metavar="NN.k")


def run(arguments: argparse.Namespace) -> int:
    chapter, step = chapter_and_step(arguments.step)
    if step is None:
        raise CannotRun(f"NN.k names one step, such as {chapter.steps[0].id}; "
                        f"{arguments.step} is a chapter")
    work.give(chapter, step.id)
    return 0
