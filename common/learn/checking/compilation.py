"""The first half of a check: CMake, the compiler, the linker."""

import re
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from base.building import blame_environment, configure, told_by_environment
from learn.checking.source import Place, Source, find_python_frames
from learn.checking.verdict import Finding, shorten
from torch_stable_abi.programs import CannotRun, describe_limits, name_signal, run

COMPILER_SECONDS = 900  # slow machines take a minute

# nvcc writes file(line).
ERROR = re.compile(
    r"^(\S.*?)[:(](\d+)\)?:(?:\d+:)? (?:fatal )?"
    r"error: (.*(?:\n[ \t].*|\n.*\n[ \t]*\^.*)*)", re.M)
# How Clang, after an error, and GCC, before it, tell how the compiler got there.
NOTE = re.compile(
    r"^(\S.*?):(\d+):\d+: note: (?:in (?:instantiation|expansion)|expanded from)",
    re.M)
INCLUDED = re.compile(r"^(?:In file included|\s+) *from (\S.*?):(\d+)[,:]", re.M)
REQUIRED = re.compile(r"^(\S.*?):(\d+):\d+: +required from", re.M)


def build(source: Source, folder: Path, superseded: Callable[[], bool],
          said: str = "") -> tuple[Finding | None, list[str]]:
    """Build an implementation in `folder`. Return what is wrong, or None, and the
    warnings, also those that the compiler `said` of what is built already."""
    result = configure(source.chapter, source.folder, folder)
    if result is not None and result.returncode != 0:
        (folder / "build.ninja").unlink(missing_ok=True)
        return _find_cmake_error(source, result.stdout), []
    manifest = folder / "build.ninja"
    before = manifest.stat().st_mtime_ns
    try:
        result = run(["ninja", "-C", folder], superseded=superseded, title="Compiling",
                     timeout=COMPILER_SECONDS)
    except subprocess.TimeoutExpired:
        raise CannotRun(f"{shorten(source.folder)} was not compiled within "
                        f"{COMPILER_SECONDS} s: is there a template or a constexpr "
                        "loop that has no end?") from None
    text = result.stdout
    if result.returncode == 0 and manifest.stat().st_mtime_ns != before:
        run(["ninja", "-C", folder, "-t", "cleandead"])  # a library that is no target
    if result.returncode == 0:
        return None, _find_warnings(source, said + text)
    finding = find_error(source, text)
    if finding and finding.kind == "compile":
        finding.message += _say_target(text, manifest.read_text())
    if finding is None:
        if gone := [name for name in source.chapter.starter_files()
                    if not (source.folder / name).exists()]:
            raise CannotRun(f"{shorten(source.folder / gone[0])} went away while it "
                            "was compiled: check again")
        blame_environment(text, "the build fails")
        ended = f"ninja was ended by {name_signal(-result.returncode)}\n" \
            if result.returncode < 0 else ""
        raise CannotRun(f"the build of {shorten(source.folder)} failed without an "
                        f"error of its own\n{ended}{describe_limits()}{text[-1500:]}")
    told = told_by_environment()
    return finding, [f"your environment has {told}: if that is not meant, unset it"] \
        if told else []


def find_error(source: Source, text: str) -> Finding | None:
    """Return what a build that failed has said: of CMake, the compiler, the linker."""
    if "CMake Error" in text:
        return _find_cmake_error(source, text)
    found = _find_compiler_error(source, text)
    if found:
        file, line, message = found
        if not file.is_file():  # of a #line
            return Finding("compile", [*message, f"at {file}:{line}"], log=text)
        given = not source.wrote_statement(str(file), line) and \
            not source.is_left(file, line)
        if given and file.suffix != ".py":
            # It is right: what it uses is of the step that is at hand.
            return Finding("compile", [*message, f"in {file.name}:{line}"], log=text)
        return Finding("compile", message, source.step_at(file, line), (file, line),
                       text)
    linker = r"undefined (?:reference|symbol)|multiple definition|duplicate|" \
        r"relocation (?:truncated|.* out of range)|^mold: error:|" \
        r"^mold: fatal: library not found"  # others: no memory, no such file
    lines = [s for s in text.splitlines() if re.search(linker, s)]
    return Finding("link", lines[:4], log=text) if lines else None


def _find_warnings(source: Source, text: str) -> list[str]:
    """Return the first warning of each line, with how often it came: once an
    instantiation. What is given may be unused as yet."""
    found = [(f"{Path(file).name}:{line}", warning) for file, line, warning in
             re.findall(r"^(\S.*?):(\d+):\d+: warning: (.*)", text, re.M)
             if source.wrote(file, int(line))]
    times = Counter(place for place, _ in found)
    return [f"{place}: {warning}" +
            (f" ({times[place]} times)" if times[place] > 1 else "")
            for place, warning in dict(reversed(found)).items()][::-1]


def _find_cmake_error(source: Source, text: str) -> Finding:
    if "Current working directory cannot be established" in text:
        raise CannotRun("the current folder was removed: go to another one")
    found = re.search(r"CMake Error.*? at ([^:\n]+):(\d+)(.*?)(?:(?<!:)\n\n|\Z)",
                      text, re.S)
    line = int(found[2]) if found else 1
    if found and Path(found[1]).is_absolute() and not source.owns(found[1]):
        # In a file of CMake itself: what called it there is the learner's line.
        called = re.search(r"^ +CMakeLists\.txt:(\d+) \((\w+)\)", text, re.M)
        line = int(called[1]) if called else 1
        if called and called[2] == "project":
            blame_environment(text)
    message = re.sub(r":\n+ *", ": ", found[3]).split("\n") if found else [text]
    message = [line.strip() for line in message if line.strip()]
    return Finding("configure", message[:5], None,
                   (source.folder / "CMakeLists.txt", line), text)


def _find_compiler_error(source: Source, text: str
                         ) -> tuple[Path, int, list[str]] | None:
    """Return the first error that the learner's own lines led to, at these; else the
    first error."""
    errors = list(ERROR.finditer(text))
    ends = [0, *(error.end() for error in errors)]
    starts = [*(error.start() for error in errors), len(text)]
    for i, error in enumerate(errors):
        before = text[ends[i]:error.start()]
        # A header that says of itself that it must not be included.
        included = INCLUDED.findall(before) if error[3][0] in '#"' else []
        before = before.rpartition("In instantiation of")[2]
        after = text[error.end():starts[i + 1]]
        places = [(error[1], error[2]), *REQUIRED.findall(before), *included,
                  *NOTE.findall(after)]
        if error[3].startswith("static"):  # an assertion refuses what it is given
            asked = [place for place in places if source.wrote_statement(*place)]
            places = asked[-1:] or places
        place = source.nearest(places)
        if place:
            return *place, _message(error, place)
    if errors:
        return Path(errors[0][1]), int(errors[0][2]), _message(errors[0], None)
    raised = re.search(r"^\w*(?:Error|Exception)\b.*", text, re.M)
    place = source.nearest(find_python_frames(text)) if raised else None
    return (*place, [raised[0]]) if raised and place else None


def _say_target(text: str, manifest: str) -> list[str]:
    """Return which library the first failed command of ninja is of, as a line of text,
    if there are some with other target versions."""
    targets = r"-DTORCH_TARGET_VERSION=(\w+)"
    failed = re.search(r"^FAILED: .*?(\w+)\.dir/.*\n.*?" + targets, text, re.M)
    if not failed or len(set(re.findall(targets, manifest))) < 2:
        return []
    packed = re.fullmatch(r"0x([0-9a-f]{2})([0-9a-f]{2})0{12}", failed[2])
    version = f"{int(packed[1], 16)}.{int(packed[2], 16)}" if packed else \
        "the version of the headers"
    return [f"in: lib{failed[1]}.so, which targets {version}"]


def _message(error: re.Match, place: Place | None) -> list[str]:
    # Clang writes the line's number before it from 18 on.
    lines = re.sub(r"\n(?! *\d* \|)", "\n      | ", error[3]).splitlines()
    file = Path(error[1])
    if place and (file.resolve(), int(error[2])) != place:
        lines.insert(1, f"in {file.name}:{error[2]}, which {place[0].name}:"
                        f"{place[1]} asks for")
    return lines
