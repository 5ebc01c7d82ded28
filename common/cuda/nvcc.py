"""Prints where nvcc is: in PATH, in /usr/local/cuda, or fetched from PyPI.

    nvcc.py [--fetch] [PROGRAM]

--fetch installs requirements-cuda.txt (120 MB to download, 350 MB on disk) into
~/.cache/libtorch-stable-abi-workbook, outside of the checkout, if there is no
nvcc yet. PROGRAM is another program of the toolkit, such as cuobjdump. Exit
status 1: there is none, and the last line says why.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements-cuda.txt"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
FOLDER = CACHE / "libtorch-stable-abi-workbook" / "cuda-13.0"
BIN = FOLDER / "nvidia/cu13/bin"


def find(program: str = "nvcc") -> str | None:
    for folder in (None, os.environ.get("CUDA_HOME", "") + "/bin",
                   "/usr/local/cuda/bin", str(BIN)):
        found = shutil.which(program, path=folder)
        if found:
            return found
    return None


def fetch() -> str:
    """Installs the toolkit's parts; gives "" or why it could not."""
    part = FOLDER.with_name(f"{FOLDER.name}.{os.getpid()}")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--target", part,
         "-r", REQUIREMENTS], text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode == 0:
        (part / "nvidia/cu13/lib64").symlink_to("lib")  # where nvcc looks
        shutil.rmtree(FOLDER, ignore_errors=True)
        part.rename(FOLDER)
        return ""
    shutil.rmtree(part, ignore_errors=True)
    return "pip could not install requirements-cuda.txt: " + \
        " ".join(done.stdout.strip().splitlines()[-1:])


def main() -> int:
    words = [word for word in sys.argv[1:] if word != "--fetch"]
    program = words[0] if words else "nvcc"
    why = f"no {program}: python3 common/cuda/nvcc.py --fetch gets one"
    if find(program) is None and "--fetch" in sys.argv:
        print("Fetching nvcc from PyPI (120 MB)", file=sys.stderr)
        why = fetch()
    found = find(program)
    print(found or why)
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
