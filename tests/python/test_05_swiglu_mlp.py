"""Chapter 05 in Python, which loads libtorch for itself alone (RTLD_LOCAL): the
calls by name reach PyTorch's kernels, and the reason of a failure is found."""

import os
import subprocess
import sys

import pytest
from conftest import ROOT
from workspace import build_root, torch_root

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
try:
    mlp(x, u, w.double())
except RuntimeError as error:
    print(torch.__version__, str(error).splitlines()[0])
"""


def test_swiglu_mlp_in_python():
    if not (torch_root() / "__init__.py").exists():
        pytest.skip("TORCH_ROOT is a libtorch without Python")
    build_root("release", ["05_torch_call_dispatcher"])
    done = subprocess.run(
        [sys.executable, "-c", CODE,
         ROOT / "build/release/solutions/05_torch_call_dispatcher"
         / "libtorch_call_dispatcher.so"], text=True, capture_output=True,
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
