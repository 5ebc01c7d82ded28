"""solutions/07_cuda_activation_kernel as what it is for: copied out, renamed,
given another op, installed and tested by its own tests. Without a GPU they say
so."""

import os
import re
import shutil
import subprocess

import pytest

from base import nvcc
from base.building import compiler
from base.sheets import find_chapter
from support import (
    PYTHON,
    alone,
    bare_environment,
    build_alone,
    copy_solution,
    passed,
    passes,
)
from torch_stable_abi.libtorch.installed import torch_root

CHAPTER = find_chapter("07")


@pytest.fixture(scope="module")
def bin(tmp_path_factory):
    return bare_environment(tmp_path_factory.mktemp("environment"))


@pytest.fixture
def with_nvcc(monkeypatch):
    found = nvcc.find()
    assert found, "no nvcc: ./workbook nvcc --fetch"
    monkeypatch.setenv("CUDACXX", found)


def own_tests(bin, project):
    """Run the project's own tests as its README says, with the torch that is here."""
    alone(bin / "python", "-m", "pip", "install", "-q", "--no-build-isolation",
          ".[test]", cwd=project, CXX=compiler())
    text = alone(bin / "python", "-m", "pytest", "-q", "-rs", cwd=project)
    if "compiled, not run" not in text:
        assert subprocess.run(["nvidia-smi"]).returncode == 0
    return passed(text)


# What the library may ask of the machine. libtorch.so is in every torch: no file
# of CUDA's is asked for.
NEEDED = {"libtorch_cpu.so", "libtorch.so", "libstdc++.so.6", "libm.so.6",
          "libgcc_s.so.1", "libc.so.6", "ld-linux-x86-64.so.2"}


def loads_without_cuda(library):
    needed = passes("readelf", "-d", library)
    assert set(re.findall(r"NEEDED.*\[(.*)\]", needed)) <= NEEDED
    assert "RUNPATH" not in needed
    assert ".nv_fatbin" in passes("readelf", "-SW", library)


@pytest.mark.full
def test_installs_renamed_and_passes_its_own_tests(
        workbook, bin, tmp_path, monkeypatch, with_nvcc):
    monkeypatch.delenv("CUDAARCHS", raising=False)  # all that it chooses
    folder = tmp_path / "a folder with spaces"
    done = workbook("new", "my_kernel", "--from", "07", folder)
    assert done.returncode == 0, done.stderr
    assert own_tests(bin, folder) > 30
    library, = bin.parent.glob(
        "lib/*/site-packages/my_kernel/libmy_kernel.so")
    loads_without_cuda(library)
    wheel, = bin.parent.glob("lib/*/site-packages/my_kernel-*/WHEEL")
    assert re.search(r"^Tag: py3-none-linux_", wheel.read_text(), re.M)


@pytest.mark.full
@pytest.mark.inductor
def test_the_core_with_another_op_of_two_inputs(
        workbook, bin, tmp_path, monkeypatch, with_nvcc):
    monkeypatch.delenv("CUDAARCHS", raising=False)
    folder = tmp_path / "bare"
    done = workbook("new", "my_bare", "--from", "07", "--bare", folder)
    assert done.returncode == 0, done.stderr
    assert not list(folder.rglob("*silu*"))
    build_alone(folder, tmp_path / "build")  # without a warning
    assert own_tests(bin, folder) > 15
    library, = bin.parent.glob("lib/*/site-packages/my_bare/*.so")
    loads_without_cuda(library)


@pytest.mark.full
def test_without_nvcc_it_is_for_cpu_only_and_says_so(tmp_path):
    """Everything that finds an nvcc is taken away."""
    folder = copy_solution(CHAPTER, tmp_path / "copy")
    tools = {"MAKE_PROGRAM": "ninja", "CXX_COMPILER": "c++", "AR": "ar",
             "RANLIB": "ranlib", "LINKER": "ld", "NM": "nm"}
    done = subprocess.run(
        ["cmake", "-G", "Ninja", "-S", folder, "-B", tmp_path / "build",
         f"-DTORCH_ROOT={torch_root()}",
         "-DCMAKE_FIND_ROOT_PATH=/nowhere",
         "-DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=ONLY",
         *(f"-DCMAKE_{name}={shutil.which(program)}"
           for name, program in tools.items())],
        text=True, capture_output=True,
        env={k: v for k, v in os.environ.items() if not k.startswith("CUDA")})
    assert done.returncode == 0, done.stderr
    assert "No nvcc was found" in done.stderr
    assert "built for CPU only" in " ".join(done.stderr.split())
    passes("cmake", "--build", tmp_path / "build")
    library = tmp_path / "build/libcuda_activation_kernel.so"
    passes(PYTHON, "-c", "import sys, torch\n"
           "torch.ops.load_library(sys.argv[1]); x = torch.ones(2, 4)\n"
           "assert torch.ops.wb07.silu_and_mul(x).shape == (2, 2)", library,
           cwd=tmp_path)
