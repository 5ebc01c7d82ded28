"""What a run of the tests means."""

import itertools
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from base.project import read_source
from base.sheets import source_files
from learn.verdict.compiling import compiled
from learn.verdict.model import FAIL, PASS, Verdict, short
from learn.verdict.report import Case, Failure, in_words, tidied
from learn.verdict.running import LEAKED, TIMED_OUT, Run, Tests
from learn.verdict.subject import Subject, frames, python_frames
from torch_stable_abi.programs import CannotRun
from torch_stable_abi.programs import run as run_program
from torch_stable_abi.projects import library_of

# Where a sanitizer or the test program speaks, not the learner's code.
NOT_PRINTED = re.compile(
    r"^(?:=+\n|AddressSanitizer:|terminate called |==\d+==|[^\n]+:\d+: runtime error: "
    r"|a case took longer|-{9})", re.M)

ENDS = re.compile(r"\s*}\s*(//.*)?")  # a block


@dataclass
class Judged:
    """What the cases did of a step that is not passed."""
    case: Case
    run: Run


def judged(subject: Subject, tests: Tests,
           tell: Callable[[Verdict], None]) -> Verdict:
    """Of the step that the learner is at first, which `tell` hears of; then of
    all."""
    if library_of(subject.build) is None:
        return subject.verdict("link", ["no shared library was built"])
    at = subject.at
    run = tests.run([at])
    verdict = _of_loading(subject, tests, run)
    if verdict:
        return verdict
    failing = _judge(subject, [at], run).get(at)
    verdict = _verdict(subject, at, run, failing)
    tell(verdict)
    if verdict.kind == "leak":
        verdict = _with_its_line(subject, verdict)
    wrong = compiled(subject)  # what is beside the part that is tested
    if wrong:
        return wrong
    together = _judge_all(subject, tests, [id for id in subject.steps if id < at])
    if run.status != TIMED_OUT:  # later ones would take as long
        together |= _judge_all(subject, tests,
                               [id for id in subject.steps if id > at])
    first = next((id for id, state in subject.steps.items()
                  if state != PASS and (id == at or _alone(
                      subject, tests, id, together))), None)
    if first is None:
        return subject.verdict(PASS, [], log=run.text)
    if first != at:
        verdict = _verdict(subject, first, together[first].run, together[first])
        if verdict.kind == "leak":
            verdict = _with_its_line(subject, verdict)
    verdict.steps = dict(subject.steps)
    return verdict


def _alone(subject: Subject, tests: Tests, id: str, together: dict[str, Judged]
           ) -> bool:
    """Whether a step that is not passed, or not reached, is so alone too; then
    what it prints is its own. What fails only after others is wrong as well,
    unless it was the time that ended them."""
    run = tests.run([id])
    wrong = _judge(subject, [id], run)
    if wrong:
        together |= wrong
    elif subject.steps[id] != PASS:  # it did not begin
        together[id] = Judged(Case(id), run)
    elif id in together and together[id].run.status != TIMED_OUT:
        subject.steps[id] = FAIL
    else:
        together.pop(id, None)
    return id in together


def _judge(subject: Subject, ids: list[str], run: Run) -> dict[str, Judged]:
    """Notes how the steps stand after a run of them; gives those that are not
    passed. A leak is that of a single one."""
    wrong: dict[str, Judged] = {}
    if "LeakSanitizer has encountered a fatal" in run.text:
        subject.notes[:] = ["leaks were not checked: no LeakSanitizer here"]
    for id in ids:
        mine = [c for c in run.cases or [] if c.name.startswith(id + " ")]
        bad = next((c for c in mine if c.failures or not c.ended), None)
        if bad is None and mine and run.status == LEAKED:
            bad = mine[-1]
        if mine:
            subject.steps[id] = FAIL if bad else PASS
        if bad:
            wrong[id] = Judged(bad, run)
        else:
            subject.remarks += [note for case in mine for note in case.notes]
    return wrong


def _judge_all(subject: Subject, tests: Tests, ids: list[str]) -> dict[str, Judged]:
    """One process for all; another for those after a case that ended it, and
    one for each if there is a leak."""
    wrong: dict[str, Judged] = {}
    while ids:
        run = tests.run(ids)
        if run.status == LEAKED and len(ids) > 1:
            for id in ids:
                wrong |= _judge(subject, [id], tests.run([id]))
            break
        wrong |= _judge(subject, ids, run)
        ran = {case.name.split()[0] for case in run.cases or []}
        left = [id for id in ids if id not in ran]
        if run.status == TIMED_OUT or len(left) == len(ids) or \
                subject.test.suffix == ".py":  # pytest stops at the first
            break
        ids = left
    return wrong


def _of_loading(subject: Subject, tests: Tests, run: Run) -> Verdict | None:
    refused = re.search(r"^the library does not load: (.*)", run.text, re.M)
    if refused and run.cases is None:
        return _load_error(subject, refused[1], run.text)
    if run.cases is None and tests.report.exists():
        return _died_loading(subject, run)
    if not run.cases:
        raise CannotRun(f"{subject.test} ran no case (status {run.status}):\n"
                        f"{run.text[-2000:]}")
    return None


def _load_error(subject: Subject, error: str, text: str) -> Verdict:
    symbol = re.search(r"undefined symbol: (\S+)", error)
    message = [error]
    place = None
    if symbol:
        name = run_program(["c++filt", symbol[1].rstrip(",")]).stdout.strip()
        message = [f"undefined symbol: {name}",
                   "declared, but defined nowhere or not exported"]
        word = re.sub(r"\(.*", "", name).split("::")[-1]
        place = _first_use(subject, word)
    return subject.verdict("load", message, _step_at(subject, place), place, text)


def _first_use(subject: Subject, word: str) -> tuple[Path, int] | None:
    for path in source_files(subject.folder):
        for number, line in enumerate(
                path.read_text(errors="replace").splitlines(), 1):
            if re.search(rf"\b{re.escape(word)}\b", line):
                return path, number
    return None


def _died_loading(subject: Subject, run: Run) -> Verdict:
    """Registration runs at load, and nothing can catch what it throws."""
    kind, message, place = _death(subject, run)
    if kind != "timeout":
        why = "a schema that does not parse does that (look at its !, its -> and " \
            "its parentheses), or an op that is defined twice" \
            if "_library_def(" in run.text else \
            "a namespace opened twice, a misspelt dispatch key or a bad schema does " \
            "that"
        kind, message = "load", [
            "the process ended while the library was loaded", *message, why]
    return subject.verdict(kind, message, _step_at(subject, place), place,
                           run.text)


def _step_at(subject: Subject, place: tuple[Path, int] | None) -> str | None:
    return subject.step_at(*place) if place else subject.at


def _verdict(subject: Subject, id: str, run: Run, wrong: Judged | None
             ) -> Verdict:
    if wrong is None:
        names = [case.name[len(id) + 1:] for case in run.cases or []]
        remarks = [note for case in run.cases or [] for note in case.notes]
        return subject.verdict(PASS, remarks, id, log=run.text,
                               sentence="; ".join(names))
    case = wrong.case
    log = "\n".join(_whole(failure) for failure in case.failures) + \
        f"\n{run.text}"
    if case.failures and case.ended:
        kind, message = _failed(subject, case.failures[0], id)
        place = _place_of(subject, case.failures[0], id, run) \
            if kind == "test" else None
        message += [text for subcase, text in case.said
                    if subcase == case.failures[0].subcase]
    elif run.status == LEAKED:
        kind, message, place = "leak", ["something was never released"], None
    else:
        kind, message, place = _death(subject, run)
    if place and place[0] not in subject.edited and not subject.wrote(*place):
        place = None  # a given line is right
    if kind != "todo":
        place = place or subject.place(id, case.description)
    printed = _printed(subject, run.text)
    return subject.verdict(
        kind, message, id, place, log,
        sentence=case.description if kind != "todo" else "",
        printed=[line for line in printed if line.strip()])


def _place_of(subject: Subject, failure: Failure, step: str, run: Run
              ) -> tuple[Path, int] | None:
    """Of a check that failed: where Python raised, where another step's code threw,
    where a compiler that the test asks stopped, or where the check says."""
    raised = subject.nearest(python_frames(run.text))
    if raised and subject.wrote(*raised):
        return raised
    thrown = subject.nearest(re.findall(r"(/[^:\n]+):(\d+)", failure.exception))
    if thrown and subject.step_at(*thrown) not in (None, step):
        return thrown  # a message of an earlier step's lines
    error = subject.nearest(re.findall(
        r"(/[^:\n]+):(\d+):\d+: error: ", failure.expression))
    if error:
        return error
    return subject.named(step, *failure.look) if failure.look else None


def _printed(subject: Subject, text: str) -> list[str]:
    """By the learner's code."""
    if subject.test.suffix == ".py":  # pytest shows what a test has printed
        found = re.search(r"^-+ Captured stdout call -+\n(.*?)(?=^[-=]{3}|\Z)", text,
                          re.M | re.S)
        text = found[1].partition("Traceback (most recent")[0] if found else ""
    return NOT_PRINTED.split(text)[0].splitlines()


def _whole(failure: Failure) -> str:
    """For the log, and for who looks for the line of the test."""
    return "\n  ".join(filter(None, [
        f"{short(Path(failure.file))}:{failure.line}" if failure.file else "",
        failure.subcase, failure.expression, failure.values, failure.exception,
        *failure.context]))


def _failed(subject: Subject, failure: Failure, step: str
            ) -> tuple[str, list[str]]:
    for said in (failure.exception, failure.values, failure.expression,
                 *failure.context):
        todo = re.search(r"TODO\((\d\d\.\d)\).*", said)
        if todo and todo[1] == step:
            return "todo", [todo[0].split(" == ")[0].strip().strip('"')]
    file, line = subject.place(step)
    undone = file.exists() and f"TODO({step})" in read_source(file)
    if undone and "Could not find schema" in str(failure):
        return "todo", [f"TODO({step}): the op is not defined yet"]
    if undone and subject.test.suffix == ".py":  # Python need not throw it
        todo_line = read_source(file).splitlines()[line - 1].strip(" #/\\")
        return "todo", [todo_line, failure.expression]
    return "test", in_words(failure)


def _death(subject: Subject, run: Run
           ) -> tuple[str, list[str], tuple[Path, int] | None]:
    """The process ended within a case: a sanitizer, a signal, a limit."""
    text = run.text
    place = subject.nearest(_statements(subject, text))
    if run.status == TIMED_OUT:
        return "timeout", [f"no end after {run.limit} s"], place
    ub = re.search(r"^([^:\n]+):(\d+):\d+: runtime error: (.*)", text, re.M)
    if ub:
        return "sanitizer", [ub[3]], subject.nearest([(ub[1], ub[2]),
                                                      *_statements(subject, text)])
    asan = re.search(r"ERROR: AddressSanitizer: (.*)", text)
    if asan and not re.match(r"(SEGV|ABRT|FPE|ILL|BUS)", asan[1]):
        # For what was used after its end, the line that ended it.
        _, _, freed = text.partition("freed by thread")
        ended = subject.nearest(frames(freed.partition("allocated by")[0]))
        if ended and ended[0] in subject.edited | {place and place[0]}:
            return "sanitizer", _of_address(asan[1], text), \
                (ended[0], _last_statement(*ended))
        return "sanitizer", [*_of_address(asan[1], text),
                             *_caller(subject, text, place)], place
    name = asan[1].split()[0] if asan else (
        signal.Signals(-run.status).name if run.status < 0 else
        f"exit {run.status}")
    null = ", at a null pointer" * ("points to the zero page" in text)
    return "crash", [f"ended by {name}{null}",
                     *(tidied(what) for what in re.findall(
                         r"(what\(\): .*?)(?: at /.*)?$", text, re.M)[:1]),
                     *_caller(subject, text, place)], place


def _caller(subject: Subject, text: str, place: tuple[Path, int] | None) -> list[str]:
    """Of a wrong address: the call that may have given it, if the learner wrote
    it in the same step. An earlier step's has passed."""
    if not place:
        return []
    stack = re.split(r"^\S+ is located ", text, maxsplit=1, flags=re.M)[0]
    for name, at in frames(stack):
        file, line = Path(name), int(at or 0)
        if not subject.wrote(file, line) or (file.resolve(), line) == place or \
                subject.step_at(file, line) != subject.step_at(*place):
            continue
        lines = file.read_text(errors="replace").splitlines()
        inside = lines[line:place[1]] if file.resolve() == place[0] else []
        if not inside or any(n.strip() and _indent(n) <= _indent(lines[line - 1])
                             for n in inside):
            return [f"called at {file.name}:{line}: {lines[line - 1].strip()}"]
    return []


def _statements(subject: Subject, text: str) -> list[tuple[str, str | int]]:
    """The frames. At a } destructors are called, and of a function that may not
    throw all that it called is seen there: that is the last that the learner
    wrote in its block. What an exception passes is only tidied up."""
    found: list[tuple[str, str | int]] = []
    passed = re.compile(r"( in _Unwind_Resume .*\n).*\n")
    for file, line in frames(passed.sub(r"\1", text)):
        at = int(line or 0)
        if at and subject.owns(file) and Path(file).is_file():
            at = next(filter(lambda n: subject.wrote(file, n), _block(file, at)), at)
        found.append((file, at))
    return found


def _block(file: str, line: int) -> list[int]:
    """Lines of the block that ends in a }, from its end; else none."""
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


def _last_statement(file: Path, line: int) -> int:
    """Instead of the } where its variables die."""
    lines = file.read_text(errors="replace").splitlines()
    while line > 1 and lines[line - 1].strip() in ("", "}"):
        line -= 1
    return line


def _of_address(said: str, text: str) -> list[str]:
    """What AddressSanitizer saw, in lines of few words."""
    if said.startswith("stack-overflow"):
        return ["the stack is full: does a function call itself?"]
    message = [re.sub(r" on address.*", "", said)]
    access = re.search(r"^(?:READ|WRITE) of size \d+", text, re.M)
    region = re.search(r"^\S+ is located (.*?)(?: \[|$)", text, re.M)
    message += [f"{access[0]} byte(s)"] if access else []
    message += [region[1]] if region else []
    return message


def _with_its_line(subject: Subject, verdict: Verdict) -> Verdict:
    """Of a leak: once more, in a process that unwinds slowly."""
    assert verdict.step
    tests = Tests(subject.test, subject.build, subject.seed,
                  ASAN_OPTIONS="fast_unwind_on_malloc=0")
    tests.superseded = subject.superseded
    try:
        text = tests.run([verdict.step]).text
    finally:
        tests.end()
    leaks = re.findall(
        r"^(?:Direct|Indirect) leak of (\d+) byte.* in (\d+) object.*\n"
        r"((?: +#.*\n)*)", text, re.M)
    if not leaks:
        return verdict
    bytes, objects, stack = leaks[0]
    message = [f"{objects} block(s) of {bytes} byte(s) in all"]
    if "from_ivalue" in stack:
        message = [f"{objects} handle(s) that libtorch made for arguments: not "
                   "each slot was taken"]
    return subject.verdict(
        "leak", message, verdict.step, subject.nearest(frames(stack)), text,
        sentence=verdict.sentence, printed=verdict.printed)
