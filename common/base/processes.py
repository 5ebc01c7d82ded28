"""A process and all that it has started, in whatever session."""

import contextlib
import ctypes
import os
import time

import psutil

PR_SET_CHILD_SUBREAPER = 36  # of <sys/prctl.h>


def family(pid: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def memory_mib(processes: list[psutil.Process]) -> int:
    total = 0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            total += process.memory_info().rss
    return total // 2**20


def kill(processes: list[psutil.Process]) -> None:
    for process in reversed(processes):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def adopt_orphans() -> None:
    """Make this process the parent of every descendant whose own parent ends, such
    as a daemon, so that kill_descendants finds it."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_descendants() -> None:
    """End all that this process has started, and wait for it, but no longer than ten
    seconds: a /proc of another PID namespace shows other processes than ours."""
    end = time.monotonic() + 10
    while time.monotonic() < end and (found := family(os.getpid())[1:]):
        kill(found)
        psutil.wait_procs(found, timeout=1)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
