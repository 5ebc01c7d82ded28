"""check: builds one implementation, tests it, and says what happened.

    compilation what CMake, the compiler and the linker say
    processes   those of the tests, and report what they wrote
    run_steps   which steps are run, and how each stands
    diagnose    what a run means: a finding
    source      whose line it is, and where a step is edited
    verdict     what is told"""

import contextlib
import hashlib
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from base.building import (
    build_root,
    compiler,
    configure,
    implementation_build,
    is_configured,
)
from base.project import BUILD, ROOT, SOURCE_BYTES
from base.requirements import install_with_torch
from base.sheets import Chapter, refuse_odd_files, source_files
from learn.checking import compilation
from learn.checking.diagnose import diagnose, diagnose_leak, diagnose_loading
from learn.checking.processes import TIMED_OUT, Tests, find_time_made
from learn.checking.report import Case
from learn.checking.run_steps import StepRunner
from learn.checking.source import Source, place_of_step
from learn.checking.verdict import FAIL, NOT_REACHED, PASS, Finding, Verdict, shorten
from torch_stable_abi.files import locked, read_json, write_json
from torch_stable_abi.libtorch.installed import torch_root
from torch_stable_abi.programs import CannotRun, Superseded, run
from torch_stable_abi.projects import library_of

TESTED_WITH = ""  # no file has this name
CHANGING_SECONDS = 60  # a check begins anew for so long, while files change
NOT_OURS = ("ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS", "ASAN_SYMBOLIZER_PATH",
            "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH",
            "NINJA_STATUS")

__all__ = ["PASS", "Verdict", "begin_tests", "build_test", "check",
           "find_time_of_use", "last_states", "place_of_step", "times_saved",
           "was_checked"]


def check(chapter: Chapter, folder: Path, seed: int | None = None,
          at: str | None = None,
          tell: Callable[[Verdict], None] = lambda verdict: None,
          ready: Tests | None = None) -> Verdict:
    """Return the verdict on `folder` as an implementation of `chapter`. `tell` hears
    before of the step `at`, by default the first that did not pass last time. A save
    meanwhile makes it begin anew. `ready` are tests that were begun before; they go on,
    for the next check.

    Raises CannotRun if there is something wrong with the workbook's own part, or if a
    file changes again and again, so that no check comes to its end."""
    leave_out_environment()
    end = time.monotonic() + CHANGING_SECONDS
    while True:
        if not folder.is_dir():
            raise CannotRun(f"{folder} is there no more: it was moved or removed")
        if not os.path.lexists(folder / "CMakeLists.txt"):
            raise CannotRun(f"{folder} is no implementation: it has no CMakeLists.txt; "
                            f"solutions/{chapter.name} has one")
        times = times_saved(folder)
        try:
            return _check(chapter, folder, seed, at, tell, ready)
        except Superseded:
            changed = [path for path, saved_at in times_saved(folder).items()
                       if times.get(path) != saved_at]
            if changed and time.monotonic() > end:
                raise CannotRun(f"{shorten(changed[0])} keeps changing while it is "
                                "checked: stop what writes to it") from None


def leave_out_environment() -> None:
    """Remove from this process's environment what would change how a check compiles,
    or what its sanitizers report, and say so."""
    for name in NOT_OURS:
        if os.environ.pop(name, None) is not None:
            print(f"{name} of your environment is left out: a check has settings of "
                  "its own", file=sys.stderr)


def begin_tests(chapter: Chapter, folder: Path, kept: Tests | None,
                lasting: bool = False) -> Tests | None:
    """Return the tests of an implementation, begun before it is saved: `kept`, or new
    ones if those are of another, of an older build, or have ended."""
    leave_out_environment()
    test, build = _test_of(chapter), implementation_build(folder)
    if kept and kept.can_serve(test, build):
        return kept
    if kept:
        kept.end()
    return Tests(test, build, lasting=lasting) \
        if test.exists() and build.exists() else None


def _check(chapter: Chapter, folder: Path, seed: int | None, at: str | None,
           tell: Callable[[Verdict], None], ready: Tests | None) -> Verdict:
    refuse_odd_files(chapter, folder)
    times = times_saved(folder)
    build = implementation_build(folder)

    def superseded() -> bool:
        return times_saved(folder) != times

    def tell_of_this(verdict: Verdict) -> None:
        if superseded():
            raise Superseded
        tell(verdict)

    with locked(build):
        log = build / ".ninja_log"
        built = log.stat().st_mtime if log.exists() else 0
        known, before = _read_kept(build)  # before code that is not ours runs
        with _begin_first_build(chapter, folder, build) as first:
            test = build_test(chapter)
        said = first.result()
        files = _sums(folder, test, seed)
        if before and before.repeats and known == files:
            return before
        for path in _find_older(built, folder, known, files):
            os.utime(path)
            times[path] = path.stat().st_mtime_ns
        states = before.known if before else {}
        at = at or next((s.id for s in chapter.steps
                         if states.get(s.id) != PASS), chapter.steps[-1].id)
        own = None
        if not (ready and ready.can_serve(test, build)):
            ready = own = Tests(test, build, seed)
        ready.superseded = superseded
        try:
            attempt = Attempt(Source(chapter, folder), ready, at, before)
            verdict = attempt.judge(tell_of_this, said)
        finally:
            if own:
                own.end()
        verdict.known = verdict.steps if verdict.ran or not before else \
            before.known
        verdict.written = attempt.sums_of_passed() if verdict.ran or not before else \
            before.written
        if superseded():
            raise Superseded
        write_json(build / "verdict.json",
                   {"files": files, "verdict": verdict.as_dict()})
        return verdict


class Attempt:
    """One check of an implementation. `tests` say which build, and by which test;
    `before` is the verdict of the last one."""

    def __init__(self, source: Source, tests: Tests, at: str, before: Verdict | None):
        self.source, self.tests, self.at = source, tests, at
        self.passed = before.written if before else {}
        self.runner = StepRunner(tests, [step.id for step in source.chapter.steps])
        self.warnings: list[str] = []
        self.seconds: dict[str, float] = {}

    def judge(self, tell: Callable[[Verdict], None], said: str) -> Verdict:
        """Build and test it. `tell` hears of the step that the learner is at; the
        compiler `said` this of what is built already."""
        start = time.monotonic()
        found = self._build(said)
        self.seconds["build"] = round(time.monotonic() - start, 3)
        if found is None:
            start = time.monotonic()
            found = self._test(tell)
            self.seconds["test"] = round(time.monotonic() - start, 3)
        return self._write_verdict(found)

    def _build(self, said: str = "") -> Finding | None:
        found, warnings = compilation.build(
            self.source, self.tests.build, self.tests.superseded, said)
        self.warnings += warnings
        if found and found.kind == "compile" and not found.place:
            found.step = self.at
        return found

    def _test(self, tell: Callable[[Verdict], None]) -> Finding:
        """Run the step that the learner is at and tell of it, or of the first before it
        that fails as well; then run the others. Return what is found of the first step
        that does not pass."""
        if library_of(self.tests.build) is None:
            return Finding("link", ["no shared library was built"])
        at, runner = self.at, self.runner
        run = runner.run([at])
        found = diagnose_loading(self.source, at, run,
                                 began=self.tests.report.exists())
        if found:
            return found
        if run.cases is None:
            raise CannotRun(f"{self.tests.test} ran no case (status {run.status}):\n"
                            f"{run.text[-2000:]}")
        case = runner.failed[at].case if at in runner.failed else None
        if case is None and runner.states[at] != PASS:
            case = Case(at)  # the report has none of this step
        found = diagnose(self.source, at, run, case)
        earlier = [step for step in runner.states if step < at]
        if found.kind not in (PASS, "todo"):
            runner.run_all(earlier)
            found = self._diagnose_first(earlier, changed=True) or found
            earlier = []
        tell(self._write_verdict(found))
        found = self._locate_leak(found)
        beside = self._build()  # what is beside the part that is tested
        if beside:
            return beside
        runner.run_all(earlier)
        later = [step for step in runner.states if step > at]
        if run.status != TIMED_OUT:  # later ones would take as long
            runner.run_all([step for step in later
                            if not self.source.is_untouched(step)])
        first = self._diagnose_first(earlier)
        if first or found.kind != PASS:
            return self._locate_leak(first) if first else found
        last = self._diagnose_first(later)
        return self._locate_leak(last) if last else Finding(PASS, log=run.text)

    def _stands(self, step: str) -> bool:
        """Return whether a step has passed, and is as it was then: it fails by what has
        changed since."""
        return self.passed.get(step) == self._sum_of(step)

    def sums_of_passed(self) -> dict[str, str]:
        """Return, of each step that passes, what changes when its lines do."""
        return {step: self._sum_of(step)
                for step, state in self.runner.states.items() if state == PASS}

    def _sum_of(self, step: str) -> str:
        text = self.source.text_of(step).encode(errors="surrogateescape")
        return hashlib.sha256(text).hexdigest()

    def _diagnose_first(self, steps: list[str], changed: bool = False
                        ) -> Finding | None:
        """Return the finding on the first of these steps that did not pass; or on the
        first of those that have `changed` since they did."""
        for step in steps:
            if self.runner.states[step] != PASS:
                outcome = self.runner.rerun_alone(step)
                if outcome and not (changed and self._stands(step)):
                    return diagnose(self.source, step, outcome.run, outcome.case)
        return None

    def _locate_leak(self, found: Finding) -> Finding:
        """Return a leak with its line, by a run that unwinds slowly; another finding
        as it is."""
        if found.kind != "leak" or found.step is None:
            return found
        slow = Tests(self.tests.test, self.tests.build, self.tests.seed,
                     ASAN_OPTIONS="fast_unwind_on_malloc=0")
        slow.superseded = self.tests.superseded
        try:
            return diagnose_leak(self.source, found, slow.run([found.step]).text)
        finally:
            slow.end()

    def _is_of(self, warning: str, step: str) -> bool:
        """Return whether a compiler's warning is of a step's lines, or of no line."""
        place = re.match(r"([^\s:]+):(\d+): ", warning)
        files = [path for path in source_files(self.source.folder)
                 if place and path.name == place[1]]
        return not place or any(self.source.step_at(path, int(place[2])) == step
                                for path in files)

    def _write_verdict(self, found: Finding) -> Verdict:
        """Write the log, and return the verdict that tells the learner of a finding."""
        log = self.tests.build / "log.txt"
        log.write_text(found.log)
        file, line = found.place or self.source.place(found.step or self.at)
        notes = self.warnings + self.runner.notes
        if found.kind == PASS:
            notes = notes + self.runner.remarks
        elif found.step:
            notes = [note for note in self.warnings if self._is_of(note, found.step)] \
                + self.runner.notes
        states = {step: NOT_REACHED if state == FAIL and step != found.step and
                  self.source.is_untouched(step) else state
                  for step, state in self.runner.states.items()}
        return Verdict(
            self.source.chapter.name, shorten(self.source.folder), found.kind,
            states, found.step, shorten(file), line, found.message,
            found.sentence, found.printed, shorten(log), notes, self.seconds)


@contextlib.contextmanager
def _begin_first_build(chapter: Chapter, folder: Path, build: Path
                       ) -> Iterator[Future[str]]:
    """Build an implementation that was never built, meanwhile: the compiler has a core
    for each. Yield what it says; what is wrong is judged later."""
    def build_it() -> str:
        if (build / "build.ninja").exists() or chapter.steps_in_python.exists():
            return ""
        configure(chapter, folder, build)
        return run(["ninja", "-C", build]).stdout

    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(build_it)


def times_saved(folder: Path) -> dict[Path, int]:
    """Return when each file of an implementation was saved."""
    times = {}
    for path in source_files(folder):
        with contextlib.suppress(FileNotFoundError):  # renamed by an editor
            times[path] = path.stat().st_mtime_ns
    return times


def last_states(chapter: Chapter) -> tuple[dict[str, str], bool]:
    """Return how the learner's steps stood at the last check, and whether their files
    have changed since. Builds nothing."""
    known, verdict = _read_kept(implementation_build(chapter.mine))
    if not verdict:
        return {step.id: NOT_REACHED for step in chapter.steps}, False
    known.pop(TESTED_WITH, None)
    return verdict.known, known != _sum_files(chapter.mine)


def find_time_of_use(chapter: Chapter) -> float:
    """Return when the learner's copy was opened, saved or checked last."""
    verdict = implementation_build(chapter.mine) / "verdict.json"
    times = [path.stat().st_mtime for path in (verdict, chapter.mine) if path.exists()]
    return max(times + [time / 1e9 for time in times_saved(chapter.mine).values()])


def was_checked(chapter: Chapter) -> bool:
    """Return whether the learner's copy ever was."""
    return _read_kept(implementation_build(chapter.mine))[1] is not None


def _read_kept(build: Path) -> tuple[dict[str, str], Verdict | None]:
    """Return the checksums of the files that were checked last, and the verdict on
    them."""
    kept = read_json(build / "verdict.json")
    with contextlib.suppress(KeyError, TypeError):  # of another version
        return kept["files"], Verdict(**kept["verdict"])
    return {}, None


def _sums(folder: Path, test: Path, seed: int | None = None) -> dict[str, str]:
    """Return what changes when a check may say something else: a sum of each file, and
    by TESTED_WITH of the test and its libtorch."""
    return {TESTED_WITH: f"{torch_root()} {find_time_made(test)} {seed}",
            **_sum_files(folder)}


def _sum_files(folder: Path) -> dict[str, str]:
    sums = {}
    for path in source_files(folder):
        with contextlib.suppress(FileNotFoundError):  # an editor's, and gone again
            sums[str(path.relative_to(folder))] = _sum(path)
    return sums


def _sum(path: Path) -> str:
    """Return what changes when a file does. A file that is too large for a source is
    not read: its size and time tell."""
    stat = path.stat()
    if stat.st_size > SOURCE_BYTES:
        return f"{stat.st_size} bytes of {stat.st_mtime_ns}"
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _find_older(built: float, folder: Path, known: dict[str, str],
                files: dict[str, str]) -> list[Path]:
    """Return those of the changed files that are older than the build. A backup that
    is brought back is, and would not be built again."""
    return [folder / name for name, digest in files.items()
            if name and known.get(name) != digest and
            (folder / name).stat().st_mtime < built]


def _test_of(chapter: Chapter) -> Path:
    if chapter.steps_in_python.exists():
        return chapter.steps_in_python
    return BUILD / "learn/tests" / f"{chapter.name}_test"


def build_test(chapter: Chapter) -> Path:
    """Return the chapter's test, and build it first unless it is newer than all that
    it is made of."""
    test = _test_of(chapter)
    if test.suffix == ".py":
        install_with_torch("hub")
        return test
    parts = [*chapter.tests.iterdir(), *ROOT.glob("common/testing/*"),
             *ROOT.glob("common/abi/torch_stable_abi/trace/slots.*"),
             *ROOT.glob("common/cmake/*.cmake"),
             *BUILD.glob("learn/configured_for.txt")]  # another compiler's
    if (not test.exists() or not is_configured(BUILD / "learn", compiler()) or
            max(p.stat().st_mtime for p in parts) > test.stat().st_mtime):
        build_root("learn", [f"{chapter.name}_test"])
        os.utime(test)
    return test
