"""demo: a chapter's subject going wrong, then right.

Without a network it shows what was recorded."""

import argparse
import textwrap

from base.requirements import expect_no_numpy
from learn import demos, screen
from torch_stable_abi.files import CACHE
from torch_stable_abi.libtorch import runtimes, versions
from torch_stable_abi.programs import CannotRun

FETCH = """\
libtorch {version} is not here yet. It comes in a wheel of 0.5 to 0.9 GB from
PyPI, which takes one to two minutes at 10 MB/s; 0.5 GB stay in
{cache}."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("chapter", metavar="NN")
    parser.add_argument("--torch", metavar="VERSION", action="append",
                        type=versions.as_version,
                        help="a libtorch to use, such as 2.12.1; again for "
                        "another")
    parser.add_argument("--record", action="store_true",
                        help="write what it shows to docs/results")


def run(arguments: argparse.Namespace) -> int:
    expect_no_numpy()
    number = arguments.chapter.zfill(2)
    demo = demos.find(number)
    print(textwrap.fill(demos.about(number), 80) + "\n")
    others = versions.in_order(*(arguments.torch or (
        demo.RECORDED if arguments.record else demo.OTHERS)))
    others = [v for v in others if v != runtimes.installed()] or \
        ["2.13.0"] * bool(demo.OTHERS)
    try:
        for version in others:
            if not runtimes.whole(version):
                print(FETCH.format(version=version, cache=CACHE))
                runtimes.fetch(version)
        if hasattr(demo, "prepare"):
            demo.prepare()
    except CannotRun as error:
        recorded = demos.recording(number)
        if arguments.torch or arguments.record or not recorded.exists():
            raise
        print(f"{error}\n\n{screen.bold('*recorded*')}, not run now:\n\n"
              f"{recorded.read_text()}", end="")
        return 0
    lines = [f"$ ./workbook demo {number}" + "".join(
        f" --torch {v}" for v in others if others != demo.OTHERS)]

    def say(text: str) -> None:
        lines.append(text)
        print(text, flush=True)
    good = demo.show(others, say)
    if arguments.record:
        demos.recording(number).write_text("\n".join(lines) + "\n")
    return 0 if good else 1
