"""Chapter 09: a library as a port by a tool and in a hurry leaves it, compared with
what it was. The lines that a person did not look at yet compile, and behave
differently."""

import re
import subprocess
import sys
from collections.abc import Callable

from base.hunks import starter_with
from base.project import ROOT
from base.requirements import see_torch
from base.sheets import find_chapter
from learn.demos import FOLDER, build_once, fold
from torch_stable_abi.libtorch.installed import torch_root
from torch_stable_abi.programs import CannotRun

OTHERS: list[str] = []  # the one that is here
RECORDED: list[str] = []
TARGET = "-DTORCH_TARGET_VERSION=0x020a000000000000"
SHOWN = 150  # characters of a reason


def prepare() -> None:
    see_torch()


def show(versions: list[str], say: Callable[[str], None]) -> bool:
    chapter = find_chapter("09")
    original = chapter.solution / "original"
    old = build_once("librowops_before.so", original / "ops.cpp", "-shared",
                     "-std=c++17", "-fopenmp", torch_root() / "lib/libc10.so")
    left = FOLDER / "as_port_leaves_it"
    left.mkdir(parents=True, exist_ok=True)
    for name, text in starter_with(chapter, "09.1").items():
        if name.endswith((".h", ".cpp")) and "/" not in name:
            if not (left / name).exists() or (left / name).read_text() != text:
                (left / name).write_text(text)
    statuses = []
    for title, source in (
            ("As the tool and a hurried hand leave it, against the original:", left),
            ("With the lines that a person decides:", chapter.solution)):
        new = build_once(f"librowops_{source.name}.so", source / "rowops.cpp",
                         "-shared", "-std=c++17", TARGET)
        done = subprocess.run(
            [sys.executable, "-B", ROOT / "common", "compare", old, new,
             original / "cases.py"], text=True, capture_output=True)
        if done.returncode not in (0, 1):
            raise CannotRun(f"compare: {done.stderr[-1000:]}")
        say(title)
        for line in done.stdout.splitlines():
            line = re.sub(r"/[^,()]*/|[^\s,()]*/|, line \d+", "", line)
            say(fold("  " + line[:SHOWN] + ("..." if len(line) > SHOWN else "")))
        say("")
        statuses.append(done.returncode)
    return statuses == [1, 0]
