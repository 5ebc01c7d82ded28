"""solutions/07_cuda_activation_kernel as what it is for: copied out, renamed,
installed and tested by its own tests. Without a GPU they say so."""

import os
import re
import shutil
import subprocess

import pytest
from test_04_template import copy, environment, install, run  # noqa: F401

import nvcc


@pytest.mark.full
def test_installs_renamed_and_passes_its_own_tests(
        environment, workbook, tmp_path, monkeypatch):  # noqa: F811
    found = nvcc.find()
    assert found, "no nvcc: python3 common/cuda/nvcc.py --fetch"
    monkeypatch.setenv("CUDACXX", found)
    monkeypatch.delenv("CUDAARCHS", raising=False)  # all that it chooses
    folder = tmp_path / "a folder with spaces"
    done = workbook("new", "my_kernel", "--from", "07", folder)
    assert done.returncode == 0, done.stderr
    assert install(environment, folder).startswith("my_kernel-0.1.0-cp310-abi3")
    text = run(environment / "python", "-m", "pytest", "-q", "-rs", cwd=folder)
    assert re.search(r"\d+ passed", text) and "failed" not in text
    library, = environment.parent.glob(
        "lib/*/site-packages/my_kernel/libmy_kernel.so")
    # Nothing to be found at run time but libtorch: the CUDA run time is inside.
    needed = run("readelf", "-d", library, cwd=folder)
    assert "cudart" not in needed and "RUNPATH" not in needed
    assert ".nv_fatbin" in run("readelf", "-SW", library, cwd=folder)
    if "compiled, not run" not in text:
        assert subprocess.run(["nvidia-smi"]).returncode == 0


@pytest.mark.full
def test_without_nvcc_it_is_for_cpu_only_and_says_so(tmp_path):
    """Everything that finds an nvcc is taken away."""
    folder = copy(tmp_path / "copy", number="07")
    tools = {"MAKE_PROGRAM": "ninja", "CXX_COMPILER": "c++", "AR": "ar",
             "RANLIB": "ranlib", "LINKER": "ld", "NM": "nm"}
    done = subprocess.run(
        ["cmake", "-G", "Ninja", "-S", folder, "-B", tmp_path / "build",
         f"-DTORCH_ROOT={os.environ['TORCH_ROOT']}",
         "-DCMAKE_FIND_ROOT_PATH=/nowhere",
         "-DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=ONLY",
         *(f"-DCMAKE_{name}={shutil.which(program)}"
           for name, program in tools.items())],
        text=True, capture_output=True,
        env={k: v for k, v in os.environ.items() if not k.startswith("CUDA")})
    assert done.returncode == 0, done.stderr
    assert "No nvcc was found" in done.stderr
    assert "built for CPU only" in " ".join(done.stderr.split())
    run("cmake", "--build", tmp_path / "build", cwd=folder)
