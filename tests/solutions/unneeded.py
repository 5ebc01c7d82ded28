"""Which cases of a chapter's steps catch what: ./workbook test --unneeded [NN...]

Each catalogued mistake, and each of a number of machine-made mutants of the solution,
is built, and all cases are run on it. A case is needed that alone catches one of them,
or that decides a verdict with a text. The rest is printed; build/unneeded/NN.json has
all. A mutant that no case catches is printed as well: it is a gap, or does the same."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import Pool

from test_mistakes import has_text, make, mistakes, name

from base.building import implementation_build
from base.project import BUILD, ROOT
from base.sheets import Chapter, chapters, source_files
from learn import checking
from learn.checking import compilation, report
from learn.checking.processes import LEAKED, TIMED_OUT, Tests
from learn.checking.source import Source
from support import Implementation
from torch_stable_abi.port.syntax import Source as Parsed
from upkeep.commands.carry import find_carried

COUNT = 40  # mutants of core/, and as many of the other files
SLOW = 2  # after so many cases that do not end, the others are not tried
OPERATORS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-",
    "-": "+", "*": "+", "/": "*", "%": "/", "&&": "||", "||": "&&", "&": "|",
    "|": "&", "<<": ">>", ">>": "<<", "+=": "-=", "-=": "+=", "true": "false",
    "false": "true"}


# --- mutants ----------------------------------------------------------------------


@dataclass(frozen=True)
class Mutant:
    """A change of a file: `old`, at this byte, becomes `new`."""
    file: str
    line: int
    begin: int
    old: str
    new: str

    def __str__(self) -> str:
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"{self.file}:{self.line} {old} -> {new or '(nothing)'}"

    def applied(self, text: bytes) -> str:
        end = self.begin + len(self.old.encode())
        return (text[:self.begin] + self.new.encode() + text[end:]).decode()


def find_mutants(chapter: Chapter) -> Iterator[tuple[str, list[Mutant]]]:
    """Yield the possible mutants of each part of a solution, core/ and the rest, in an
    order by chance that is the same each time. A file that is carried is left to its
    owner."""
    carried = {path for _, copies in find_carried() for path in copies}
    parts: dict[str, list[Mutant]] = {}
    for path in source_files(chapter.solution):
        if path.suffix in {".h", ".cpp", ".cu"} and path not in carried:
            file = str(path.relative_to(chapter.solution))
            part = "core" if "core" in path.parts else "op"
            parts.setdefault(part, []).extend(_of_file(file, path.read_bytes()))
    for part, found in parts.items():
        random.Random(chapter.number + part).shuffle(found)
        yield part, found


def _of_file(file: str, text: bytes) -> Iterator[Mutant]:
    waiting = [Parsed(text).root]
    while waiting:
        node = waiting.pop()
        if node.type.startswith("preproc_") and node.type != "preproc_ifdef" \
                or node.type in ("static_assert_declaration", "string_literal"):
            continue
        waiting += node.children
        old = node.text.decode()
        for begin, was, new in _changes(node, old):
            yield Mutant(file, node.start_point[0] + 1, begin, was, new)


def _changes(node, old: str) -> Iterator[tuple[int, str, str]]:
    """Yield each change at a node: where, what stands there, what it becomes."""
    if node.type in ("binary_expression", "assignment_expression"):
        operator = node.child_by_field_name("operator")
        sign = operator.text.decode()
        if sign in OPERATORS:
            yield operator.start_byte, sign, OPERATORS[sign]
    elif node.type in ("true", "false"):
        yield node.start_byte, old, OPERATORS[old]
    elif node.type == "number_literal" and old.isdecimal():
        yield node.start_byte, old, str(int(old) + 1)
    elif node.type == "expression_statement":
        yield node.start_byte, old, ";"
    elif node.type == "argument_list" and len(node.named_children) >= 2:
        first, second = node.named_children[:2]
        begin, end = first.start_byte - node.start_byte, second.end_byte
        was = node.text[begin:end - node.start_byte].decode()
        between = node.text[first.end_byte - node.start_byte:
                            second.start_byte - node.start_byte].decode()
        yield (first.start_byte, was,
               second.text.decode() + between + first.text.decode())


# --- what catches them ----------------------------------------------------------


class Scale:
    def __init__(self, chapter: Chapter):
        self.chapter = chapter
        self.mine = Implementation(chapter).copy_of(chapter.solution)
        checking.build_test(chapter)
        self.tests: Tests | None = None
        self.names: list[str] = []
        failed = self.catch()
        if failed or not self.names:
            raise SystemExit(f"the solution of {chapter.number} fails: {failed}")

    def catch(self, names: list[str] | None = None) -> list[str] | None:
        """Return the cases, of these or of all, that fail on what is in the folder, in
        their order; None if it does not compile."""
        build = implementation_build(self.mine.folder)
        source = Source(self.chapter, self.mine.folder)
        if compilation.build(source, build, lambda: False)[0]:
            return None
        if self.chapter.steps_in_python.exists():
            failed = self._run_pytest(build, names or [])
        else:
            self.tests = checking.begin_tests(
                self.chapter, self.mine.folder, self.tests, lasting=True)
            failed = self._run(names or self.names or [f"{self.chapter.number}*"])
        return [name for name in self.names if name in failed]

    def _run(self, patterns: list[str], slow: int = 0) -> set[str]:
        """Run cases, in another process those that come after one that has ended
        its."""
        assert self.tests
        run = self.tests.run_cases([name.replace(",", "?") for name in patterns])
        cases = run.cases or []
        self.names = self.names or [case.name for case in cases]
        if not cases:
            return set(patterns)  # it does not load
        if run.status == LEAKED and len(cases) > 1:
            return set().union(*(self._run([case.name]) for case in cases))
        failed = {case.name for case in cases
                  if case.failures or not case.ended or run.status == LEAKED}
        slow += run.status == TIMED_OUT
        ran = {case.name for case in cases}
        left = [name for name in patterns if name in self.names and name not in ran]
        return failed | (self._run(left, slow) if left and slow < SLOW else set())

    def _run_pytest(self, build, names: list[str]) -> set[str]:
        file = build / "report.xml"
        words = {f"test_{name.split()[0].replace('.', '_')}" for name in names}
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", self.chapter.steps_in_python,
             f"--implementation={build}", f"--steps-report={file}",
             *(["-k", " or ".join(words)] if words else [])],
            cwd=ROOT, capture_output=True)
        cases = report.read(file) or []
        self.names = self.names or [case.name for case in cases]
        return {case.name for case in cases if case.failures or not case.ended}

    def of_catalogue(self) -> Iterator[tuple[str, list[str], bool]]:
        """Yield each mistake, which cases of its step catch it, and whether it has a
        text."""
        for mistake in mistakes(self.chapter):
            self.mine = make(self.chapter, mistake)
            failed = self.catch([name for name in self.names
                                 if name.startswith(mistake["step"] + " ")])
            if failed:
                yield name(mistake), failed, has_text(mistake)

    def of_mutants(self) -> Iterator[tuple[str, list[str]]]:
        """Yield each mutant, and which cases catch it."""
        for _, found in find_mutants(self.chapter):
            count = 0
            for mutant in found:
                self.mine.copy_of(self.chapter.solution)
                path = self.mine.folder / mutant.file
                self.mine.write(mutant.file, mutant.applied(path.read_bytes()))
                failed = self.catch()
                if failed is not None:
                    yield str(mutant), failed
                    count += 1
                if count == COUNT:
                    break


def weigh(number: str) -> tuple[str, dict]:
    """Return a chapter's score in words, and all that it is made of."""
    chapter = next(c for c in chapters() if c.number == number)
    scale = Scale(chapter)
    catalogue = list(scale.of_catalogue())
    mutants = list(scale.of_mutants())
    if scale.tests:
        scale.tests.end()
    sets = [set(failed) for _, failed, _ in catalogue] + \
        [set(failed) for _, failed in mutants if failed]
    needed = {failed[0] for _, failed, text in catalogue if text}
    needed |= {case for failed in sets if len(failed) == 1 for case in failed}
    for failed in sets:  # of several that would do, the earliest
        if not failed & needed:
            needed.add(next(name for name in scale.names if name in failed))
    lines = [f"{number}: {sum(bool(f) for _, f in mutants)} of {len(mutants)} mutants, "
             f"{len(needed)} of {len(scale.names)} cases are needed"]
    lines += [f"  not needed: {case}" for case in scale.names if case not in needed]
    lines += [f"  not caught: {mutant}" for mutant, failed in mutants if not failed]
    return "\n".join(lines), {"cases": scale.names, "catalogue": catalogue,
                              "mutants": mutants, "needed": sorted(needed)}


def main() -> None:
    asked = sys.argv[1:] or [chapter.number for chapter in chapters()]
    folder = BUILD / "unneeded"
    folder.mkdir(parents=True, exist_ok=True)
    with Pool(min(2, len(asked)), maxtasksperchild=1) as pool:
        for number, (said, found) in zip(asked, pool.imap(weigh, asked, chunksize=1)):
            print(said, flush=True)
            (folder / f"{number}.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
