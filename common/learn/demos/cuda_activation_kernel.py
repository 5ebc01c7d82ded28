"""Chapter 07: a kernel whose row number has 32 bits, and the same with 64, run
on the host over a tensor that is larger than 2^32 elements."""

from collections.abc import Callable

from base.project import ROOT
from learn.demos import FOLDER
from torch_stable_abi.programs import CannotRun, run

OTHERS: list[str] = []  # no libtorch is needed
RECORDED = OTHERS

SOURCE = ROOT / "docs/demos/07/gated.cpp"
TESTS = ROOT / "tests/07_cuda_activation_kernel"


def show(versions: list[str], say: Callable[[str], None]) -> bool:
    say("  row           0       1       2  131071  131072  131073")
    say("  gate          0       1       2  131071  131072  131073")
    say("  up            1       1       1       1       1       1")
    rows = [_run(row, say) for row in ("blockIdx.x", "int64_t{blockIdx.x}")]
    return rows[1].split()[1:] == "0 1 2 131071 131072 131073".split()


def _run(row: str, say: Callable[[str], None]) -> str:
    FOLDER.mkdir(parents=True, exist_ok=True)
    program = FOLDER / "gated"
    flags = ["-Wall", "-Wextra", "-Wconversion"]
    say(f"$ c++ {' '.join(flags)} '-DROW={row}' {SOURCE.name}")
    for words in (["c++", "-std=c++17", *flags, "-Werror", f"-DROW={row}",
                   f"-I{TESTS}", SOURCE, "-o", program], [program]):
        done = run(words)
        if done.returncode != 0:
            raise CannotRun(done.stdout[-1500:])
    text = done.stdout.rstrip("\n")
    say(text)
    return text
