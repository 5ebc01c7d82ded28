"""aarch64: all is built against that machine's own libtorch, by a cross compiler,
and the tests of every solution pass there, in an emulator."""

import json
import shutil

import pytest

from base.project import BUILD, ROOT
from base.sheets import chapters, find_chapter
from support import passes
from torch_stable_abi.libtorch import runtimes
from torch_stable_abi.programs import CannotRun

MACHINE = "aarch64"
pytestmark = [pytest.mark.full, pytest.mark.skipif(
    not (shutil.which("aarch64-linux-gnu-g++") and shutil.which("qemu-aarch64")),
    reason="apt-get install g++-aarch64-linux-gnu qemu-user")]


@pytest.fixture(scope="module")
def build():
    version = runtimes.installed()
    try:
        runtimes.fetch(version, MACHINE)
    except CannotRun as error:
        pytest.skip(str(error))
    folder = BUILD / MACHINE
    passes("cmake", "-G", "Ninja", "-S", ROOT, "-B", folder,
           "--toolchain", ROOT / f"common/cmake/{MACHINE}.cmake",
           f"-DTORCH_ROOT={runtimes.root(version, MACHINE)}",
           "-DCMAKE_BUILD_TYPE=Release", "-DWORKBOOK_BENCH=OFF")
    passes("cmake", "--build", folder)
    return folder


def program(build, name):
    """Return the command that CTest has for it, which begins with the emulator."""
    tests = json.loads(passes("ctest", "--test-dir", build, "-Q",
                              "--show-only=json-v1"))["tests"]
    return next(test["command"] for test in tests if test["name"] == name)


@pytest.mark.parametrize("name", [
    "harness", "libtorch.facts", "08.kernels", *(f"{chapter.number}.solution"
                               for chapter in chapters() if chapter.number != "08")])
def test_passes_there(build, name):
    command = program(build, name)
    if name == "07.solution":  # built without nvcc, whose host is this machine
        command += ["--test-case-exclude=07.2*"]
    assert "Status: SUCCESS!" in passes(*command)


def test_the_package_passes_there(build):
    chapter = find_chapter("08")
    library, = (build / "solutions" / chapter.name).glob("torch*/*.so")
    *emulator, _ = program(build, "harness")
    assert "Status: SUCCESS!" in passes(
        *emulator, build / f"tests/{chapter.name}_test", f"--library={library}")
