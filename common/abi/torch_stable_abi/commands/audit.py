"""audit: what a built extension needs, without loading it.

For a library, a wheel, a Hub variant or repository: the oldest libtorch and why, what
is not of the stable ABI or cannot load, the platform, Python, CUDA, the ops that it
calls and defines, how it was linked, and what its metadata says of all that."""

import argparse
import contextlib
import resource
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from torch_stable_abi.files import printable
from torch_stable_abi.programs import CannotRun


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = ("exit status: 0 no finding of --fail-on's level, 1 one at least, "
                     "2 a file could not be read")
    parser.add_argument("files", nargs="+", metavar="FILE",
                        help="a library, a wheel, a folder with libraries, or a Hub "
                             "repository")
    parser.add_argument("-v", "--verbose", action="store_true",
                        help="every symbol, call and schema")
    parser.add_argument("--format", choices=["text", "json", "github", "sarif"],
                        default="text", help="default: text, for people")
    parser.add_argument("--json", dest="format", action="store_const", const="json",
                        help="the same as --format json")
    parser.add_argument("--fail-on", choices=["note", "warn", "fail"], default="fail",
                        help="the level from which the exit status is 1 (default: "
                             "fail)")
    parser.add_argument("--config", metavar="FILE",
                        help="has accepted findings (default: the pyproject.toml of "
                             "this folder or above it)")
    parser.add_argument("--seconds", type=int, default=120, metavar="N",
                        help="that a file may take (default: %(default)s)")
    parser.add_argument("--memory", type=int, default=4096, metavar="MIB",
                        help="that the audit may use (default: %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    from torch_stable_abi.audit import accepted, checks, formats  # before the limit
    assert checks
    acceptances = accepted.read_acceptances(arguments.config)
    results = []
    with limited_memory(arguments.memory):
        for given in arguments.files:
            results += audit_file(given, arguments.seconds, arguments.memory)
    accepted.accept(results, acceptances)
    for result in results:
        if result.error:
            print(f"audit: {printable(result.error)}", file=sys.stderr)
    if arguments.format == "text":
        text = formats.as_text(results, arguments.verbose)
    else:
        text = formats.FORMATS[arguments.format](results)
    if text:
        print(text)
    if any(result.error for result in results):
        return 2
    return 1 if any(formats.is_at_least(finding, arguments.fail_on)
                    for result in results for finding in result.findings) else 0


def audit_file(given: str, seconds: int, memory: int) -> list:
    """Return the results on what one path names, which are several for a Hub
    repository."""
    from torch_stable_abi.audit import checks, subject
    from torch_stable_abi.audit.formats import Result
    results: list[Result] = []
    try:
        with limited_time(given, seconds):
            for one in subject.find_subjects(given):
                results.append(
                    Result(given, given, [], str(one)) if isinstance(one, CannotRun)
                    else Result(one.name, given, checks.audit(one)))
    except CannotRun as error:
        results.append(Result(given, given, [], str(error)))
    except MemoryError:
        results.append(Result(given, given, [], f"{given} needs more than {memory} MiB "
                              "of memory: raise --memory"))
    return results


@contextlib.contextmanager
def limited_time(given: str, seconds: int) -> Iterator[None]:
    def stop(number, frame):
        raise CannotRun(f"{given} takes more than {seconds} s: raise --seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(max(seconds, 1))
    try:
        yield
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
