"""The stamp of a result: the machine and the compiler."""

import os
import platform
import re
import subprocess
from pathlib import Path


def hardware() -> dict:
    """Return the processor, and how many cores this process may use."""
    found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return {"cpu": found[1] if found else platform.machine(),
            "cores": len(os.sched_getaffinity(0))}


def machine() -> dict:
    """Return the hardware, with what a benchmark depends on as well."""
    cpu = set(Path("/proc/cpuinfo").read_text().split())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {**hardware(), "threads": os.cpu_count(),
            "memory_gib": round(memory, 1),
            "isa": "avx512" if {"avx512bw", "avx512vl"} <= cpu else
            "avx2" if "avx2" in cpu else
            {"x86_64": "sse2", "aarch64": "neon"}.get(platform.machine(),
                                                      "scalar")}


def system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:  # it has no /etc/os-release
        return platform.system()


def compiler() -> str:
    return subprocess.run(
        [os.environ.get("CXX", "c++"), "--version"], text=True,
        stdout=subprocess.PIPE, check=True).stdout.splitlines()[0]
