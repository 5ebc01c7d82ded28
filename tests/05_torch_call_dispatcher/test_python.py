"""Chapter 05 in Python, which loads libtorch for itself alone (RTLD_LOCAL): the
calls by name reach PyTorch's kernels, those for tensors without data and for
gradients too, and the reason of a failure is found."""

import os
import subprocess
import sys

import pytest

from base.building import build_root
from base.project import ROOT
from base.sheets import find_chapter
from torch_stable_abi.commands import schemas
from torch_stable_abi.libtorch import runtimes
from torch_stable_abi.libtorch.installed import torch_root

CODE = """
import sys
import torch
from torch.nn.functional import linear, silu
torch.ops.load_library(sys.argv[1])
mlp = torch.ops.wb05.swiglu_mlp
x, u, w = torch.randn(2, 3, 8), torch.randn(10, 8), torch.randn(8, 5)
gate, up = linear(x, u).chunk(2, -1)
torch.testing.assert_close(mlp(x, u, w), linear(silu(gate) * up, w))
print(*mlp(x.to("meta"), u.to("meta"), w.to("meta")).shape)
compiled = torch.compile(mlp, backend="eager", fullgraph=True)
torch.testing.assert_close(compiled(x, u, w), mlp(x, u, w))
gated = torch.ops.wb05.silu_and_mul
compiles = []
compiled = torch.compile(
    gated, dynamic=True, fullgraph=True,
    backend=lambda module, inputs: (compiles.append(1), module)[1])
for rows in (3, 5, 7):
    compiled(torch.randn(rows, 8))
assert len(compiles) == 1, "a size was read"
inputs = [t.double().requires_grad_() for t in (x, u, w)]
assert torch.autograd.gradcheck(mlp, inputs)
torch.library.opcheck(gated.default, (torch.randn(3, 8, requires_grad=True),))
for size in (1, 3, 5):
    try:
        gated(torch.randn(2, size))
    except RuntimeError:
        continue
    raise AssertionError("an odd size is accepted")
try:
    mlp(x, u, w.double())
except RuntimeError as error:
    print(torch.__version__, str(error).splitlines()[0])
"""


def library():
    build_root("release", ["05_torch_call_dispatcher"])
    return ROOT / "build/release/solutions/05_torch_call_dispatcher" \
        / "libtorch_call_dispatcher.so"


def test_it_loads_where_the_error_text_is_not():
    """A weak reference does it: dlsym would ask for the glibc that it was built with,
    and a strong one for libtorch 2.13."""
    symbols = subprocess.run(["nm", "-D", "--undefined-only", library()],
                             text=True, capture_output=True, check=True).stdout
    assert " w torch_exception_get_what_without_backtrace\n" in symbols
    assert "dlsym" not in symbols


def test_nothing_is_shared_between_libraries(tmp_path):
    """Not even where no flag hides it, as kernel-builder compiles. A symbol that is
    "unique" would be one for all libraries of a process."""
    made = tmp_path / "lib.so"
    subprocess.run(
        ["g++", "-std=c++20", "-O1", "-fPIC", "-shared", "-xc++", "-", "-o", made,
         "-I", find_chapter("05").solution, "-isystem", torch_root() / "include",
         "-DTORCH_TARGET_VERSION=0x020a000000000000", f"-L{torch_root()}/lib",
         "-ltorch_cpu"], check=True, text=True,
        input='#include "torch_call_dispatcher.cpp"\n'
              "auto shown(const wb::Tensor& x) { return wb::sum(x, {0}); }\n")
    symbols = subprocess.run(["nm", "-DC", "--defined-only", made], text=True,
                             capture_output=True, check=True).stdout
    assert " u " not in symbols, symbols
    assert "wb::Declared" not in symbols and "wb::Call" not in symbols


@pytest.mark.full
def test_swiglu_mlp_in_python():
    if not (torch_root() / "__init__.py").exists():
        pytest.skip("TORCH_ROOT is a libtorch without Python")
    done = subprocess.run(
        [sys.executable, "-c", CODE, library()], text=True, capture_output=True,
        env={**os.environ, "PYTHONPATH": str(torch_root().parent)})
    assert done.returncode == 0, done.stderr
    shape, message = done.stdout.splitlines()
    assert shape == "2 3 8"
    version, text = message.split(" ", 1)
    assert "aten::linear" in text
    if tuple(map(int, version.split(".")[:2])) >= (2, 13):
        assert "same dtype" in text
    else:
        assert "stderr" in text


@pytest.mark.full
def test_the_worked_example_of_the_page(tmp_path):
    def compiled(name, *flags):
        subprocess.run(
            ["g++", "-std=c++17", "-fPIC", *flags, "-o", tmp_path / name,
             ROOT / "docs/demos/05/topk.cpp", "-I", find_chapter("05").solution,
             "-DTORCH_TARGET_VERSION=0x020a000000000000",
             "-isystem", torch_root() / "include",
             torch_root() / "lib/libtorch_cpu.so", torch_root() / "lib/libc10.so"],
            check=True)
        return tmp_path / name

    program = compiled("topk", f"-Wl,-rpath,{torch_root()}/lib")
    assert subprocess.run([program], text=True, check=True,
                          capture_output=True).stdout == "9 at 3\n3 at 1\n"
    version = runtimes.installed()
    found = schemas.check(compiled("topk.so", "-shared"), [version])
    call = "aten::topk(Tensor, int, int, bool, bool) -> (Tensor, Tensor)"
    assert found["versions"][version] == {call: []}
    assert f"`{call}`: `ok`" in \
        (ROOT / "docs/05_torch_call_dispatcher.md").read_text()
