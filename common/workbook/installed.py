"""The torch that is used, and what Python needs beside it."""

import functools
import os
import re
import shutil
import sys
import sysconfig
from pathlib import Path

from workbook.project import ROOT, CannotRun, run_shown

REQUIREMENTS = ROOT / "requirements"
LOCKED = ["--disable-pip-version-check", "--require-hashes"]  # words for pip


@functools.cache
def torch_root() -> Path:
    folder = Path(os.environ.get("TORCH_ROOT", ""))
    if not (folder / "include/torch/headeronly/version.h").is_file():
        raise CannotRun("TORCH_ROOT is not set to a torch >= 2.10; "
                        "start the tool by ./workbook")
    return folder


@functools.cache
def torch_version() -> str:
    """Of the headers: "2.13.0", as torch or libtorch itself records it."""
    for file in ("version.py", "../build-version", "include/torch/version.h"):
        path = torch_root() / file
        if path.is_file():
            found = re.search(r"\b(\d+\.\d+\.\d+\S*?)['\"\s]", path.read_text())
            if found:
                return found[1]
    return "of unknown version"


def see_torch() -> None:
    """Lets this Python import torch."""
    pth = Path(sysconfig.get_path("purelib"), "torch_of_workbook.pth")
    if not (torch_root() / "__init__.py").is_file():
        raise CannotRun(f"{torch_root()} is libtorch alone; this needs torch "
                        "for Python: unset TORCH_ROOT")
    if not pth.exists() or pth.read_text() != f"{torch_root().parent}\n":
        pth.write_text(f"{torch_root().parent}\n")


def install(name: str) -> None:
    """Installs the set requirements/NAME.txt beside the tool, once."""
    wanted = REQUIREMENTS / f"{name}.txt"
    done = Path(sysconfig.get_path("purelib"), f"requirements-{wanted.name}.done")
    if not done.exists() or done.read_bytes() != wanted.read_bytes():
        title = wanted.relative_to(ROOT)
        try:
            run_shown(f"Installing {title}", [
                sys.executable, "-m", "pip", "install", "-q", *LOCKED, "-r", wanted])
        except CannotRun as error:
            raise CannotRun(f"{title} could not be installed (a network?)\n"
                            f"{error}") from None
        shutil.copy(wanted, done)


def install_with_torch(name: str) -> None:
    """And lets this Python see torch: tests in Python need both."""
    see_torch()
    install(name)
