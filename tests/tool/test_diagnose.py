"""Diagnoses of reports and texts that are written here: no compiler and no test is
run."""

import shutil

import pytest

from base.hunks import starter_with
from base.sheets import find_chapter
from learn.checking import compilation
from learn.checking.diagnose import diagnose, diagnose_leak, diagnose_loading
from learn.checking.processes import FAILED, LEAKED, TIMED_OUT, Run
from learn.checking.report import Case, Failure, in_words
from learn.checking.source import Source
from learn.checking.verdict import PASS

CPP = "sizes.h"
SIZES = "  std::vector<int64_t> result = input.vec();\n"


@pytest.fixture
def source(tmp_path):
    """Chapter 01, done up to 01.5, where a learner has written one line more."""
    chapter = find_chapter("01")
    for name, text in starter_with(chapter, "01.5").items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    file = tmp_path / CPP
    text = file.read_text()
    assert text.count(SIZES) == 1
    file.write_text(text.replace(SIZES, SIZES + "  int* mine = nullptr;  // wrong\n"))
    return Source(chapter, tmp_path)


def line_of(source, text, name=CPP):
    lines = (source.folder / name).read_text().splitlines()
    number, = (n for n, line in enumerate(lines, 1) if text in line)
    return number


def stack(source, *places):
    """Return a stack of these lines, from the fault outwards, above which the test
    is."""
    frames = enumerate([*places, ("/tests/steps.cpp", 7)])
    return "".join(f"    #{n} 0x1 in f {file}:{line}:3\n"
                   for n, (file, line) in frames)


CASE = Case("01.5 says what is shown", "says what is wrong")


def test_a_pass_shows_what_its_cases_say(source):
    found = diagnose(source, "01.5", Run(0, "", [CASE]), None)
    assert (found.kind, found.sentence) == (PASS, "says what is shown")


def test_a_check_that_failed(source):
    case = Case(CASE.name, CASE.description, True, [Failure("f(2) == 3", "4 == 3")])
    found = diagnose(source, "01.5", Run(FAILED, "", [case]), case)
    assert (found.kind, found.step) == ("test", "01.5")
    assert found.sentence == "says what is wrong"
    assert found.message == ["f(2) is 4, and should be 3"]
    assert found.place == source.place("01.5", CASE.description)


def test_what_is_left_to_do_is_no_fault(source):
    case = Case("01.6 x", "", True, [Failure(exception="TODO(01.6): the text")])
    found = diagnose(source, "01.6", Run(FAILED, "", [case]), case)
    assert (found.kind, found.message) == ("todo", ["TODO(01.6): the text"])


@pytest.mark.parametrize("status, text, kind, message", [
    (-11, "ERROR: AddressSanitizer: SEGV on unknown address\nHint: address points to "
     "the zero page.\n", "crash", "ended by SEGV, at a null pointer"),
    (-6, "", "crash", "ended by SIGABRT"), (3, "", "crash", "ended by exit 3"),
    (-6, "what(): no such op at /x/y.h:3\n", "crash", "what(): no such op"),
    (1, "ERROR: AddressSanitizer: heap-buffer-overflow on address 0x1\nREAD of size 4 "
     "at 0x1\n", "sanitizer", "heap-buffer-overflow, READ of size 4 byte(s)"),
    (1, "/x/y.h:3:4: runtime error: signed integer overflow: 1 + 2\n", "sanitizer",
     "signed integer overflow: 1 + 2"),
    (TIMED_OUT, "", "timeout", "no end after 10 s")])
def test_a_process_that_ended(source, status, text, kind, message):
    place = source.folder / CPP, line_of(source, "// wrong")
    case = Case(CASE.name, CASE.description)
    found = diagnose(source, "01.5", Run(status, text + stack(source, place), [case]),
                     case)
    assert found.kind == kind and message in found.message, found
    assert found.place == place


def test_a_destructor_is_shown_as_the_last_line_that_the_learner_wrote(source):
    file = source.folder / CPP
    after = file.read_text().splitlines()[line_of(source, "// wrong"):]
    brace = line_of(source, "// wrong") + 1 + next(
        n for n, line in enumerate(after) if line == "}")
    case = Case(CASE.name)
    text = "ERROR: AddressSanitizer: attempting double-free on 0x1\n" + \
        stack(source, (file, brace))
    found = diagnose(source, "01.5", Run(1, text, [case]), case)
    assert found.place == (file, brace - 1) and source.wrote(*found.place), found


def test_a_leak_has_the_line_of_what_leaks(source):
    case = Case(CASE.name, CASE.description, True)
    found = diagnose(source, "01.5", Run(LEAKED, "", [case]), case)
    assert (found.kind, found.message) == ("leak", ["something was never released"])
    place = source.folder / CPP, line_of(source, "// wrong")
    text = "Direct leak of 24 byte(s) in 2 object(s) allocated from:\n"
    located = diagnose_leak(source, found, text + stack(source, place))
    assert (located.place, located.message) == (
        place, ["2 block(s) of 24 byte(s) in all"])
    assert located.sentence == "says what is wrong"
    assert diagnose_leak(source, found, "no leak") == found


def test_a_library_that_does_not_load(source):
    run = Run(1, "the library does not load: x.so: undefined symbol: _Z4nonei", None)
    found = diagnose_loading(source, "01.5", run, began=False)
    assert (found.kind, found.step) == ("load", "01.5")
    assert found.message[0] == "undefined symbol: none(int)"
    assert diagnose_loading(source, "01.5", Run(0, "", [CASE]), began=True) is None
    found = diagnose_loading(source, "01.5", Run(-6, "", None), began=True)
    assert found.message[:2] == ["the process ended while the library was loaded",
                                 "ended by SIGABRT"]


def test_only_what_comes_before_the_sanitizer_is_the_learners(source):
    case = Case(CASE.name)
    found = diagnose(source, "01.5", Run(
        -11, "mine\n=====\n==12==ERROR: AddressSanitizer: SEGV\n", [case]), case)
    assert found.printed == ["mine"]


@pytest.mark.parametrize("text, kind, message", [
    ("{file}:{line}:5: error: expected ';'\n  12 | x\n", "compile", "expected ';'"),
    ("/x/given.h:3:1: error: no member\n{file}:{line}:5: note: in instantiation of f\n",
     "compile", "no member"),
    # The first error is that of the header, by the learner's line that includes it.
    ("In file included from {file}:{line}:\n/x/E.h:9:2: error: \"not stable\"\n"
     "{file}:1:3: error: use of f\n", "compile", '"not stable"'),
    ("ld: undefined reference to `f()'\n", "link", "ld: undefined reference to `f()'"),
    ("mold: error: a.o:(.text): relocation against x out of range\n", "link",
     "mold: error: a.o:(.text): relocation against x out of range"),
    ("CMake Error at CMakeLists.txt:3 (project):\n  no such\n\n", "configure",
     "(project): no such")])
def test_what_a_build_says(source, text, kind, message):
    file, line = source.folder / CPP, line_of(source, "// wrong")
    found = compilation.find_error(source, text.format(file=file, line=line))
    assert (found.kind, found.message[0]) == (kind, message)
    if kind == "compile":
        assert found.place == (file, line) and found.step == "01.5"
    assert compilation.find_error(source, "ninja: build stopped") is None


def test_a_warning_is_noted_once():
    class Source:
        def wrote(self, file, line):
            return True
    line = "stack.h:27:3: warning: operation on 'i' may be undefined\n"
    assert compilation._find_warnings(Source(), 39 * f"my/{line}") == \
        ["stack.h:27: operation on 'i' may be undefined (39 times)"]



def test_the_place_that_a_check_names():
    """A step has several places. The place is the line with the text, or what follows
    it."""
    chapter = find_chapter("07")
    source = Source(chapter, chapter.solution)

    def line(name, text):
        file, number = source.find_named("07.2", name, text)
        return file.read_text().splitlines()[number - 1].strip()
    assert line("cuda_ops.cpp", "launch_silu_and_mul(").startswith("cuda::launch_")
    assert line("core/launch.h", "LaunchConfig").startswith("gridDim = ")
    assert line("core/launch.h", "text_of") == "if (error == cudaSuccess) {"
    assert line("core/launch.h", "nowhere").startswith("gridDim = ")
    # Another step's.
    assert source.find_named("07.2", "core/plan.h", "width") is None
    said = ["size := 2", "look at core/launch.h: text_of", "look at cuda_ops.cpp:"]
    failure = Failure("a text", context=said)
    assert failure.looks == [("core/launch.h", "text_of"), ("cuda_ops.cpp", "")]
    assert in_words(failure) == ["a text", "with: size = 2"]
    undone = Source(chapter, chapter.exercise)
    # Its TODO is shown.
    assert undone.find_named("07.2", "core/launch.h", "text_of") is None


def test_a_todo_of_the_step_comes_before_what_a_check_names(implementation):
    """One file is done, and what is not done in another makes the check fail."""
    mine = implementation("07")
    mine.become(starter_with(mine.chapter, "07.2"))
    failure = Failure("a text", context=[
        "look at core/launch.h: text_of", "look at cuda_ops.cpp: launch_silu_and_mul("])

    case = Case("07.2 a", "A sentence.", True, [failure])

    def find_place():
        source = Source(mine.chapter, mine.folder)
        found = diagnose(source, "07.2", Run(FAILED, "", [case]), case)
        return (found.place or source.place("07.2"))[0].name
    assert find_place() == "cuda_ops.cpp"
    shutil.copy(mine.chapter.exercise / "core/launch.h", mine.folder / "core")
    assert find_place() == "launch.h"



def test_a_text_that_is_empty_is_called_so():
    got = Failure("schema.returns() == \"()\"", '== ()')
    assert in_words(got) == ["schema.returns() is empty, and should be ()"]
    wanted = Failure("seen.size_list == none", "(3) ==")
    assert in_words(wanted) == ["seen.size_list is (3), and should be empty"]
    missed = Failure('said_error(text) == Contains("b")',
                     "(nothing was thrown) == Contains( b )")
    assert in_words(missed) == [
        "nothing was thrown; an error that names b was expected"]



def test_the_place_of_lines_that_were_deleted(implementation):
    """The place is where the missing lines belong."""
    mine = implementation("08")
    mine.become(starter_with(mine.chapter, "08.2"))
    file = mine.folder / "CMakeLists.txt"
    lines = file.read_text().splitlines(keepends=True)
    kept = [line for line in lines if "TODO(08.3)" not in line
            and "-static-libstdc++" not in line]
    file.write_text("".join(kept))
    assert len(kept) == len(lines) - 2
    found = Source(mine.chapter, mine.folder).find_named(
        "08.3", "CMakeLists.txt", "gnu-unique")
    assert found == (file, mine.line_of("CMakeLists.txt", "set(CMAKE_SKIP_RPATH ON)"))
