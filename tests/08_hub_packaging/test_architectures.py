"""The architectures of CUDA that package.py writes into the metadata."""

import os

import pytest

from base.sheets import find_chapter
from hub.processes import ENVIRONMENT, run_python

CHAPTER = find_chapter("08")


@pytest.mark.parametrize("arch, capability", [
    ("75-real", "7.5"), ("90", "9.0+PTX"), ("90a", "9.0a+PTX"),
    ("90a-real", "9.0a"), ("100f-virtual", "10.0f+PTX"), ("121", "12.1+PTX")])
def test_archs_of_cmake(arch, capability):
    done = ask_package_py("print(found['backend'])", arch)
    assert done.stdout.strip() == str({"type": "cuda", "archs": [capability]})


@pytest.mark.parametrize("arch", ["native", "all", "all-major", "90x", ""])
def test_archs_that_are_no_number_are_refused(arch):
    done = ask_package_py("", arch, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stdout
    assert f"CMAKE_CUDA_ARCHITECTURES has {arch!r}" in done.stdout


def ask_package_py(code, arch, **options):
    """Run code that has `found`, the metadata that package.py writes for a value of
    CMAKE_CUDA_ARCHITECTURES."""
    path = os.pathsep.join([str(CHAPTER.solution), ENVIRONMENT["PYTHONPATH"]])
    return run_python(
        "-c", "import package, sys; found = package.metadata('_a_cuda_1', "
        "'cu130', sys.argv[1:], package.SOURCE / 'torch-ext');" + code,
        arch, PYTHONPATH=path, **options)
