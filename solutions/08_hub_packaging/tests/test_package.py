"""What is built: the variants that are there load, and kernel-builder, which
reads build.toml alone, builds what CMakeLists.txt does."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
VARIANTS = sorted(path.parent for path in ROOT.glob("build/torch*/metadata.json"))
SOURCE = r"[\w/-]+\.(?:cpp|cu|h)\b"


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda path: path.name)
def test_every_variant_loads(variant):
    """One for a GPU that is not here does too: a kernel that was not linked is
    missed when the library is loaded, not when it is built."""
    library, = variant.glob("*.so")
    done = subprocess.run(
        [sys.executable, "-c", "import ctypes, sys, torch;"
         "ctypes.CDLL(sys.argv[1])", library], text=True, capture_output=True)
    missing = re.search(r"libcudart\S+: cannot open shared", done.stderr)
    if missing:
        pytest.skip(f"{missing[0]}: a torch for CPU does not bring it")
    assert done.returncode == 0, done.stderr


def test_build_toml_has_what_cmake_builds():
    text = (ROOT / "build.toml").read_text()
    listed = set(re.findall(rf'"({SOURCE})"', text))
    there = {str(path.relative_to(ROOT)) for folder in
             ("torch-ext", "activation_cpu", "activation_cuda")
             for path in (ROOT / folder).rglob("*")
             if path.suffix in (".cpp", ".cu", ".h")}
    assert listed == \
        there - {"torch-ext/registration.h"}  # kernel-builder has its own


def test_build_toml_has_each_kernels_headers():
    """A section that lacks one is found by kernel-builder alone, which copies
    the listed files and no other."""
    folders = {path.rpartition("/")[0] for path in re.findall(
        rf'"({SOURCE})"', (ROOT / "build.toml").read_text())}
    for section in (ROOT / "build.toml").read_text().split("\n[")[1:]:
        files = re.findall(rf'"({SOURCE})"', section)
        for file in files:
            for name in re.findall(r'#include "(\w+\.h)"',
                                   (ROOT / file).read_text()):
                found = {f"{folder}/{name}" for folder in folders}
                assert found & {*files, "torch-ext/registration.h"}, \
                    f"[{section.splitlines()[0]} {file} includes {name}"
