"""A learner's mistakes, made on purpose: each gets its class, its line and one
sentence of help."""

import dataclasses
import errno
import json
import os
import re
import shutil
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from base import building
from base.building import compiler, implementation_build
from base.hunks import starter_with
from base.project import BUILD, ROOT, read_source
from base.sheets import find_chapter
from learn import checking, screen, work
from learn.checking import (
    begin_tests,
    build_test,
    check,
    compilation,
    place_of_step,
    processes,
)
from learn.checking.source import Source
from learn.checking.verdict import DIVIDED, HELP, MISSING
from support import Implementation
from torch_stable_abi import files, programs
from torch_stable_abi.files import read_json, write_json
from torch_stable_abi.programs import CannotRun

CPP = "sizes.h"
ROUND = "  uint32_t bits = bit_cast<uint32_t>(value);\n"
SIZES = "  std::vector<int64_t> result = input.vec();\n"


def verdict_of(mine, kind, step, file, text):
    """Check, and compare class, step and place with what is expected."""
    verdict = mine.check()
    assert verdict.kind == kind, verdict
    assert verdict.step == step, verdict
    assert verdict.file.endswith("/" + file), verdict
    assert verdict.line == mine.line_of(file, text), verdict
    assert kind in HELP
    return verdict


def test_solution_passes(implementation):
    verdict = implementation("01").check()
    assert verdict.kind == "pass", verdict
    assert set(verdict.steps.values()) == {"pass"}


def test_bytes_that_are_no_utf8(implementation):
    """Such as those of a comment that an editor wrote in Latin-1."""
    mine = implementation("01")
    mine.replace("numerics.h", "constexpr float kMax = 57344;",
                 "constexpr float kMax = 1;")
    file = mine.folder / "numerics.h"
    file.write_bytes(file.read_bytes() + b"// r\xe9sum\xe9\n")
    verdict = mine.check()
    file.unlink()  # tests of others read it as UTF-8
    assert verdict.kind == "test" and verdict.step == "01.3", verdict


@pytest.mark.full
def test_options_of_the_environment_hide_no_leak(implementation, monkeypatch, capsys):
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=0")
    monkeypatch.setenv("ASAN_SYMBOLIZER_PATH", "/nowhere")
    mine = implementation("00").copy_of(find_chapter("00").solution)
    mine.replace("first_extension.cpp", "  return y;",
                 "  Tensor* leak = new Tensor(x);\n  (void)leak;\n  leak = nullptr;\n"
                 "  return y;")
    assert mine.check().kind == "leak"
    assert "ASAN_OPTIONS of your environment is left out" in capsys.readouterr().err


def test_a_file_that_keeps_changing(implementation, monkeypatch):
    from learn import checking
    mine = implementation("00")
    monkeypatch.setattr(checking, "CHANGING_SECONDS", 0)

    def change(*_):
        mine.write("run.log", str(time.monotonic_ns()))
        raise checking.Superseded
    monkeypatch.setattr(checking, "_check", change)
    try:
        with pytest.raises(checking.CannotRun, match="run.log keeps changing"):
            check(mine.chapter, mine.folder)
    finally:
        (mine.folder / "run.log").unlink()


def test_missing_semicolon(implementation):
    mine = implementation("01")
    mine.replace("numerics.h", "constexpr float kMax = 57344;",
                 "constexpr float kMax = 57344")
    verdict = verdict_of(
        mine, "compile", "01.3", "numerics.h",  # GCC points to the next line
        "kMax = 57344" if "clang" in compiler() else "value = value > kMax")
    assert "expected" in verdict.message[0]
    assert verdict.help == MISSING


def test_an_error_in_a_file_that_a_line_of_the_preprocessor_names(implementation):
    mine = implementation("00").copy_of(find_chapter("00").solution)
    file = "first_extension.cpp"
    mine.write(file, (mine.folder / file).read_text() +
               '#line 3 "nowhere.y"\nint f( {\n')
    verdict = mine.check()
    assert verdict.kind == "compile" and verdict.file.endswith("/" + file), verdict
    assert verdict.message[-1].startswith("at nowhere.y:3"), verdict


def test_a_file_that_an_editor_takes_away_again(tmp_path, monkeypatch):
    file = tmp_path / "4913"
    monkeypatch.setattr(checking, "source_files", lambda folder: [file])
    assert list(checking._sums(tmp_path, ROOT / "workbook")) == [""]


def test_a_verdict_is_not_kept_when_a_program_of_its_test_is_another(tmp_path):
    test, probe = tmp_path / "steps.py", tmp_path / "probes/load.py"
    probe.parent.mkdir()
    for file in (test, probe):
        file.touch()
    before = checking._sums(tmp_path, test)
    os.utime(probe, (time.time() + 1,) * 2)
    assert checking._sums(tmp_path, test)[""] != before[""]


def test_a_report_with_a_check_outside_of_a_case(tmp_path):
    from learn.checking.report import read
    file = tmp_path / "report.xml"
    file.write_text('<doctest><TestSuite><Expression success="false"></Expression>')
    assert not read(file)


def test_the_command_that_is_told_can_be_run(workbook, tmp_path):
    chapter = find_chapter("00")
    mine = tmp_path / "my own"
    mine.mkdir()
    for name, path in chapter.starter_files().items():
        shutil.copy(path, mine / name)
    done = workbook("check", "00", "--impl", mine)
    assert f"then run ./workbook check 00 --impl '{mine}'" in done.stdout


@pytest.mark.full
def test_error_that_nvcc_reports(implementation):
    import shutil
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc: ./workbook nvcc --fetch")
    mine = implementation("07")
    mine.replace("core/launch.h", "cudaGetErrorString(", "cudaGetErrorText(")
    verdict = mine.check()
    assert verdict.kind == "compile", verdict
    assert "cudaGetErrorText" in verdict.message[0]
    assert verdict.line == mine.line_of("core/launch.h", "cudaGetErrorText(")


@pytest.mark.full
def test_error_that_python_raises_in_a_build(implementation):
    mine = implementation("08")
    mine.replace("package.py", ".digest()).decode()", ".digest())")
    verdict = mine.check()
    assert verdict.kind == "compile", verdict
    assert verdict.message == \
        ["TypeError: Object of type bytes is not JSON serializable"]
    assert verdict.file.endswith("/package.py")


def told(mine, at, capsys, before=None):
    """Return what a learner reads who is at this step."""
    telling = screen.Telling(mine.chapter, "save it", before)
    telling.end(check(mine.chapter, mine.folder, at=at, tell=telling.tell))
    return capsys.readouterr().out


def test_steps_that_pass_at_once_are_all_told(implementation, capsys):
    mine = implementation("02")
    mine.become(starter_with(mine.chapter, "02.3"))
    said = told(mine, "02.2", capsys, before={"02.1": "pass", "02.2": "todo"})
    assert "Passes as well: 02.3\n" in said, said


def test_an_earlier_step_that_fails_comes_before_one_to_do(implementation, capsys):
    mine = implementation("02")
    mine.become(starter_with(mine.chapter, "02.2"))
    mine.replace("slot.h", "memcpy(&slot, &value, sizeof(T))",
                 "memcpy(&slot, &value, sizeof(T) - 1)")
    said = told(mine, "02.3", capsys)
    assert said.startswith("02.1 "), said
    assert "to do" not in said
    assert said.count("Edit ") == 1
    also = re.search(r"Fails as well.*: (.*)", said)  # and not those to do
    assert not also or also[1] == "02.2", said


@pytest.mark.full
def test_what_has_passed_is_not_blamed_for_what_was_changed_since(
        implementation, capsys):
    """An element of a list is released in step 02.7, and its tests run in 02.6."""
    mine = implementation("02")
    mine.become(starter_with(mine.chapter, "02.6"))
    assert mine.check().step == "02.7"
    mine.become(starter_with(mine.chapter, "02.7"))
    mine.replace("slot.h", "const OwnedSlot<T> owned(element);",
                 "Slot<T>::to(element);")
    said = told(mine, "02.7", capsys)
    assert said.startswith("02.7 "), said


def test_a_comment_that_is_left_over_is_no_step_to_do(implementation):
    mine = implementation("08")
    name = "torch-ext/torch_binding.cpp"
    define = "#define OPS TORCH_EXTENSION_NAME"
    mine.replace(name, define, "// TODO(08.2): this name is the same\n" + define)
    source = Source(mine.chapter, mine.folder)
    assert not source.is_undone("08.2")
    mine.replace(name, define, "#define OPS activation")
    assert source.is_undone("08.2")
    mine.replace(name, "// TODO(08.2): this name is the same\n", "")
    assert not source.is_undone("08.2")  # it is meant so


def test_a_pass_does_not_stand_before_what_fails(implementation, capsys):
    mine = implementation("01")
    mine.replace("sizes.h", "result.back() /= 2", "result.back() /= 3")
    assert told(mine, "01.1", capsys).startswith("01.5 ")


def test_an_assertion_sends_to_the_line_that_it_refuses(implementation):
    mine = implementation("03")
    mine.replace("stack_conventions.cpp", "std::vector<int64_t>{2, -1}", "2")
    verdict = mine.check()
    assert verdict.kind == "compile"
    assert verdict.file.endswith("stack_conventions.cpp"), verdict


def test_of_two_steps_that_fail_the_earlier_one_is_told_with_its_place(
        implementation, capsys):
    mine = implementation("01")
    mine.replace("sizes.h", "result.back() /= 2", "result.back() /= 3")
    said = told(mine, "01.7", capsys)
    assert said.startswith("01.5 ")
    edit = [line for line in said.splitlines() if line.startswith("Edit ")]
    assert len(edit) == 1 and "/sizes.h:" in edit[0]
    assert "Fails as well, maybe of the same cause: 01." in said


def test_the_arrow_is_at_the_step_that_is_told():
    """A fault of a later step may break an earlier one too."""
    steps = {"07.1": "pass", "07.2": "fail", "07.6": "fail"}
    assert screen.marks(steps, "07.6") == "07.1 ok  07.2 -   07.6 <-"


def test_undefined_symbol(implementation):
    mine = implementation("01")
    mine.replace("numerics.h", "// The nearest BFloat16, ties",
                 "uint32_t my_round(uint32_t bits);\n\n// The nearest BFloat16, ties")
    mine.replace("numerics.h", "  bits += 0x7fff + ((bits >> 16) & 1);",
                 "  bits = my_round(bits); // nobody defines it")
    verdict = mine.check()
    assert verdict.kind == "load", verdict
    assert verdict.message[0] == "undefined symbol: wb::my_round(unsigned int)"
    assert verdict.line == mine.line_of(
        "numerics.h", "uint32_t my_round(uint32_t bits);")


def test_out_of_bounds_write(implementation):
    mine = implementation("01")
    mine.replace(CPP, "  result.back() /= 2;\n",
                 "  result.data()[result.size()] = 2; // past the end\n")
    verdict = verdict_of(mine, "sanitizer", "01.5", CPP, "past the end")
    assert verdict.message[0].startswith("heap-buffer-overflow, WRITE of size 8")


def test_dangling_reference(implementation):
    mine = implementation("01")
    mine.replace(CPP, "inline std::vector<int64_t> output_sizes(",
                 "inline IntHeaderOnlyArrayRef output_sizes(")
    verdict = mine.check()
    assert verdict.kind == "sanitizer", verdict
    assert verdict.step == "01.5"
    assert "use-after-free" in verdict.message[0]


def test_a_line_of_the_starter_s_that_was_to_change(implementation):
    """It is nearer to the fault than what another step's lines call."""
    name = "headeronly_types.cpp"
    mine = implementation("01")
    mine.become(starter_with(mine.chapter, "01.6"))
    text = (mine.folder / name).read_text()
    check = text[text.index("  STD_TORCH_CHECK(\n      strides.equals"):
                 text.index("  for (int64_t row = 0;")]
    mine.replace(name, check, f"  (void)strides; // {time.time_ns()}\n")
    verdict_of(mine, "sanitizer", "01.7", name,
               "silu_and_mul_row(out, gate, gate + d, d, non_temporal);")


def test_undefined_behaviour(implementation):
    mine = implementation("01")
    mine.replace("numerics.h", ROUND, ROUND +
                 "  volatile int far = static_cast<int>(bits >> 1) * 4; // too far\n"
                 "  (void)far;\n")
    verdict = verdict_of(mine, "sanitizer", "01.2", "numerics.h", "too far")
    assert "signed integer overflow" in verdict.message[0]


def test_leak(implementation):
    mine = implementation("01")
    mine.replace(CPP, SIZES, "  auto* lost = new std::vector<int64_t>(input.vec());"
                 " // leaked\n  std::vector<int64_t> result = *lost;\n")
    verdict = verdict_of(mine, "leak", "01.5", CPP, "// leaked")
    assert "block(s) of" in verdict.message[0]


@pytest.mark.full
def test_an_exception_that_names_its_place(implementation):
    """The step at which the learner is meets it as well; the earlier one is told."""
    mine = implementation("01")
    assert mine.check().kind == "pass"
    mine.replace("dispatch.h", "AT_EXPAND(AT_FLOATING_TYPES),", "ScalarType::Float,")
    told = []
    found = check(mine.chapter, mine.folder, at="01.7", tell=told.append)
    assert [v.step for v in (*told, found)] == ["01.6", "01.6"]
    assert all(v.file.endswith("/dispatch.h") for v in (*told, found)), told
    assert told[0].line == mine.line_of("dispatch.h", "ScalarType::BFloat16);")


@pytest.mark.full
def test_a_test_is_built_anew_after_another_was_by_another_compiler(monkeypatch):
    """Else one sanitizer's run time loads the library of the other's."""
    chapter, built = find_chapter("00"), []
    build_test(chapter)
    monkeypatch.setattr("learn.checking.build_root",
                        lambda preset, targets: built.extend(targets))
    assert build_test(chapter) and not built
    time.sleep(0.05)  # or both would have one time
    os.utime(BUILD / "learn/configured_for.txt")  # as the other's check does
    assert build_test(chapter) and built == [f"{chapter.name}_test"]


@pytest.fixture
def two_seconds(monkeypatch):
    """Not ten are what a case may take, by tests that begin now."""
    monkeypatch.setattr(processes, "CASE_SECONDS", 2)
    monkeypatch.setattr(Implementation, "tests", None)
    yield
    if Implementation.tests:
        Implementation.tests.end()


@pytest.mark.full
def test_a_compilation_without_an_end(implementation, monkeypatch):
    mine = implementation("00").copy_of(find_chapter("00").solution)
    mine.check()  # what is precompiled is there
    file = "first_extension.cpp"
    mine.write(file, (mine.folder / file).read_text() +
               "template <int N, long I> struct Twice {\n"
               "  static const int n = Twice<N - 1, 2 * I>::n"
               " + Twice<N - 1, 2 * I + 1>::n;\n};\n"
               "template <long I> struct Twice<0, I> { static const int n = 1; };\n"
               "const int endless = Twice<50, 1>::n;\n")
    monkeypatch.setattr(compilation, "COMPILER_SECONDS", 2)
    with pytest.raises(CannotRun, match="not compiled within 2 s"):
        mine.check()
    assert not [p for p in psutil.process_iter(["cmdline"])
                if str(mine.folder / file) in (p.info["cmdline"] or [])]


@pytest.mark.full
def test_endless_loop(implementation, two_seconds):
    mine = implementation("01")
    mine.replace(CPP, SIZES, SIZES +
                 "  for (size_t i = 0; i < 8;) result[0] += 8; // for ever\n")
    verdict = verdict_of(mine, "timeout", "01.5", CPP, "for ever")
    assert verdict.message == ["no end after 2 s"]


@pytest.mark.full
def test_the_line_that_loops_is_in_another_step_s_file(
        implementation, two_seconds):
    mine = implementation("01")
    mine.replace("numerics.h", "  const auto y = static_cast<compute_t<T>>(up);\n",
                 "  const auto y = static_cast<compute_t<T>>(up);\n"
                 "  for (volatile int i = 0; i < 1; i = 0) {} // for ever\n")
    verdict = check(mine.chapter, mine.folder, at="01.7")
    assert verdict.kind == "timeout", verdict
    assert verdict.file.endswith("numerics.h"), verdict
    assert verdict.line == mine.line_of("numerics.h", "for ever"), verdict


@pytest.mark.full
def test_a_step_that_fails_only_after_another(implementation):
    """Alone it passes: what outlives the other's call is what is wrong."""
    mine, entry = implementation("01"), "headeronly_types.cpp"
    mine.replace(entry, "// The value of 16 bits, taken as a BFloat16.\n",
                 "static bool widened = false;\n")
    mine.replace(entry, "  return wb::widen_bfloat16(bits);",
                 "  widened = true;\n  return wb::widen_bfloat16(bits);")
    mine.replace(entry, "  std::copy(result.begin(), result.end(), out);",
                 "  std::copy(result.begin(), result.end(), out);\n"
                 "  *out += widened;")
    verdict = check(mine.chapter, mine.folder, at="01.7")
    assert (verdict.kind, verdict.step) == ("test", "01.5"), verdict
    assert "[2, 3]" in " ".join(verdict.message), verdict


def test_crash(implementation):
    mine = implementation("01")
    mine.replace(CPP, SIZES, SIZES +
                 "  volatile int64_t* nowhere = nullptr;\n"
                 "  __builtin_trap(); // the end\n  (void)nowhere;\n")
    verdict = verdict_of(mine, "crash", "01.5", CPP, "the end")
    assert "ILL" in verdict.message[0]
    assert dataclasses.replace(verdict, message=["ended by FPE"]).help == DIVIDED


@pytest.mark.full
def test_what_may_be_the_machine_s_doing_is_looked_at_again(implementation, tmp_path):
    """The system ends processes where memory lacks: the same files may pass later."""
    mine = implementation("00").copy_of(find_chapter("00").solution)
    lack = tmp_path / "lack of memory"
    lack.touch()
    mine.replace("first_extension.cpp", "#include <cmath>",
                 "#include <cmath>\n#include <csignal>\n#include <unistd.h>")
    mine.replace("first_extension.cpp", "  return y;",
                 f'  if (access("{lack}", F_OK) == 0) raise(SIGKILL);\n  return y;')
    assert mine.check().kind == "crash"
    lack.unlink()
    assert mine.check().passed


def test_null_pointer(implementation):
    mine = implementation("01")
    mine.replace(CPP, SIZES, SIZES +
                 "  volatile int64_t* nowhere = nullptr;\n"
                 "  result[0] = *nowhere; // null\n")
    verdict = verdict_of(mine, "crash", "01.5", CPP, "// null")
    assert verdict.message == ["ended by SEGV, at a null pointer"]
    assert verdict.printed == []  # what the sanitizer says first is not theirs


@pytest.mark.parametrize("file, old, new, line, text", [
    ("boxed_kernels.cpp", "IMPL(wb04, CPU, m)",
     "IMPL(wb04, Cpu, m)", "IMPL(wb04, Cpu, m)", "ended by SEGV"),
    ("boxed_kernels.cpp", "silu_and_mul(Tensor input) ->",
     "silu_and_mul(tensor input) ->",
     "silu_and_mul(tensor input) ->",
     "aoti_torch_library_def"),
])
def test_mistake_in_a_registration(implementation, file, old, new, line, text):
    mine = implementation("04")
    mine.replace(file, old, new)
    verdict = mine.check()
    assert verdict.kind == "load", verdict
    assert verdict.line == mine.line_of(file, line), verdict
    assert text in " ".join(verdict.message)


def test_wrong_value(implementation):
    mine = implementation("01")
    mine.replace("numerics.h", "  bits += 0x7fff + ((bits >> 16) & 1);\n",
                 "  bits += 0x8000;\n")
    verdict = mine.check()
    assert (verdict.kind, verdict.step) == ("test", "01.2")
    assert "rounded(0x1.01p0f) is 1.00781, and should be 1" in verdict.message


def test_a_step_that_passes_alone_is_not_told_of(implementation, monkeypatch):
    """It ran into its limit while the machine had much to do."""
    mine = implementation("01")
    mine.replace("numerics.h", "value > kMax ? kMax", "value < kMax ? kMax")
    run = processes.Tests.run

    def run_slowly(own, steps):
        found = run(own, steps)
        if list(steps) == ["01.1", "01.2"]:
            found.cases[0].ended = False
            found.status = processes.TIMED_OUT
        return found
    monkeypatch.setattr(processes.Tests, "run", run_slowly)
    verdict = check(mine.chapter, mine.folder, at="01.3")
    assert (verdict.kind, verdict.step) == ("test", "01.3"), verdict
    assert verdict.steps["01.1"] == "pass", verdict


def test_the_place_is_what_the_sentence_begins_with():
    """A step is edited at several places, and the sentence names one."""
    chapter = find_chapter("05")

    def line(step, sentence):
        file, number = place_of_step(chapter, chapter.solution, step, sentence)
        return file.read_text().splitlines()[number - 1].strip()
    first = "inline constexpr OpDecl<Tensor(Tensor, MaybeTensor, MaybeTensor)> "
    assert line("05.5", "") == first + "clamp_tensor{"
    assert line("05.5", "A result is wrong.") == first + "clamp_tensor{"
    assert line("05.5", "add is wrong.").startswith("AtenTensorHandle result")
    assert "maximum_out{" in line("05.4", "maximum_out is declared wrongly.")
    assert line("05.2", "operator() calls nothing.").startswith("static_cast<void>")


@pytest.mark.full
def test_the_place_is_where_the_check_says(implementation):
    """The step has two places in this file, and LOOK_AT says which."""
    mine = implementation("02")
    mine.replace("slot.h", "&slot, sizeof(T)); // NOLINT: likewise", "&slot, 1);")
    verdict_of(mine, "test", "02.1", "slot.h", "  T value;")


def test_a_long_drawing_shows_what_is_wrong():
    slots = [f"    slot {i}  argument Tensor: released once" for i in range(9)]
    assert screen.fold(["  op", *slots[:7]]) == ["  op", *slots[:7]]
    slots[3] = "    slot 3  argument Tensor: <- released twice"
    assert screen.fold(["  op", *slots]) == [
        "  op", "    (3 that are as they should be)", slots[3],
        "    (5 that are as they should be)"]


@pytest.mark.full
def test_what_a_noexcept_function_throws(implementation):
    """The frame is at its }."""
    mine = implementation("02")
    mine.replace("slot.h", "const OwnedSlot<T> owned(element); // released",
                 "if (element != 0) {\n        Slot<T>::to(element);\n      } //")
    verdict = verdict_of(mine, "crash", "02.7", "slot.h", "  Slot<T>::to(element);")
    assert verdict.message == [
        "ended by ABRT", "what():  codes.h:121: no ScalarType has the code 888"]
    assert "noexcept" in verdict.help and verdict.printed == []


def test_what_the_code_prints_is_shown(implementation, capsys):
    mine = implementation("01")
    mine.replace("numerics.h", "<cmath>", "<cmath>\n#include <cstdio>")
    mine.replace("numerics.h", "  bits += 0x7fff + ((bits >> 16) & 1);\n",
                 "  static int n = 0;\n"
                 "  if (++n <= 12) std::printf(\"print %d\\n\", n);\n"
                 "  bits += 0x8000;\n")
    verdict = check(mine.chapter, mine.folder, at="01.2")
    screen.show_verdict(mine.chapter, verdict, "save it")
    shown = capsys.readouterr().out
    assert "Your code printed 12 lines; the last 10:\n    print 3\n" in shown
    log = (ROOT / verdict.log).read_text()  # of this step, and all of it
    assert "print 1\n" in log and "rounded(0x1.01p0f)" in log, log
    assert "01.3" not in log and "TODO" not in log


def test_slot_that_leaks_is_drawn(implementation):
    """The verdict says in what scenario and in which slot, without a word of the test's
    code."""
    mine = implementation("03")
    mine.replace("stack.h", "{Slot<T>::to(owned.next())...}",
                 "{Slot<T>::to(slots[i++])...}")
    mine.replace("stack.h", "OwnedSlots<T...> owned{slots, 0, sizeof...(T)};",
                 "size_t i = 0;")
    verdict = mine.check()
    assert (verdict.kind, verdict.step) == ("test", "03.5"), verdict
    text = "\n".join(verdict.message)
    assert "slot 1 cannot be converted" in text
    assert "slot 2  argument Tensor[]: <- never released" in text
    assert "watch(" not in text and "==" not in text, text


def test_cmake_error(implementation):
    mine = implementation("01")
    mine.replace("CMakeLists.txt", "target_compile_features(",
                 "target_compile_feature(")
    verdict = mine.check()
    assert verdict.kind == "configure", verdict
    assert verdict.line == mine.line_of(
        "CMakeLists.txt", "target_compile_feature(")
    assert verdict.message == [
        '(target_compile_feature): Unknown CMake command "target_compile_feature".']
    mine.replace("CMakeLists.txt", "target_compile_feature(",
                 "target_compile_features(")
    mine.replace("CMakeLists.txt", "add_library(headeronly_types SHARED",
                 "add_library(headeronly_types SHARED none.cpp")
    assert "Cannot find source file: none.cpp" in mine.check().message[0]
    assert implementation("01").check().kind == "pass"  # and mended


@pytest.mark.full
def test_an_error_says_which_library_and_target_it_is_of(implementation):
    mine = implementation("06")
    mine.replace("compat.h", "#if COMPAT_TARGET(2, 11)", "#if COMPAT_HEADERS(2, 11)")
    verdict = mine.check()
    assert "in: libversion_gating.so, which targets 2.10" in verdict.message
    mine = implementation("01")  # has one library
    mine.replace(CPP, SIZES, "no C++;\n")
    assert not [line for line in mine.check().message if line.startswith("in: ")]


@pytest.mark.full
def test_a_first_check_compiles_each_file_once(implementation):
    mine = implementation("01")
    mine.replace(CPP, SIZES, SIZES + "  int unused;\n")
    build = building.implementation_build(mine.folder)
    shutil.rmtree(build, ignore_errors=True)
    verdict = mine.check()
    assert verdict.passed and "unused" in "".join(verdict.notes), verdict
    made = [line.split("\t")[3] for line in
            (build / ".ninja_log").read_text().splitlines()[1:]]
    objects = [name for name in made if name.endswith(".cpp.o")]
    assert objects and sorted(objects) == sorted(set(objects)), objects


def test_a_torch_that_is_installed_anew_is_built_for_anew(tmp_path, monkeypatch):
    header = tmp_path / "include/torch/headeronly/version.h"
    header.parent.mkdir(parents=True)
    header.touch()
    monkeypatch.setattr(building, "torch_root", lambda: tmp_path)
    with building.configuring(tmp_path, "c++"):
        (tmp_path / "build.ninja").touch()
    assert building.is_configured(tmp_path, "c++")
    date = header.stat().st_mtime_ns
    header.unlink()
    header.touch()
    os.utime(header, ns=(date, date))  # as pip does
    assert not building.is_configured(tmp_path, "c++")


def test_flags_of_the_environment_are_not_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("CXXFLAGS", "-fno-exceptions")
    with building.configuring(tmp_path, "c++"):
        (tmp_path / "build.ninja").touch()
    assert building.is_configured(tmp_path, "c++")
    monkeypatch.delenv("CXXFLAGS")
    assert not building.is_configured(tmp_path, "c++")


def test_a_new_configuration_finds_no_older_one(tmp_path):
    """Nor in the projects inside, such as the solutions, which have caches as well."""
    old = [tmp_path / name for name in
           ("CMakeCache.txt", "solutions/07/CMakeCache.txt", "tests/07/done")]
    for file in old:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    with building.configuring(tmp_path, "c++"):
        assert [file for file in old if file.exists()] == []


def test_two_write_a_file_at_once(tmp_path):
    """A first check does so: one process builds the tests, another the learner's
    files."""
    file = tmp_path / "clang.json"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: write_json(file, {"n": n}), range(800)))
    assert read_json(file)["n"] in range(800)
    assert list(tmp_path.iterdir()) == [file]


def test_json_and_exit_status(implementation, workbook):
    mine = implementation("01")
    done = workbook("check", "01", "--impl", mine.folder, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["kind"] == "pass"
    mine.replace("numerics.h", "57344", "40000")
    done = workbook("check", "01.2", "--impl", mine.folder)
    assert done.returncode == 0, done.stdout  # 01.2 still passes
    done = workbook("check", "01.3", "--impl", mine.folder)
    assert done.returncode == 1
    edit, = [s for s in done.stdout.splitlines() if s.startswith("Edit ")]
    assert "numerics.h:" in edit and "./workbook check 01 --impl" in edit
    assert max(len(s) for s in done.stdout.splitlines() if s != edit) <= 80


@pytest.mark.parametrize("arguments, text", [
    (["check", "17"], "there is no chapter 17"),
    (["check", "01.9"], "chapter 01 has no step 01.9"),
    (["check", "--impl", "/tmp"], "--impl needs a chapter"),
    (["check", "01", "--impl", "/nowhere"], "--impl /nowhere: there is no such folder"),
    (["check", "00.2"], "chapter 00 has no step 00.2: it has 00.1 alone"),
    (["check", "00", "--impl", "solutions/01_headeronly_types"],
     "is of chapter 01: ./workbook check 01 --impl solutions/01_headeronly_types"),
    (["demo", "00", "--torch", "new"], "must be a version such as 2.12.1, got new"),
    (["schemas", ".", "--torch", "new"], "must be a version such as 2.12.1, got new"),
    (["schemas", "LICENSE"], "/LICENSE is no ELF file, as a shared"),
    (["new", "my_ops", "--from", "04", "LICENSE/x"], "/LICENSE is no folder, so"),
    (["grade", ".", "--json", "/nowhere/g"], "--json: there is no folder /nowhere"),
    (["bench", "00", "--json", "/"], "--json: / is a folder, where a file is expected"),
    (["bench", "00", "--limits"], "--limits and --peer are of chapter 08"),
    (["nvcc", "nonesuch"], "no nonesuch is here"),
    (["trace", "--", "./LICENSE"], "./LICENSE is no program that can be run: chmod +x"),
    (["check", "01", "--impl", "/tmp"], "/tmp is no implementation: it has no CMake"),
])
def test_bad_arguments(workbook, arguments, text):
    done = workbook(*arguments)
    assert done.returncode == 2
    assert text in done.stderr


def test_a_save_in_a_check_ends_it(implementation):
    """The verdict is on the newer text, and the older is told of nowhere."""
    mine = implementation("01")
    mine.replace("numerics.h", "57344", f"57000 /* {time.time_ns()} */")
    told = []

    def save_newer():
        mine.replace("numerics.h", "57000", "57344")  # the older text's fault
        mine.replace("numerics.h", "(bits) << 16", "(bits) << 15")
    timer = threading.Timer(0.15, save_newer)
    timer.start()
    verdict = check(mine.chapter, mine.folder, tell=told.append)
    timer.join()
    assert (verdict.kind, verdict.step) == ("test", "01.1"), verdict
    assert not [v for v in told if v.step == "01.3" and not v.passed], told
    assert check(mine.chapter, mine.folder).step == "01.1"


@pytest.mark.full
def test_tests_do_not_serve_a_chapter_whose_own_are_not_built(implementation):
    mine = implementation("01")
    assert mine.check().passed
    kept = begin_tests(mine.chapter, mine.folder, None)
    assert kept
    assert kept.can_serve(kept.test, kept.build)
    assert not kept.can_serve(kept.test.with_name("none"), kept.build)
    kept.end()


# --- the machine, and names ---------------------------------------------------------


@pytest.mark.parametrize("character", building.CMAKE_CANNOT_BEAR)
def test_a_folder_that_cmake_cannot_bear(tmp_path, character):
    """The same characters as in the name of a checkout, but for brackets."""
    folder = tmp_path / f"a{character}b"
    shutil.copytree(find_chapter("00").solution, folder)
    with pytest.raises(CannotRun, match="CMake cannot bear the name of the folder"):
        check(find_chapter("00"), folder)


@pytest.mark.parametrize("value, said", [
    ("/nowhere/c++", "CXX=/nowhere/c++: there is no such program"),
    ("nowhere-c++ -O1", "CXX=nowhere-c++ -O1: there is no such program"),
    ("g++ '", "CXX=g++ ': No closing quotation; unset CXX, or mend its quotes"),
    ("cc", "CXX=cc links no program of C++"), (" ", "there is no such program"),
    ("c++ -O1", "")])
def test_a_compiler_of_the_environment(monkeypatch, value, said):
    monkeypatch.setenv("CXX", value)
    building.chosen_compiler.cache_clear()
    try:
        if said:
            with pytest.raises(CannotRun, match=re.escape(said)):
                building.chosen_compiler()
        else:
            assert building.chosen_compiler() == value
    finally:
        building.chosen_compiler.cache_clear()


@pytest.mark.parametrize("name, value, why", [
    ("CXXFLAGS", "-nonsense", "'-nonsense'"), ("LDFLAGS", "-lnonsense", "nonsense"),
    ("CMAKE_TOOLCHAIN_FILE", "/nowhere", "Could not find toolchain file: /nowhere")])
def test_what_the_environment_tells_cmake_is_named(
        tmp_path, monkeypatch, name, value, why):
    folder = tmp_path / "00"
    shutil.copytree(find_chapter("00").solution, folder)
    building.build_root("learn", ["00_first_extension_test"])
    monkeypatch.setenv(name, value)
    with pytest.raises(CannotRun, match=f"unset {name}={value}\n.*{why}"):
        check(find_chapter("00"), folder)
    assert (BUILD / "learn/tests/00_first_extension_test").exists()  # not removed


def test_what_the_environment_tells_a_build_that_fails_is_named(monkeypatch):
    monkeypatch.setenv("CXXFLAGS", "-fno-exceptions")
    monkeypatch.setenv("LD_PRELOAD", "libno.so")
    with pytest.raises(CannotRun, match="a build fails, .* unset (.*=-fno-exceptions|"
                       "LD_PRELOAD=libno.so|, ){3}\nmain.cpp:1:1: error: cannot use"), \
            building.blaming_environment("a build fails"):
        raise CannotRun("Building: failed\nmain.cpp:1:1: error: cannot use 'throw'")


@pytest.mark.full
def test_flags_of_the_environment_are_named_where_no_library_is_linked(
        implementation, monkeypatch):
    mine = implementation("00").copy_of(find_chapter("00").solution)
    build_test(find_chapter("00"))
    monkeypatch.setattr(checking, "build_test", checking._test_of)
    monkeypatch.setenv("LDFLAGS", "-static")
    verdict = mine.check()
    assert verdict.kind == "link", verdict
    assert verdict.notes == ["your environment has LDFLAGS=-static: if that is not "
                             "meant, unset it"]


@pytest.mark.full
def test_what_was_cut_off_is_built_anew(tmp_path):
    """A full disk, or a power failure, leaves a part of the test, or no build.ninja."""
    folder = tmp_path / "00"
    shutil.copytree(find_chapter("00").solution, folder)
    assert check(find_chapter("00"), folder).passed
    (building.implementation_build(folder) / "build.ninja").unlink()
    test = BUILD / "learn/tests/00_first_extension_test"
    begin = test.read_bytes()[:100]
    test.unlink()  # it may be running
    test.write_bytes(begin)
    test.chmod(0o755)
    file = folder / "first_extension.cpp"
    file.write_text(file.read_text() + "// changed\n")
    with pytest.raises(CannotRun, match="00_first_extension_test was cut off, and is "
                                        "removed: run this again"):
        check(find_chapter("00"), folder)
    assert check(find_chapter("00"), folder).passed


@pytest.mark.full
@pytest.mark.parametrize("change", [
    lambda text: "", lambda text: "message(STATUS hi)\n",
    lambda text: text.replace(" SHARED ", " STATIC ")])
def test_a_library_that_is_built_no_more_is_not_tested(implementation, change):
    mine = implementation("00")
    assert mine.check().passed
    for name, path in find_chapter("00").starter_files().items():
        shutil.copy(path, mine.folder / name)
    file = mine.folder / "CMakeLists.txt"
    file.write_text(change(file.read_text()))
    verdict = mine.check()
    assert not verdict.passed and verdict.kind != "test", verdict


DAEMON = "daemon_of_a_check"  # its name among the processes


@pytest.mark.full
def test_a_daemon_ends_with_the_check(implementation):
    mine = implementation("00")
    file = mine.folder / "first_extension.cpp"
    file.write_text("#include <unistd.h>\n" + file.read_text() + f"""
__attribute__((constructor)) static void begin() {{
  if (fork() == 0) {{ setsid(); execlp("sleep", "{DAEMON}", "987", nullptr); }}
}}
""")
    (building.implementation_build(mine.folder) / "verdict.json").unlink(True)
    try:
        subprocess.run([ROOT / "workbook", "check", "00", f"--impl={mine.folder}"],
                       stdout=subprocess.PIPE, timeout=60)
        assert subprocess.run(["pgrep", "-f", f"^{DAEMON} 987"]).returncode == 1
    finally:
        subprocess.run(["pkill", "-f", f"^{DAEMON} 987"])


def test_a_large_file_is_not_read(tmp_path):
    file = tmp_path / "large.cpp"
    with open(file, "wb") as large:
        large.truncate(2**40)  # a hole, which would take an hour to read
    before = checking._sum(file)
    os.utime(file, (1, 1))
    assert checking._sum(file) != before
    assert work.find_given(tmp_path) == set()
    with pytest.raises(CannotRun, match="large.cpp has more than 16 MiB"):
        read_source(file)


@pytest.mark.full
@pytest.mark.parametrize("what, passes", [("", True), ("new float[9];", True),
                                          ("return x;", False)])
def test_where_leaks_cannot_be_looked_for(tmp_path, what, passes):
    """The verdict is that of the cases, with a note."""
    alone = tmp_path / "alone"
    subprocess.run(["cc", "-o", alone, ROOT / "tests/tool/without_ptrace.c"],
                   check=True)
    solution = find_chapter("00").solution
    shutil.copytree(solution, tmp_path / solution.name)
    source = tmp_path / solution.name / "first_extension.cpp"
    source.write_text(re.sub(r"(Tensor silu\(.*\{\n)", rf"\1  {what}\n",
                             source.read_text(), count=1))
    assert what in source.read_text()
    done = subprocess.run([alone, ROOT / "workbook", "check", "00", "--impl",
                           tmp_path / solution.name], text=True, capture_output=True)
    assert (done.returncode == 0) == passes, done.stdout
    assert ("leaks were not checked: no LeakSanitizer here" in done.stdout) == passes


@pytest.mark.full
@pytest.mark.parametrize("make", ["mkdir", "mkfifo", "ln -s /dev/zero"])
def test_a_report_that_the_code_has_replaced(implementation, make):
    mine = implementation("00")
    text = (mine.folder / "first_extension.cpp").read_text()
    report = implementation_build(mine.folder) / "report.xml"
    (mine.folder / "first_extension.cpp").write_text(
        '#include <cstdlib>\n__attribute__((constructor)) static void replace() {\n'
        f'  std::system("rm \'{report}\'; {make} \'{report}\'");\n}}\n' + text)
    assert not mine.check().passed
    (mine.folder / "first_extension.cpp").write_text(text + "// again\n")
    assert mine.check().passed


@pytest.mark.parametrize("fullest", ["the checkout", "TMPDIR"])
def test_the_disk_that_is_full_is_named(tmp_path, monkeypatch, fullest):
    temporary = str(tmp_path)
    monkeypatch.setenv("TMPDIR", temporary)
    monkeypatch.setattr(programs.shutil, "disk_usage", lambda folder: SimpleNamespace(
        free=0 if (str(folder) == temporary) == (fullest == "TMPDIR") else 2**33))
    with pytest.raises(CannotRun) as error:
        programs.look_for_full_disk("/tmp/a.s: No space left on device")
    assert (f"the disk of {temporary} is full; free some, or set TMPDIR"
            in str(error.value)) == (fullest == "TMPDIR")


def test_a_file_that_cannot_be_written_is_named_and_leaves_nothing(
        tmp_path, monkeypatch):
    def fail(path, *arguments, **options):
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device", str(path))
    monkeypatch.setattr(Path, "write_text", fail)
    with pytest.raises(OSError) as error:
        files.write_file(tmp_path / "hints.json", "{}")
    assert error.value.filename == str(tmp_path / "hints.json")
    assert not list(tmp_path.iterdir())
