"""Each row of the table of ops without a wrapper gives what PyTorch gives, and
can be called on every libtorch since 2.10."""

import os
import re
import subprocess
import sys

import pytest

import snippets
from base.project import ROOT
from support import fetch_libtorch
from torch_stable_abi.libtorch.installed import torch_root
from torch_stable_abi.libtorch.versions import supported
from torch_stable_abi.migration import OPS

HEAD = f"""
#include "{ROOT}/solutions/04_boxed_kernels/core/by_name.h"
#include <torch/csrc/inductor/aoti_torch/generated/c_shim_cpu.h>
#include <torch/csrc/stable/ops.h>
#include <torch/headeronly/core/Layout.h>
#include <torch/headeronly/core/MemoryFormat.h>
#include <torch/headeronly/core/ScalarType.h>
#include <cstdio>
#include <optional>
#include <vector>
using namespace torch::stable;
using namespace wb;
using torch::headeronly::Layout;
using torch::headeronly::MemoryFormat;
using torch::headeronly::ScalarType;
"""
ROW = """
Tensor row_{i}(Tensor x, Tensor y, Tensor index, Tensor mask) {{
  const int64_t n = 2;
#line 1 "row_{i}"
{body}
}}
"""
TAIL = """
extern "C" int call_all() {{
  int failed = 0;
  for (auto* row : {{{rows}}}) {{
    try {{
      const Tensor x = full({{3, 4}}, 0.5);
      row(x, x, full({{3, 4}}, 1, ScalarType::Long),
          full({{3, 4}}, 1, ScalarType::Bool));
    }} catch (const std::exception& error) {{
      std::puts(error.what());
      ++failed;
    }}
  }}
  return failed;
}}
STABLE_TORCH_LIBRARY(rows, m) {{
{definitions}
}}
STABLE_TORCH_LIBRARY_IMPL(rows, CPU, m) {{
{kernels}
}}
"""
SCHEMA = "(Tensor x, Tensor y, Tensor index, Tensor mask) -> Tensor"


def source() -> str:
    text = HEAD
    for i, op in enumerate(OPS):
        body = op["stable"].strip()
        if "return " not in body:
            body = f"return {body};"
        text += ROW.format(i=i, body=body)
    every = range(len(OPS))
    return text + TAIL.format(
        rows=", ".join(f"&row_{i}" for i in every),
        definitions="\n".join(f'  m.def("row_{i}{SCHEMA}");' for i in every),
        kernels="\n".join(f'  m.impl("row_{i}", TORCH_BOX(&row_{i}));'
                          for i in every))


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("ops") / "rows.so"
    torch = torch_root()
    said = snippets.compile(source(), torch, "2.10", "-O1", "-shared", "-fPIC", "-o",
                         path, f"-L{torch}/lib", "-ltorch_cpu")
    assert said == ""
    return path


@pytest.mark.full
def test_a_row_gives_what_pytorch_gives(library):
    torch = pytest.importorskip("torch")
    torch.ops.load_library(library)
    torch.manual_seed(0)
    x, y, index = torch.randn(3, 4), torch.rand(3, 4), torch.randint(3, (3, 4))
    values = {"torch": torch, "x": x, "y": y, "index": index, "mask": x > 0}
    for i, op in enumerate(OPS):
        torch.manual_seed(1)
        got = getattr(torch.ops.rows, f"row_{i}")(x, y, index, x > 0)
        torch.manual_seed(1)
        want = eval(op["python"], values)
        if "empty" in op["python"]:  # whatever is in it
            assert (got.dtype, got.shape, got.stride()) == \
                (want.dtype, want.shape, want.stride()), op["unstable"]
        else:
            assert torch.allclose(got, want, rtol=0, atol=1e-6), op["unstable"]


@pytest.mark.full
@pytest.mark.parametrize("version", supported())
def test_a_row_can_be_called(library, version):
    root = fetch_libtorch(version)
    done = subprocess.run(
        [sys.executable, "-c", "import ctypes, sys; "
         "sys.exit(ctypes.CDLL(sys.argv[1]).call_all())", library],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "LD_LIBRARY_PATH": str(root / "lib")})
    assert done.returncode == 0, done.stdout


@pytest.mark.full
def test_schemas_sees_each_declaration(library, workbook):
    """by_name.h lists what is declared, and each fits every libtorch."""
    done = workbook("schemas", library, "--torch", "all")
    assert done.returncode == 0, done.stdout + done.stderr
    declared = {f"aten::{name}" for op in OPS for name in
                re.findall(r'\{"aten::(\w+)", ', op["stable"])}
    assert len(declared) > 20
    for name in declared:
        assert f"  {name}" in done.stdout, name
