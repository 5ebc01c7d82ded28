"""Runs a command for a limited time, and ends all that it has started, daemons as well.

    supervising.py SECONDS FILE COMMAND...

FILE gets the command's status as subprocess has it, such as 0 or -11, or nothing if the
time was over. What the command leaves behind becomes a child of this process, which can
then find and end it. This process ends if the one that started it does."""

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterator

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
ENDING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
PATIENCE = 10  # seconds for processes that start others as fast as they are ended


def adopt_orphans() -> None:
    """Make this process the parent of every descendant whose own parent ends, such
    as a daemon, so that end_descendants finds it."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def find_descendants(process: int) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, IndexError):  # it has ended meanwhile
            with open(f"/proc/{entry}/stat", errors="replace") as file:
                parent = file.read().rpartition(")")[2].split()[1]
            children.setdefault(int(parent), []).append(int(entry))
    waiting = children.get(process, [])
    while waiting:
        one = waiting.pop()
        yield one
        waiting += children.get(one, [])


def end_descendants() -> None:
    """End what this process has started, until nothing of it is left."""
    start = time.monotonic()
    while time.monotonic() - start < PATIENCE:
        for process in find_descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.005)


def start(command: list[str]) -> int:
    process = os.fork()
    if process == 0:
        os.setsid()
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        try:
            os.execvp(command[0], command)
        except OSError as error:
            print(f"{command[0]}: {error.strerror}", file=sys.stderr, flush=True)
            os._exit(126)
    return process


def wait(process: int, seconds: float) -> int | None:
    """Return its status; None if its time is over, or if this process is to end."""
    end = time.monotonic() + seconds
    while True:
        arrived = signal.sigtimedwait({signal.SIGCHLD, *ENDING},
                                      max(end - time.monotonic(), 0))
        if arrived is None or arrived.si_signo in ENDING:
            return None
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == process:
                    return os.waitstatus_to_exitcode(ended[1])


def main() -> None:
    seconds, file, command = float(sys.argv[1]), sys.argv[2], sys.argv[3:]
    adopt_orphans()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, *ENDING})
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    status = wait(start(command), seconds)
    end_descendants()
    if status is not None:
        with open(file, "w") as result:
            result.write(str(status))
    sys.exit(status != 0)


if __name__ == "__main__":
    main()
