"""The torch that is here: TORCH_ROOT, which may be an unpacked libtorch, else that of
this Python."""

import functools
import importlib.util
import os
import re
from pathlib import Path

from torch_stable_abi.programs import CannotRun


@functools.cache
def torch_root() -> Path:
    given = os.environ.get("TORCH_ROOT")
    found = None if given else importlib.util.find_spec("torch")  # imports nothing
    folder = Path(given or (found.origin if found and found.origin else "")).absolute()
    folder = folder if given else folder.parent
    if not (folder / "include/torch/headeronly/version.h").is_file():
        raise CannotRun((f"TORCH_ROOT={given} is" if given else "there is") + " no "
                        "torch >= 2.10 with its headers: pip install torch beside this "
                        "tool, or set TORCH_ROOT to the folder of one")
    return folder


def is_for_cuda() -> bool:
    """Return whether this libtorch can use a GPU of NVIDIA's, if there is one."""
    return (torch_root() / "lib/libtorch_cuda.so").exists()


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
