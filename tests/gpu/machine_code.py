"""Identifies the kernels that a result was measured with, by a hash of their machine
code and of how they are launched. A page shows a result while the tree makes the same:
files, names and comments may change.

    PYTHONPATH=common:common/abi:tests machine_code.py FILE      for measure.py
"""

import hashlib
import json
import re
import sys
import tempfile
from pathlib import Path

import sass
from base.project import ROOT
from support import passes

SOLUTIONS = ["07_cuda_activation_kernel", "08_hub_packaging"]
ARCH = "sm_90"


def list_folders(solution: Path) -> list[Path]:
    """Return the folders of a solution that its CUDA sources may include."""
    return [solution, *(path for path in solution.rglob("*")
                        if path.is_dir() and any(path.glob("*.h")))]


def hash_texts(texts: list[str]) -> str:
    return hashlib.sha256("\n\n".join(texts).encode()).hexdigest()


def hash_kernels(solution: Path) -> str:
    """Return a hash of the kernels' instructions. A kernel's name changes nothing, but
    one named "backward" is left out, since no result is of the gradient."""
    include = list_folders(solution)
    return hash_texts(sorted(
        "\n".join(re.findall(r"/\*[0-9a-f]{4,5}\*/(.*?;)", code))
        for source in solution.rglob("*.cu")
        for name, code in sass.disassemble(source, include, ARCH).items()
        if "backward" not in name))


def hash_launches(solution: Path) -> str:
    """Return a hash of the widths and blocks that a program prints, which asks the
    launcher for many rows. Nothing is launched, so no GPU is needed."""
    with tempfile.TemporaryDirectory() as made:
        program = Path(made) / "launches"
        passes(sass.program("nvcc"), "-std=c++17",
               *(f"-I{folder}" for folder in list_folders(solution)),
               ROOT / "tests/gpu/launches.cu", "-o", program)
        return hash_texts([passes(program)])


def identify(solutions: Path = ROOT / "solutions") -> dict[str, str]:
    """Return what identifies the kernels of the tree."""
    return {"nvcc": sass.release(), "arch": ARCH,
            "launches": hash_launches(solutions / SOLUTIONS[0]),
            **{name: hash_kernels(solutions / name) for name in SOLUTIONS}}


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(identify(), indent=1) + "\n")
