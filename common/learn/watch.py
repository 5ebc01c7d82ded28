"""Watch mode: a verdict at each save, and single keys."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from base.project import ROOT
from base.sheets import Chapter, chapters, missing, open_chapter
from learn import checking, screen, work
from learn.checking.processes import Tests
from learn.checking.verdict import Verdict
from learn.commands import diff as diff_command
from learn.commands import list as list_command
from learn.progress import following, is_done, say_next, step_to_do
from torch_stable_abi import supervising
from torch_stable_abi.programs import CannotRun, sentence


def watch(chapter: Chapter) -> int:
    """Check at each save, of any chapter that is open, until q or Ctrl-C. It looks at
    the files' times, which also works on network folders and in virtual machines."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.default_int_handler)  # the terminal is put right
    keys = screen.Keys()
    log = None  # of the last check
    saved = {c: checking.times_saved(c.mine) for c in chapters()}  # at the last look
    looked = time.monotonic()
    came_from = None  # the chapter that the learner was at before such a save
    if checking.last_states(chapter)[1]:
        saved[chapter] = {}
    supervising.adopt_orphans()
    preparing = Preparing()
    try:
        say_next(chapter, "save it")
        _say_keys()
        while True:
            key = keys.wait(0.05)
            if key == "q":
                break
            after = _follow(key, chapter, log)
            if after != chapter:
                chapter, saved[after] = after, checking.times_saved(after.mine)
                came_from = None
            elif time.monotonic() - looked > 1:
                after, looked = _follow_save(chapter, saved), time.monotonic()
                if after != chapter:
                    came_from, chapter = chapter, after
            preparing.see(chapter)
            now = checking.times_saved(chapter.mine)
            if now == saved[chapter] and key != "r":
                continue
            saved[chapter] = now
            done = _check(chapter, preparing)
            if done is None:
                continue
            found, goes_on = done
            log = ROOT / found.log
            saved[chapter] = {} if checking.last_states(chapter)[1] else \
                checking.times_saved(chapter.mine)
            if found.passed:
                next_one = came_from if came_from and not is_done(came_from) \
                    else following(chapter)
                came_from = None
                if next_one is None:
                    say_next(None)
                else:
                    chapter = _go_to(next_one, chapter)
                    saved[chapter] = checking.times_saved(chapter.mine)
            elif goes_on:
                say_next(chapter, "save it")
            _say_keys()
    except KeyboardInterrupt:
        print()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C
        preparing.end()
        keys.close()
        supervising.end_descendants()
    print("Your work is in my/. Go on with: ./workbook")
    return 0


def _check(chapter: Chapter, preparing: "Preparing") -> tuple[Verdict, bool] | None:
    """Check a chapter. Return the verdict, and whether the learner goes on to another
    step; None if it cannot be checked: the next save may do."""
    gone = missing(chapter)
    if gone:
        print(f"my/{chapter.name}/{gone} is missing; ./workbook check "
              f"{chapter.number} brings the starter's back")
        return None
    print(f"\n-- {time.strftime('%H:%M:%S')} checking {chapter.number} " + "-" * 40)
    ready = preparing.stop()
    telling = screen.Telling(chapter, "save it", checking.last_states(chapter)[0])
    try:
        found = checking.check(chapter, chapter.mine, tell=telling.tell, ready=ready)
    except (CannotRun, OSError) as error:
        _say(error)
        return None
    return found, telling.end(found)


def _go_to(wanted: Chapter, chapter: Chapter) -> Chapter:
    """Open another chapter and return it; or say why that cannot be, and return the
    one that the learner is at."""
    try:
        open_chapter(wanted)
        say_next(wanted, "save it")
        return wanted
    except (CannotRun, OSError) as error:
        _say(error)
        return chapter


def _follow(key: str, chapter: Chapter, log: Path | None) -> Chapter:
    """Do what a key is for, and return the chapter that the learner is at then."""
    try:
        if key in ("n", "p"):
            at = chapters().index(chapter) + (1 if key == "n" else -1)
            return _go_to(chapters()[at % len(chapters())], chapter)
        if key == "h":
            work.hint(chapter, step_to_do(chapter).id, "key h")
        elif key == "d":
            diff_command.show(chapter, diff_command.steps_done(chapter))
        elif key == "f" and log is not None:
            print(log.read_text(errors="replace"))
        elif key == "l":
            list_command.show("save it", chapter)
        elif key:
            _say_keys()
    except (CannotRun, OSError) as error:
        _say(error)
    return chapter


def _follow_save(chapter: Chapter, saved: dict[Chapter, dict[Path, int]]) -> Chapter:
    """Return another chapter of which a file was saved, or the one that the learner is
    at. A chapter that was opened meanwhile is added to `saved`."""
    for other in (c for c in chapters() if c != chapter):
        if not saved[other]:
            saved[other] = checking.times_saved(other.mine)
        elif checking.times_saved(other.mine) != saved[other]:
            return other
    return chapter


def _say(error: CannotRun | OSError) -> None:
    text = sentence(error, ROOT) if isinstance(error, OSError) else str(error)
    print(f"workbook: {text}")


class Preparing:
    """The preparation of a check, begun while the sheet is read and the step is edited:
    the first build of a chapter, then a process that has loaded libtorch."""

    def __init__(self) -> None:
        self.chapter: Chapter | None = None
        self.since = 0.0
        self.build: subprocess.Popen | None = None
        self.tests: Tests | None = None

    def see(self, chapter: Chapter) -> None:
        if chapter != self.chapter:
            self.end()
            self.chapter = chapter
        elif self.since and time.monotonic() - self.since > 1:  # it stays
            self.since = 0
            if checking.was_checked(chapter):
                self.tests = checking.begin_tests(chapter, chapter.mine, self.tests)
            else:
                self.build = subprocess.Popen(
                    ["nice", sys.executable, "-B", ROOT / "common", "check",
                     chapter.number, "--json"], start_new_session=True,
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL)

    def end(self) -> None:
        tests = self.stop()
        self.tests = None
        if tests:
            tests.end()

    def stop(self) -> Tests | None:
        """End the build. Return the tests, if they have begun."""
        if self.build and self.build.poll() is None:
            os.killpg(self.build.pid, signal.SIGTERM)
            self.build.wait()
        self.since = time.monotonic()
        return self.tests


def _say_keys() -> None:
    done = sum(state == "pass" for c in chapters() if c.mine.exists()
               for state in checking.last_states(c)[0].values())
    print(f"{screen.bar(done, sum(len(c.steps) for c in chapters()))}  save for "
          "a verdict\nkeys: h hint  d diff  f full text  r run again  l list\n"
          "      n next chapter  p previous chapter  q quit")
