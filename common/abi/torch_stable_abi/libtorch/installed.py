"""The torch, or the unpacked libtorch, that is here: TORCH_ROOT."""

import functools
import os
import re
from pathlib import Path

from torch_stable_abi.programs import CannotRun


@functools.cache
def torch_root() -> Path:
    folder = Path(os.environ.get("TORCH_ROOT", ""))
    if not (folder / "include/torch/headeronly/version.h").is_file():
        raise CannotRun("TORCH_ROOT is not set to a torch >= 2.10; "
                        "start the tool by ./workbook")
    return folder


@functools.cache
def torch_version() -> str:
    """Return the version of the headers, such as "2.13.0", as torch or libtorch itself
    records it."""
    for file in ("version.py", "../build-version", "include/torch/version.h"):
        path = torch_root() / file
        if path.is_file():
            found = re.search(r"\b(\d+\.\d+\.\d+\S*?)['\"\s]", path.read_text())
            if found:
                return found[1]
    return "of unknown version"
