"""The variant for CUDA of chapter 08's package, compiled; its launches, pretended."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from base import nvcc
from base.project import ROOT
from base.sheets import find_chapter
from hub.packages import build_package, read_id, run
from hub.processes import run_python
from hub.symbols import NEEDED, NEWEST, list_visible
from support import copy_solution, passes
from torch_stable_abi.libtorch.installed import torch_root

CHAPTER = find_chapter("08")
PROBES = Path(__file__).parent / "probes"


@pytest.mark.full
def test_each_type_has_one_definition(tmp_path):
    """The CUDA variant is one library, so its halves may not both define a type. The
    host compiles both, for nvcc has no link-time optimisation of host code."""
    cpu, test = CHAPTER.solution / "activation_cpu", CHAPTER.tests / "kernels.cpp"
    objects = []
    for source in [*sorted(cpu.glob("*.cpp")), test]:
        objects.append(tmp_path / f"{source.stem}.o")
        passes("g++", "-std=c++20", "-O1", "-fPIC", "-flto", "-fopenmp-simd",
               "-DTORCH_TARGET_VERSION=0x020a000000000000",
               "-isystem", torch_root() / "include", f"-I{ROOT / 'common'}",
               *(f"-I{path}" for path in CHAPTER.solution.rglob("*") if path.is_dir()),
               "-c", source, "-o", objects[-1])
    passes("g++", "-shared", "-flto", "-Wodr", "-Werror", *objects,
           "-o", tmp_path / "both.so")


@pytest.mark.full
def test_cuda_variant(tmp_path):
    """Compiled, not run: its symbols, metadata and name; that it loads where
    torch is one for CPU and libcudart is found, and that its CPU ops work
    there."""
    if shutil.which("nvcc") is None and "CUDACXX" not in os.environ:
        pytest.skip("no nvcc: the CUDA variant is not made")
    from kernel_abi_check import ObjectFile
    folder = copy_solution(CHAPTER, tmp_path / "activation")
    cpu, cuda = build_package(folder, "-DACTIVATION_CUDA=ON",
                              "-DCMAKE_CUDA_ARCHITECTURES=90")
    assert re.fullmatch(r"torch-stable-abi210-cu\d{3}-\w+-linux", cuda.name)
    assert read_id(cpu) != read_id(cuda)
    metadata = json.loads((cuda / "metadata.json").read_text())
    assert metadata["backend"] == {"type": "cuda", "archs": ["9.0+PTX"]}
    library, = cuda.glob("*.so")
    assert ObjectFile(library).check_manylinux("manylinux_2_28") == []
    assert ObjectFile(library).check_python_abi("3.9") == []
    dynamic = run("readelf", "-dW", library, cwd=folder)
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    assert all(re.match(NEEDED, name) for name in needed), needed
    assert "libtorch.so" in needed and "PATH" not in dynamic
    assert list_visible(library) == {f"PyInit_{read_id(cuda)}"}
    for tag, version in re.findall(r"@([A-Z]+)_([\d.]+)", run(
            "readelf", "-W", "--dyn-syms", library, cwd=folder)):
        assert tuple(map(int, version.split("."))) <= NEWEST.get(tag, (99,))
    run_python(PROBES / "check_cuda_metadata.py", cuda)
    runtime = [str(p.parent) for p in Path("/usr/local").glob(
        "cuda*/lib64/libcudart.so.*")]
    run_python(PROBES / "call_cuda_variant.py", cuda, LD_LIBRARY_PATH=os.pathsep.join(
        [*runtime[:1], os.environ.get("LD_LIBRARY_PATH", "")]))


@pytest.mark.full
def test_launches_on_a_pretended_gpu(tmp_path):
    """Every op and dtype; errors, its own and others'; a graph capture; pieces."""
    if nvcc.find() is None:
        pytest.skip("no nvcc: the kernels are not compiled")
    package, torch = CHAPTER.solution, torch_root()
    passes(nvcc.find(), "-std=c++17", "-arch=sm_90", "-cudart", "none",
           "-Xcompiler", "-fPIC", "-I", package / "torch-ext",
           "-I", package / "torch-ext/core", "-I", package / "activation_cuda/core",
           "-c", package / "activation_cuda/activation.cu",
           "-o", tmp_path / "kernels.o")
    passes("g++", "-std=c++20", "-Wall", "-Wextra", "-rdynamic", "-I", package,
           "-I", package / "torch-ext",
           "-I", package / "torch-ext/core",
           "-isystem", torch / "include", ROOT / "tests/08_hub_packaging/launch.cpp",
           tmp_path / "kernels.o", torch / "lib/libtorch_cpu.so",
           f"-Wl,-rpath,{torch / 'lib'}", "-ldl", "-o", tmp_path / "launch")
    passes(tmp_path / "launch")
