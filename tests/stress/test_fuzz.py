"""Coverage-guided fuzzing of the conversions of chapter 02 and of chapter 03's
stack.h by clang's libFuzzer, under AddressSanitizer, UBSan and LeakSanitizer.
`--fuzz 600` takes ten minutes for each where
this takes ten seconds. A failure ends with the bytes that lead to it, in base64:
`base64 -d <<<... >input && fuzz_stack input` runs them again."""

import os
import re
import shutil
import subprocess

import pytest

from base.project import ROOT
from base.sheets import find_chapter
from support import at_once
from torch_stable_abi.libtorch.installed import torch_root

# A target, the chapter whose headers it includes, and a fault to be found.
TARGETS = {
    "conversions": ("02", "slot.h",
                    "      const OwnedSlot<T> owned(element); // released", "//"),
    "stack": ("03", "stack.h", "      kRelease[first](slots[first]);", "")}
EACH = pytest.mark.parametrize("target", TARGETS)
pytestmark = pytest.mark.full


def compile(target, headers, folder):
    clang = shutil.which("clang++")
    assert clang, "clang++ is not installed: apt-get install clang"
    torch = torch_root()
    folder.mkdir(exist_ok=True)
    program = folder / f"fuzz_{target}"
    done = subprocess.run(
        list(map(str, [
            clang, "-std=c++17", "-O1", "-g", "-fsanitize=fuzzer,address,undefined",
            "-fno-sanitize-recover=undefined",
            "-DTORCH_TARGET_VERSION=0x020a000000000000", "-isystem",
            torch / "include", "-I", headers, ROOT / f"tests/stress/fuzz_{target}.cpp",
            f"-L{torch}/lib", "-ltorch_cpu", "-lc10", "-o", program])),
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    return program


def planted(target, folder):
    """Return the chapter's headers with the fault in them."""
    number, name, old, new = TARGETS[target]
    copy = folder / target
    shutil.copytree(find_chapter(number).solution, copy)
    text = (copy / name).read_text()
    assert text.count(old) == 1, f"{name} does not hold {old!r} once"
    (copy / name).write_text(text.replace(old, new))
    return copy


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Each target on the solution, and on the solution with the fault."""
    folder = tmp_path_factory.mktemp("fuzz")
    names = [(t, kind) for kind in ("right", "wrong") for t in TARGETS]
    made = at_once(*(
        (compile, target,
         find_chapter(TARGETS[target][0]).solution if kind == "right"
         else planted(target, folder), folder / kind)
        for target, kind in names))
    return dict(zip(names, made))


def fuzz(program, seconds, seed=1):
    """Return the number of inputs tried, and the coverage; fails with the input that
    ends it."""
    done = subprocess.run(
        [program, f"-max_total_time={seconds}", f"-seed={seed}",
         f"-artifact_prefix={program}-", "-print_final_stats=1"],
        text=True, errors="replace", capture_output=True,
        env={**os.environ, "LD_LIBRARY_PATH": f"{torch_root()}/lib",
             "OMP_NUM_THREADS": "1"})
    text = done.stdout + done.stderr
    bytes_ = re.findall(r"^Base64: .*", text, re.M)
    assert done.returncode == 0, "\n".join([text[-4000:], *bytes_])
    runs = int(re.search(r"Done (\d+) runs", text)[1])
    edges = int(re.findall(r" cov: (\d+) ", text)[-1])
    print(f"{program.name}: {runs} inputs, {edges} edges")  # shown by -s
    return runs, edges


@EACH
def test_fuzz(programs, target, request):
    runs, edges = fuzz(programs[target, "right"],
                       request.config.getoption("--fuzz"))
    assert runs > 1000 and edges > 100


@EACH
def test_the_fault_is_found(programs, target):
    """It takes a second or two; a busy machine may take longer."""
    with pytest.raises(AssertionError, match="(?s)detected memory leaks.*Base64"):
        fuzz(programs[target, "wrong"], 60)
