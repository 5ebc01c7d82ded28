"""Loads a kernel of a folder by the Hub's loader, and prints its id.

    python load_local_kernel.py FOLDER"""

import sys
from pathlib import Path

from kernels import get_local_kernel

if __name__ == "__main__":
    print(get_local_kernel(Path(sys.argv[1]), backend="cpu").__name__)
