"""What the Python tests share: the tool's modules, and a scratch copy of a
solution that keeps its place, so that only what is changed is compiled."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "common/tool"))
sys.path.append(str(ROOT / "common/workshop"))
os.environ.setdefault("CUDAARCHS", "90-real")  # one architecture is enough
# Several tests at once are more threads than cores: those that wait must sleep.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


# Files whose tests build in the checkout's folders, and wait for each other; and
# those whose tests share nothing.
IN_CHECKOUT = {"test_05_schemas", "test_05_swiglu_mlp", "test_06_library",
               "test_docs", "test_faults", "test_work", "test_workshop"}
SHARE_NOTHING = {"test_aarch64", "test_lint"}


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true",
                     help="ladders, mutants, documentation and lint as well")
    parser.addoption("--fire", type=int, default=2, metavar="SECONDS",
                     help="how long each op is under fire")
    parser.addoption("--faults", type=Path, metavar="FILE",
                     help="write what was seen of each fault there")
    parser.addoption("--fuzz", type=int, default=10, metavar="SECONDS",
                     help="how long each target is fuzzed")
    parser.addoption("--implementation", type=Path, metavar="BUILD",
                     help="the build that a chapter's steps are tested on")
    parser.addoption("--steps-report", type=Path, metavar="FILE",
                     help="write each step's result there, as JSON lines")


class StepsReport:
    """The steps in Python, told to ./workbook check as a test in C++ does."""

    def __init__(self, file):
        self.file = file

    def write(self, **event):
        with open(self.file, "a") as file:
            file.write(json.dumps(event) + "\n")

    def pytest_runtest_logstart(self, nodeid, location):
        step = re.search(r"::test_(\d\d)_(\d)_(\w+)", nodeid)
        if step:
            self.write(event="case", name=f"{step[1]}.{step[2]} {step[3]}")

    def pytest_runtest_logreport(self, report):
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            text = crash.message if crash else str(report.longrepr)
            self.write(event="failure",
                       expression="\n".join(text.splitlines()[:4]),
                       **({"file": crash.path, "line": crash.lineno}
                          if crash else {}))

    def pytest_runtest_logfinish(self, nodeid, location):
        self.write(event="end")


def pytest_configure(config):
    file = config.getoption("--steps-report")
    if file:
        config.pluginmanager.register(StepsReport(file))
    config.addinivalue_line("markers", "full: only with --full")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    if not config.getoption("--full"):
        items[:] = [i for i in items if i.get_closest_marker("full") is None]
    # Several processes (-n) share the work. A chapter's ladder, mutants and
    # alternative stay together, so that only what changes is compiled; so does a
    # file, which makes once what its tests need.
    for item in items:
        chapter = re.match(
            r"test_(?:ladder|mutant_is_caught|alternative_passes)\[(\d\d)",
            item.name)
        file = item.path.stem
        item.add_marker(pytest.mark.xdist_group(
            chapter[1] if chapter else "the checkout" if file in IN_CHECKOUT
            else item.name if file in SHARE_NOTHING else file))


class Implementation:
    """A copy of a starter or a solution, to be changed and checked."""

    def __init__(self, chapter):
        self.chapter = chapter
        worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
        self.folder = ROOT / "build/scratch" / worker / chapter.name

    def copy_of(self, folder):
        from workspace import source_files
        wanted = {p.relative_to(folder) for p in source_files(folder)}
        for path in source_files(self.folder):
            if path.relative_to(self.folder) not in wanted:
                path.unlink()
        for name in wanted:
            self.write(name, (folder / name).read_text())
        return self

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)

    def replace(self, name, old, new):
        text = (self.folder / name).read_text()
        assert text.count(old) == 1, f"{name} holds {text.count(old)} x {old!r}"
        self.write(name, text.replace(old, new))

    def line_of(self, name, text):
        lines = (self.folder / name).read_text().splitlines()
        found = [n for n, line in enumerate(lines, 1) if text in line]
        assert len(found) == 1, f"{text!r} is in lines {found} of {name}"
        return found[0]

    def check(self):
        import verdict
        return verdict.check(self.chapter, self.folder)


class Terminal:
    """The tool on a terminal of its own, 80 columns wide."""

    def __init__(self, checkout, *arguments, **environment):
        self.text = ""
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            os.chdir(checkout)
            # A job in the background ignores it, and so would all it starts.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.execve("./workbook", ["./workbook", *arguments],
                      {**os.environ, **environment})

    def until(self, text, seconds=120):
        end = time.monotonic() + seconds
        while text not in self.text:
            assert time.monotonic() < end, f"no {text!r} in:\n{self.text}"
            if select.select([self.file], [], [], 0.2)[0]:
                self.text += os.read(self.file, 65536).decode(errors="replace")
        seen, _, self.text = self.text.partition(text)
        return seen + text  # what follows is for the next call

    def press(self, key):
        os.write(self.file, key.encode())

    def end(self):
        """Reads the rest; gives the exit status."""
        try:
            while True:
                data = os.read(self.file, 65536)
                if not data:
                    break
                self.text += data.decode(errors="replace")
        except OSError:
            pass  # what Linux says when the other end is closed
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture
def implementation():
    import workspace

    def make(number):
        chapter = workspace.find_chapter(number)
        return Implementation(chapter).copy_of(chapter.solution)
    return make


@pytest.fixture
def workbook():
    """Runs ./workbook with arguments; gives status, output and errors."""
    def call(*arguments, cwd=ROOT, **environment):
        return subprocess.run(
            [str(ROOT / "workbook"), *map(str, arguments)], cwd=cwd, text=True,
            env={**os.environ, **environment}, capture_output=True,
            stdin=subprocess.DEVNULL, timeout=600)
    return call
