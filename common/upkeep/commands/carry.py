"""carry: copy each file of several solutions from the one that owns it.

The first chapter that holds a file owns it; the later ones carry it, byte for byte.
Edit it there, then run this."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from base.project import ROOT
from torch_stable_abi.files import copy_file

SOLUTIONS = ROOT / "solutions"
SUFFIXES = {".h", ".cpp", ".cu"}
# Files of one name that differ, and why.
OF_THEIR_OWN = {
    ("08_hub_packaging", "error_text.h"):
        "the Hub's checker refuses the weak symbol of 03's"}


def find_carried() -> Iterator[tuple[Path, list[Path]]]:
    """Yield each file that is carried: the owner's, and the copies."""
    by_name: dict[str, list[Path]] = {}
    for path in sorted(SOLUTIONS.glob("*/**/*")):
        chapter = path.relative_to(SOLUTIONS).parts[0]
        if path.suffix in SUFFIXES and (chapter, path.name) not in OF_THEIR_OWN:
            by_name.setdefault(path.name, []).append(path)
    for owner, *copies in by_name.values():
        if copies:
            yield owner, copies


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(arguments: argparse.Namespace) -> int:
    kept = 0
    for owner, copies in find_carried():
        kept += len(copies)
        for path in copies:
            if path.read_bytes() != owner.read_bytes():
                copy_file(owner, path)
                print(f"{path.relative_to(ROOT)} is that of "
                      f"{owner.relative_to(ROOT)} again")
    print(f"{kept} carried files are as their owners have them")
    return 0
