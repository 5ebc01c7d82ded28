"""The versions of torch in versions.txt: every list of versions comes here."""

import argparse
import re
from pathlib import Path

from torch_stable_abi.programs import CannotRun

FILE = Path(__file__).with_name("versions.txt")
OLDEST = (2, 10)  # what the solutions target


def numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version: (2, 13, 0) of "2.13.0+cpu"."""
    return tuple(int(n) for n in re.findall(r"\d+", version.split("+")[0])[:3])


def as_version(text: str) -> str:
    """Return an argument that is a version; refuse another."""
    if not re.fullmatch(r"2\.\d+\.\d+", text):
        raise argparse.ArgumentTypeError(
            f"must be a version such as 2.12.1, got {text}")
    return text


def in_order(*versions: str) -> list[str]:
    return sorted(set(versions), key=numbers)


def listed() -> list[str]:
    lines = [line.split("#")[0].strip() for line in
             FILE.read_text().splitlines()]
    for line in filter(None, lines):
        if not re.fullmatch(r"2\.\d+\.\d+", line):
            raise CannotRun(f"{FILE}: expected a version such as 2.10.0, "
                            f"not {line!r}")
    return in_order(*filter(None, lines))


def supported() -> list[str]:
    """Return the listed versions that run a library for target 2.10."""
    return [v for v in listed() if numbers(v) >= OLDEST]
