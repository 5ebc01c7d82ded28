"""Fixtures of the steps: the build that is tested, and programs of probes/ that run
on it in processes of their own, which a wrong package may end."""

import os
import re
import shutil
import signal
from pathlib import Path

import pytest

from base.project import ROOT
from base.sheets import find_chapter
from hub.builds import read_cache
from hub.processes import ENVIRONMENT, run_apart, run_forked
from hub.repositories import run_git
from hub.symbols import read_elf
from support import copy_solution
from torch_stable_abi.audit import elf

PROBES = Path(__file__).parent / "probes"
REFERENCE = ROOT / "solutions/08_hub_packaging/tests"  # has reference.py


# --- what is tested ---------------------------------------------------------------


@pytest.fixture(scope="module")
def build(pytestconfig):
    folder = pytestconfig.getoption("--implementation") or \
        ROOT / "build/release/solutions/08_hub_packaging"
    assert list(folder.glob("torch*-cpu-*/__init__.py")), \
        f"{folder} holds no variant: ./workbook check 08 builds one"
    return folder


@pytest.fixture(scope="module")
def source(build):
    """Return the sources that the build was made of: the learner's."""
    return Path(read_cache(build, "CMAKE_HOME_DIRECTORY"))


@pytest.fixture(scope="module")
def variant(build):
    folder, = build.glob("torch*-cpu-*")
    return folder


@pytest.fixture(scope="module")
def library(variant):
    file, = variant.glob("*.abi3.so")
    return file


@pytest.fixture(scope="module")
def dynamic_symbols(library):
    return read_elf(library, "--dyn-syms")


@pytest.fixture(scope="module")
def contents(library):
    """Return what the library exports, needs and holds."""
    return elf.read(library.name, library.read_bytes())


@pytest.fixture(scope="module")
def cmake_lists(source):
    """Return the learner's CMakeLists.txt, without comments."""
    return re.sub(r"#.*", "", (source / "CMakeLists.txt").read_text())


# --- programs that ask it ---------------------------------------------------------


@pytest.fixture
def look_at(record_property):
    """Name the place of the cause, if what follows fails, as LOOK_AT() of C++ does."""
    return lambda file, text="": record_property("look at", f"{file}: {text}")


@pytest.fixture
def run_probe(request, source, variant, tmp_path, look_at):
    """Run a program of probes/. The error that it ends with says what is wrong, and a
    last line "look at FILE: TEXT" says where. What it prints names the sources,
    not their copies."""
    # A check has a process of its own, in which torch has computed nothing. Among
    # other tests torch may have, and its threads are not there after a fork.
    in_check = request.config.getoption("--implementation")
    run_program = run_forked if in_check else run_apart

    def run(name, *arguments, died="", **environment):
        path = [str(REFERENCE), environment.pop("PYTHONPATH", ""),
                ENVIRONMENT["PYTHONPATH"]]
        status, text = run_program(
            PROBES / name, *arguments, **environment,
            PYTHONPATH=os.pathsep.join(filter(None, path)))
        text = text.replace(
            f"{variant}/_ops.py", f"{variant}/_ops.py.in").replace(
            f"{variant}/", f"{source}/torch-ext/activation/").replace(
            f"{tmp_path}/sources/", f"{source}/")
        print(text)
        if status < 0:
            pytest.fail(died or "the process was ended by "
                        f"{signal.Signals(-status).name}")
        if status > 0:
            message, place = read_error(text)
            if place:
                look_at(*place)
            pytest.fail(message)
    return run


def read_error(text):
    """Return the message that a traceback ends with, and (file, text) of the place
    that it names."""
    last = text.rpartition("Traceback (most recent call last):\n")[2]
    message = re.sub(r"\A(?:[ \t].*\n)*", "", last).strip()
    message, _, place = message.partition("\nlook at ")
    file, _, line = place.partition(":")
    return message.removeprefix("AssertionError: "), \
        (file, line.strip()) if place else None


# --- package.py alone -------------------------------------------------------------


@pytest.fixture
def package_alone(source, tmp_path):
    """Copy of the sources that package.py reads, where no git is."""
    folder = tmp_path / "sources"
    folder.mkdir()
    for name in ("package.py", "build.toml"):
        shutil.copy(source / name, folder)
    return folder


@pytest.fixture
def package_in_git(package_alone):
    """Make the same in a repository that has another file beside their folder, all
    committed."""
    (package_alone.parent / "beside.txt").write_text("1")
    for arguments in (["init", "-q", "--template="], ["add", "-A"],
                      ["commit", "-qm", "1"]):
        run_git(package_alone.parent, *arguments)
    return package_alone


@pytest.fixture
def run_package_probe(package_alone, run_probe):
    """Run a program of probes/ that imports package.py, of a folder of its own."""
    return lambda name, *arguments, **environment: run_probe(
        name, *arguments, PYTHONPATH=str(package_alone), **environment)


@pytest.fixture(scope="module")
def repository(tmp_path_factory, variant):
    """Make a Hub repository: the solution's sources, with that build as its build."""
    folder = copy_solution(find_chapter("08"),
                           tmp_path_factory.mktemp("hub") / "activation")
    (folder / "build").mkdir()
    shutil.copytree(variant, folder / "build" / variant.name)
    return folder
