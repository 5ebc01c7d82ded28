"""The second half of a check: the chapter's tests, in processes of their own."""

import contextlib
import errno
import os
import re
import secrets
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from base.project import ROOT
from learn.checking.report import Case, read
from torch_stable_abi.programs import CannotRun, Superseded
from torch_stable_abi.projects import library_of

CASE_SECONDS = 10  # a case of a learner's run may take this long
KEPT = 2**20  # bytes of what it prints, of its beginning and of its end
FAILED, LEAKED, TIMED_OUT = 1, 4, 124  # statuses of a test program
NO_LEAKS = b"LeakSanitizer has encountered a fatal"  # without ptrace, or /proc


@dataclass
class Run:
    """The end of a test process, and what it reported."""
    status: int
    text: str
    cases: list[Case] | None  # None: it ended before the first, or has no report
    limit: int = CASE_SECONDS  # that it ran into, if TIMED_OUT
    of_pytest: bool = False


def find_time_made(test: Path) -> int:
    """Return when a test was built; of one in Python, when it or a file that it uses
    was saved."""
    files = [test]
    if test.suffix == ".py":
        files += [*test.parent.rglob("*.py"), *(ROOT / "tests/hub").glob("*.py")]
    return max(file.stat().st_mtime_ns for file in files)


class Tests:
    """The tests of a chapter, on one implementation. Their process loads libtorch, or
    imports torch, when it is made, and runs cases in processes forked from it. Those
    that are `lasting` go on with an implementation that is built anew, but take longer
    to name the lines of a sanitizer's report."""

    def __init__(self, test: Path, build: Path, seed: int | None = None,
                 lasting: bool = False, **environment: str):
        self.test, self.build, self.seed = test, build, seed
        self.lasting = lasting or self.stops_at_first
        self.made = find_time_made(test)
        self.asked = False
        self.report = build / "report.xml"
        self.superseded: Callable[[], bool] = lambda: False
        self.command: list = [
            test, "--serve=lasting" if lasting else "--serve", "--reporters=xml",
            f"--out={self.report}", f"--timeout={CASE_SECONDS}"]
        if seed is not None:
            self.command.append(f"--rand-seed={seed}")
        if self.stops_at_first:
            self.command = [
                sys.executable, "-m", "learn.checking.python_server",
                test, build, self.report]
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT / "common"),
                            **environment}
        self.process: subprocess.Popen | None = self._start()

    @property
    def stops_at_first(self) -> bool:
        """Return whether a run ends at the first case that fails, as pytest's does."""
        return self.test.suffix == ".py"

    def can_serve(self, test: Path, build: Path) -> bool:
        """Return whether the tests can go on with this build. Most in C++ share a
        symbolizer, which keeps the lines of the library that it has read."""
        return self.process is not None and self.process.poll() is None and \
            self.build == build and test.exists() and \
            self.made == find_time_made(test) and \
            (self.lasting or not self.asked)

    def run(self, steps: Sequence[str]) -> Run:
        """Run the cases of these steps. Those of the whole chapter are for
        ./workbook test."""
        return self.run_cases([f"{step} *" for step in steps])

    def run_cases(self, patterns: Sequence[str]) -> Run:
        """Run the cases of these names. A process that ends before it has said, by the
        key of this run, that it ran all of them has not ended its last case, whatever
        the report says, nor has one that failed without a failure in the report: the
        code that is tested may have written that."""
        _clear(self.report)
        cases = ",".join(patterns)
        self.process = self.process or self._start()
        assert self.process.stdin
        self.asked = True
        key = secrets.token_hex(16)
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(
                f"{library_of(self.build)}\t{cases}\t{key}\n".encode())
            self.process.stdin.flush()
        limit = (CASE_SECONDS + 5) * (len(patterns) + 5)
        status, printed = self._wait(limit, key)
        whole = status == TIMED_OUT and self.process is None
        ran = re.search(rf"\0ran {key} (\d+)\n?".encode(), printed)
        found = read(self.report)
        text = printed[:ran.start()] + printed[ran.end():] if ran else printed
        if ran and int(ran[1]) == 0 and status == FAILED and NO_LEAKS in text:
            status = 0  # every case has ended, and leaks could not be looked for
        silent = status == FAILED and not any(case.failures for case in found or [])
        if found and (silent or not ran):
            found[-1].ended = False
        return Run(status, text.decode(errors="replace"),
                   found, limit if whole else CASE_SECONDS, self.stops_at_first)

    def end(self) -> None:
        """End the process of the tests, with all that it has started."""
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            for pipe in filter(None, (self.process.stdin, self.process.stdout)):
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()  # not read to its end: a daemon may hold it
            self.process = None

    def _start(self) -> subprocess.Popen:
        try:
            return subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, start_new_session=True, cwd=ROOT,
                env=self.environment)
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            self.test.unlink()  # a full disk or a power failure cut it off
            raise CannotRun(f"{self.test.relative_to(ROOT)} was cut off, and is "
                            "removed: run this again, and it is built anew") from None

    def _wait(self, limit: int, key: str) -> tuple[int, bytes]:
        """Return the status of what runs now, and all that it printed, the middle of
        too much left out."""
        end_of_run = re.compile(rf"\n?\0ended (-?\d+) {key}\n\Z".encode())
        assert self.process and self.process.stdout
        pipe = self.process.stdout.fileno()
        printed = bytearray()
        end = time.monotonic() + limit
        while time.monotonic() < end:
            if self.superseded():
                self.end()
                raise Superseded
            if not select.select([pipe], [], [], 0.05)[0]:
                continue
            data = os.read(pipe, 2**16)
            if not data:
                status = self.process.wait()
                self.end()
                return status, bytes(printed)
            printed += data
            ended = end_of_run.search(printed, max(0, len(printed) - 64))
            if ended:
                return int(ended[1]), bytes(printed[:ended.start()])
            if len(printed) > 3 * KEPT:
                printed[KEPT:-KEPT] = b"\n... (too much; cut out here) ...\n"
        self.end()
        return TIMED_OUT, bytes(printed)


def _clear(report: Path) -> None:
    """Remove the last report, whatever the code that was tested has made of it."""
    if report.is_dir() and not report.is_symlink():
        shutil.rmtree(report)
    else:
        report.unlink(missing_ok=True)
