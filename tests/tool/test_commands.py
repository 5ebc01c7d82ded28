"""Every command that --help lists, run to its end in a copy of the checkout."""

import argparse
import os
import re
import shutil
import subprocess

import pytest

import cli
from base.project import BUILD, ROOT
from base.sheets import chapters, find_chapter
from learn import demos
from learn.commands import demo
from support import build_alone, copy_checkout, copy_solution
from torch_stable_abi.libtorch.installed import torch_root, torch_version
from torch_stable_abi.libtorch.versions import numbers
from torch_stable_abi.programs import CannotRun
from upkeep.commands import tour

# A program that makes a string of libtorch's, and releases it.
USES_THE_SHIM = """
import ctypes, os
ctypes.CDLL(os.environ["TORCH_ROOT"] + "/lib/libtorch_cpu.so", ctypes.RTLD_GLOBAL)
process, text = ctypes.CDLL(None), ctypes.c_void_p()
process.torch_new_string_handle(b"a", ctypes.c_size_t(1), ctypes.byref(text))
process.torch_delete_string(text)
"""
LIBRARY = "build/release/solutions/00_first_extension/libfirst_extension.so"
# What each is run with, and what it then says. A command that is missing here
# fails below.
RUNS = {
    "check": (["01", "--impl", "solutions/01_headeronly_types"],
              "all 7 steps pass"),
    "hint": (["01.1"], "hint 1 of"),
    "diff": (["01.2"], "--- yours/"),
    "mistakes": (["01.5", "--all"], "01.5 "),
    "give": (["01.2"], "is the solution's"),
    "reset": (["01.2"], "is the starter's again"),
    "debug": (["01.2"], "value = "),
    "py": (["01"], "torch.ops.wb01"),
    "list": ([], "08 Hub packaging"),
    "demo": (["00"], "On libtorch 2.11.0"),
    "tour": ([], "Read on in solutions/"),
    "new": (["my_ops", "--from", "04", "build/my_ops"], "my_ops is made"),
    "schemas": (["solutions/05_torch_call_dispatcher"], " fit"),
    "audit": ([str(torch_root() / "lib/libtorch_global_deps.so")],
              "takes nothing of it"),
    "port": (["solutions/09_port_an_extension/original"], "21 left"),
    "compare": ([LIBRARY, LIBRARY, "tests/port/cases_of_00.py"],
                "2 the same, 0 differ"),
    "trace": (["--summary", "--", "python3", "-c", USES_THE_SHIM], "0 errors"),
    "archive": (["build/workbook.tar", "--without", "torch", "--without", "hub",
                 "--without", "cuda", "--without", "audit", "--without", "port"],
                "workbook.tar: "),
    "grade": (["solutions/01_headeronly_types"], "7/7"),
    "test": (["--", "tests/tool/test_ratios.py", "-k", "ratio"], " passed"),
    # Without a library it is a part of ./workbook test --full.
    "matrix": (["2.10.0", LIBRARY], "1 of 1 versions"),
    "bench": (["01", "--quick"], "solution"),
    "docs": (["--check"], "up to date"),  # the book is built in test_docs
    "carry": ([], "carried files are as their owners"),
    "doctor": ([], "torch "),
    "nvcc": (["--fetch"], "nvcc"),
}
FAILS = {"diff"}  # like diff: 1 where something differs
# These leave nothing but builds, which other tests share: they run here.
HERE = {"tour", "matrix", "compare", "bench"}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    folder = copy_checkout(tmp_path_factory.mktemp("commands") / "workbook")
    for words in (["init", "-q"], ["add", "-A"]):  # for archive
        subprocess.run(["git", "-C", folder, *words], check=True)
    return folder


def call(checkout, *words):
    return subprocess.run(
        [checkout / "workbook", *words], cwd=checkout, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT)


def test_help_lists_each_with_a_line(workbook):
    done = workbook("--help")
    assert done.returncode == 0
    listed = re.findall(r"^  (\w+) {2,}\S.*$", done.stdout, re.M)
    assert [n for n in listed if n in cli.list_names()] == cli.list_names()
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert set(RUNS) == set(cli.list_names())


@pytest.mark.full
@pytest.mark.parametrize("name", cli.list_names())
def test_help_of_a_command(workbook, name):
    done = workbook(name, "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: ./workbook {name}")


def test_a_command_that_is_none(workbook):
    done = workbook("nonesuch")
    assert done.returncode == 2
    assert "there is no command nonesuch" in done.stderr


@pytest.mark.full
@pytest.mark.parametrize("name", cli.list_names())
def test_runs_to_its_end(checkout, name):
    words, said = RUNS[name]
    done = call(ROOT if name in HERE else checkout, name, *words)
    assert done.returncode == (1 if name in FAILS else 0), done.stdout[-4000:]
    assert said in done.stdout, done.stdout[-4000:]
    assert "Traceback" not in done.stdout


@pytest.mark.full
def test_a_solution_that_fails_on_tour(monkeypatch, tmp_path):
    chapter = find_chapter("00")
    file = copy_solution(chapter, tmp_path / "copy") / "first_extension.cpp"
    text = file.read_text()
    assert text.count("std::exp(-in[i])") == 1
    file.write_text(text.replace("std::exp(-in[i])", "std::exp(in[i])"))
    build_alone(file.parent, tmp_path / "release/solutions" / chapter.name)
    (tmp_path / "release/tests").symlink_to(BUILD / "release/tests")
    monkeypatch.setattr(tour, "BUILD", tmp_path)
    monkeypatch.setattr(tour, "build_root", lambda preset, targets: None)
    assert tour.run_tests(chapter) == (False, "FAILED: 00.1 silu of each element")


@pytest.mark.full
def test_yours_is_measured_where_the_tests_bring_a_probe(checkout):
    chapter = find_chapter("03")
    shutil.copytree(chapter.solution, checkout / "my" / chapter.name,
                    dirs_exist_ok=True, copy_function=shutil.copy)
    done = call(checkout, "bench", "03", "--yours", "--quick")
    assert done.returncode == 0, done.stdout[-4000:]
    assert "stack.h" in done.stdout


@pytest.mark.full
def test_debug_stops_in_a_loop_where_there_is_something(checkout):
    chapter = find_chapter("04")
    shutil.copytree(chapter.solution, checkout / "my" / chapter.name,
                    dirs_exist_ok=True, copy_function=shutil.copy)
    # It is where debug stops: of the two files of the step, the one saved last.
    (checkout / "my" / chapter.name / "silu_and_mul_backward_row.cpp").touch()
    done = call(checkout, "debug", "04.5")
    assert done.returncode == 0, done.stdout[-4000:]
    assert "Switching to Thread" not in done.stdout
    assert re.search(r"span<.*\(n=[1-9]", done.stdout), done.stdout[-4000:]
    assert "\nx = " in done.stdout  # not optimised out


@pytest.mark.full
def test_demo_without_a_network_shows_what_was_recorded(workbook, tmp_path):
    done = workbook("demo", "00", XDG_CACHE_HOME=str(tmp_path), PIP_NO_INDEX="1")
    assert done.returncode == 0, done.stderr
    size, _, recorded = done.stdout.partition("*recorded*, not run now:")
    assert "0.5 to 0.9 GB" in size and "could not be fetched" in size
    assert recorded.strip() == demos.recording("00").read_text().strip()


@pytest.mark.full
def test_demo_06_is_wrong_then_right(workbook):
    done = workbook("demo", "06")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "runs on 2.10.0" in done.stdout
    assert "#error" in done.stdout.splitlines()[-2]
    if numbers(torch_version()) < (2, 15):  # whose headers refuse it themselves
        assert "targets 2.16.0" in done.stdout
        assert "undefined symbol: torch_from_blob" in done.stdout


@pytest.mark.full
@pytest.mark.skipif(numbers(torch_version()) < (2, 13),
                    reason="recorded with 2.13, where the rule changed")
@pytest.mark.parametrize("number", ["01", "02", "03", "04", "05", "07", "08", "09"])
def test_a_demo_shows_what_its_page_shows(workbook, number):
    done = workbook("demo", number)
    assert done.returncode == 0, done.stdout + done.stderr
    about, _, shown = done.stdout.partition("\n\n")
    assert " ".join(about.split()) == demos.about(number)
    recorded = demos.recording(number).read_text().partition("\n")[2]
    assert re.sub(r"torch-2[.\d]+", "", shown) == \
        re.sub(r"torch-2[.\d]+", "", recorded)


def test_a_demo_that_cannot_be_prepared_shows_what_was_recorded(
        monkeypatch, capsys):
    def prepare():
        raise CannotRun("no network")

    module = demos.find("08")
    monkeypatch.setattr(module, "prepare", prepare)
    monkeypatch.delattr(module, "show")
    monkeypatch.delenv("PYTHONWARNINGS", raising=False)
    words = argparse.Namespace(chapter="08", torch=None, record=False)
    assert demo.run(words) == 0
    said = capsys.readouterr().out
    assert "\n\nno network\n" in said and "*recorded*, not run now" in said
    assert said.endswith(demos.recording("08").read_text())
    assert "NumPy" in os.environ["PYTHONWARNINGS"]  # torch's remark on it is left out
    words.record = True
    with pytest.raises(CannotRun, match="no network"):
        demo.run(words)


@pytest.mark.parametrize("number", demos.MODULES)
def test_a_demo_is_announced_as_what_it_shows(number):
    shown = set(re.findall(r"\b2\.\d+\.\d", demos.recording(number).read_text()))
    said = demos.invitation(number)
    assert ("several versions" in said) == (len(shown) > 1), shown
    assert said.endswith(f": ./workbook demo {number}")


def test_a_chapter_without_a_demo(workbook):
    done = workbook("demo", "99")
    assert done.returncode == 2
    assert "chapter 99 has no demo; these have one: 00, 01" in done.stderr


@pytest.mark.full
def test_start_without_a_terminal(checkout):
    done = call(checkout)
    assert done.returncode == 0, done.stdout
    assert done.stdout.strip().splitlines()[-1].endswith(
        "then run ./workbook check")


@pytest.mark.parametrize("words", [["list"], ["--help"], ["doctor"]], ids=" ".join)
def test_a_reader_that_goes_away(workbook, words):
    """./workbook list | head -1"""
    read, write = os.pipe()
    os.close(read)
    root = BUILD.parent
    try:
        done = subprocess.run([root / "workbook", *words], stdout=write,
                              stderr=subprocess.PIPE, text=True)
    finally:
        os.close(write)
    assert "Traceback" not in done.stderr and not done.stderr, done.stderr


@pytest.mark.full
@pytest.mark.parametrize("chapter", chapters(), ids=lambda c: c.number)
def test_what_next_runs_as_written(checkout, chapter):
    """The commands at the end of a sheet, but for those that install a package,
    which tests/solutions/test_alone.py does."""
    sheet = (chapter.exercise / "README.md").read_text()
    blocks = [block for block in re.findall(
        r"^```sh\n(.*?)^```", sheet.partition("\n## What next")[2], re.M | re.S)
        if "pip install" not in block and "git " not in block]
    if not blocks:
        pytest.skip("it has no command, or one that installs")
    shutil.copytree(chapter.solution, checkout / "my" / chapter.name,
                    dirs_exist_ok=True, copy_function=shutil.copy)  # as new
    if any("build/learn/" in block for block in blocks):
        assert call(checkout, "check", chapter.number).returncode == 0
    for block in blocks:
        done = subprocess.run(
            ["sh", "-ec", block.replace("--yours", "--yours --quick")], text=True,
            cwd=checkout, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)
        assert done.returncode == 0, done.stdout[-3000:]
