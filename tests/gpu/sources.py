"""Hashes the code of the kernels that are measured. A page shows a result only while
the tree has the same code.

    sources.py FILE      writes them, for measure.py
"""

import hashlib
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ["solutions/07_cuda_activation_kernel",
           "solutions/08_hub_packaging/activation_cuda"]


def code_of(path: Path) -> str:
    """Return what is compiled: the text without comments, as one line."""
    return " ".join(re.sub(r"//.*", "", path.read_text()).split())


def hashes(root: Path = ROOT) -> dict[str, str]:
    """Return {path: SHA-256} of the code of each .cu and .h."""
    return {path.relative_to(root).as_posix():
            hashlib.sha256(code_of(path).encode()).hexdigest()
            for folder in FOLDERS
            for path in sorted((root / folder).iterdir())
            if path.suffix in (".cu", ".h")}


def changed(result: dict, root: Path = ROOT) -> list[str]:
    """The files that are not those that `result` was measured with."""
    measured, now = result.get("sources", {}), hashes(root)
    return sorted(path for path in {*measured, *now}
                  if measured.get(path) != now.get(path))


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(hashes(), indent=1) + "\n")
