"""mistakes: what others get wrong in a step that you have done.

Each with the change that makes it, and what the check says of it."""

import argparse
import difflib
import re

from base.sheets import Chapter
from learn import checking, screen
from learn.progress import chapter_and_step
from torch_stable_abi.files import read_toml
from torch_stable_abi.programs import CannotRun


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="?", metavar="NN or NN.k",
                        help="default: the chapter you are at")
    parser.add_argument("--all", action="store_true",
                        help="of steps that are not done as well")


def run(arguments: argparse.Namespace) -> int:
    chapter, step = chapter_and_step(arguments.what)
    wanted = [step.id] if step else [one.id for one in chapter.steps]
    done = {id for id, state in checking.last_states(chapter)[0].items()
            if state == checking.PASS}
    shown = [id for id in wanted if arguments.all or id in done]
    if not shown:
        raise CannotRun(f"{wanted[0]} is not done yet, and its mistakes would tell "
                        "how; --all shows them")
    print("The lines with - are the solution's, those with + the mistake.\n")
    for id in shown:
        show(chapter, id)
    return 0


def read_verdicts(chapter: Chapter) -> dict[str, str]:
    """Return what is said of each mistake: {"01.1 The bits are ...": text}."""
    text = (chapter.tests / "verdicts.txt").read_text()
    return {found[1]: found[2].strip("\n") for found in re.finditer(
        r"^## (.*?) \([^()\n]*\)\n\n(.*?)(?=^## |\Z)", text, re.M | re.S)}


def show(chapter: Chapter, step: str) -> None:
    verdicts = read_verdicts(chapter)
    for mistake in read_toml(chapter.tests / "mistakes.toml")["mistake"]:
        said = verdicts.get(f"{mistake['step']} {mistake['what']}")
        if mistake["step"] == step and said:
            print(screen.bold(f"{step} {mistake['what']}") + f"  {mistake['file']}")
            for line in difflib.ndiff(mistake["old"].strip("\n").split("\n"),
                                      mistake["new"].strip("\n").split("\n")):
                if line[0] in "-+":
                    print(f"  {line}")
            told = [line for line in said.split("\n")[1:]
                    if line[:5] != "Edit " and "The whole text: " not in line]
            print("  does not compile\n" if mistake["kind"] == "compile"
                  else "\n".join(told) + "\n")
