"""Chapter 05: three slots for an op that takes four, with one thing and another
behind them in memory; then the same call declared, and compared."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

from base.project import ROOT
from learn.demos import FOLDER
from torch_stable_abi.commands import schemas
from torch_stable_abi.libtorch import runtimes
from torch_stable_abi.libtorch.installed import torch_root
from torch_stable_abi.programs import CannotRun, run

OTHERS: list[str] = []  # only the one that is here
RECORDED = OTHERS

SOURCES = ROOT / "docs/demos/05"
HEADERS = ROOT / "solutions/05_torch_call_dispatcher"


def show(versions: list[str], say: Callable[[str], None]) -> bool:
    by_hand = _compile("sum", [], say)
    for behind in ("0", "1", "slot"):
        _run(by_hand, behind, say)
    refused = not _fits(_compile("declared", ["-shared"], say), say)
    fits = _fits(_compile("declared", ["-shared", "-DDTYPE"], say), say)
    return _run(_compile("declared", ["-DDTYPE"], say), "", say) and \
        fits and refused


def _compile(name: str, flags: list[str], say: Callable[[str], None]) -> Path:
    FOLDER.mkdir(parents=True, exist_ok=True)
    target = FOLDER / (name + ".so" * ("-shared" in flags))
    say(f"$ {' '.join(['c++', *flags])} {name}.cpp -o {target.name}")
    lib = torch_root() / "lib"
    done = run(["c++", "-std=c++17", "-fPIC", *flags, f"-I{HEADERS}",
                "-DTORCH_TARGET_VERSION=0x020a000000000000",
                "-isystem", torch_root() / "include", SOURCES / f"{name}.cpp",
                "-o", target, lib / "libtorch_cpu.so", lib / "libc10.so"])
    if done.returncode != 0:
        raise CannotRun(done.stdout[-1500:])
    return target


def _run(program: Path, behind: str, say: Callable[[str], None]) -> bool:
    say(f"$ ./{program.name} {behind}".rstrip())
    done = run([program, behind], env={
        **os.environ, "LD_LIBRARY_PATH": str(torch_root() / "lib")})
    say(done.stdout.rstrip("\n") if done.returncode >= 0 else
        f"  ended by {signal.Signals(-done.returncode).name}")
    return done.returncode == 0


def _fits(library: Path, say: Callable[[str], None]) -> bool:
    version = runtimes.installed()
    say(f"$ ./workbook schemas {library.name}")
    (found,) = schemas.check(library, [version])["versions"][version].items()
    call, problems = found
    say(f"  {call}\n    " + ("\n    ".join(problems) or "ok"))
    return not problems
