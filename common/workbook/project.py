"""Where things are, and running programs there."""

import contextlib
import errno
import fcntl
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
MINE = ROOT / "my"
# What is fetched, outside of the checkout, so that a second one finds it too.
try:
    _CACHES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
except RuntimeError:  # a user without a name and without HOME, as in a container
    _CACHES = BUILD / "cache"
CACHE = _CACHES / "libtorch-stable-abi-workbook"


CURES = {  # of what the system refuses
    errno.ENOSPC: "; free some, a full build needs 2 GiB",
    errno.EROFS: "; copy the workbook to a folder of yours",
    errno.EACCES: "; copy the workbook to a folder of yours",
    errno.ENOENT: "; ./workbook doctor shows what this machine lacks"}


class CannotRun(Exception):
    """Something is missing: the text says what, and the line that cures it."""


def sentence(error: OSError) -> str:
    """What it is, and the cure."""
    if error.errno == errno.ENOSPC and error.filename is None:
        return "the disk is full" + CURES[errno.ENOSPC]  # found when it is written
    if isinstance(error, shutil.Error):  # [(from, to, why), ...]
        first = error.args[0][0]
        return f"{first[0]} could not be copied: {first[2]}"
    return f"{error.filename}: {error.strerror}" + CURES.get(error.errno or 0, "")


class Superseded(Exception):
    """A newer save has made what is under way useless."""


def run(command: list, superseded: Callable[[], bool] = lambda: False,
        title: str = "", timeout: float = math.inf,
        **options) -> subprocess.CompletedProcess:
    """Runs to the end, unless it is superseded; output and errors come back as
    one text. Raises TimeoutExpired after `timeout` seconds."""
    start = time.monotonic()
    with subprocess.Popen(
            [str(word) for word in command], text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, **options) as process:
        text = ""
        try:
            while process.returncode is None:
                try:
                    text = process.communicate(timeout=0.05)[0]
                except subprocess.TimeoutExpired:
                    if title:
                        _show(f"{title} ...", start)
                    if time.monotonic() - start > timeout:
                        process.kill()
                        raise
                    if superseded():
                        raise Superseded from None
        except (KeyboardInterrupt, Superseded):
            process.terminate()  # ninja deletes what is half made
            process.communicate()
            _show("", start)
            raise
    if title:
        _show("", start)
    if process.returncode != 0:
        look_for_full_disk(text)
    return subprocess.CompletedProcess(command, process.returncode, text)


def look_for_full_disk(text: str) -> None:
    """A linker that writes through memory is ended by SIGBUS. Compilers write to
    TMPDIR as well."""
    found = re.search(".*No space left on device.*|.*signal 7 .*", text)
    free = shutil.disk_usage(ROOT).free
    if not found and free >= 2**20:  # CMake may not say so
        return
    temporary = os.environ.get("TMPDIR") or "/tmp"  # tempfile avoids one that is full
    what = "the disk is full; free some, a build needs 2 GiB"
    if Path(temporary).is_dir() and shutil.disk_usage(temporary).free < free / 2:
        what = f"the disk of {temporary} is full; free some, or set TMPDIR to a " \
            "folder of another disk"
    raise CannotRun(what + (f"\n{found[0].strip()}" if found else ""))


def read_json(path: Path) -> dict:
    """{} if it is not there, or cut off by a full disk or a power failure."""
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}


def read_source(path: Path) -> str:
    """The text of a learner's file, to look at. Bytes that are no UTF-8, such as those
    of a Latin-1 comment, become U+FFFD."""
    return path.read_text(encoding="utf-8", errors="replace")


def read_toml(path: Path) -> dict:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(path.read_text())


def write_file(path: Path, text: str) -> None:
    """Writes a file whole or not at all; of several that write at once, the last one's
    stays. Where `path` is a link, a file takes its place, and what it led to is left
    as it is."""
    with _part_of(path) as part:
        part.write_text(text, encoding="utf-8", errors="surrogateescape")


def copy_file(source: Path, path: Path) -> None:
    """Copies a file whole or not at all."""
    with _part_of(path) as part:
        shutil.copy(source, part)


@contextlib.contextmanager
def _part_of(path: Path) -> Iterator[Path]:
    """Yields a name that nobody else uses, in the same folder. What is written there
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


def run_shown(title: str, command: list, **options) -> None:
    """Runs a long step; on a terminal its progress is shown. If it fails, so
    are its last lines."""
    shown = sys.stderr.isatty()
    start = time.monotonic()
    if not shown:
        print(f"{title} ...", file=sys.stderr)
    process = subprocess.Popen(
        [str(word) for word in command], text=True, errors="replace",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, **options)
    lines = []
    assert process.stdout
    try:
        for line in process.stdout:
            lines.append(line)
            if shown:
                seconds = time.monotonic() - start
                text = f"{title} ... {seconds:.0f} s  {line.strip()}"
                print(f"\r\033[K{text[:78]}", end="", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        process.terminate()
        raise
    finally:  # after Ctrl-C too, so that it can tidy up
        process.wait()
        if shown:
            print("\r\033[K", end="", file=sys.stderr)
    if process.returncode != 0:
        tail = "".join(lines[-25:])
        look_for_full_disk("".join(lines))
        raise CannotRun(f"{title}: failed\n{tail}"
                        f"The command was: {shlex.join(map(str, command))}\n"
                        "What this machine has: ./workbook doctor")


def _lock(file: TextIO) -> bool:
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _show(title: str, start: float) -> None:
    """What takes more than a second is seen to move on a terminal, until it
    ends: then without a title."""
    seconds = time.monotonic() - start
    if seconds > 1 and sys.stderr.isatty():
        text = f"{title} {seconds:.0f} s " if title else "\033[K"
        print(f"\r{text}", end="", file=sys.stderr, flush=True)


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
                _show(text, start)
            _show("", start)
        yield
