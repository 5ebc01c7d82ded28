"""check: builds one implementation, tests it, and says what happened."""

import contextlib
import hashlib
import os
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
from base.project import BUILD, ROOT
from base.requirements import install_with_torch
from base.sheets import Chapter, source_files
from learn.verdict.compiling import compiled
from learn.verdict.judging import judged
from learn.verdict.model import NOT_REACHED, PASS, Verdict, place_of_step, short
from learn.verdict.running import Tests
from learn.verdict.subject import Subject
from torch_stable_abi.files import locked, read_json, write_json
from torch_stable_abi.libtorch.installed import torch_root
from torch_stable_abi.programs import CannotRun, Superseded, run

CHANGING_SECONDS = 60  # a check begins anew for so long, while files change
READ_BYTES = 2**24  # of a file that is larger, size and time tell
NOT_OURS = ("ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS", "CPATH",
            "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH")

__all__ = ["PASS", "Verdict", "built_test", "check", "checked", "last",
           "place_of_step", "ready", "saved"]


def check(chapter: Chapter, folder: Path, seed: int | None = None,
          at: str | None = None,
          tell: Callable[[Verdict], None] = lambda verdict: None,
          ready: Tests | None = None) -> Verdict:
    """The verdict on `folder` as an implementation of `chapter`. `tell` hears
    before of the step `at`, which is the first that did not pass last. A save
    while it works makes it begin anew. `ready` are the tests, begun before; they
    go on, for the next check.
    Raises CannotRun if there is something wrong with the workbook's own part, or if a
    file changes again and again, so that no check comes to its end."""
    leave_out_environment()
    end = time.monotonic() + CHANGING_SECONDS
    while True:
        times = saved(folder)
        try:
            return _check(chapter, folder, seed, at, tell, ready)
        except Superseded:
            changed = [path for path, saved_at in saved(folder).items()
                       if times.get(path) != saved_at]
            if changed and time.monotonic() > end:
                raise CannotRun(f"{short(changed[0])} keeps changing while it is "
                                "checked: stop what writes to it") from None


def leave_out_environment() -> None:
    """Removes what would change how a check compiles, or what its sanitizers
    report, from this process's environment, and says so."""
    for name in NOT_OURS:
        if os.environ.pop(name, None) is not None:
            print(f"{name} of your environment is left out: a check has settings of "
                  "its own", file=sys.stderr)


def ready(chapter: Chapter, folder: Path, kept: Tests | None,
          lasting: bool = False) -> Tests | None:
    """The tests of an implementation, begun before it is saved: `kept`, or new
    ones if those are of another, of an older build, or have ended."""
    leave_out_environment()
    test, build = _test_of(chapter), implementation_build(folder)
    if kept and kept.serve(test, build):
        return kept
    if kept:
        kept.end()
    return Tests(test, build, lasting=lasting) \
        if test.exists() and build.exists() else None


def _check(chapter: Chapter, folder: Path, seed: int | None, at: str | None,
           tell: Callable[[Verdict], None], ready: Tests | None) -> Verdict:
    if not (folder / "CMakeLists.txt").is_file():
        raise CannotRun(f"{folder} is no implementation: it has no "
                        f"CMakeLists.txt; solutions/{chapter.name} has one")
    times = saved(folder)
    build = implementation_build(folder)

    def superseded() -> bool:
        return saved(folder) != times

    def tell_of_this(verdict: Verdict) -> None:
        if superseded():
            raise Superseded
        tell(verdict)

    with locked(build):
        log = build / ".ninja_log"
        built = log.stat().st_mtime if log.exists() else 0
        known, before = _kept(build)  # read before code that is not ours runs
        with _first_build(chapter, folder, build) as first:
            test = built_test(chapter)
        said = first.result()
        files = _sums(folder, test, seed)
        if before and known == files and before.kind != "timeout":
            return before
        for path in _older(built, folder, known, files):
            os.utime(path)
            times[path] = path.stat().st_mtime_ns
        states = before.known if before else {}
        at = at or next((s.id for s in chapter.steps
                         if states.get(s.id) != PASS), chapter.steps[-1].id)
        subject = Subject(chapter, folder, build, test, at, seed, superseded)
        if ready and ready.serve(test, build):
            verdict = _fresh(subject, ready, tell_of_this, said)
        else:
            tests = Tests(test, build, seed)
            try:
                verdict = _fresh(subject, tests, tell_of_this, said)
            finally:
                tests.end()
        verdict.known = verdict.steps if verdict.ran or not before else \
            before.known
        if superseded():
            raise Superseded
        write_json(build / "verdict.json",
                   {"files": files, "verdict": verdict.as_dict()})
        return verdict


@contextlib.contextmanager
def _first_build(chapter: Chapter, folder: Path, build: Path
                 ) -> Iterator[Future[str]]:
    """Meanwhile, if the implementation was never built, it is: the compiler has
    a core for each. Gives what it says; what is wrong is judged later."""
    def built() -> str:
        if (build / "build.ninja").exists() or chapter.steps_in_python.exists():
            return ""
        configure(chapter, folder, build)
        return run(["ninja", "-C", build]).stdout

    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(built)


def saved(folder: Path) -> dict[Path, int]:
    """When each file of an implementation was."""
    times = {}
    for path in source_files(folder):
        with contextlib.suppress(FileNotFoundError):  # renamed by an editor
            times[path] = path.stat().st_mtime_ns
    return times


def last(chapter: Chapter) -> tuple[dict[str, str], bool]:
    """How the learner's steps stood at the last check, and whether the files
    have changed since. Builds nothing."""
    known, verdict = _kept(implementation_build(chapter.mine))
    test = _test_of(chapter)
    if not (verdict and test.exists()):
        return {step.id: NOT_REACHED for step in chapter.steps}, False
    return verdict.known, known != _sums(chapter.mine, test)


def checked(chapter: Chapter) -> bool:
    """Whether the learner's copy ever was."""
    return _kept(implementation_build(chapter.mine))[1] is not None


def _fresh(subject: Subject, tests: Tests, tell: Callable[[Verdict], None],
           said: str) -> Verdict:
    start = time.monotonic()
    tests.superseded = subject.superseded
    verdict = compiled(subject, said)
    subject.seconds["build"] = round(time.monotonic() - start, 3)
    if verdict is None:
        start = time.monotonic()
        verdict = judged(subject, tests, tell)
        subject.seconds["test"] = round(time.monotonic() - start, 3)
    return verdict


def _kept(build: Path) -> tuple[dict[str, str], Verdict | None]:
    """The sums of the files that were checked last, and the verdict on them."""
    kept = read_json(build / "verdict.json")
    with contextlib.suppress(KeyError, TypeError):  # of another version
        return kept["files"], Verdict(**kept["verdict"])
    return {}, None


def _sums(folder: Path, test: Path, seed: int | None = None) -> dict[str, str]:
    return {"": f"{torch_root()} {test.stat().st_mtime_ns} {seed}",
            **{str(path.relative_to(folder)): _sum(path)
               for path in source_files(folder)}}


def _sum(path: Path) -> str:
    """Returns what changes when a file does. A file that is too large for a source is
    not read: its size and time tell."""
    stat = path.stat()
    if stat.st_size > READ_BYTES:
        return f"{stat.st_size} bytes of {stat.st_mtime_ns}"
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _older(built: float, folder: Path, known: dict[str, str],
           files: dict[str, str]) -> list[Path]:
    """Of the files that have changed: a backup that is brought back is older
    than what was built since, and would not be built again."""
    return [folder / name for name, digest in files.items()
            if name and known.get(name) != digest and
            (folder / name).stat().st_mtime < built]


def _test_of(chapter: Chapter) -> Path:
    if chapter.steps_in_python.exists():
        return chapter.steps_in_python
    return BUILD / "learn/tests" / f"{chapter.name}_test"


def built_test(chapter: Chapter) -> Path:
    """The chapter's test, built unless it is newer than all it is made of."""
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
