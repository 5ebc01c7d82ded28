"""Options, groups of tests that run side by side, and the fixtures of all."""

import inspect
import os
import re
import subprocess
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import pytest

from base.project import ROOT
from base.sheets import find_chapter
from support import Implementation, lacks_inductor

READY = ROOT / ".venv/torch-root"
if READY.exists():  # else it is said what to do
    os.environ.setdefault("TORCH_ROOT", READY.read_text().strip())
os.environ.setdefault("CUDAARCHS", "90-real")  # one architecture is enough
# Several tests at once are more threads than cores: those that wait must sleep.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Files whose tests build in the checkout's folders, and wait for each other; and
# those whose tests share nothing.
IN_CHECKOUT = {"test_schemas", "05_torch_call_dispatcher/test_python",
               "06_version_gating/test_python", "test_docs", "test_workshop"}
SHARE_NOTHING = {"test_alone"}
# Those that take minutes come first; late those that want each libtorch, which
# --full fetches beside the others; last those that fill what is left.
LONG = {"test_commands", "test_stress", "08_hub_packaging/test_package"}
WANT_EACH_LIBTORCH = {"test_aarch64", "test_matrix", "test_schemas", "test_snippets"}
# Those that check variants of a chapter, one after the other in one place; what
# tells which.
CHECK_VARIANTS = {"test_ladder", "test_mistakes", "test_check"}
CHAPTER = re.compile(r"""\[(\d\d)|implementation\("(\d\d)"\)""")


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true",
                     help="ladders, mutants, documentation and lint as well")
    parser.addoption("--stress", type=int, default=2, metavar="SECONDS",
                     help="how long each op is under stress")
    parser.addoption("--fuzz", type=int, default=10, metavar="SECONDS",
                     help="how long each target is fuzzed")
    parser.addoption("--record", action="store_true",
                     help="write what the pages show into docs/results")
    parser.addoption("--implementation", type=Path, metavar="BUILD",
                     help="the build that a chapter's steps are tested on")
    parser.addoption("--steps-report", type=Path, metavar="FILE",
                     help="write each step's result there, as XML")


class StepsReport:
    """The steps in Python, told to ./workbook check as doctest tells it: the name
    and the description of a case are the two paragraphs of the test's docstring,
    LOOK_AT() is the property "look at"."""

    def __init__(self, file):
        self.file = file
        self.step = None
        self.docs = {}
        file.write_text("<doctest>\n")

    def write(self, line):
        with open(self.file, "a") as file:
            file.write(line + "\n")

    def pytest_collection_modifyitems(self, items):
        self.docs = {i.nodeid: inspect.getdoc(i.function) or "" for i in items}

    def pytest_runtest_logstart(self, nodeid, location):
        self.step = re.search(r"::test_(\d\d)_(\d)_", nodeid)
        if self.step:
            shown, _, wrong = self.docs[nodeid].partition("\n\n")
            name = "{}.{} ".format(*self.step.groups()) + shown
            wrong = " ".join(wrong.split())
            self.write(f"<TestCase name={quoteattr(name)} "
                       f"description={quoteattr(wrong)}>")

    def pytest_runtest_logreport(self, report):
        if self.step and report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            text = crash.message if crash else str(report.longrepr)
            # Not the name of the exception, nor what pytest makes of an assert.
            text = re.sub(r"^(?:AssertionError|Failed): ", "", text)
            text = text.partition("\nassert ")[0]
            looks = "".join(f"<Info>{escape(f'{name} {value}')}</Info>"
                            for name, value in report.user_properties)
            place = crash and (f" filename={quoteattr(crash.path)}"
                               f" line='{crash.lineno}'")
            self.write(f"<Message type='ERROR'{place or ''}><Text>" +
                       escape("\n".join(text.splitlines()[:4])) +
                       f"</Text>{looks}</Message>")

    def pytest_runtest_logfinish(self, nodeid, location):
        if self.step:
            self.write("</TestCase>")


def pytest_configure(config):
    file = config.getoption("--steps-report")
    if file:
        config.pluginmanager.register(StepsReport(file))


def name_of_tests(path):
    """Return the name of a file of tests, with its chapter before it if it has one."""
    chapter = path.parent.name
    return f"{chapter}/{path.stem}" if chapter[:2].isdigit() else path.stem


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    if not config.getoption("--full"):
        items[:] = [i for i in items if i.get_closest_marker("full") is None]
    # Several processes (-n) share the work. A chapter's variants stay together, so
    # that only what changes is compiled; so does a file, which makes once what its
    # tests need.
    for item in items:
        file = name_of_tests(item.path)
        chapter = file in CHECK_VARIANTS and CHAPTER.search(
            item.name + inspect.getsource(item.function))
        item.add_marker(pytest.mark.xdist_group(
            chapter[chapter.lastindex] if chapter
            else "the checkout" if file in IN_CHECKOUT
            else item.name if file in SHARE_NOTHING else file))
    order = [LONG, None, WANT_EACH_LIBTORCH, SHARE_NOTHING]
    items.sort(key=lambda item: next(
        (place for place, files in enumerate(order)
         if files and name_of_tests(item.path) in files), 1))


def pytest_runtest_setup(item):
    if item.get_closest_marker("inductor") and (reason := lacks_inductor()):
        pytest.skip(reason)


@pytest.fixture
def implementation():
    def make(number):
        chapter = find_chapter(number)
        return Implementation(chapter).copy_of(chapter.solution)
    return make


@pytest.fixture
def workbook():
    """Return a function that runs ./workbook with arguments and returns its status,
    output and errors."""
    def call(*arguments, cwd=ROOT, **environment):
        return subprocess.run(
            [str(ROOT / "workbook"), *map(str, arguments)], cwd=cwd, text=True,
            env={**os.environ, **environment}, capture_output=True,
            stdin=subprocess.DEVNULL, timeout=600)
    return call
