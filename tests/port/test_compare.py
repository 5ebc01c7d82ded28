"""compare: what differs between two libraries, and what does not."""

import json
import re
import shutil
import subprocess

import pytest

from base.project import ROOT
from base.sheets import find_chapter
from support import passes
from torch_stable_abi.libtorch.installed import torch_root

pytestmark = pytest.mark.full
CODE = """
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <cstdlib>
using torch::stable::Tensor;
Tensor twice(const Tensor& x) {
  STD_TORCH_CHECK(x.dim() > 0, NEW ? "no scalars" : "no scalar");
  return torch::stable::subtract(x, x, NEW ? -1.5 : -1.0);
}
Tensor place(const Tensor& x) {
#if NEW
  STD_TORCH_CHECK(false, "no ", x.dim());
#else
  throw std::runtime_error("no 1");
#endif
}
Tensor view(const Tensor& x) { return NEW ? torch::stable::clone(x) : x; }
void fill(Tensor x) {
  if (NEW) torch::stable::fill_(x, 1);
  else *static_cast<float*>(x.data_ptr()) = 1;
}
Tensor crash(const Tensor& x) {
  if (NEW) std::abort();
  return x;
}
Tensor wait(const Tensor& x) {
  while (NEW) {}
  return x;
}
STABLE_TORCH_LIBRARY(both, m) {
  m.def("twice(Tensor x) -> Tensor");
  m.def("place(Tensor x) -> Tensor");
  m.def("view(Tensor(a) x) -> Tensor(a)");
  m.def("fill(Tensor(a!) x) -> ()");
  m.def("crash(Tensor x) -> Tensor");
  m.def("wait(Tensor x) -> Tensor");
}
STABLE_TORCH_LIBRARY_IMPL(both, CompositeExplicitAutograd, m) {
  m.impl("twice", TORCH_BOX(&twice));
  m.impl("place", TORCH_BOX(&place));
  m.impl("view", TORCH_BOX(&view));
  m.impl("fill", TORCH_BOX(&fill));
  m.impl("crash", TORCH_BOX(&crash));
  m.impl("wait", TORCH_BOX(&wait));
}
"""
CASES = """
import os
import torch

def case_zeros(ops): return ops.both.twice, torch.zeros(3)
def case_meta(ops): return ops.both.twice, torch.zeros(3, device="meta")
def case_values(ops): return ops.both.twice, torch.arange(3.0)
def case_error(ops): return ops.both.twice, torch.tensor(1.0)
def case_alias(ops): return ops.both.view, torch.ones(3)
def case_version(ops): return ops.both.fill, torch.zeros(1)
def case_place(ops): return ops.both.place, torch.ones(3)
def case_exit(ops): return os._exit, 0
def case_crash(ops): return ops.both.crash, torch.ones(3)
def case_hang(ops): return ops.both.wait, torch.ones(3)
def case_random(ops): return ops.both.crash, torch.rand(3, requires_grad=True).tanh()
def case_urandom(ops): return (lambda: (os.urandom(8), ops.both.view(torch.ones(1)))),
def case_sparse(ops): return torch.Tensor.to_sparse, torch.eye(3)
def case_wrong(ops): raise ValueError("no data")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    (folder / "both.cpp").write_text(CODE)
    (folder / "cases.py").write_text(CASES)
    for name, new in (("old", 0), ("new", 1)):
        subprocess.run(
            [shutil.which("g++") or "c++", "-std=c++17", "-shared", "-fPIC",
             f"-DNEW={new}", "-DTORCH_TARGET_VERSION=0x020a000000000000", "-isystem",
             torch_root() / "include", folder / "both.cpp", "-o", folder / f"{name}.so",
             f"-L{torch_root()}/lib", "-ltorch_cpu"], check=True)
    return folder


def compare(folder, *words):
    return subprocess.run([ROOT / "workbook", "compare", *words], cwd=folder, text=True,
                          capture_output=True)


def test_what_differs(folder):
    done = compare(folder, "old.so", "new.so", "cases.py", "--seconds", "5", "--format",
                   "json")
    assert done.returncode == 1, done.stderr
    cases = json.loads(done.stdout)["cases"]
    assert cases["zeros"] == cases["meta"] == cases["place"] == []
    assert cases["sparse"] == []
    assert cases["values"] == [
        "the result: 2 of 3 values differ, by 1 at most"]
    assert cases["error"][0].endswith("no scalar")
    assert cases["error"][1].endswith("no scalars")
    assert cases["alias"] == [
        "which results are an argument's memory: [[0]] -> [[]]"]
    assert cases["version"] == ["the arguments' version counters: [0] -> [1]"]
    assert cases["crash"] == cases["random"] == ["a result", "-> was ended by SIGABRT"]
    assert cases["exit"] == ["nothing to compare: it exited with 0, with both"]
    assert cases["hang"] == ["a result", "-> took more than 5 s"]
    assert cases["urandom"][-1] == "OLD differs from itself too, run twice"
    assert [case for case, lines in cases.items() if "run twice" in str(lines)] == [
        "urandom"]
    assert cases["wrong"] == ["the case itself fails: ValueError: no data"]


def test_a_crash_and_an_error_are_words():
    from torch_stable_abi.compare.comparing import compare_case
    assert compare_case({"ended": "was ended by SIGFPE"},
                        {"error": ["RuntimeError", "no"]}) == [
        "was ended by SIGFPE", "-> RuntimeError: no"]


def test_large_integers_differ_by_what_they_do():
    import torch

    from torch_stable_abi.compare.comparing import compare_case
    seen = {name: [] for name in (
        "arguments", "gradients", "versions", "aliases", "warnings")}
    old, new = ({**seen, "value": {"tensor": torch.tensor([2**62 + n]), "strides": (1,),
                                   "device": "cpu"}} for n in (0, 1))
    assert compare_case(old, new) == ["the result: 1 of 1 values differ, by 1 at most"]


def test_a_library_is_the_same_as_itself(folder):
    done = compare(folder, "old.so", "old.so", "cases.py")
    assert "hang     same" in done.stdout
    assert "11 the same, 3 differ" in done.stdout  # the wrong case, exit and urandom


def test_a_long_text_is_cut_in_the_table(capsys):
    from torch_stable_abi.commands.compare import print_table
    print_table({"long": ["TypeError: " + "x" * 999]})
    printed = capsys.readouterr().out
    assert "xxx ... (all of it: --format json)" in printed and "x" * 401 not in printed


def test_a_module_that_ends_the_process(folder):
    (folder / "ends.py").write_text("import os\nos._exit(0)\n")
    done = compare(folder, "ends", "ends", "cases.py")
    assert done.returncode == 2
    assert "ends, or cases.py, ends the process as it is loaded" in done.stderr


def test_chapter_09_before_and_after_its_port(request, folder):
    """The page shows it: what remains is the type of an error."""
    torch, chapter = torch_root(), find_chapter("09")
    original = chapter.solution / "original"
    for name, command in (
            ("old", ["-std=c++20", original / "ops.cpp", "-lc10"]),
            ("new", ["-std=c++17", "-DTORCH_TARGET_VERSION=0x020a000000000000",
                     chapter.solution / "rowops.cpp"])):
        (folder / name).mkdir(exist_ok=True)
        passes("c++", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-isystem",
               torch / "include", f"-L{torch}/lib", *command, "-ltorch_cpu", "-o",
               folder / name / "librowops.so")
    (folder / "cases_of_09.py").write_text(
        (original / "cases.py").read_text() + "\n\n"
        "def case_sums_of_integers(ops):\n    return ops.rowops.segment_sum, "
        "torch.ones(9, 3).long(), torch.tensor([0, 2])\n")
    words = ["old/librowops.so", "new/librowops.so"]
    done = compare(folder, *words, "cases_of_09.py")
    said = re.sub(r"/[^,\n]*/|[^\s,]*/", "", done.stdout)
    file = ROOT / "docs/results/compare.txt"
    if request.config.getoption("--record"):
        file.write_text(f"$ ./workbook compare {' '.join(words)} cases.py\n{said}")
    assert done.returncode == 1 and "7 the same, 1 differ" in said, done.stderr
    assert file.read_text().partition("\n")[2] == said


def test_modules(folder):
    """Their folders are not on the path otherwise."""
    for name, value, same in (("old", 1, "x * 1"), ("new", 2, "x.detach() + x * 0")):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "ours.py").write_text(f"def go(x): return x + {value}\n"
                                              f"def same(x): return {same}\n")
    (folder / "of_modules.py").write_text(
        "import torch\ndef case_go(ours): return ours.go, torch.ones(2)\n"
        "def case_part(ours):\n"
        "    return ours.same, torch.ones(2, 3, requires_grad=True).t()\n")
    done = compare(folder, "old:ours", "new:ours", "of_modules.py")
    assert done.returncode == 1, done.stderr
    assert "2 of 2 values differ, by 1 at most" in done.stdout
    assert "a gradient: 6 of 6 values differ" in done.stdout  # of what is no leaf


def test_what_cannot_be_loaded(folder):
    assert "there is no file none.so" in compare(folder, "none.so", "old.so",
                                                 "cases.py").stderr
    (folder / "broken.py").write_text("import no_such_module\n")
    done = compare(folder, "old.so", "old.so", "broken.py")
    assert done.returncode == 2 and "No module named 'no_such_module'" in done.stderr
    (folder / "empty.py").write_text("")
    done = compare(folder, "old.so", "old.so", "empty.py")
    assert done.returncode == 2 and "no function whose name begins" in done.stderr
