"""The audit of what a path names, within limits of time and memory."""

import contextlib
import errno
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

from torch_stable_abi.audit import checks, subject
from torch_stable_abi.audit.formats import Result
from torch_stable_abi.programs import CannotRun


def audit_file(given: str, seconds: int, memory: int) -> list[Result]:
    """Return the results on what one path names, which are several for a Hub
    repository."""
    results: list[Result] = []
    try:
        with limited_time(given, seconds):
            for one in subject.find_subjects(given):
                results.append(
                    Result(given, given, [], str(one)) if isinstance(one, CannotRun)
                    else Result(one.name, given, checks.audit(one)))
    except CannotRun as error:
        results.append(Result(given, given, [], str(error)))
    except (MemoryError, SystemError, OSError) as error:
        # Python may lose the first for lack of memory.
        if isinstance(error, OSError) and error.errno != errno.ENOMEM:
            raise
        results.append(Result(given, given, [], f"{given} needs more than {memory} MiB "
                              "of memory: raise --memory"))
    return results


class _TimeIsOver(BaseException):
    """No reader of a damaged file takes it for an error of the file's."""


@contextlib.contextmanager
def limited_time(given: str, seconds: int) -> Iterator[None]:
    def stop(number, frame):
        raise _TimeIsOver

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(max(seconds, 1))
    try:
        yield
    except _TimeIsOver:
        raise CannotRun(
            f"{given} takes more than {seconds} s: raise --seconds") from None
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def limited_memory(mib: int) -> Iterator[None]:
    """Limit the memory that this process takes from here on; what is mapped from a file
    does not count."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    pages = int(Path("/proc/self/statm").read_text().split()[5])
    most = pages * resource.getpagesize() + (mib << 20)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
