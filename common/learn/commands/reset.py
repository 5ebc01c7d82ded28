"""reset: back to the starter, in a chapter or a step; yours is kept."""

import argparse

from learn import work
from learn.progress import chapter_and_step


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar="NN or NN.k")


def run(arguments: argparse.Namespace) -> int:
    chapter, step = chapter_and_step(arguments.what)
    work.reset(chapter, step.id if step else None)
    return 0
