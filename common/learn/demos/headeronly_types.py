"""Chapter 01: one source, built with the headers of two versions of PyTorch,
without a clamp and with one."""

from collections.abc import Callable

from base.project import ROOT
from learn.demos import FOLDER
from torch_stable_abi.libtorch import runtimes
from torch_stable_abi.libtorch.versions import numbers
from torch_stable_abi.programs import CannotRun, run

OTHERS = RECORDED = ["2.10.0"]

SOURCE = ROOT / "docs/demos/01/quantise.cpp"


def show(versions: list[str], say: Callable[[str], None]) -> bool:
    versions = sorted([*versions, runtimes.installed()], key=numbers)
    say("  row    1.5   -20   300   464   500")
    kept = set()
    for flags in ([], ["-DCLAMP"]):
        for version in versions:
            command = ["c++", "-std=c++17", *flags]
            say(f"$ {' '.join(command)} -isystem torch-{version}/include "
                f"{SOURCE.name}")
            row = _run([*command, "-isystem", runtimes.root(version) / "include"])
            say(row)
            if flags:
                kept.add(row)
    return len(kept) == 1


def _run(command: list) -> str:
    FOLDER.mkdir(parents=True, exist_ok=True)
    program = FOLDER / "quantise"
    for words in ([*command, SOURCE, "-o", program], [program]):
        done = run(words)
        if done.returncode != 0:
            raise CannotRun(done.stdout[-1500:])
    return done.stdout.rstrip("\n")
