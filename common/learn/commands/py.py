"""py: Python with your library loaded, as its users have it."""

import argparse
import os
import sys

from base.building import build_plain
from base.project import BUILD
from base.requirements import expect_no_numpy, see_torch
from learn.progress import chapter_and_step
from torch_stable_abi.programs import CannotRun

START = """\
import sys
sys.path[:] = filter(None, sys.path)  # a folder torch here may be PyTorch's sources
import ctypes, torch
sys.path.insert(0, "")
torch.ops.load_library({library!r})
library = ctypes.CDLL({library!r})
print("torch", torch.__version__, "and", {name!r} + ": its ops are in"
      " torch.ops.wb{number}, if it has any; its C functions in library")
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("chapter", nargs="?", metavar="NN",
                        help="default: the chapter you are at")


def run(arguments: argparse.Namespace) -> int:
    chapter = chapter_and_step(arguments.chapter)[0]
    if chapter.steps_in_python.exists():
        raise CannotRun(f"chapter {chapter.number} is a package: its README.md "
                        "says how Python loads it")
    see_torch()
    build = build_plain(chapter, BUILD / "release", "Release")
    library = build / f"lib{chapter.name[3:]}.so"
    text = START.format(library=str(library), name=library.name,
                        number=chapter.number)
    sys.stdout.flush()
    expect_no_numpy()
    os.execv(sys.executable, [sys.executable, "-q", "-i", "-c", text])
