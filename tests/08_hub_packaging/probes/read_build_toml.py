"""Reads a package's build.toml by the Hub's own parser, and prints its backends.

    python read_build_toml.py FOLDER"""

import sys

from kernels._rust import Build

if __name__ == "__main__":
    print(*Build.open(sys.argv[1]).general.backends)
