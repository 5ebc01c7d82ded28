"""The package of chapter 08, compiled as kernel-builder does."""

import os
import re
import shutil
import sysconfig
from pathlib import Path

import pytest

from base.project import ROOT
from base.sheets import find_chapter
from hub.packages import run
from hub.symbols import list_visible
from support import copy_solution
from torch_stable_abi.files import read_toml
from torch_stable_abi.libtorch.installed import torch_root

CHAPTER = find_chapter("08")
BUILDERS_ID = "_activation_cpu_1a2b3c4"
needs_python_h = pytest.mark.skipif(
    not Path(sysconfig.get_path("include"), "Python.h").exists(),
    reason="no Python.h, which kernel-builder's header includes")


@pytest.mark.full
@needs_python_h
def test_its_binding_takes_kernel_builders_macros(builders):
    binding, = compile_objects(builders, "g++", only="torch_binding")
    symbols = run("readelf", "-W", "--syms", binding, cwd=builders)
    assert re.search(rf"FUNC +GLOBAL +DEFAULT .* PyInit_{BUILDERS_ID}$",
                     symbols, re.M)


@needs_python_h
@pytest.mark.full
def test_it_compiles_for_aarch64_as_kernel_builder_does(builders):
    if shutil.which("aarch64-linux-gnu-g++") is None:
        pytest.skip("no aarch64-linux-gnu-g++")
    # Debian's Python has a pyconfig.h for each machine, and this one's will do.
    include = Path(sysconfig.get_path("include"))
    stub = builders / "multiarch/aarch64-linux-gnu" / include.name / "pyconfig.h"
    stub.parent.mkdir(parents=True)
    stub.write_text(f"#include <x86_64-linux-gnu/{include.name}/pyconfig.h>\n")
    assert len(compile_objects(builders, "aarch64-linux-gnu-g++", more=[
        f"-isystem{builders}/multiarch", "-idirafter/usr/include"])) == 4


@needs_python_h
@pytest.mark.full
def test_built_as_kernel_builder_does_every_level_is_right(builders):
    """The rows for every machine, with AVX2 and with AVX-512: the dynamic
    linker picks one, so each is built alone."""
    if os.uname().machine != "x86_64":
        pytest.skip("instruction sets of x86_64")
    objects = compile_objects(builders, "g++")
    for level in ("", "x86-64", "x86-64-v3"):
        if level:
            compile_objects(builders, "g++", only="activation_row", more=[
                f'-Dtarget_clones(...)=target("arch={level}")'])
        library = builders / f"{BUILDERS_ID}.abi3.so"
        run("g++", "-shared", *objects, torch_root() / "lib/libtorch_cpu.so",
            "-o", library, cwd=builders)
        assert list_visible(library) == {f"PyInit_{BUILDERS_ID}"}
        run(ROOT / "build/release/tests/08_hub_packaging_test",
            f"--library={library}", cwd=ROOT)


@pytest.fixture(scope="module")
def builders(tmp_path_factory):
    """Make a copy of the package with a registration.h of kernel-builder's macros,
    which it writes over ours."""
    folder = copy_solution(CHAPTER, tmp_path_factory.mktemp("builders") / "a")
    shutil.copy(ROOT / "tests/08_hub_packaging/registration.h",
                folder / "torch-ext/registration.h")
    return folder


def compile_objects(folder, compiler, backend="cpu", only="", more=()):
    """Compiles the sources of build.toml's sections by kernel-builder's command: C++20,
    Python's headers, nothing about visibility, and the section's own folders and
    flags. Returns the objects."""
    targets = []
    toml = read_toml(folder / "build.toml")
    sections = [toml["torch"], *(k for k in toml["kernel"].values()
                                 if k["backend"] == backend)]
    for section in sections:
        for source in section["src"]:
            if source.endswith(".cpp") and only in source:
                target = f"{Path(source).stem}.{compiler}.o"
                run(compiler, "-std=c++20", "-O2", "-fPIC", "-fno-gnu-unique",
                    f"-DTORCH_EXTENSION_NAME={BUILDERS_ID}", "-DCPU_KERNEL",
                    "-DTORCH_TARGET_VERSION=0x020a000000000000",
                    "-DPy_LIMITED_API=0x03090000",
                    "-isystem", torch_root() / "include",
                    "-isystem", sysconfig.get_path("include"),
                    *(f"-I{part}" for part in section["include"]),
                    *section.get("cxx-flags", []), *more,
                    "-c", source, "-o", target, cwd=folder)
                targets.append(target)
    return targets
