"""Builds the project of a folder, to look at the library that it makes."""

import hashlib
import os
from pathlib import Path

from torch_stable_abi.files import CACHE, locked, refuse_special
from torch_stable_abi.libtorch.installed import torch_root
from torch_stable_abi.programs import CannotRun, run


def find_library(given: str) -> Path:
    """Return the library itself; of a folder with a CMakeLists.txt, the library that
    it makes."""
    path = Path(given).resolve()
    if not path.exists():
        raise CannotRun(f"there is no file or folder {given}")
    refuse_special(path, given)
    if path.is_file():
        return path
    build = CACHE / "projects" / by_place(path)
    with locked(build):
        for command in (["cmake", "-G", "Ninja", "-S", path, "-B", build,
                         f"-DTORCH_ROOT={torch_root()}"],
                        ["cmake", "--build", build]):
            done = run(command)
            if done.returncode != 0:
                raise CannotRun(f"{given} does not build:\n{done.stdout[-2000:]}")
    library = library_of(build)
    if library is None:
        raise CannotRun(f"{given} makes no library")
    return library


def by_place(folder: Path) -> str:
    """Return the folder's name, and what tells it from another folder of that name."""
    digest = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:8]
    return f"{folder.name}-{digest}"


def library_of(build: Path) -> Path | None:
    """Return the shared library that a build has made: the workbook's probe if there
    is one, since that holds the library's code."""
    probe = build / "libprobe.so"
    if probe.exists():
        return probe
    found = sorted(build.glob("*.so")) or sorted(build.glob("torch*/*.so"))
    return found[0] if found else None
