"""Files: the cache outside of any checkout, and writing whole or not at all."""

import contextlib
import fcntl
import json
import lzma
import os
import shutil
import stat
import sys
import threading
import time
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from torch_stable_abi.programs import CannotRun, show_progress

# What is fetched or built for a user, so that another checkout finds it too.
try:
    _CACHES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
except RuntimeError:  # a user without a name and without HOME, as in a container
    _CACHES = Path(__file__).parent / ".cache"
CACHE = _CACHES / "libtorch-stable-abi-workbook"
# What zipfile raises for a wheel that is none, damaged, encrypted or packed oddly.
DAMAGED_ZIP = (zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, RuntimeError,
               NotImplementedError, ValueError)
# How a wheel calls the machines for which there is a torch, by ELF's numbers.
MACHINES = {62: "x86_64", 183: "aarch64", 243: "riscv64", 21: "ppc64le", 22: "s390x"}
# What a read may wait for, or read, for ever.
SPECIAL = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket",
           stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


def describe_special(path: Path) -> str:
    """Return the kind of special file at `path` (links are followed) whose reading may
    never end, such as "a named pipe"; else an empty text."""
    try:
        return SPECIAL.get(stat.S_IFMT(path.stat().st_mode), "")
    except OSError:
        return ""


def find_machine(elf: bytes) -> str:
    """Return the machine that an ELF file is for, of MACHINES; else an empty text."""
    return MACHINES.get(int.from_bytes(elf[18:20], "little"), "")


def leads_nowhere(path: Path) -> bool:
    """Return whether `path` is a link to what is not there, or to itself."""
    return path.is_symlink() and not path.exists()


def place(path: Path) -> str:
    """Return a path as a user writes it: relative to the current folder, if inside."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def readable(name: str) -> str:
    """Return a name of the file system, each byte of it that is no UTF-8 as \\xe9."""
    return os.fsencode(name).decode(errors="backslashreplace")


def printable(text: str) -> str:
    """Return text in which what would move a terminal's cursor, or colour it, is
    escaped."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def refuse_special(path: Path, name: str = "") -> None:
    """Refuse what a read may wait for, or read, for ever."""
    if what := describe_special(path):
        raise CannotRun(f"{name or place(path)} is {what}, where a file is expected")


def refuse_utf_16(path: Path) -> None:
    with open(path, "rb") as file:
        if file.read(2) in (b"\xff\xfe", b"\xfe\xff"):
            raise CannotRun(f"{place(path)} is saved as UTF-16, which compilers do not "
                            "read: save it as UTF-8")


def refuse_odd_folder(folder: Path) -> None:
    """Refuse a path where something other than a folder stands."""
    if leads_nowhere(folder):
        raise CannotRun(f"{place(folder)} is a link to {folder.readlink()}, which is "
                        "not there: bring that back, or remove the link")
    if folder.exists() and not folder.is_dir():
        raise CannotRun(f"{place(folder)} is {describe_special(folder) or 'a file'}, "
                        "where a folder is expected: move it away")


def refuse_unwritable(file: Path, option: str) -> None:
    """Refuse the name of a result, before the work is done, if it cannot be kept
    there."""
    if str(file) == "-":
        raise CannotRun(f"{option}: - is no file; /dev/stdout is what you see")
    if file.is_dir():
        raise CannotRun(f"{option}: {file} is a folder, where a file is expected")
    if not file.parent.is_dir():
        raise CannotRun(f"{option}: there is no folder {file.parent}")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise CannotRun(f"{option}: {file} cannot be written")
    if file.is_fifo():
        try:
            os.close(os.open(file, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            raise CannotRun(f"{option}: {file} is a named pipe that nobody reads") \
                from None


def read_json(path: Path) -> dict:
    """Return the object in a file of JSON; {} if there is no file, if a full disk or a
    power failure has cut it off, or if it holds something else."""
    try:
        data = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


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
    """Let one process at a time build in a folder; a second one waits."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as file:
        if not _lock(file):
            text = "Waiting for another one that builds this ..."
            print(text, file=sys.stderr)
            start = time.monotonic()
            while not _lock(file):
                time.sleep(0.05)
                show_progress(text, start)
            show_progress("", start)
        yield
