"""Faults under the real tool: each ends in one clear sentence and loses
nothing."""

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from base.project import ROOT
from base.sheets import find_chapter
from support import copy_checkout, ended, passes, terminal, until
from torch_stable_abi import programs
from torch_stable_abi.libtorch.installed import torch_root
from torch_stable_abi.programs import sentence

pytestmark = pytest.mark.full
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_RETRIES": "0",
           "PIP_CONFIG_FILE": "/dev/null"}


class Room:
    """A checkout with somebody's work in it, and ./workbook there."""

    def __init__(self, folder, set_up=True):
        self.folder = copy_checkout(folder, set_up)
        self.text = ""
        self.mine = folder / "my/01_headeronly_types"
        for name, path in find_chapter("01").starter_files().items():
            (self.mine / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, self.mine / name)
        self.edit("numerics.h", "#pragma once", "#pragma once // my own line")

    def edit(self, name, old, new):
        text = (self.mine / name).read_text()
        assert old in text
        (self.mine / name).write_text(text.replace(old, new, 1))

    def solve(self, name="", old="", new=""):
        """Return the solution, with one thing in it another."""
        shutil.copytree(find_chapter("01").solution, self.mine,
                        dirs_exist_ok=True)
        if name:
            self.edit(name, old, new)

    def start(self, *arguments, **environment):
        return subprocess.Popen(
            [self.folder / "workbook", *arguments], cwd=self.folder, text=True,
            env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self, *arguments, **environment):
        process = self.start(*arguments, **environment)
        self.text = process.communicate(timeout=300)[0]
        return process.returncode

    def terminal(self, *arguments, **environment):
        return terminal(self.folder, *arguments, **environment)


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    return Room(tmp_path_factory.mktemp("a room") / "workbook")


@pytest.fixture
def bare(tmp_path):
    return Room(tmp_path / "workbook", set_up=False)


def files(folder):
    return {str(p.relative_to(folder)): p.read_bytes()
            for p in sorted(folder.rglob("*")) if p.is_file()}


class Fault:
    """One fault: what is in my/ before it must be there after it."""

    def __init__(self, room, name):
        self.room, self.name = room, name
        self.before = files(room.folder / "my")

    def seen(self, status, sentence, expected, text=None):
        text = self.room.text if text is None else text
        text = re.sub(r"\033\[[\d;]*[mK]", "", text).replace("\r", "\n")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        assert status == expected, text
        assert "Traceback" not in text, text
        found = [line for line in lines if sentence in line]
        assert found, f"{sentence!r} is not in:\n{text}"
        after = files(self.room.folder / "my")
        lost = [name for name, content in self.before.items()
                if content not in after.values()]
        assert not lost, lost


def interrupt(child, after, delay=0.3):
    """Press Ctrl-C a little after `after` was printed. Return status and text."""
    seen = until(child, after)
    time.sleep(delay)
    child.send("\x03")
    status, rest = ended(child)
    return status, seen + rest


# --- Ctrl-C -------------------------------------------------------------------


def test_set_up_interrupted_then_twice_at_once_then_broken(bare, tmp_path):
    fault = Fault(bare, "Ctrl-C in set-up")
    status, text = interrupt(bare.terminal("list", **OFFLINE), "Setting up")
    fault.seen(status, "workbook: stopped; ./workbook sets up anew", 130, text)

    fault = Fault(bare, "two set-ups at once")
    both = [bare.start("list", **OFFLINE) for _ in range(2)]
    texts = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], texts
    assert sum("Setting up" in text for text in texts) == 1, texts
    waited = next(text for text in texts if "Setting up" not in text)
    fault.seen(0, "Waiting for another ./workbook that sets up ...", 0, waited)

    fault = Fault(bare, "a .venv whose Python is gone")
    for python in (bare.folder / ".venv/bin").glob("python*"):
        python.unlink()
        python.symlink_to("/nowhere/python3")
    new = headers_of(tmp_path / "torch", torch_root(),
                     r"(TORCH_VERSION_MINOR) \d+", r"\1 99")
    status = bare.run("list", TORCH_ROOT=str(new), **OFFLINE)
    fault.seen(status, "Setting up the workbook in", 0)
    fault = Fault(bare, "a torch newer than any tested")
    fault.seen(status, "torch 2.99 is newer than 2.15, the newest", 0)


def test_a_tool_of_its_own_set_up_twice_at_once(bare):
    fault = Fault(bare, "two first audits at once")
    both = [bare.start("audit", "no.so") for _ in range(2)]
    texts = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [2, 2], texts
    assert sum("Setting up audit in" in text for text in texts) == 1, texts
    for text in texts:
        fault.seen(2, "audit: there is no file no.so", 2, text)

    fault = Fault(bare, "the Python of an environment has gone")
    (bare.folder / "build/audit/bin/python").unlink()
    fault.seen(bare.run("audit", "no.so"), "Setting up audit in", 2)
    fault.seen(bare.run("audit", "no.so"), "audit: there is no file no.so", 2)


def test_interrupt_at_any_moment_of_the_start(room):
    fault = Fault(room, "Ctrl-C in the first 0.3 s")
    for n in range(25):
        process = room.start("list")
        time.sleep(n * 0.012)
        process.send_signal(signal.SIGINT)
        text = process.communicate(timeout=20)[0]
        assert "Traceback" not in text and "Error" not in text, text
        assert process.returncode in (0, 130, -signal.SIGINT), text
    fault.seen(room.run("list"), "Edit my/01_headeronly_types/", 0)


def test_interrupt_while_a_command_is_imported():
    """An import would turn KeyboardInterrupt into an error of its own: Python
    3.11 does in a dataclass. So the signal itself ends the process."""
    done = listed("cli.find_command = lambda _: os.kill(os.getpid(), signal.SIGINT)")
    assert done.returncode == -signal.SIGINT, done
    assert not done.stdout + done.stderr


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_interrupt_when_all_is_said(name):
    """Python would tell where in its own end it was."""
    done = listed(f"atexit.register(os.kill, os.getpid(), signal.{name})")
    assert done.returncode == 0, done
    assert done.stdout and not done.stderr


def listed(first):
    """Run list, in a process that does `first`."""
    code = ("import atexit, os, signal, sys\n"
            "import cli\n"
            f"{first}\n"
            "signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
            "sys.exit(cli.main(['list']))\n")
    return subprocess.run([sys.executable, "-c", code], capture_output=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "common")})


def test_interrupted_build_goes_on_later(room):
    fault = Fault(room, "Ctrl-C while the test is built")
    status, text = interrupt(room.terminal("check", "01"), "Building (learn)", 1)
    fault.seen(status, "workbook: stopped; nothing is lost", 130, text)
    assert room.run("check", "01") == 1, room.text
    assert "01.1 <-" in room.text


def test_interrupted_test(room):
    room.solve("numerics.h", "  bits += 0x7fff",
               "  for (volatile int i = 0; i < 1; i = 0) {}  bits += 0x7fff")
    fault = Fault(room, "Ctrl-C while a test runs")
    report = room.folder / "build/learn/my-01_headeronly_types/report.xml"
    report.unlink(missing_ok=True)
    process = room.start("check", "01")
    while not (report.exists() and '"01.2' in report.read_text()):
        time.sleep(0.1)
        assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGINT)
    text = process.communicate(timeout=20)[0]
    fault.seen(process.returncode, "workbook: stopped; nothing is lost", 130,
               text)


# --- what the learner's code does -----------------------------------------------


def test_endless_loop(room):
    room.solve("numerics.h", "  bits += 0x7fff",
               "  for (volatile int i = 0; i < 1; i = 0) {} // for ever\n"
               "  bits += 0x7fff")
    fault = Fault(room, "an endless loop")
    fault.seen(room.run("check", "01"), "no end after 10 s", 1)
    assert re.search(r"Edit my/01_headeronly_types/numerics.h:\d+", room.text)


def test_endless_loop_while_the_library_loads(room):
    room.solve("headeronly_types.cpp", "namespace {",
               "static const int forever = [] {\n"
               "  for (volatile int i = 0; i < 1; i = 0) {}\n"
               "  return 1;\n}();\nnamespace {")
    fault = Fault(room, "an endless loop in a static initialiser")
    fault.seen(room.run("check", "01"), "no end after 10 s", 1)


def test_a_hundred_megabytes_of_output(room):
    room.solve("numerics.h", "  bits += 0x7fff",
               "  static const bool once = [] {\n"
               "    for (int i = 0; i < 1000000; ++i) {\n"
               f"      std::puts(\"{'x' * 99}\");\n    }}\n"
               "    return true;\n  }();\n  (void)once;\n  bits += 0x8000; //")
    room.edit("numerics.h", "#pragma once", "#pragma once\n#include <cstdio>")
    fault = Fault(room, "100 MB of output")
    fault.seen(room.run("check", "01"), "01.2 Round to nearest", 1)
    log = room.folder / "build/learn/my-01_headeronly_types/log.txt"
    assert log.stat().st_size < 5e6 and "too much" in log.read_text()
    assert re.search("^Edit .* ./workbook check 01$", room.text, re.M)


# --- words, and what the user's machine is -------------------------------------------


@pytest.mark.parametrize("words, said", [
    (["reset", ""], "an argument is empty: is a variable not set?"),
    (["matrix", ""], "an argument is empty"), (["audit", ""], "an argument is empty"),
    (["hint", "x" * 5000], "an argument has 5000 characters: xxxxx"),
    (["check", "\033[2J"], "there is no chapter \\x1b[2J"),
    (["\033[2J"], "there is no command \\x1b[2J; ./workbook --help lists them"),
    (["check", "00", "--impl", "."], "--impl . has no first_extension.cpp of chapter"),
    (["grade", "solutions/00_first_extension", "--json", "-"], "--json: - is no file"),
    (["archive", "-"], "FILE: - is no file"),
    (["new", "a" * 65, "--from", "04"], "it has more than 64 characters"),
    (["new", "my_ops", "--from", "04", "/proc/x"], "no folder can be made in /proc")])
def test_words_that_make_no_sense(workbook, words, said):
    done = workbook(*words)
    assert done.returncode == 2 and said in done.stderr and "\033" not in done.stderr


@pytest.mark.parametrize("words", [["--help"], ["audit", "--help"], ["list"]])
def test_output_that_cannot_be_written(words):
    with open("/dev/full", "w") as full:
        done = subprocess.run([ROOT / "workbook", *words], stdout=full, text=True,
                              stderr=subprocess.PIPE)
    assert done.returncode == 2 and done.stderr.startswith(
        "workbook: the disk is full, or what this prints cannot be written") and \
        "Exception" not in done.stderr


def test_a_compiler_that_always_fails_is_missing(tmp_path):
    for name in ("g++", "c++", "clang++"):
        (tmp_path / name).write_text("#!/bin/sh\necho no license >&2; exit 3\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        [ROOT / "workbook", "doctor"], text=True, capture_output=True,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert done.returncode == 1 and "--version fails" in done.stdout, done.stdout


def test_a_folder_that_cannot_be_entered_is_a_sentence(tmp_path):
    """So Path.is_file() says of a file in it, but for root."""
    (tmp_path / "my").mkdir(mode=0o644)
    code = "import sys; from pathlib import Path; " \
        "from torch_stable_abi.programs import sentence; " \
        "print(sentence(PermissionError(13, 'Permission denied', " \
        "sys.argv[1] + '/my/x.cpp'), Path(sys.argv[1])))"
    owner = [] if os.getuid() else ["setpriv", "--bounding-set", "-all", "--inh-caps",
                                    "-all"]
    assert "my/x.cpp: Permission denied; make it yours to read" in passes(
        *owner, sys.executable, "-c", code, tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "common/abi")})


def test_a_pipe_that_nobody_reads(workbook, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    done = workbook("grade", "solutions/00_first_extension", "--json",
                    tmp_path / "pipe")
    assert done.returncode == 2 and "is a named pipe that nobody reads" in done.stderr


def test_a_folder_that_is_gone(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    done = subprocess.run(["sh", "-c", f"rmdir '{gone}'; '{ROOT}/workbook' audit x.so"],
                          cwd=gone, text=True, capture_output=True)
    assert "the current folder was removed: go to another one" in done.stderr


def test_a_file_of_the_future(room):
    room.solve()
    fault = Fault(room, "a clock that was wrong")
    os.utime(room.mine / "CMakeLists.txt", (2**31 + 2**27, 2**31 + 2**27))
    os.utime(room.mine / "numerics.h", (2**31 + 2**27, 2**31 + 2**27))
    fault.seen(room.run("check", "01"), "CMakeLists.txt is dated 2042-", 2)
    cure = re.search(r"find .* touch \{\} \+$", room.text, re.M)[0]
    subprocess.run(cure, shell=True, cwd=room.folder, check=True)
    assert room.run("check", "01") == 0
    assert (room.mine / "numerics.h").stat().st_mtime <= time.time()


def test_limits_of_the_shell(room):
    room.solve("numerics.h", "0x7fff", "0x7ffe")
    fault = Fault(room, "ulimit -s 100")
    done = subprocess.run(
        ["sh", "-c", "ulimit -s 100; ./workbook check 01"], cwd=room.folder, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    fault.seen(done.returncode, "has limits that may be too low: ulimit -s 100", 2,
               done.stdout)


def test_a_linker_without_memory_is_not_the_learner_s(room):
    room.run("check", "00")
    solution = find_chapter("00").solution
    shutil.copytree(solution, room.folder / "my" / solution.name, dirs_exist_ok=True)
    fault = Fault(room, "ulimit -v 500000")
    done = subprocess.run(
        ["sh", "-c", "ulimit -v 500000; ./workbook check 00"], cwd=room.folder,
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    fault.seen(done.returncode, "has limits that may be too low: ulimit -v 500000", 2,
               done.stdout)
    assert room.run("check", "00") == 0
    (room.folder / f"build/learn/tests/{solution.name}_test").unlink()  # not built
    assert room.run("list") == 0 and "1 of 1 step" in room.text
    shutil.rmtree(room.folder / "my" / solution.name)  # the tests below begin with 01
    shutil.rmtree(room.folder / f"build/learn/my-{solution.name}")


def test_a_terminal_after_its_end_is_as_it_was(room):
    child = room.terminal()
    until(child, "q quit")
    assert not child.getecho()
    child.kill(signal.SIGTERM)
    until(child, "Go on with: ./workbook")
    assert child.getecho() and ended(child)[0] == 0


# --- files ------------------------------------------------------------------------


def test_files_deleted_and_renamed_under_watch(room):
    room.solve("numerics.h", "0x7fff", "0x7ffe")
    fault = Fault(room, "a file renamed, then deleted, under watch")
    child = room.terminal()
    until(child, "q quit")
    file, kept = room.mine / "numerics.h", room.mine / "renamed.h"
    file.rename(kept)
    text = until(child, "brings the starter's back")
    (room.mine / "CMakeLists.txt").rename(room.folder / "my/CMakeLists.txt")
    text += until(child, "CMakeLists.txt is missing")
    (room.folder / "my/CMakeLists.txt").rename(room.mine / "CMakeLists.txt")
    kept.rename(file)
    until(child, "01.2 Round")
    child.send("q")
    assert ended(child)[0] == 0
    fault.seen(0, "numerics.h is missing; ./workbook check 01 brings", 0, text)


def test_a_backup_brought_back_is_older_than_its_build(room):
    room.solve()
    assert room.run("check", "01") == 0, room.text
    room.edit("numerics.h", "0x7fff", "0x7ffe")
    os.utime(room.mine / "numerics.h", (1e9, 1e9))
    fault = Fault(room, "an old file brought back with its old date")
    fault.seen(room.run("check", "01"), "01.2 Round to nearest", 1)


def test_files_of_the_tool_cut_off(room):
    fault = Fault(room, "a result cut off by a power failure")
    for name in ("learn/my-01_headeronly_types/verdict.json", "hints.json"):
        (room.folder / "build" / name).write_text('{"key": "ab')
    assert room.run("hint", "01.1") == 0, room.text
    fault.seen(room.run("list"), "Edit my/01_headeronly_types/", 0)


def test_two_checks_at_once(room):
    room.solve()
    fault = Fault(room, "two checks at once")
    both = [room.start("check", "01") for _ in range(2)]
    texts = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], texts
    assert all("all 7 steps pass" in text for text in texts), texts
    waited = next(t for t in texts if "Waiting" in t)
    fault.seen(0, "Waiting for another one that builds this ...", 0,
               waited)


# --- the machine ----------------------------------------------------------------


@pytest.fixture
def mounted(tmp_path):
    """Mounts; skips where only root may."""
    points = []

    def mount(*words):
        points.append(words[-1])
        done = subprocess.run(["mount", *words], capture_output=True, text=True)
        if done.returncode != 0:
            points.pop()
            pytest.skip(f"no mount here, which root may: {done.stderr.strip()}")
    yield mount
    for point in reversed(points):
        subprocess.run(["umount", point], check=True)


@pytest.mark.parametrize("size", [16, 100])
def test_bytecode_that_was_cut_off(room, size):
    assert room.run("list", PYTHONDONTWRITEBYTECODE="") == 0
    cut = [*(room.folder / "common").rglob("*.pyc")]
    assert cut
    for file in cut:
        file.write_bytes(file.read_bytes()[:size])
    assert room.run("list", PYTHONDONTWRITEBYTECODE="") == 0
    assert "00 First extension" in room.text and "Traceback" not in room.text


def test_full_disk(tmp_path, mounted):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted("-t", "tmpfs", "-o", "size=32m", "none", str(disk))
    room = Room(disk / "workbook")
    fill(disk, 40)
    fault = Fault(room, "a full disk")
    fault.seen(room.run("check", "01", PYTHONDONTWRITEBYTECODE=""),
               "the disk is full; free some", 2)
    fill(disk, 0)
    room.run("hint", "01.1", PYTHONDONTWRITEBYTECODE="")
    assert "Traceback" not in room.text
    room.run("reset", "01", PYTHONDONTWRITEBYTECODE="")
    assert "Traceback" not in room.text
    (disk / "filler").unlink()
    assert room.run("hint", "01.1") == 0, room.text
    kept, = room.folder.glob("my/.backup/*/numerics.h")
    assert "my own line" in kept.read_text()


def test_a_full_disk_is_called_so_where_no_file_is_named():
    assert sentence(OSError(errno.ENOSPC, "No space left on device")) == \
        "the disk is full, or what this prints cannot be written; free some, a full " \
        "build needs 2 GiB"


@pytest.mark.parametrize("error, said", [
    (OSError("no number"), "no number"),
    (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"),
     "Resource temporarily unavailable; end some programs, or raise the limit of "
     "ulimit -u"),
    (FileNotFoundError(errno.ENOENT, "No such file or directory", "ninja"),
     "ninja: No such file or directory; hint"),
    (FileNotFoundError(errno.ENOENT, "No such file or directory", "/no/g.json"),
     "/no/g.json: No such file or directory; there is no folder /no"),
    (FileExistsError(errno.EEXIST, "File exists", str(ROOT / "build")),
     "build: File exists; move it away, since a folder belongs there"),
    (PermissionError(errno.EACCES, "Permission denied", "/root/x"),
     "/root/x: Permission denied"),
    (PermissionError(errno.EACCES, "Permission denied", str(ROOT / "my/x.cpp")),
     "my/x.cpp: Permission denied; make it yours to read and write: chmod u+rwX, or "
     "sudo chown")])
def test_what_the_system_refuses_is_a_sentence(error, said, monkeypatch):
    monkeypatch.setattr(programs, "hint", "hint")
    assert sentence(error, ROOT) == said


def fill(disk, left):
    """All but `left` KiB."""
    with open(disk / "filler", "ab", buffering=0) as file:
        free = shutil.disk_usage(disk).free - left * 1024
        file.write(b"\0" * max(free, 0))


@pytest.mark.parametrize("set_up", [True, False])
def test_read_only_checkout(tmp_path, mounted, set_up):
    room = Room(tmp_path / "workbook", set_up)
    mounted("--bind", str(room.folder), str(room.folder))
    subprocess.run(["mount", "-o", "remount,bind,ro", room.folder], check=True)
    fault = Fault(room, "a read-only checkout" + (
        "" if set_up else " that is not set up"))
    fault.seen(room.run("check", "01"),
               "copy the workbook" if set_up else "cannot be written to", 2)


def test_no_network(bare):
    fault = Fault(bare, "no network, and no torch here")
    process = subprocess.run(
        ["unshare", "-n", bare.folder / "workbook"], text=True,
        capture_output=True, stdin=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"], "HOME": str(bare.folder),
             "PIP_RETRIES": "0", "PIP_CONFIG_FILE": "/dev/null"})
    if "unshare failed" in process.stderr:
        pytest.skip(f"no network name space here: {process.stderr.strip()}")
    fault.seen(process.returncode, "could not be installed", 2, process.stderr)


NAMES_WITHOUT_ANSWER = """
set -e
ip link set lo up
echo nameserver 127.0.0.1 >"$1/resolv.conf"
mount --bind "$1/resolv.conf" /etc/resolv.conf
python3 -c '
import socket, time
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
time.sleep(120)' >/dev/null 2>&1 &
trap "kill $!" EXIT
set +e
"$1/workbook/workbook" list
"""


def test_a_name_server_that_does_not_answer(bare, tmp_path):
    """A firewall may be the cause: the sentence comes soon after the first try."""
    process = subprocess.Popen(
        ["unshare", "-n", "-m", "sh", "-c", NAMES_WITHOUT_ANSWER, "sh", tmp_path],
        text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, env={
            "PATH": os.environ["PATH"], "HOME": str(bare.folder),
            "PIP_CONFIG_FILE": "/dev/null"})
    times = {line: time.monotonic() for line in process.stdout}
    if "Setting up" not in "".join(times):
        pytest.skip(f"no network name space here: {''.join(times)}")
    first = next(at for line, at in times.items() if "for CPU" in line)
    last = next(at for line, at in times.items() if "could not be installed" in line)
    assert last - first < 20, times


def headers_of(folder, torch, old, new):
    """Return a folder with torch's headers and a link to its libraries."""
    shutil.copytree(torch / "include/torch/headeronly",
                    folder / "include/torch/headeronly")
    (folder / "lib").symlink_to(torch_root() / "lib")
    version = folder / "include/torch/headeronly/version.h"
    text = version.read_text()
    assert re.search(old, text)
    version.write_text(re.sub(old, new, text))
    return folder


def test_torch_too_old(room):
    from torch_stable_abi.files import CACHE
    old = CACHE / "2.9.1/torch"
    if not old.is_dir():
        pytest.skip("torch 2.9.1 is not there: ./workbook matrix 2.9.1")
    fault = Fault(room, "torch 2.9.1, which is too old")
    fault.seen(room.run("list", TORCH_ROOT=str(old)), "no torch >= 2.10", 2)


def test_old_cmake(bare, tmp_path):
    """A real one: the oldest of PyPI that has a wheel for any Python 3."""
    subprocess.run(["python3", "-m", "venv", tmp_path / "old"], check=True)
    done = subprocess.run([tmp_path / "old/bin/pip", "install", "-q",
                           "cmake==3.18.4.post1"], capture_output=True)
    if done.returncode != 0:
        pytest.skip("cmake 3.18 could not be fetched from PyPI")
    fault = Fault(bare, "CMake 3.18, which is too old")
    path = f"{tmp_path}/old/bin:{os.environ['PATH']}"
    fault.seen(bare.run("list", PATH=path, **OFFLINE),
               "cmake is 3.18.4; the workbook needs 3.22.", 2)
