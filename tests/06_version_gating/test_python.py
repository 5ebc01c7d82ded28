"""Chapter 06 in Python, which loads libtorch for itself alone (RTLD_LOCAL): a weak
function must be found all the same. And what the library asks of glibc."""

import os
import re
import subprocess
import sys

import pytest

from base.building import build_root
from base.project import ROOT
from support import passes
from torch_stable_abi.libtorch.installed import is_for_cuda, torch_root, torch_version
from torch_stable_abi.libtorch.versions import numbers

LOADED = """
import sys
import torch
torch.ops.load_library(sys.argv[1])
wb06 = torch.ops.wb06
"""
REFUSED = """
try: {}
except RuntimeError as error: print(error)
"""


@pytest.fixture(scope="module")
def library():
    build_root("release", ["06_version_gating"])
    return ROOT / "build/release/solutions/06_version_gating" \
        / "libversion_gating.so"


@pytest.fixture(scope="module")
def python(library):
    """Run lines in a Python that has torch, with chapter 06's library."""
    if not (torch_root() / "__init__.py").exists():
        pytest.skip("TORCH_ROOT is a libtorch without Python")

    def call(lines, library=library, **environment):
        done = subprocess.run(
            [sys.executable, "-c", LOADED + lines, library],
            text=True, capture_output=True,
            env={**os.environ, "PYTHONPATH": str(torch_root().parent),
                 **environment})
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()
    return call


def test_the_report_as_python_sees_it(python):
    version, report, supported = python(
        "print(torch.__version__, wb06.abi_report(), wb06.is_supported(),"
        " sep='|')").split("|")
    assert report.endswith("runs on " + version.split("+")[0])
    assert supported == "True"


def test_the_text_of_an_error_is_found(python):
    text = python(REFUSED.format("wb06.permute(torch.ones(1, 1), [0, 0])"))
    assert "aten::permute: " in text
    if numbers(torch_version()) >= (2, 13):
        assert "duplicate" in text
    else:
        assert "stderr" in text


def test_a_device_that_no_index_names_is_refused(python):
    devices = (-1, 2**32)
    text = python("".join(REFUSED.format(f"wb06.current_stream({device})")
                          for device in devices))
    for device in devices:
        assert f"device must be an index of a device, got {device}" in text


@pytest.mark.full
@pytest.mark.parametrize("gpu", [False, True])
def test_the_stream_is_found_by_way_of_libtorch(python, tmp_path, gpu):
    """An extension with CUDA kernels links libtorch.so. That one needs
    libtorch_cuda.so, but in a PyTorch for the CPU. Here are both kinds."""
    if is_for_cuda():
        pytest.skip("the real libtorch_cuda is here, and it needs a GPU")
    cuda, libtorch, extension = (
        tmp_path / f"lib{name}.so" for name in ("torch_cuda", "torch", "gating"))
    solution = ROOT / "solutions/06_version_gating/version_gating.cpp"

    def compile(target, source, *options):
        passes("c++", "-std=c++17", "-shared", "-fPIC", "-o", target, source,
               f"-Wl,-soname,{target.name}", "-Wl,--no-as-needed", *options)
    (tmp_path / "none.cpp").write_text("")
    (tmp_path / "cuda.cpp").write_text(
        'extern "C" int aoti_torch_get_current_cuda_stream(int device, '
        "void** stream) { *stream = (char*)1000 + device; return 0; }")
    compile(cuda, tmp_path / "cuda.cpp")
    compile(libtorch, tmp_path / "none.cpp", *[cuda] * gpu)
    compile(extension, solution, "-isystem", torch_root() / "include",
            "-DTORCH_TARGET_VERSION=0x020a000000000000", "-DNAMESPACE=wb06",
            torch_root() / "lib/libtorch_cpu.so", libtorch)
    text = python(REFUSED.format("print(wb06.current_stream(3))"),
                  library=extension, LD_LIBRARY_PATH=str(tmp_path))
    assert text == "1003" if gpu else \
        "aoti_torch_get_current_cuda_stream is missing" in text


def test_it_runs_on_glibc_2_28(library):
    """Its symbols are those of manylinux_2_28. The one newer symbol is a flag that
    torch's headers bring in; chapter 08 defines it itself."""
    symbols = subprocess.run(["nm", "-D", "--undefined-only", library], text=True,
                             capture_output=True, check=True).stdout
    newer = {name for name, minor in
             re.findall(r"(\w+)@GLIBC_2\.(\d+)", symbols) if int(minor) > 28}
    assert newer <= {"__libc_single_threaded"}
