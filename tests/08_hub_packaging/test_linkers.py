"""Tests of what compilers and linkers do without the package's options."""

import re
import shutil

import pytest

from hub.packages import run
from support import PYTHON


def test_gnu_unique_statics_are_shared_without_the_flag(tmp_path):
    """Two libraries, loaded privately, share one object: -fno-gnu-unique is for
    that."""
    (tmp_path / "a.cpp").write_text("""
template <class T> struct Counter { static int& value() {
  static int it = 0; return it; } };
extern "C" int next() { return ++Counter<int>::value(); }
""")
    found = {}
    for flag in ("-fgnu-unique", "-fno-gnu-unique"):
        for name in "ab":
            run("g++", "-shared", "-fPIC", flag, "a.cpp", "-o", f"{name}.so",
                cwd=tmp_path)
        symbols = run("readelf", "-W", "--dyn-syms", "a.so", cwd=tmp_path)
        found[flag] = ("UNIQUE" in symbols, run(
            PYTHON, "-c",
            "import ctypes; a, b = (ctypes.CDLL(f'./{n}.so') for n in 'ab');"
            "print(a.next(), b.next())", cwd=tmp_path).split())
    assert found == {"-fgnu-unique": (True, ["1", "2"]),
                     "-fno-gnu-unique": (False, ["1", "1"])}


@pytest.mark.parametrize("linker, hidden", [("bfd", False), ("gold", True)])
def test_the_hubs_checker_sees_what_gnu_ld_wrote(tmp_path, linker, hidden):
    """A symbol of GLIBC 2.34 is a violation; by gold's table it is none."""
    from kernel_abi_check import ObjectFile
    if shutil.which(f"ld.{linker}") is None:
        pytest.skip(f"ld.{linker} is not installed")
    (tmp_path / "a.c").write_text(
        "#include <dlfcn.h>\nvoid* f(void) { return dlopen(0, 1); }\n")
    run("gcc", "-shared", "-fPIC", f"-fuse-ld={linker}", "a.c", "-o", "a.so",
        cwd=tmp_path)
    symbols = run("readelf", "-W", "--dyn-syms", "a.so", cwd=tmp_path)
    version = re.search(r"dlopen@GLIBC_([\d.]+)", symbols)[1]
    if tuple(map(int, version.split("."))) <= (2, 28):
        pytest.skip(f"this system's dlopen is of GLIBC {version}")
    found = ObjectFile(tmp_path / "a.so").check_manylinux("manylinux_2_28")
    assert (found == []) == hidden
