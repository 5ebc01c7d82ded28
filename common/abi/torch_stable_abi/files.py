"""Files: the cache outside of any checkout, and writing whole or not at all."""

import contextlib
import fcntl
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from torch_stable_abi.programs import show_progress

# What is fetched or built for a user, so that another checkout finds it too.
try:
    _CACHES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
except RuntimeError:  # a user without a name and without HOME, as in a container
    _CACHES = Path(__file__).parent / ".cache"
CACHE = _CACHES / "libtorch-stable-abi-workbook"


def read_json(path: Path) -> dict:
    """{} if it is not there, or cut off by a full disk or a power failure."""
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}


def read_toml(path: Path) -> dict:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(path.read_text())


def write_file(path: Path, text: str) -> None:
    """Write a file whole or not at all; of several that write at once, the last one's
    stays. Where `path` is a link, a file takes its place, and what it led to is left
    as it is."""
    with _part_of(path) as part:
        part.write_text(text, encoding="utf-8", errors="surrogateescape")


def copy_file(source: Path, path: Path) -> None:
    """Copy a file whole or not at all."""
    with _part_of(path) as part:
        shutil.copy(source, part)


@contextlib.contextmanager
def _part_of(path: Path) -> Iterator[Path]:
    """Yield a name that nobody else uses, in the same folder. What is written there
    becomes `path`; if it cannot be, the error names `path`, and nothing is left."""
    part = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        yield part
        part.rename(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink()


def write_json(path: Path, data: dict) -> None:
    write_file(path, json.dumps(data))


def _lock(file: TextIO) -> bool:
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One build in a folder at a time; a second one waits."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as file:
        if not _lock(file):
            text = "Waiting for another ./workbook that builds this ..."
            print(text, file=sys.stderr)
            start = time.monotonic()
            while not _lock(file):
                time.sleep(0.05)
                show_progress(text, start)
            show_progress("", start)
        yield
