"""./workbook trace, on published bugs, wrong and right, and on planted faults."""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections import Counter

import pytest

from base.project import ROOT
from matrix import stand_in
from support import passes
from torch_stable_abi import cli
from torch_stable_abi.commands import trace as trace_command
from torch_stable_abi.libtorch import runtimes
from torch_stable_abi.libtorch.installed import torch_root
from torch_stable_abi.libtorch.versions import numbers, supported
from torch_stable_abi.trace import library

MINE = runtimes.installed()
HERE = ROOT / "tests/tool/trace"
# What is said of each wrong op of bugs.cpp: the class, the slot, the cause.
BUGS = {
    "backward": ("error", r"bugs::backward, return 0 \(Tensor\): was not written: it "
                          "still is argument 0, which was released"),
    "zeros_one_slot": ("error", r"aten::zeros_like, argument \d \(\w+\?\): "),
    "zeros_vector": ("error", r"aten::zeros_like, argument [123] \(\w+\?\): "),
    "sum_three": ("error", r"aten::sum.dim_IntList, argument 3 \(ScalarType\?\): "
                           "beyond the end of the caller's array.*room for 3 slots"),
    "length": ("pytorch", "copy of a str, argument 0 of bugs::length: never released, "
                          "by PyTorch's headers up to 2.13"),
    "multiply": ("error", "to which it was given as argument 1 of aten::mul.Tensor, "
                          "and released again by aoti_torch_delete_tensor_object in "
                          "bugs::multiply"),
    "square": ("error", r"aten::mul.Tensor, argument 1 \(Tensor\): the same Tensor as "
                        "in slot 0: two owners need two"),
    "joined": ("error", r"aten::cat, argument 0 \(Tensor\[\]\): the same Tensor in "
                        r"\[1\] as in \[0\]: two owners need two"),
    "named": ("error", "str, torch_new_string_handle in bugs::named: released as a "
                       "Tensor, by aoti_torch_delete_tensor_object in bugs::named"),
    "unowned": ("error", r"bugs::unowned, return 0 \(Tensor\): was released before, by "
                         "aoti_torch_delete_tensor_object in bugs::unowned"),
    "ignored": ("error", "Tensor, argument 1 of bugs::ignored: never released"),
    "forgotten": ("error", r"Tensor, return 0 of aten::mul.out, called in "
                           r"bugs::forgotten \(libwrong.so\): never released"),
    "twice": ("error", r"return 0 of aten::mul.Tensor, called in bugs::twice "
                       r"\(libwrong.so\): released by .*, and released again by "
                       "aoti_torch_delete_tensor_object in bugs::twice"),
    "cumulated": ("error", r"aten::cumsum, argument 2 \(ScalarType\?\): is no address, "
                           "where a heap slot of an optional should be"),
    "missing": ("error", "aten::no_such_op: this libtorch has no such op; called by "
                         "libwrong.so"),
    "thrown": ("error", "Tensor, argument 0 of bugs::thrown whose kernel threw: never "
                        "released"),
    "beyond": ("error", r"bugs::beyond, slot 1 \(\?\): was written beyond the end of "
                        "the stack, which has 1 slot$"),
    "sum_flag": ("error", r"aten::sum.dim_IntList, argument 2 \(bool\): a bool is 0 or "
                          "1: 2"),
    "close": ("suspicious", r"aten::allclose, argument 2 \(float\): has the bits of a "
                            "32-bit float: 925353388"),
    "confused": ("error", r"bugs::two, return 0 \(Tensor\): has the bits of a "
                          r"Tensor\?: libtorch \d.\d+ confuses the types of returns"),
    "negative": ("suspicious", r"aten::softmax.int, argument 1 \(int\): has the bits "
                               "of a negative 32-bit int: 4294967295"),
    "negative_in_list": (
        "suspicious", r"aten::sum.dim_IntList, argument 1 \(int\[\]\?\): \[0\] has the "
                      "bits of a negative 32-bit int: 4294967295"),
    "vector_of_one": ("error", r"aten::sum, argument 1 \(ScalarType\?\): beyond the "
                               "end of the caller's array.*room for 1 slot$"),
    "vector_of_two": ("error", r"aten::cumsum, argument 2 \(ScalarType\?\): beyond the "
                               "end of the caller's array.*room for 2 slots"),
    "parallel": ("error", "Tensor, aoti_torch_new_tensor_handle in bugs::parallel: "
                          "never released"),
    "behind": ("error", r"slot 1, behind the arguments: used as a Tensor, by "
                        "aoti_torch_get_dim in bugs::behind"),
    "as_list": ("error", "Tensor, argument 0 of bugs::as_list: used as a list, by "
                         "torch_list_size in bugs::as_list"),
    "dtype": ("error", "aten::softmax.int, argument 2 .*is the code of no dtype: "
                       "ffffffff00000000"),
    "unmade": ("error", "null, since aoti_torch_empty_strided failed: used as a "
                        "Tensor, by aoti_torch_get_dim in bugs::unmade"),
    "none": ("error", "null, as is argument 1 of bugs::optional: used as a Tensor, by "
                      "aoti_torch_get_dim in bugs::optional"),
    "some": ("error", "heap slot of an optional, argument 1 of bugs::optional: used as "
                      "a Tensor, by aoti_torch_get_dim in bugs::optional"),
    "flag": ("error", "0000000000000001, which is no address: used as a Tensor, by "
                      "aoti_torch_get_dim in bugs::flag"),
    "literal": ("error", r"aten::gelu, argument 1 \(str\): is an address in "
                         "libwrong.so, where a str should be"),
    "boxed": ("error", "IValue, aoti_torch_tensor_to_ivalue in bugs::boxed: never "
                       "released"),
    "small": ("suspicious", r"aten::softmax.int, argument 1 \(int\): has the bits of a "
                            "float"),
    "unasked": ("note", r"aten::softmax.int failed in bugs::unasked \(libwrong.so\), "
                        "and the kernel returned all the same"),
}
SILENT = ["gelu", "kept"]  # libtorch's own, and what is not lost
# No second error follows from these.
SINGLE = {"named", "dtype", "boxed"}
# Of these libtorch itself may end the process.
CRASHES = {"backward", "zeros_one_slot", "zeros_vector", "sum_three", "unowned",
           "twice", "cumulated", "square", "behind", "vector_of_one", "vector_of_two",
           "unmade", "none", "some", "flag", "literal", "joined"}
# What is held when the program ends, though its end may destroy what holds it.
HELD = ["cached", "cached_by_thread", "marked", "shared"]


def compiled(folder, source, name, *options):
    passes(os.environ.get("CXX", "c++"), "-std=c++20", "-w", "-isystem",
           torch_root() / "include", f"-I{ROOT}/common",
           "-DTORCH_TARGET_VERSION=0x020a000000000000", HERE / source, *options, "-o",
           folder / name, f"-L{torch_root()}/lib", "-ltorch_cpu")
    return folder / name


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trace")
    compiled(folder, "bugs.cpp", "libwrong.so", "-shared", "-fPIC", "-O1")
    compiled(folder, "bugs.cpp", "libright.so", "-shared", "-fPIC", "-O1", "-DRIGHT")
    compiled(folder, "caller.cpp", "caller")
    return folder


@pytest.fixture
def trace(workbook):
    def call(*words, version=MINE, **environment):
        libraries = f"{runtimes.root(version) / 'lib'}:{stand_in()}"
        return workbook("trace", *words, LD_LIBRARY_PATH=libraries, **environment)
    return call


def found(text: str, of: str = "error|suspicious") -> list[str]:
    return re.findall(rf"^(?:{of}) .*", text, re.M)


@pytest.mark.full
def test_a_wrong_and_a_right_one(programs, trace, request):
    words = [programs / "caller", programs / "libwrong.so", "bugs::ignored"]
    done = trace("--", *words)
    assert done.returncode == 1, done.stderr
    assert done.stdout == "bugs::ignored returned\n"  # nothing of the tracer's
    assert re.search(r"kernel bugs::ignored\(Tensor x, Tensor\? scale\) -> Tensor, "
                     r"libwrong.so\n"
                     r" +slot 0  argument Tensor  [0-9a-f]{16}  Float \[2, 3\]\n",
                     done.stderr), done.stderr
    assert re.search(r"slot 1  argument  [0-9a-f]{16}  Tensor: not released",
                     done.stderr)
    assert f"libtorch {'.'.join(MINE.split('.')[:2])}: kernels called 3 times" \
        in done.stderr
    if request.config.getoption("--record"):
        first = re.split(
            r"^(?=call bugs::ignored\()", done.stderr, flags=re.M)[1]
        (ROOT / "docs/results/trace.txt").write_text(
            first + "...\n" + re.sub(r"process \d+", "process 4711", done.stderr[
                done.stderr.index("-" * 60):]))
    words[1] = programs / "libright.so"
    done = trace("--summary", "--", *words)
    assert done.returncode == 0 and not found(done.stderr), done.stderr
    assert "slot 0" not in done.stderr


def all_bugs(programs, trace, version):
    """Return the planted bugs that the trace does not name on this version, and the run
    of the trace on their right twins."""
    wrong = []
    for op, (of, text) in BUGS.items():
        done = trace("--summary", "--", programs / "caller",
                     programs / "libwrong.so", f"bugs::{op}", version=version)
        named = any(re.search(text, line) for line in found(done.stderr, of))
        status = done.returncode in ((1,) if of == "error" else (0,)) or \
            op in CRASHES and done.returncode > 128
        summary = done.stderr.partition("-" * 60)[2]
        single = op not in SINGLE or len(found(summary)) == 1
        if not named or not status or not single:
            wrong.append((op, done.returncode, found(done.stderr)))
    ops = [f"bugs::{op}" for op in [*BUGS, *SILENT]]
    done = trace("--summary", "--", programs / "caller", programs / "libright.so", *ops,
                 version=version)
    return wrong, done


@pytest.mark.full
@pytest.mark.parametrize("version", sorted({MINE, *supported()}, key=numbers))
def test_published_bugs(version, programs, trace):
    if version != MINE:
        runtimes.fetch(version)
    wrong, right = all_bugs(programs, trace, version)
    assert not wrong
    assert right.returncode == 0 and not found(right.stderr), right.stderr
    assert "kernels called" in right.stderr and "all the same" not in right.stderr
    lost = "given as argument 1 of aten::gelu" in right.stderr
    assert lost == (numbers(version) < (2, 14))  # which mended it


@pytest.mark.full
@pytest.mark.parametrize("op", HELD)
def test_what_is_held_to_the_end(op, programs, trace):
    done = trace("--summary", "--", programs / "caller", programs / "libwrong.so",
                 f"bugs::{op}")
    assert done.returncode == 0 and not found(done.stderr), done.stderr
    assert times(done.stderr, "Tensor, aoti_torch_new_tensor_handle in "
                 f"bugs::{op}: still held at the end") == 1, done.stderr


@pytest.mark.full
def test_few_files_may_be_open(programs, trace):
    done = trace("--summary", "--", "sh", "-c", 'ulimit -n 60; exec "$0" "$@"',
                 programs / "caller", programs / "libwrong.so", "bugs::ignored")
    assert "argument 1 of bugs::ignored: never released" in done.stderr, done


@pytest.mark.full
def test_threads_that_work_at_the_end(programs, trace):
    done = trace("--summary", "--", programs / "caller", programs / "libwrong.so",
                 "bugs::working")
    assert done.returncode == 0 and not found(done.stderr), done.stderr


@pytest.mark.full
def test_an_end_in_another_thread(programs, trace):
    """What the first thread's stack holds is not lost."""
    done = trace("--summary", "--", programs / "caller", programs / "libright.so",
                 "bugs::ignored", "exit")
    assert done.returncode == 0 and not found(done.stderr), done.stderr
    assert times(done.stderr, "empty.memory_format, called by caller: still held at "
                 "the end") == 1, done.stderr


@pytest.mark.full
def test_why_a_call_failed(programs, trace):
    words = [programs / "caller", programs / "libright.so", "bugs::unasked"]
    done = trace("--op", "aten::softmax*", "--", *words)
    failed = re.search(r"^ +call aten::softmax.int failed(.*)", done.stderr, re.M)
    assert failed and ("Dimension out of range" in failed[1]
                       or numbers(MINE) < (2, 13)), done.stderr
    assert re.search(r"^note +aten::softmax.int failed, called in bugs::unasked "
                     r"\(libright.so\)", done.stderr, re.M)


@pytest.mark.full
def test_for_machines(programs, trace, tmp_path):
    words = ["--", programs / "caller", programs / "libwrong.so", "bugs::close"]
    assert trace("--summary", *words).returncode == 0
    done = trace("--summary", "--strict", "--json", tmp_path / "json", *words)
    assert done.returncode == 1
    told = json.loads((tmp_path / "json").read_text())
    assert told["schema"] == 1 and told["status"] == 1
    process, = told["processes"]
    assert process["kernels"] == 3 and process["summary"]
    finding, = process["findings"]
    assert finding == {
        "rule": "bits-of-float32", "level": "suspicious", "op": "aten::allclose",
        "slot": 2, "times": 3, "text": "aten::allclose, argument 2 (float): has the "
                                       "bits of a 32-bit float: 925353388"}


def planted(programs, trace, seed, count):
    """{kind: [planted, named]}, and what was not."""
    done = trace("--summary", "--", programs / "planted", seed, count,
                 OMP_NUM_THREADS="1")
    counts, hits, missed = Counter(), Counter(), []
    for chunk in re.split(r"^@@@ \d+\n", done.stderr, flags=re.M):
        if mark := re.search(r"^@@ (.*?)\|(.*)$", chunk, re.M):
            kind, what = mark.groups()
            said = found(chunk)
            hit = any(what in line for line in said) if what else not said
            counts[kind] += 1
            hits[kind] += hit
            if not hit:
                missed.append((kind, what, said))
    return counts, hits, missed


@pytest.fixture(scope="module")
def planting(programs):
    compiled(programs, "planted.cpp", "planted", "-O1",
             ROOT / "common/abi/torch_stable_abi/trace/slots.cpp")
    return programs


@pytest.mark.full
@pytest.mark.parametrize("seed", [1])
def test_planted_faults(seed, planting, trace):
    counts, hits, missed = planted(planting, trace, seed, 300)
    assert len(counts) == 30 and sum(counts.values()) == 300
    assert hits["none"] == counts["none"], missed  # no false alarm
    assert hits["thrown"] == counts["thrown"], missed
    assert sum(hits.values()) >= 0.99 * sum(counts.values()), missed


PYTHON = """
import sys, threading, torch
torch.ops.load_library(sys.argv[1])
x = torch.ones(2, 3)
def work():
    for _ in range(50):
        torch.ops.bugs.multiply(x)
        torch.ops.bugs.ignored(x, x)
        try:
            torch.ops.bugs.thrown(x)
        except RuntimeError as error:
            assert "thrown by bugs.cpp" in str(error)
threads = [threading.Thread(target=work) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
@torch.library.register_fake("bugs::multiply")
def _(x):
    return torch.empty_like(x)
f = torch.compile(lambda x: torch.ops.bugs.multiply(x) + 1, backend="aot_eager")
print(f(x).sum().item(), torch.ops.bugs.length("hello there", x))
"""


PROCESSES = """
import ctypes, multiprocessing, os, platform, sys, time, torch
how = sys.argv[2]
ctypes.CDLL(sys.argv[1], os.RTLD_NOW | (os.RTLD_DEEPBIND if how == "deep" else 0))
op, x = getattr(torch.ops.bugs, sys.argv[3]), torch.ones(2, 3)
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, i):
        return op(x)
def work():
    for _ in range(4): op(x)
    if how == "killed": os.kill(os.getpid(), 9)
if how == "loader":
    for _ in torch.utils.data.DataLoader(Data(), num_workers=1): pass
elif how == "exit":
    work()
    os._exit(0)
elif how == "closed":
    os.closerange(2, 4096)
    files = [open(f"{sys.argv[0]}.{i}", "w") for i in range(200)]
    work()
elif how == "deep":
    work()
elif how == "system call":
    work()
    ctypes.CDLL(None).syscall(231 if platform.machine() == "x86_64" else 94, 0)
elif how.startswith("daemon"):
    if os.fork() or os.fork(): os._exit(0)
    time.sleep(float(how.split()[1]))
    work()
elif how == "kept":
    numbers = [op(x) for _ in range(4)]
else:
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join()
"""


@pytest.mark.full
@pytest.mark.skipif(not (torch_root() / "__init__.py").exists(),
                    reason="libtorch alone: there is no torch for Python")
def test_python_processes(programs, workbook, tmp_path):
    """Workers end by _exit: they have their summaries all the same."""
    script = tmp_path / "script.py"
    script.write_text(PROCESSES)

    def call(how, op):
        return workbook(
            "trace", "--summary", "--", ROOT / ".venv/bin/python", script,
            programs / "libwrong.so", how, op, PYTHONPATH=str(torch_root().parent))
    for how in "loader", "fork", "exit", "closed", "daemon 0.5":
        done = call(how, "forgotten")
        assert done.returncode == 1 and "kernels called 4 times" in done.stderr
        assert re.search(r"aten::mul.out, .*never released \(4 times\)", done.stderr)
    assert not any(file.stat().st_size for file in tmp_path.glob("script.py.*"))
    done = call("fork", "kept")
    assert done.returncode == 0 and not found(done.stderr), done.stderr
    done = call("killed", "kept")
    assert done.returncode == 2, done.stderr
    assert "1 process that ran kernels ended by a signal or exec" in done.stderr
    done = call("system call", "kept")
    assert done.returncode == 2 and "ended with status 0, neither by exit" in \
        done.stderr, done.stderr
    done = call("daemon 7", "forgotten")
    assert done.returncode == 2, done.stderr
    assert re.search(r"1 process that loaded libtorch still runs 5 s after the "
                     r"program's end \(\d+\)", done.stderr), done.stderr
    done = call("deep", "forgotten")
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("libwrong.so calls libtorch past the tracer, as after "
                             "RTLD_DEEPBIND") == 1, done.stderr
    done = call("kept", "number")
    assert done.returncode == 0 and not found(done.stderr), done.stderr
    assert times(done.stderr, "Tensor, aoti_torch_new_tensor_handle in bugs::number: "
                 "still held at the end") == 4


@pytest.mark.full
@pytest.mark.skipif(not (torch_root() / "__init__.py").exists(),
                    reason="libtorch alone: there is no torch for Python")
def test_under_address_sanitizer(tmp_path, request):
    """The recipe of the page, on a fault that the tracer does not see."""
    compiler = os.environ.get("CXX", "c++")
    runtime, standard = (passes(compiler, f"-print-file-name={name}").strip()
                         for name in ("libasan.so", "libstdc++.so"))
    if not os.path.isabs(runtime):
        pytest.skip("this compiler has no AddressSanitizer")
    compiled(tmp_path, "braces.cpp", "libbraces.so", "-shared", "-fPIC", "-O1", "-g",
             "-fsanitize=address", "-fno-omit-frame-pointer")
    script = tmp_path / "script.py"
    script.write_text("import torch\n"
                      f"torch.ops.load_library('{tmp_path}/libbraces.so')\n"
                      "print(torch.ops.braces.sum_of_first(torch.ones(2, 3)))\n")
    done = subprocess.run(
        [ROOT / ".venv/bin/python", script], text=True, capture_output=True, env={
            **os.environ, "PYTHONPATH": str(torch_root().parent),
            "LD_PRELOAD": f"{runtime} {standard}", "ASAN_OPTIONS": "detect_leaks=0"})
    found = re.search(r"ERROR: AddressSanitizer: stack-use-after-scope.*?\n\n.*?\n"
                      r"HINT", done.stderr, re.S)
    assert done.returncode != 0 and found and "braces.cpp:10" in found[0], done.stderr
    if request.config.getoption("--record"):
        (ROOT / "docs/results/asan.txt").write_text(shorten(found[0]))


def shorten(report: str) -> str:
    """Return what a reader needs of a report: the lines on the fault and on the stack,
    and the frames of one's own sources."""
    lines = []
    for line in report.splitlines()[:-1]:
        frame = re.match(r" +#\d+ 0x\w+ in (.*) \S*/(\w+\.(?:cpp|h)):(\d+)$", line)
        if frame and (frame[2] == "braces.cpp" or "::sum(" in frame[1]):
            name = re.sub(r"\(.*", "", frame[1])
            lines.append(f"    in {name}, {frame[2]}:{frame[3]}")
        elif not re.match(r" +#|$", line):
            line = re.sub(r" at pc .*", "", line)
            lines.append(re.sub(r"0x[0-9a-f]{12}", "0x7ffc0911abe0", line))
    return "\n".join(lines) + "\n"


def times(text, what):
    """Return how often it was found, by the summary at the end."""
    line = re.search(rf"{what}(?: \((\d+) times\))?$", text.partition("\n---")[2],
                     re.M)
    return int(line[1] or 1) if line else 0


@pytest.mark.full
@pytest.mark.skipif(not (torch_root() / "__init__.py").exists(),
                    reason="libtorch alone: there is no torch for Python")
def test_python_threads_and_compile(programs, workbook, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(PYTHON)
    for name, status in ("right", 0), ("wrong", 1):
        done = workbook(
            "trace", "--summary", "--output", tmp_path / name, "--",
            ROOT / ".venv/bin/python", script, programs / f"lib{name}.so",
            PYTHONPATH=str(torch_root().parent))
        assert done.returncode == status, done.stderr
        assert done.stdout.endswith("11\n")
        text = (tmp_path / name).read_text()
        assert bool(found(text)) == bool(status), text
    # Of each thread the last one's address may still lie somewhere in memory.
    lost, held = (times(text, f"Tensor, argument 1 of bugs::ignored: {what}")
                  for what in ("never released", "still held at the end"))
    assert lost + held == 200 and held <= 4, text
    assert times(text, "released again by .* in bugs::multiply") == 201


@pytest.mark.full
def test_only_some_ops_are_drawn(programs, trace, tmp_path):
    done = trace("--op", "aten::mul*", "--output", tmp_path / "out", "--",
                 programs / "caller", programs / "libright.so", "bugs::square",
                 "bugs::ignored")
    assert done.returncode == 0 and not done.stderr
    text = (tmp_path / "out").read_text()
    assert text.count("call aten::mul.Tensor(Tensor self, Tensor other) -> ") == 3
    assert "aten::empty_like" not in text and "bugs::" not in text
    done = trace("--op", "aten::zeros*", "--", programs / "caller",
                 programs / "libright.so", "bugs::zeros_vector")
    assert re.findall(r"argument (?:Layout|Device|MemoryFormat)\?  \w+  (\w+)",
                      done.stderr) == ["strided", "cpu", "preserve_format"] * 3


def test_a_command_needs_no_option_before_it(monkeypatch):
    monkeypatch.setattr(trace_command, "run", lambda arguments: arguments.command)
    for words in ["--", "one"], ["--", "--", "one"], ["--summary", "--", "one", "--"]:
        monkeypatch.setattr(sys, "argv", ["torch-stable-abi", "trace", *words])
        assert cli._run() == words[words.index("--") + 1:]


@pytest.mark.full
def test_words_that_make_no_sense(workbook, tmp_path):
    for words, status, said in (
            ([], 2, "name a program"), (["--", "nonesuch"], 2, "there is no program"),
            (["--", "true"], 2, "nothing passed the boundary"),
            (["--", "env", "-i", "true"], 2, "without LD_PRELOAD (env -i, "),
            (["--", "sh", "-c", "exit 3"], 3, "ended with status 3, and nothing")):
        done = workbook("trace", *words)
        assert done.returncode == status and said in done.stderr, done.stderr
        assert "Traceback" not in done.stderr
    workbook("trace", "--output", tmp_path / "out", "--", "true")
    assert "nothing passed the boundary" in (tmp_path / "out").read_text()


@pytest.mark.full
def test_a_compiler_that_fails(workbook, tmp_path):
    wrong = tmp_path / "c++"
    wrong.write_text(textwrap.dedent(f"""\
        #!/bin/sh
        case "$*" in *calls.cpp*) echo "no room" >&2; exit 1;; esac
        exec {shutil.which("c++")} "$@"
        """))
    wrong.chmod(0o755)
    done = workbook("trace", "--", "true", CXX=str(wrong))
    assert done.returncode == 2
    assert "does not build the tracer" in done.stderr and "no room" in done.stderr


@pytest.mark.full
@pytest.mark.parametrize("version", supported())
def test_each_function_is_one_of_libtorchs(version, workbook):
    """Else a library would find a function that its libtorch does not have."""
    workbook("trace", "--", "true")  # builds it
    runtimes.fetch(version)

    def symbols(library):
        return set(re.findall(r"DEFAULT +\d+ (\w*torch_\w+)", passes(
            "readelf", "--dyn-syms", "-W", library)))
    ours = symbols(library.library())
    assert len(ours) > 200
    assert ours <= symbols(runtimes.root(version) / "lib/libtorch_cpu.so")
