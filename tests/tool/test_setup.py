"""./workbook itself: the first start, the second, and what can be missing."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest

import transcript
from base.building import implementation_build
from base.project import ROOT
from support import copy_checkout, copy_set_up, ended, terminal, until
from torch_stable_abi import programs
from torch_stable_abi.libtorch.installed import torch_root


@pytest.fixture(scope="session")
def clone(tmp_path_factory):
    """Return a clone in a folder with spaces, with this torch named by TORCH_ROOT, an
    empty HOME and no network."""
    home = tmp_path_factory.mktemp("home")
    folder = tmp_path_factory.mktemp("a folder with spaces") / "work book"
    copy_checkout(folder, with_venv=False)

    def run(*arguments, cwd="/", **environment):
        env = {"HOME": str(home), "PATH": os.environ["PATH"],
               "TORCH_ROOT": str(torch_root()), "PIP_NO_INDEX": "1",
               **environment}
        return subprocess.run(
            [str(folder / "workbook"), *arguments], cwd=cwd, text=True,
            env={k: v for k, v in env.items() if v is not None},
            capture_output=True, stdin=subprocess.DEVNULL, timeout=600)
    run.folder = folder
    return run


@pytest.mark.full
def test_first_start_without_a_terminal_and_without_network(clone):
    done = clone()
    assert done.returncode == 0, done.stderr
    assert "its test passes under AddressSanitizer" in done.stdout
    last = done.stdout.strip().splitlines()[-1]
    assert last.startswith("Edit my/00_first_extension/first_extension.cpp:")
    assert last.endswith("then run ./workbook check")
    assert "\033" not in done.stdout + done.stderr
    shown = (ROOT / "docs/pictures/first_five_minutes.txt").read_text()
    text = transcript.tidy(done.stdout, clone.folder).strip()
    on_terminal = text.replace("then run ./workbook check", "then save it")
    assert on_terminal != text and on_terminal in shown
    times = []
    for _ in range(3):
        start = time.monotonic()
        again = clone()
        times.append(time.monotonic() - start)
        assert again.stdout.strip().splitlines()[-1] == last
    assert min(times) <= 0.3, times


@pytest.mark.full
def test_interrupted_setup_starts_anew(clone):
    (clone.folder / ".venv/torch-root").unlink(missing_ok=True)
    (clone.folder / ".venv/bin/python").unlink(missing_ok=True)
    done = clone("list")
    assert done.returncode == 0, done.stderr
    assert "Setting up" in done.stderr
    assert "01 Header-only types" in done.stdout


@pytest.mark.full
def test_changed_requirements_do_not_fetch_torch_again(tmp_path):
    """The environment is not thrown away, whether or not TORCH_ROOT lies in it."""
    copy_set_up(tmp_path)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / ".venv"], check=True)
    site, = (tmp_path / ".venv/lib").glob("python3*/site-packages")
    header = site / "torch/include/torch/headeronly/version.h"
    header.parent.mkdir(parents=True)
    header.touch()
    (site / "torch/__init__.py").touch()
    pinned = re.search(r"^torch==(.*)", (
        ROOT / "requirements/torch.in").read_text(), re.M)[1]
    info = site / f"torch-{pinned}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: torch\nVersion: {pinned}\n")
    for environment in ({}, {"TORCH_ROOT": str(site / "torch")}):
        (tmp_path / ".venv/ready").write_text("other requirements")
        done = subprocess.run(
            [tmp_path / "workbook"], capture_output=True, text=True, env={
                "HOME": str(tmp_path), "PATH": os.environ["PATH"],
                "PIP_NO_INDEX": "1", **environment})
        assert header.exists(), done.stderr
        assert "Setting up" in done.stderr and "Downloading" not in done.stderr
        assert (tmp_path / ".venv/torch-root").read_text() == f"{site}/torch\n"
    # Nor could be fetched what it needs: only what may need that tries again.
    (tmp_path / ".venv/ready").write_text("other requirements")
    for word in ("list", "py"):  # so that they are commands
        (tmp_path / f"common/learn/commands/{word}.py").parent.mkdir(
            parents=True, exist_ok=True)
        (tmp_path / f"common/learn/commands/{word}.py").touch()
    without = {"HOME": str(tmp_path), "PIP_NO_INDEX": "1",
               "PATH": f"{sys.base_prefix}/bin:{os.defpath}"}  # no torch of a .venv
    for word, tries in (("list", "torch goes on"), ("py", "Installing what"),
                        ("list", "")):
        done = subprocess.run([tmp_path / "workbook", word], text=True, env=without,
                              capture_output=True)
        assert (tmp_path / ".venv/needs-missing").exists(), done.stderr
        assert tries in done.stderr
        assert bool(tries) == ("not possible now" in done.stderr), done.stderr


@pytest.mark.full
def test_learners_work_is_never_written_over(clone):
    clone("check", "01")
    mine = clone.folder / "my/01_headeronly_types"
    (mine / "numerics.h").write_text("// mine, and broken\n")
    (mine / "widen_narrow.h").unlink()
    done = clone("check", "01")
    assert done.returncode == 1
    assert (mine / "numerics.h").read_text() == "// mine, and broken\n"
    assert (mine / "widen_narrow.h").is_file()  # what is missing comes back


@pytest.mark.full
def test_setup_runs_nothing_of_the_current_folder(clone, tmp_path):
    (tmp_path / "venv.py").write_text("open('was_run', 'w')\n")
    shutil.rmtree(clone.folder / ".venv", ignore_errors=True)
    done = clone("list", cwd=tmp_path)
    assert done.returncode == 0 and "01 Header-only types" in done.stdout, done.stderr
    clone("audit", "no.so", cwd=tmp_path)  # is set up, or cannot be
    assert not (tmp_path / "was_run").exists()
    # The tools could not be fetched: what needs them tries again, the rest does not.
    assert "Installing the tools" in clone("new", "x").stderr
    assert "Installing the tools" not in clone("list").stderr


@pytest.mark.full
@pytest.mark.parametrize("words", [
    ["list"], ["check", "00"], ["grade", "solutions/00_first_extension"]])
def test_modules_in_pythonpath_hide_none_of_the_tools(clone, tmp_path, words):
    for name in ("json", "argparse", "workbook", "doctest", "psutil"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('not this one')\n")
    done = clone(*words, cwd=str(clone.folder), PYTHONPATH=str(tmp_path),
                 PYTHONWARNINGS="error", PYTHONOPTIMIZE="2")
    assert done.returncode in (0, 1) and "not this one" not in done.stderr, done.stderr


@pytest.mark.full  # it builds the tracer
def test_a_traced_program_has_its_own_pythonpath(workbook, tmp_path):
    (tmp_path / "of_the_user.py").write_text("print('found')\n")
    done = workbook("trace", "--", "python3", "-c", "import of_the_user",
                    PYTHONPATH=str(tmp_path))
    assert "found" in done.stdout, done.stderr


@pytest.mark.parametrize("words, status, said", [
    (["--help"], 0, "look after the workbook:"), (["-h"], 0, "grade     check many"),
    (["check", "--help"], 0, "usage: ./workbook check"),
    (["new", "-h"], 0, "of 04 and 07 and 08"),
    (["chekc"], 2, "there is no command chekc; ./workbook --help lists them"),
    (["start"], 2, "there is no command start"), ([""], 2, "there is no command ''")])
def test_help_needs_no_set_up(tmp_path, words, status, said):
    copy_checkout(tmp_path / "workbook", with_venv=False)
    done = subprocess.run(
        [tmp_path / "workbook/workbook", *words], text=True, capture_output=True,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PIP_NO_INDEX": "1",
             "TORCH_ROOT": "/nowhere"})
    assert done.returncode == status, done
    assert said in " ".join((done.stdout + done.stderr).split()) or \
        said in done.stdout, done
    assert not (tmp_path / "workbook/.venv").exists()
    assert not (tmp_path / "workbook/build").exists()


@pytest.mark.parametrize("character", '";#\\[]|,<>\t\n')
def test_a_folder_that_cmake_cannot_bear(tmp_path, character):
    folder = tmp_path / f"a{character}b"
    folder.mkdir()
    shutil.copy(ROOT / "workbook", folder)
    done = subprocess.run([folder / "workbook", "list"], text=True, capture_output=True)
    assert done.returncode == 2
    assert "CMake cannot bear the name of the folder" in done.stderr


def test_a_build_folder_of_another_user_is_named(tmp_path):
    copy_set_up(tmp_path)
    shutil.copytree(ROOT / "common", tmp_path / "common", dirs_exist_ok=True)
    (tmp_path / "build").touch()
    for words in (["list"], ["audit", "libm.so.6"]):
        done = subprocess.run([tmp_path / "workbook", *words], text=True,
                              capture_output=True)
        assert done.returncode == 2
        assert f"workbook: {tmp_path}/build cannot be written to" in done.stderr
        assert "./workbook:" not in done.stderr, done.stderr


def test_no_line_ends_are_changed_by_git():
    """Git for Windows sets core.autocrlf, and sh would not read ./workbook then."""
    done = subprocess.run(["git", "check-attr", "text", "workbook", "README.md"],
                          cwd=ROOT, text=True, capture_output=True)
    assert done.stdout == "workbook: text: unset\nREADME.md: text: unset\n"


@pytest.mark.full
def test_what_pip_is_told_elsewhere_does_not_lead_it_away(clone, tmp_path):
    """A file of pip's settings, as a site has one, may name another folder."""
    config = tmp_path / "pip.conf"
    config.write_text(f"[install]\ntarget = {tmp_path}/target\n")
    (clone.folder / ".venv/torch-root").unlink(missing_ok=True)
    done = clone("list", PIP_CONFIG_FILE=str(config), PIP_NO_INDEX="0")
    assert done.returncode == 0 and not (tmp_path / "target").exists(), done.stderr


def test_a_folder_whose_name_is_no_utf_8(tmp_path):
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(folder)
    shutil.copy(ROOT / "workbook", folder.decode(errors="surrogateescape"))
    done = subprocess.run([folder + b"/workbook", "list"], capture_output=True)
    assert done.returncode == 2 and b"it is no UTF-8; rename it" in done.stderr, done


@pytest.mark.parametrize("how", [
    '"$@" list <&-', '"$@" list >&-', '"$@" list 2>&-',
    'PYTHONIOENCODING=ascii "$@" hint 01.3', 'PYTHONIOENCODING=nonsense "$@" list',
    'cd "$(dirname "$TORCH_ROOT")" && TORCH_ROOT=$(basename "$TORCH_ROOT") "$@" list',
    'unset HOME; "$@" list'])
def test_streams_and_environments_that_are_odd(how):
    done = subprocess.run(
        ["sh", "-c", how, "sh", ROOT / "workbook"], text=True, capture_output=True,
        env={**os.environ, "TORCH_ROOT": str(torch_root())})
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr


def test_a_folder_for_temporary_files_that_is_none(workbook):
    done = workbook("list", TMPDIR="/nowhere")
    assert done.returncode == 2
    assert "TMPDIR=/nowhere is no folder that can be written to." in done.stderr


def test_torch_root_that_is_none(workbook):
    done = workbook("list", TORCH_ROOT="/usr")
    assert done.returncode == 2
    assert "TORCH_ROOT=/usr holds no include/torch" in done.stderr


@pytest.mark.full
def test_missing_programs_are_named(clone, tmp_path):
    bin = tmp_path / "bin"
    bin.mkdir()
    for program in ("sh", "dirname", "cat", "cmp", "rm", "id", "c++", "sed", "mkdir"):
        (bin / program).symlink_to(shutil.which(program))
    (bin / "python3").symlink_to(sys.executable)
    (clone.folder / ".venv/torch-root").unlink(missing_ok=True)
    done = clone("list", PATH=str(bin))
    assert done.returncode == 2
    assert "missing: cmake ninja-build" in done.stderr


@pytest.mark.full
@pytest.mark.parametrize("colour", [{}, {"NO_COLOR": "1"}])
def test_watch_on_a_terminal(clone, colour):
    clone()
    child = terminal(clone.folder, **colour)
    text = until(child, "q quit")
    child.send("\x03")
    status, rest = ended(child)
    assert status == 0 and "Your work is in my/" in rest
    assert ("\033[1m" in text) == (not colour)


@pytest.mark.full
@pytest.mark.parametrize("program, processes", [
    ("ninja", 1), ("01_headeronly_types_test", 2)])
def test_interrupted_check_leaves_no_process(implementation, program, processes):
    """Nor if it alone is told, as by an editor, and not all of the terminal. The first
    build of an implementation runs in a thread, which hears of no interrupt."""
    mine = implementation("01")
    shutil.rmtree(implementation_build(mine.folder), ignore_errors=True)
    line = "  std::vector<int64_t> result = input.vec();\n"
    mine.replace("sizes.h", line,
                 line + "  for (size_t i = 0; i < 8;) result[0] += 8;\n")
    process = subprocess.Popen(
        [ROOT / "workbook", "check", "01", "--impl", mine.folder],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "STARTED_BY": str(mine.folder)})
    end = time.monotonic() + 30
    while started_by(mine.folder).count(program) < processes:
        assert time.monotonic() < end, started_by(mine.folder)
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=20)
    assert process.returncode == 130, text
    assert program not in started_by(mine.folder)
    end = time.monotonic() + 1  # compilers were told; ninja waits for its shells
    while started_by(mine.folder) and time.monotonic() < end:
        time.sleep(0.05)
    assert not started_by(mine.folder)


def test_what_an_ended_program_has_started_ends(tmp_path, monkeypatch):
    """CMake is such a program: it leaves the ninja of a trial build alone."""
    monkeypatch.setenv("STARTED_BY", str(tmp_path))
    with pytest.raises(programs.Superseded):
        programs.run(["sh", "-c", "sleep 60 > /dev/null 2>&1 & wait"],
                     superseded=lambda: "sleep" in started_by(tmp_path))
    assert "sleep" not in started_by(tmp_path)


def started_by(folder):
    """Return the names of the programs that run with this in their environment; other
    tests may be running the same programs."""
    return [process.info["name"]
            for process in psutil.process_iter(["name", "environ"])
            if (process.info["environ"] or {}).get("STARTED_BY") == str(folder)]
