"""Chapter 06 in Python, which loads libtorch for itself alone (RTLD_LOCAL): what
is looked up at run time must be found all the same."""

import os
import subprocess
import sys

import pytest
from conftest import ROOT
from workspace import build_root, torch_root

LOADED = """
import ctypes, sys
import torch
if len(sys.argv) > 2:
    ctypes.CDLL(sys.argv[2], mode=ctypes.RTLD_LOCAL)
torch.ops.load_library(sys.argv[1])
wb06 = torch.ops.wb06
"""


@pytest.fixture(scope="module")
def python():
    """Runs lines in a Python that has torch, with chapter 06's library."""
    if not (torch_root() / "__init__.py").exists():
        pytest.skip("TORCH_ROOT is a libtorch without Python")
    build_root("release", ["06_version_gating"])
    library = ROOT / "build/release/solutions/06_version_gating" \
        / "libversion_gating.so"

    def call(lines, *arguments):
        done = subprocess.run(
            [sys.executable, "-c", LOADED + lines, library, *arguments],
            text=True, capture_output=True,
            env={**os.environ, "PYTHONPATH": str(torch_root().parent)})
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()
    return call


def test_the_report_as_python_sees_it(python):
    text = python("print(torch.__version__, '|', wb06.abi_report())")
    version, report = text.split(" | ")
    assert report.endswith("runs on " + version.split("+")[0])


def test_the_text_of_an_error_is_found(python):
    version, text = python(
        "print(torch.__version__, wb06.failing_call())").split(" ", 1)
    assert "device: " in text
    if tuple(map(int, version.split(".")[:2])) >= (2, 13):
        assert "gpu" in text
    else:
        assert "stderr" in text


def test_a_library_that_python_loaded_for_itself_is_found(python, tmp_path):
    """As libtorch_cuda is: not among what the extension is linked with."""
    if (torch_root() / "lib/libtorch_cuda.so").exists():
        pytest.skip("the real libtorch_cuda is here, and it needs a GPU")
    fake = tmp_path / "libtorch_cuda.so"
    subprocess.run(
        ["c++", "-shared", "-fPIC", "-Wl,-soname,libtorch_cuda.so", "-xc++", "-",
         "-o", fake], check=True, text=True,
        input='extern "C" int aoti_torch_get_current_cuda_stream(int device, '
              "void** stream) { *stream = (char*)1000 + device; return 0; }")
    assert python("print(wb06.current_stream(3))", fake) == "1003"
    missing = python("try: wb06.current_stream(0)\n"
                     "except RuntimeError as error: print(error)")
    assert "aoti_torch_get_current_cuda_stream is not loaded" in missing

