"""The programs of the CUDA toolkit: in PATH, in /usr/local/cuda, or fetched from
PyPI into the cache, outside of the checkout."""

import os
import shutil

from base.requirements import REQUIREMENTS
from torch_stable_abi.files import CACHE
from torch_stable_abi.programs import PIP, CannotRun, run_shown

FOLDER = CACHE / "cuda-13.0"
BIN = FOLDER / "nvidia/cu13/bin"


def find(program: str = "nvcc") -> str | None:
    for folder in (None, os.environ.get("CUDA_HOME", "") + "/bin",
                   "/usr/local/cuda/bin", str(BIN)):
        found = shutil.which(program, path=folder)
        if found:
            return found
    return None


def fetch() -> None:
    """Install the toolkit's parts, whole or not at all."""
    part = FOLDER.with_name(f"{FOLDER.name}.{os.getpid()}")
    try:
        run_shown("Fetching nvcc from PyPI (120 MB)", [
            *PIP, "install", "-q", "--require-hashes", "--target", part,
            "-r", REQUIREMENTS / "cuda.txt"])
        (part / "nvidia/cu13/lib64").symlink_to("lib")  # where nvcc looks
        shutil.rmtree(FOLDER, ignore_errors=True)
        part.rename(FOLDER)
    except CannotRun as error:
        raise CannotRun("pip could not install requirements/cuda.txt (a "
                        f"network?)\n{error}") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
