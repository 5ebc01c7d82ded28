"""check: builds one implementation, tests it, and says what happened.

A verdict is a dictionary (what --json prints):
  chapter, implementation   which one
  class      pass, todo, test, leak, sanitizer, crash, timeout, load, link,
             compile, configure
  step       the first step that is not passed ("01.3"), or null
  steps      {"01.1": "pass", "01.2": "fail", "01.3": "not reached"}
  known      the same, of the last version that could be run
  file, line where to look or to edit, relative to the workbook if inside it
  message    what the compiler, the test or the sanitizer said, in few lines
  log        where the whole text is
  notes      what could not be checked, and why
  seconds    {"build": ..., "test": ...}
"""

import difflib
import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from workspace import (BUILD, ROOT, CannotRun, Chapter, build_root, configure,
                       implementation_build, install, library_of, locked,
                       read_json, run, source_files, write_json)

CASE_SECONDS = 10  # a case of a learner's run may take this long
KEPT = 2**20  # bytes of what it prints, of its beginning and of its end

HELP = {
    "configure": "CMake stopped: the error is in this folder's CMakeLists.txt.",
    "compile": "The first error counts; a missing ; or } often belongs to the "
               "line above.",
    "link": "Something is declared and used but defined nowhere.",
    "load": "The library was built and does not load.",
    "todo": "This step is not done yet.",
    "test": "First what your code gave, then what the test wants of it.",
    "sanitizer": "The sanitizer saw memory or arithmetic used in a way that "
                 "C++ does not define.",
    "crash": "A handle that was released twice, or a pointer that is none, ends "
             "the process so.",
    "leak": "What is created must be released once: this allocation never was.",
    "timeout": "A loop that does not end? The line is where it was then.",
}


def check(chapter: Chapter, folder: Path, seed: int | None = None) -> dict:
    """The verdict on `folder` as an implementation of `chapter`. Raises
    CannotRun if there is something wrong with the workbook's own part."""
    if not (folder / "CMakeLists.txt").is_file():
        raise CannotRun(f"{folder} is no implementation: it has no "
                        f"CMakeLists.txt; chapters/{chapter.name} has one")
    test = test_executable(chapter)
    build = implementation_build(folder)
    with locked(build):
        key = _fingerprint(folder, test, seed)
        cache = build / "verdict.json"
        before = read_json(cache)
        if isinstance(before.get("key"), str):
            before = {}  # of a version that kept one sum of all files
        if before and before["key"] == key and before["class"] != "timeout":
            return before
        built, log = before.get("key", {}), build / ".ninja_log"
        for name, digest in key.items():  # a backup brought back is older
            if name and log.exists() and built.get(name) != digest and \
                    (folder / name).stat().st_mtime < log.stat().st_mtime:
                os.utime(folder / name)
        verdict = _Check(chapter, folder, build, test, seed).verdict
        ran = verdict["class"] not in ("configure", "compile", "link", "load")
        verdict["known"] = verdict["steps"] if ran else \
            before.get("known", verdict["steps"])
        verdict["key"] = key
        write_json(cache, verdict)
        return verdict


def last(chapter: Chapter) -> tuple[dict, bool]:
    """How the learner's steps stood at the last check, and whether the files
    have changed since. Builds nothing."""
    test = BUILD / "learn/tests" / f"{chapter.name}_test"
    if chapter.python_test.exists():
        test = chapter.python_test
    verdict = read_json(implementation_build(chapter.mine) / "verdict.json")
    if not (verdict and test.exists()):
        return {step.id: "not reached" for step in chapter.steps}, False
    return verdict["known"], verdict["key"] != _fingerprint(chapter.mine, test)


def test_executable(chapter: Chapter) -> Path:
    """Builds the chapter's test, unless it is newer than all it is made of."""
    if chapter.python_test.exists():
        install("requirements-hub.txt")
        return chapter.python_test
    test = BUILD / "learn/tests" / f"{chapter.name}_test"
    parts = [*ROOT.glob(f"tests/{chapter.number}_*"),
             *ROOT.glob("common/testing/*"), *ROOT.glob("common/cmake/*.cmake")]
    cache = BUILD / "learn/CMakeCache.txt"
    if (not test.exists() or not cache.exists() or
            max(p.stat().st_mtime for p in parts) > test.stat().st_mtime or
            f"TORCH_ROOT:PATH={os.environ['TORCH_ROOT']}\n"
            not in cache.read_text()):
        build_root("learn", [f"{chapter.name}_test"])
        os.utime(test)
    return test


def _fingerprint(folder: Path, test: Path, seed: int | None = None) -> dict:
    return {"": f"{os.environ['TORCH_ROOT']} {test.stat().st_mtime_ns} {seed}",
            **{str(path.relative_to(folder)):
               hashlib.sha256(path.read_bytes()).hexdigest()
               for path in source_files(folder)}}


class _Check:
    """One run of the phases; the first that fails makes the verdict."""

    def __init__(self, chapter, folder, build, test, seed):
        self.chapter = chapter
        self.folder = folder.resolve()
        self.build = build
        self.test = test
        self.edited = {self.folder / step.file for step in chapter.steps}
        self.arguments = [f"--seed={seed}"] if seed is not None else []
        self.steps = {step.id: "not reached" for step in chapter.steps}
        self.notes = []
        self.limit = CASE_SECONDS
        self.seconds = {}
        start = time.monotonic()
        process = None  # it loads libtorch while the compiler works
        if test.suffix != ".py":
            process = self._start_tests(f"{chapter.number}.*")
        try:
            self.verdict = self._build()
            self.seconds["build"] = round(time.monotonic() - start, 3)
            if self.verdict is None:
                start = time.monotonic()
                self.verdict = self._test(process)
                self.seconds["test"] = round(time.monotonic() - start, 3)
        finally:
            if process and process.poll() is None:
                process.kill()
                process.communicate()

    def _verdict(self, kind, message, step=None, file=None, line=None, log=""):
        log_file = self.build / "log.txt"
        log_file.write_text(log)
        if file is None and step is not None:
            file, line = place_of_step(self.chapter, self.folder, step)
        return {
            "chapter": self.chapter.name, "implementation": _short(self.folder),
            "class": kind, "step": step, "steps": self.steps,
            "file": file and _short(Path(file)), "line": line,
            "message": message, "log": _short(log_file), "notes": self.notes,
            "seconds": self.seconds}

    # --- configure, compile, link ---------------------------------------------

    def _build(self):
        result = configure(self.chapter, self.folder, self.build)
        if result is not None and result.returncode != 0:
            (self.build / "build.ninja").unlink(missing_ok=True)
            return self._configure_error(result.stdout)
        result = run(["ninja", "-C", self.build])
        text = result.stdout
        if result.returncode == 0:
            for file, line, warning in re.findall(
                    r"^(\S.*?):(\d+):\d+: warning: (.*)", text, re.M):
                if Path(file).resolve().is_relative_to(self.folder):
                    self.notes.append(f"{Path(file).name}:{line}: {warning}")
            return None
        if "CMake Error" in text:
            return self._configure_error(text)
        errors = re.findall(  # nvcc writes file(line), Python a traceback
            r"^(\S.*?)[:(](\d+)\)?:(?:\d+:)? (?:fatal )?"
            r"error: (.*(?:\n +\d* \|.*)*)", text, re.M)
        raised = re.search(r"^\w*(?:Error|Exception)\b.*", text, re.M)
        if raised and not errors:
            errors = [(*place, raised[0]) for place in reversed(re.findall(
                r'^ +File "(.*?)", line (\d+)', text, re.M))]
        if errors:
            file, line, message = self._own(errors, text)
            return self._verdict(
                "compile", message.splitlines(), self._step_at(file, line),
                file, int(line), text)
        linker = r"undefined (?:reference|symbol)|multiple definition|duplicate"
        lines = [s for s in text.splitlines() if re.search(linker, s)]
        if lines:
            return self._verdict("link", lines[:4], log=text,
                                 **self._anywhere())
        raise CannotRun(f"the build of {_short(self.folder)} failed without "
                        f"an error of its own:\n{text[-1500:]}")

    def _configure_error(self, text):
        found = re.search(r"CMake Error.*? at (\S+?):(\d+)(.*?)(?:\n\n|\Z)",
                          text, re.S)
        file = self.folder / "CMakeLists.txt"
        line = int(found[2]) if found else 1
        message = found[3].strip().splitlines() if found else [text.strip()]
        return self._verdict("configure", message[:5], file=file, line=line,
                             log=text)

    def _own(self, errors, text):
        """The first error in the learner's own file, else the first of all, at
        the learner's line that led there."""
        for error in errors:
            if Path(error[0]).resolve().is_relative_to(self.folder):
                return error
        for file, line in re.findall(
                r"^(\S.*?):(\d+):\d+: +(?:required from|note: in expansion)",
                text, re.M):
            if Path(file).resolve().is_relative_to(self.folder):
                return file, line, errors[0][2]
        return errors[0]

    def _step_at(self, file, line):
        """The step whose lines an error is in: the nearest that begins above."""
        above = []
        for step in self.chapter.steps:
            place, begin = place_of_step(self.chapter, self.folder, step.id)
            if Path(place).resolve() == Path(file).resolve() \
                    and begin <= int(line):
                above.append((begin, step.id))
        return max(above)[1] if above else None

    def _anywhere(self):
        step = self.chapter.steps[0]
        return {"file": self.folder / step.file, "line": 1}

    # --- load, run --------------------------------------------------------------

    def _start_tests(self, case, **environment):
        """Runs the cases whose names fit, once it is told of the library. Cases
        of the whole chapter are for ./workbook test; a verdict needs those of
        the steps only."""
        report = self.build / "report.jsonl"
        report.unlink(missing_ok=True)
        command = [self.test, "--library=-", f"--report={report}",
                   f"--timeout={CASE_SECONDS}", f"--test-case={case}",
                   *self.arguments]
        if self.test.suffix == ".py":
            command = [sys.executable, "-m", "pytest", "-qx", "-p",
                       "no:cacheprovider", f"--rootdir={ROOT}", self.test,
                       f"--implementation={self.build}",
                       f"--steps-report={report}"]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, **environment})

    def _run_tests(self, case, **environment):
        return self._finish_tests(self._start_tests(case, **environment))

    def _finish_tests(self, process):
        report = self.build / "report.jsonl"
        with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
            pipe.write(f"{library_of(self.build)}\n".encode())
        printed = bytearray()
        reader = threading.Thread(target=_read, args=(process.stdout, printed))
        reader.start()
        limit = (CASE_SECONDS + 5) * (len(self.steps) + 5)
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            status, self.limit = 124, limit
        finally:  # what it has started goes with it
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            reader.join()
        events = []
        if report.exists():
            for line in report.read_text(errors="replace").splitlines():
                with contextlib.suppress(json.JSONDecodeError):  # cut off
                    events.append(json.loads(line))
        return status, printed.decode(errors="replace"), events

    def _test(self, process):
        if library_of(self.build) is None:
            return self._verdict("link", ["no shared library was built"],
                                 **self._anywhere())
        status, text, events = self._finish_tests(
            process or self._start_tests(f"{self.chapter.number}.*"))
        for event in events:
            if event["event"] == "load":
                return self._load_error(event["error"], text)
        self.notes += [e["value"] for e in events if e.get("what") == "note"]
        cases = _cases(events)
        if not cases and any(e["event"] == "loading" for e in events):
            return self._died_loading(status, text)
        if not cases:
            raise CannotRun(f"{self.test} ran no case (status {status}):\n"
                            f"{text[-2000:]}")
        for id in self.steps:
            mine = [c for c in cases if c["name"].startswith(id + " ")]
            if any(not c["ended"] for c in mine):
                self.steps[id] = "fail"
            elif mine:
                failed = any(c["failures"] for c in mine)
                self.steps[id] = "fail" if failed else "pass"
        failing = next((id for id, s in self.steps.items() if s != "pass"), None)

        found = next((e["found"] for e in events if e["event"] == "leaks"), None)
        if found == 1:
            leak = self._find_leak(failing)
            if leak:
                return leak
        elif found == -1 or "LeakSanitizer has encountered a fatal" in text:
            self.notes.append("leaks were not checked: no LeakSanitizer here")

        if failing is None:
            return self._verdict("pass", [], log=text)
        case = next((c for c in cases if c["name"].startswith(failing + " ")),
                    None)
        if case is None or not case["ended"]:
            return self._died(status, text, cases, failing)
        return self._failed(case, failing, text)

    def _load_error(self, error, text):
        symbol = re.search(r"undefined symbol: (\S+)", error)
        message = [error]
        place = self._anywhere()
        if symbol:
            name = run(["c++filt", symbol[1].rstrip(",")]).stdout.strip()
            message = [f"undefined symbol: {name}",
                       "declared, but defined nowhere or not exported"]
            word = re.sub(r"\(.*", "", name).split("::")[-1]
            for path in source_files(self.folder):
                for number, line in enumerate(
                        path.read_text(errors="replace").splitlines(), 1):
                    if re.search(rf"\b{re.escape(word)}\b", line):
                        place = {"file": path, "line": number}
                        break
        return self._verdict("load", message, log=text, **place)

    def _failed(self, case, step, text):
        failure = case["failures"][0]
        for key in ("exception", "values", "context"):
            todo = re.search(r"TODO\((\d\d\.\d)\).*", failure.get(key, ""))
            if todo and todo[1] == step:
                message = todo[0].split(" == ")[0].strip().strip('"')
                return self._verdict("todo", [message], step, log=text)
        file, line = place_of_step(self.chapter, self.folder, step)
        undone = file.exists() and f"TODO({step})" in file.read_text()
        if undone and "Could not find schema" in str(failure.values()):
            return self._verdict(
                "todo", [f"TODO({step}): the op is not defined yet"], step,
                log=text)
        if undone and self.test.suffix == ".py":  # Python need not throw it
            todo = file.read_text().splitlines()[line - 1].strip(" #/\\")
            return self._verdict("todo", [todo, failure["expression"]], step,
                                 log=text)
        message = [failure.get("expression", "")]
        values = failure.get("values", "")
        if values and values != message[0]:
            message.append(f"values: {values}")
        if failure.get("exception"):
            # A later step's TODO is not the one to do now; a table of all
            # kernels of an op is in the log.
            thrown = re.sub(r"TODO\(.*?\): ", "", failure["exception"])
            message.append(f"thrown: {thrown.split(' If you are a ')[0]}")
        if failure.get("context"):
            message.append(f"with: {failure['context']}")
        if failure.get("file"):
            message.append(f"at {_short(Path(failure['file']))}:"
                           f"{int(failure['line'])}")
        return self._verdict("test", [m for m in message if m], step, log=text)

    def _died(self, status, text, cases, step):
        """The process ended within a case: a sanitizer, a signal, a limit."""
        last = cases[-1]["name"].split()[0]
        step = last if last in self.steps else step
        file, line = self._own_frame(text, step)
        if status == 124:
            return self._verdict(
                "timeout", [f"no end after {self.limit} s"], step, file, line,
                text)
        ub = re.search(r"^(\S+?):(\d+):\d+: runtime error: (.*)", text, re.M)
        if ub:
            own = Path(ub[1]).resolve().is_relative_to(self.folder)
            return self._verdict(
                "sanitizer", [ub[3]], step, ub[1] if own else file,
                int(ub[2]) if own else line, text)
        asan = re.search(r"ERROR: AddressSanitizer: (.*)", text)
        if asan and not re.match(r"(SEGV|ABRT|FPE|ILL|BUS)", asan[1]):
            message = [re.sub(r" on address.*", "", asan[1])]
            where = re.search(r"^(?:READ|WRITE) of size \d+", text, re.M)
            region = re.search(r"^\S+ is located (.*?)(?: \[|$)", text, re.M)
            message += [f"{where[0]} byte(s)"] if where else []
            message += [region[1]] if region else []
            if message[0].startswith("stack-overflow"):
                message = ["the stack is full: does a function call itself?"]
            # For what was used after its end, the line that ended it.
            _, freed, rest = text.partition("freed by thread")
            if freed and self._own_frame(rest)[0] in self.edited | {file}:
                file, line = self._own_frame(rest)
            return self._verdict("sanitizer", message, step, file, line, text)
        name = asan[1].split()[0] if asan else (
            signal.Signals(-status).name if status < 0 else f"exit {status}")
        null = ", at a null pointer" * ("points to the zero page" in text)
        message = [f"ended by {name}{null}",
                   *re.findall(r"what\(\): .*", text)[:1]]
        return self._verdict("crash", message, step, file, line, text)

    def _died_loading(self, status, text):
        """Registration runs at load, and nothing can catch what it throws."""
        died = self._died(status, text, [{"name": self.chapter.number}], None)
        if died["file"] and died["class"] == "timeout":
            return died
        place = {"file": died["file"], "line": died["line"]} \
            if died["file"] else self._anywhere()
        return self._verdict(
            "load", ["the process ended while the library was loaded",
                     *died["message"],
                     "a namespace opened twice, a misspelt dispatch key or a "
                     "bad schema does that"], log=text, **place)

    def _own_frame(self, text, step=None):
        """The innermost frame of a sanitizer's stack in the step's file, else in
        one that is edited, else in one that is given."""
        frames = [(Path(file).resolve(), int(line)) for file, line in re.findall(
            r"^ *#\d+ .*? (/[^\n]*?):(\d+)(?::\d+)?$", text, re.M)]
        mine = [f for f in frames if f[0].is_relative_to(self.folder)]
        edited = [f for f in mine if f[0] in self.edited]
        here = [f for f in edited if step in self.steps and
                f[0] == self.folder / self.chapter.step(step).file]
        return (here or edited or mine or [(None, None)])[0]

    def _find_leak(self, failing):
        """Runs the passed cases alone, since one that failed half-way may well
        leak; the one that leaks once more, unwinding slowly, to name the line."""
        passed = [id for id, state in self.steps.items() if state == "pass"
                  and (failing is None or id < failing)]
        if failing and (not passed or self._run_tests(
                ",".join(f"{id}*" for id in passed))[0] != 4):
            return None
        for id in passed:
            if self._run_tests(f"{id}*")[0] == 4:
                _, text, _ = self._run_tests(
                    f"{id}*", ASAN_OPTIONS="fast_unwind_on_malloc=0")
                self.steps[id] = "fail"
                found = re.search(r"(?:Direct|Indirect) leak of (.*?) allocated",
                                  text)
                file, line = self._own_frame(text, id)
                return self._verdict("leak", [f"leak of {found[1]}"], id, file,
                                     line, text)
        return None


def _read(pipe, printed):
    """All of what a process prints, the middle of too much left out."""
    for data in iter(lambda: pipe.read1(2**16), b""):
        printed += data
        if len(printed) > 3 * KEPT:
            printed[KEPT:-KEPT] = b"\n... (too much; cut out here) ...\n"


def _cases(events):
    cases = []
    for event in events:
        if event["event"] == "case":
            cases.append({"name": event["name"], "ended": False, "failures": []})
        elif event["event"] == "failure" and cases:
            cases[-1]["failures"].append(event)
        elif event["event"] == "end" and cases:
            cases[-1]["ended"] = True
    return cases


def place_of_step(chapter: Chapter, folder: Path, id: str) -> tuple[Path, int]:
    """Where a step is edited: at its TODO, or where that was in the starter."""
    step = chapter.step(id)
    marker = f"TODO({id})"
    for path in source_files(folder):
        for number, line in enumerate(
                path.read_text(errors="replace").splitlines(), 1):
            if marker in line:
                return path, number
    path = folder / step.file
    starter = chapter.starter / step.file
    if path.is_file() and starter.is_file():
        old = starter.read_text().splitlines()
        new = path.read_text(errors="replace").splitlines()
        todo = next((i for i, s in enumerate(old) if marker in s), 0)
        matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
        for tag, i1, i2, j1, _ in matcher.get_opcodes():
            if i1 <= todo < i2:
                return path, j1 + 1 + (todo - i1 if tag == "equal" else 0)
    return path, 1


def _short(path: Path) -> str:
    path = path.resolve()
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)
