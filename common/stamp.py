"""What a result is stamped with: the machine and the compiler."""

import os
import platform
import re
import subprocess
from pathlib import Path


def hardware() -> dict:
    """Of the cores, those that this process may use."""
    found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return {"cpu": found[1] if found else platform.machine(),
            "cores": len(os.sched_getaffinity(0))}


def compiler() -> str:
    return subprocess.run(
        [os.environ.get("CXX", "c++"), "--version"], text=True,
        stdout=subprocess.PIPE, check=True).stdout.splitlines()[0]
