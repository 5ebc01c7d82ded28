"""Running programs, and saying what the system refuses."""

import contextlib
import errno
import math
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from torch_stable_abi import supervising

HERE = Path(__file__).parent  # in a checkout, on the disk of its builds
PIP = [sys.executable, "-I", "-m", "pip",  # not what lies in the current folder
       "--disable-pip-version-check"]


# Where a user is told of what the machine lacks: set by who wraps these tools.
hint = ""


class CannotRun(Exception):
    """Something is missing: the text says what, and the line that cures it."""


CURES = {  # of what the system refuses
    errno.ENOSPC: "; free some, a full build needs 2 GiB",
    errno.EEXIST: "; move it away, since a folder belongs there",
    errno.EAGAIN: "; end some programs, or raise the limit of ulimit -u",
    errno.EMFILE: "; raise the limit of ulimit -n",
    errno.EFBIG: "; raise the limit of ulimit -f",
    errno.ENOEXEC: "; it is for another machine, or lacks its first line, #!...",
    errno.ENOMEM: "; end some programs, or raise the limit of ulimit -v"}


def sentence(error: OSError, root: Path = Path("/nowhere")) -> str:
    """Return what the system refused, of which file, and the cure. A file in `root`,
    the folder of a checkout, is named from there."""
    if error.errno == errno.ENOSPC and error.filename is None:
        return "the disk is full, or what this prints cannot be written" + \
            CURES[errno.ENOSPC]  # found when it is written
    if isinstance(error, shutil.Error):  # [(from, to, why), ...]
        first = error.args[0][0]
        return f"{_place(Path(first[0]), root)} could not be copied: {first[2]}"
    code = error.errno or 0
    cure = CURES.get(code, "")
    if error.filename is None:
        if code == errno.ENOENT:  # of getcwd
            return "the current folder was removed: go to another one"
        return str(error.strerror or error) + cure
    path = Path(os.fsdecode(error.filename))
    if code == errno.ENOENT and len(path.parts) == 1:  # a program
        cure = f"; {hint}" if hint else "; install it"
    elif code == errno.ENOENT and not os.path.exists(path.parent):
        cure = f"; there is no folder {_place(path.parent, root)}"
    elif code == errno.EACCES and os.path.isfile(path) and \
            os.statvfs(path).f_flag & os.ST_NOEXEC:
        cure = "; its file system runs no programs (noexec): copy the folder elsewhere"
    elif code in (errno.EROFS, errno.EACCES) and path.is_relative_to(root):
        cure = "; copy the workbook to a folder of yours" \
            if not os.access(root, os.W_OK) else \
            "; make it yours to read and write: chmod u+rwX, or sudo chown"
    return f"{_place(path, root)}: {error.strerror}{cure}"


def _place(path: Path, root: Path) -> str:
    return str(path.relative_to(root) if path.is_relative_to(root) else path)


def environment_of_user() -> dict[str, str]:
    """Return the environment for a program of the user's: this process's, with what
    ./workbook has set aside, such as PYTHONPATH, in it again."""
    return {**os.environ, **{name.removeprefix("USERS_"): value
                             for name, value in os.environ.items()
                             if name.startswith("USERS_PYTHON")}}


def run_git(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    """Run git in a folder, of which it is told nothing by the environment: where git
    itself runs a command, GIT_DIR and GIT_INDEX_FILE name another."""
    return subprocess.run(["git", "-C", folder, *words], capture_output=True,
                          env={name: value for name, value in os.environ.items()
                               if not name.startswith("GIT_")})


def name_signal(number: int) -> str:
    """Return "SIGKILL" of 9. The signals of real time have no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class Superseded(Exception):
    """A newer save has made what is under way useless."""


def run(command: list, superseded: Callable[[], bool] = lambda: False,
        title: str = "", timeout: float = math.inf,
        **options) -> subprocess.CompletedProcess:
    """Run a command to its end, and return its output and errors as one text. Raises
    Superseded as soon as `superseded()` is true, and TimeoutExpired after `timeout`
    seconds."""
    start = time.monotonic()
    with subprocess.Popen(
            [str(word) for word in command], text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, **options) as process:
        text, pause = "", 0.05
        try:
            while process.returncode is None:
                try:
                    text = process.communicate(timeout=pause)[0]
                except subprocess.TimeoutExpired as so_far:
                    # Each pause joins what has come: of 128 MB once a second.
                    pause = 0.05 + len(so_far.output or b"") / 2**27
                    if title:
                        show_progress(f"{title} ...", start)
                    if time.monotonic() - start > timeout:
                        raise
                    if superseded():
                        raise Superseded from None
        except (KeyboardInterrupt, Superseded, subprocess.TimeoutExpired):
            terminate_family(process)
            show_progress("", start)
            raise
    if title:
        show_progress("", start)
    if process.returncode != 0:
        look_for_full_disk(text)
    return subprocess.CompletedProcess(command, process.returncode, text)


def terminate_descendants(seconds: float = 3) -> None:
    """Terminate all that this process has started, in any thread, and wait for it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and (family := [
            one for one in supervising.find_descendants(os.getpid())
            if _is_running(one)]):
        _terminate(family)
        _wait_for(family, end)


def terminate_family(process: subprocess.Popen) -> None:
    """Terminate the process and all that it has started, and wait for them: CMake, when
    it is ended, leaves the ninja of a trial build alone."""
    family = list(supervising.find_descendants(process.pid))
    _terminate([process.pid, *family])
    process.communicate()
    _wait_for(family, time.monotonic() + 1)


def _terminate(processes: list[int]) -> None:
    for one in processes:  # by a signal after which ninja deletes what is half made
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGTERM)


def _wait_for(processes: list[int], end: float) -> None:
    while time.monotonic() < end and any(map(_is_running, processes)):
        time.sleep(0.01)


def _is_running(process: int) -> bool:
    with contextlib.suppress(OSError), open(f"/proc/{process}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[0] != b"Z"
    return False


def describe_limits() -> str:
    """Return the limits of the shell that a compiler may not live with, or ""."""
    small = [f"ulimit -{letter} {limit // unit}" for letter, number, unit, enough in (
        ("s", resource.RLIMIT_STACK, 2**10, 2**20),
        ("v", resource.RLIMIT_AS, 2**10, 2**32), ("d", resource.RLIMIT_DATA, 2**10,
                                                  2**32),
        ("f", resource.RLIMIT_FSIZE, 2**10, 2**30), ("t", resource.RLIMIT_CPU, 1, 600),
        ("u", resource.RLIMIT_NPROC, 1, 64))
        if 0 <= (limit := resource.getrlimit(number)[0]) < enough]
    return f"This shell has limits that may be too low: {', '.join(small)}\n" \
        if small else ""


def look_for_full_disk(text: str) -> None:
    """Raise CannotRun if a disk is full. A linker that writes through memory is ended
    by SIGBUS. Compilers write to TMPDIR as well."""
    at = max(map(text.find, ("No space left on device", "signal 7 ", "Disk full?")))
    found = text[text.rfind("\n", 0, at) + 1:].partition("\n")[0] if at >= 0 else ""
    free = shutil.disk_usage(HERE).free
    if not found and free >= 2**20:  # CMake may not say so
        return
    temporary = os.environ.get("TMPDIR") or "/tmp"  # tempfile avoids one that is full
    what = "the disk is full; free some, a build needs 2 GiB"
    if Path(temporary).is_dir() and shutil.disk_usage(temporary).free < free / 2:
        what = f"the disk of {temporary} is full; free some, or set TMPDIR to a " \
            "folder of another disk"
    raise CannotRun(what + (f"\n{found.strip()}" if found else ""))


def run_shown(title: str, command: list, **options) -> None:
    """Run a long step; on a terminal its progress is shown. If it fails, so
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
        terminate_family(process)
        raise
    finally:
        process.wait()
        if shown:
            print("\r\033[K", end="", file=sys.stderr)
    if process.returncode != 0:
        tail = "".join(lines[-25:])
        look_for_full_disk("".join(lines))
        raise CannotRun(f"{title}: failed\n{tail}{describe_limits()}"
                        f"The command was: {shlex.join(map(str, command))}\n"
                        + hint)


def show_progress(title: str, start: float) -> None:
    """Show the time on a terminal, after the first second. Without a title, clear the
    line."""
    seconds = time.monotonic() - start
    if seconds > 1 and sys.stderr.isatty():
        text = f"{title} {seconds:.0f} s " if title else "\033[K"
        print(f"\r{text}", end="", file=sys.stderr, flush=True)
