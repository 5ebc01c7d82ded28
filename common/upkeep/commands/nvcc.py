"""nvcc: where the CUDA compiler is; --fetch gets it from PyPI."""

import argparse

from base.nvcc import fetch, find
from torch_stable_abi.programs import CannotRun


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("program", nargs="?", default="nvcc",
                        help="another program of the toolkit, as cuobjdump")
    parser.add_argument("--fetch", action="store_true",
                        help="if there is none: 120 MB to download, 350 MB on "
                             "disk, in ~/.cache")


def run(arguments: argparse.Namespace) -> int:
    program = arguments.program
    if find(program) is None and arguments.fetch:
        fetch()
    found = find(program)
    if found is None:
        raise CannotRun(
            f"no {program} is here, and what --fetch gets has none" if find()
            else f"no {program} is here: ./workbook nvcc --fetch gets CUDA's compiler")
    print(found)
    return 0
