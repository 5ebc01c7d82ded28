"""The diagnosis of a run: it makes a finding of the report and of what was printed, by
the learner's files alone. Nothing is run here, but for c++filt."""

import itertools
import re
from pathlib import Path

from base.sheets import source_files
from learn.checking.processes import LEAKED, TIMED_OUT, Run
from learn.checking.report import Case, Failure, in_words, tidy
from learn.checking.source import Place, Source, find_frames, find_python_frames
from learn.checking.verdict import PASS, Finding, shorten
from torch_stable_abi.programs import name_signal
from torch_stable_abi.programs import run as run_program

# Where a sanitizer or the test program speaks, not the learner's code.
NOT_PRINTED = re.compile(
    r"^(?:=+\n|AddressSanitizer:|terminate called |==\d+==|[^\n]+:\d+: runtime error: "
    r"|[^\n]+:\d+: [^\n]*Assertion '"
    r"|a case took longer|LLVMSymbolizer: |-{9})", re.M)

ENDS = re.compile(r"\s*}\s*(//.*)?")  # a block


def diagnose(source: Source, step: str, run: Run, case: Case | None) -> Finding:
    """Return what is to be told of a step's run; `case` is the one that failed, or
    None."""
    if case is None:
        names = [case.name[len(step) + 1:] for case in run.cases or []]
        remarks = [note for case in run.cases or [] for note in case.notes]
        return Finding(PASS, remarks, step, log=run.text, sentence="; ".join(names))
    log = "\n".join(_format_for_log(failure) for failure in case.failures) + \
        f"\n{run.text}"
    if case.failures and case.ended:
        kind, message = _diagnose_check(source, case.failures[0], step, run)
        place = _find_place(source, case.failures[0], step, run) \
            if kind == "test" else None
        message += [text for subcase, text in case.said
                    if subcase == case.failures[0].subcase]
    elif run.status == LEAKED:
        kind, message, place = "leak", ["something was never released"], None
    else:
        kind, message, place = _diagnose_crash(source, run, step)
        if case.failures:  # before it ended
            message[1:1] = in_words(case.failures[0])[:2]
    if kind != "todo" and source.is_untouched(step):
        kind, message, place = "todo", [source.read_todo(step), *message[:1]], None
    if place and place[0] not in source.edited and not source.wrote(*place):
        place = None  # a given line is right
    if kind != "todo":
        place = place or source.place(step, case.description)
    of_step = [one for one in run.cases or [] if one.name.startswith(step + " ")]
    unknown = kind == "leak" and len(of_step) > 1  # any of them may have leaked
    printed = _find_learner_output(run)
    return Finding(
        kind, message, step, place, log,
        sentence="" if kind == "todo" or unknown else case.description,
        printed=[line for line in printed if line.strip()])


def diagnose_loading(source: Source, step: str, run: Run, began: bool
                     ) -> Finding | None:
    """Return why the library does not load, or None if it does. `began` says whether
    the tests did: then the process ended while it loaded the library. Where no line is
    to blame, the finding is of `step`."""
    refused = re.search(r"^the library does not load: (.*)", run.text, re.M)
    if refused and run.cases is None:
        return _diagnose_load_error(source, step, refused[1], run.text)
    if run.cases is None and began:
        return _diagnose_registration(source, step, run)
    return None


def diagnose_leak(source: Source, finding: Finding, text: str) -> Finding:
    """Return a leak with the place of what leaks, from the text of a run that unwound
    the stack of each allocation."""
    leaks = re.findall(
        r"^(?:Direct|Indirect) leak of (\d+) byte.* in (\d+) object.*\n"
        r"((?: +#.*\n)*)", text, re.M)
    if not leaks:
        return finding
    bytes, objects, stack = next(
        (leak for leak in leaks if source.nearest(find_frames(leak[2]))), leaks[0])
    message = [f"{objects} block(s) of {bytes} byte(s) in all"]
    if "from_ivalue" in stack:
        message = [f"{objects} handle(s) that libtorch made for arguments: not "
                   "each slot was taken"]
    return Finding("leak", message, finding.step, source.nearest(find_frames(stack)),
                   text, finding.sentence, finding.printed)


# --- a library that does not load -------------------------------------------------


def _diagnose_load_error(source: Source, step: str, error: str, text: str) -> Finding:
    symbol = re.search(r"undefined symbol: (\S+)", error)
    message = [error]
    place = None
    if symbol:
        name = run_program(["c++filt", symbol[1].rstrip(",")]).stdout.strip()
        message = [f"undefined symbol: {name}",
                   "declared, but defined nowhere or not exported"]
        word = re.sub(r"\(.*", "", name).split("::")[-1]
        place = _find_first_use(source, word)
    return Finding("load", message, source.step_at(*place) if place else step, place,
                   text)


def _find_first_use(source: Source, word: str) -> Place | None:
    for path in source_files(source.folder):
        for number, line in enumerate(
                path.read_text(errors="replace").splitlines(), 1):
            if re.search(rf"\b{re.escape(word)}\b", line):
                return path, number
    return None


def _diagnose_registration(source: Source, step: str, run: Run) -> Finding:
    """Return what ended the process: registration runs at load, and nothing can catch
    what it throws."""
    kind, message, place = _diagnose_crash(source, run)
    if kind != "timeout":
        why = "a schema that does not parse does that (look at its !, its -> and " \
            "its parentheses), or an op that is defined twice" \
            if "_library_def(" in run.text else \
            "a namespace opened twice, a misspelt dispatch key or a bad schema does " \
            "that"
        kind, message = "load", [
            "the process ended while the library was loaded", *message, why]
    return Finding(kind, message, source.step_at(*place) if place else step, place,
                   run.text)


# --- a check that failed ----------------------------------------------------------


def _find_place(source: Source, failure: Failure, step: str, run: Run) -> Place | None:
    """Return the place of a check that failed: where Python raised, where another
    step's code or a line of the learner's threw, where a compiler that the test asks
    stopped, or where the check says."""
    raised = source.nearest(find_python_frames(run.text))
    if raised and source.wrote(*raised):
        return raised
    thrown = source.nearest(re.findall(r"(/[^:\n]+):(\d+)", failure.exception))
    if thrown and (source.step_at(*thrown) not in (None, step) or
                   source.wrote(*thrown)):
        return thrown
    error = source.nearest(re.findall(
        r"(/[^:\n]+):(\d+):\d+: error: ", failure.expression))
    if error:
        return error
    called = re.search(r"\bcalled at ([\w./]+):(\d+)", "\n".join(
        [failure.expression, failure.values, *failure.context]))
    if called and source.wrote(source.folder / called[1], int(called[2])):
        return source.folder / called[1], int(called[2])
    if any(source.has_todo(step, name) for name, _ in failure.looks):
        return None
    return source.find_named(step, *failure.looks[-1]) if failure.looks else None


def _find_learner_output(run: Run) -> list[str]:
    """Return the lines that the learner's code printed: what comes before the
    sanitizer or the test program speaks."""
    text = run.text
    if run.of_pytest:  # it shows what a test has printed
        found = re.search(r"^-+ Captured stdout call -+\n(.*?)(?=^[-=]{3}|\Z)", text,
                          re.M | re.S)
        text = found[1].partition("Traceback (most recent")[0] if found else ""
    return NOT_PRINTED.split(text)[0].splitlines()


def _format_for_log(failure: Failure) -> str:
    """Return all of a failure, with the line of the test."""
    return "\n  ".join(filter(None, [
        f"{shorten(Path(failure.file))}:{failure.line}" if failure.file else "",
        failure.subcase, failure.expression, failure.values, failure.exception,
        *failure.context]))


def _diagnose_check(source: Source, failure: Failure, step: str, run: Run
                    ) -> tuple[str, list[str]]:
    """Return kind and message of a check that failed: "todo" as long as the step
    is not done."""
    for said in (failure.exception, failure.values, failure.expression,
                 *failure.context):
        todo = re.search(r"TODO\((\d\d\.\d)\).*", said)
        if todo and todo[1] == step:
            return "todo", [todo[0].split(" == ")[0].strip().strip('"')]
    undone = source.is_undone(step)
    if undone and "Could not find schema" in str(failure):
        return "todo", [f"TODO({step}): the op is not defined yet"]
    if undone and run.of_pytest:  # Python need not throw it
        return "todo", [source.read_todo(step), failure.expression]
    return "test", in_words(failure)


# --- a process that ended -----------------------------------------------------------


def _diagnose_crash(source: Source, run: Run, step: str = ""
                    ) -> tuple[str, list[str], Place | None]:
    """Return kind, message and place of what ended the process within a case: a
    sanitizer, a signal, a limit. A function of an earlier step has passed: the line of
    `step` that called it comes first."""
    text = run.text
    place = source.nearest(_find_statements(source, text), step)
    if run.status == TIMED_OUT:
        return "timeout", [f"no end after {run.limit} s"], place
    ub = re.search(r"^([^:\n]+):(\d+):\d+: runtime error: (.*)", text, re.M)
    if ub:
        return "sanitizer", [ub[3]], source.nearest([(ub[1], ub[2]),
                                                      *_find_statements(source, text)])
    asan = re.search(r"ERROR: AddressSanitizer: (.*)", text)
    if asan and not re.match(r"(SEGV|ABRT|FPE|ILL|BUS)", asan[1]):
        # For what was used after its end, the line that ended it.
        _, _, freed = text.partition("freed by thread")
        ended = source.nearest(find_frames(freed.partition("allocated by")[0]))
        if ended and ended[0] in source.edited | {place and place[0]}:
            return "sanitizer", _describe_bad_access(asan[1], text), \
                (ended[0], _find_last_statement(*ended))
        return "sanitizer", [*_describe_bad_access(asan[1], text),
                             *_find_caller(source, text, place)], place
    name = asan[1].split()[0] if asan else (
        name_signal(-run.status) if run.status < 0 else
        f"exit {run.status}")
    null = ", at a null pointer" * ("points to the zero page" in text)
    asserted = re.search(r"(\w+)<.*>::([^\s(]+)\(.*Assertion '(.*)' failed", text)
    if asserted:
        return "crash", [f"{asserted[1]}::{asserted[2]} is called where it may not be: "
                         f"its assertion {asserted[3]} fails"], place
    return "crash", [f"ended by {name}{null}",
                     *(tidy(what) for what in re.findall(
                         r"(what\(\): .*?)(?: at /.*)?$", text, re.M)[:1]),
                     *_find_caller(source, text, place)], place


def _find_caller(source: Source, text: str, place: Place | None) -> list[str]:
    """Return the call that may have passed a wrong address, as a line of text, if the
    learner wrote it in the same step: an earlier step's call has passed."""
    if not place:
        return []
    stack = re.split(r"^\S+ is located ", text, maxsplit=1, flags=re.M)[0]
    for name, at in find_frames(stack):
        file, line = Path(name), int(at or 0)
        if not source.wrote(file, line) or (file.resolve(), line) == place or \
                source.step_at(file, line) != source.step_at(*place):
            continue
        lines = file.read_text(errors="replace").splitlines()
        inside = lines[line:place[1]] if file.resolve() == place[0] else []
        if not inside or any(n.strip() and _indent(n) <= _indent(lines[line - 1])
                             for n in inside):
            return [f"called at {file.name}:{line}: {lines[line - 1].strip()}"]
    return []


def _find_statements(source: Source, text: str) -> list[tuple[str, str | int]]:
    """Return the frames of a stack as (file, line). A frame at a closing brace calls a
    destructor, or is all that is left of a function that may not throw: in its place
    stands the last line of its block that the learner wrote. The frames that an
    exception passes are skipped, since they only tidy up."""
    found: list[tuple[str, str | int]] = []
    passed = re.compile(r"( in _Unwind_Resume .*\n).*\n")
    for file, line in find_frames(passed.sub(r"\1", text)):
        at = int(line or 0)
        if at and source.owns(file) and Path(file).is_file():
            own = (n for n in _lines_of_block(file, at) if source.wrote(file, n))
            at = next(own, at)
        found.append((file, at))
    return found


def _lines_of_block(file: str, line: int) -> list[int]:
    """Return the lines of the block whose } is at this line, from its end; of another
    line none."""
    lines = Path(file).read_text(errors="replace").splitlines()[:line]
    end = lines.pop()
    inside = itertools.takewhile(
        lambda above: not above.strip() or _indent(above) > _indent(end),
        reversed(lines))
    return [line - n for n, above in enumerate(inside, 1)
            if above.strip() and not ENDS.fullmatch(above)] \
        if ENDS.fullmatch(end) else []


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _find_last_statement(file: Path, line: int) -> int:
    """Return the line of the last statement before the } where variables die."""
    lines = file.read_text(errors="replace").splitlines()
    while line > 1 and lines[line - 1].strip() in ("", "}"):
        line -= 1
    return line


def _describe_bad_access(said: str, text: str) -> list[str]:
    """Return what AddressSanitizer saw, in a line of few words."""
    if said.startswith("stack-overflow"):
        return ["the stack is full: does a function call itself?"]
    message = [re.sub(r" on address.*", "", said)]
    access = re.search(r"^(?:READ|WRITE) of size \d+", text, re.M)
    region = re.search(r"^\S+ is located (.*?)(?: \[|$)", text, re.M)
    message += [f"{access[0]} byte(s)"] if access else []
    message += [region[1]] if region else []
    return [", ".join(message)]
