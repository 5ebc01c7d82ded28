"""by_name.h: what it lists, refuses and hands on. tests/docs/test_ops.py calls forty
ops by it, on each libtorch."""

import subprocess

import pytest

import snippets
from base.project import ROOT
from base.sheets import find_chapter
from torch_stable_abi.libtorch.installed import torch_root

SOLUTION = find_chapter("04").solution
HEAD = f"""
#include "{SOLUTION}/core/by_name.h"
using namespace wb;
using torch::stable::Tensor;
"""
OPS = HEAD + """
constexpr OpDecl<std::tuple<Tensor, Tensor>(Tensor, int64_t, bool)> max_dim{
    "aten::max", "dim"};
std::tuple<Tensor, Tensor> max(Tensor x, int64_t dim) {
  return call<max_dim>(x, dim, false);
}
STABLE_TORCH_LIBRARY(by_name, m) {
  m.def("max(Tensor x, int dim) -> (Tensor, Tensor)");
}
STABLE_TORCH_LIBRARY_IMPL(by_name, CPU, m) {
  m.impl("max", TORCH_BOX(&max));
}
"""


@pytest.fixture(scope="module")
def ops(tmp_path_factory):
    torch = pytest.importorskip("torch")
    library = tmp_path_factory.mktemp("by_name") / "by_name.so"
    root = torch_root()
    said = snippets.compile(OPS, root, "2.10", "-O1", "-shared", "-fPIC", "-o", library,
                            f"-L{root}/lib", "-ltorch_cpu")
    assert said == ""
    torch.ops.load_library(library)
    return torch.ops.by_name


def test_returns_come_in_order(ops):
    import torch
    x = torch.tensor([[1.0, 3.0], [4.0, 2.0]])
    values, indices = ops.max(x, 1)
    assert (values.tolist(), indices.tolist()) == ([3, 4], [1, 0])


def test_an_error_is_handed_on(ops):
    import torch
    with pytest.raises(RuntimeError, match="aten::max: .*") as error:
        ops.max(torch.ones(2), 5)
    reason = "Dimension out of range" if torch.__version__ >= "2.13" else "stderr"
    assert reason in str(error.value)


@pytest.mark.full
@pytest.mark.parametrize("name", ["04_boxed_kernels", "08_hub_packaging"])
def test_schemas_finds_each_call(workbook, name):
    """Each template lists its calls, and they fit every libtorch."""
    folder = ROOT / "build/release/solutions" / name
    library, = [*folder.glob("*.so"), *folder.glob("cpu/*.so")]
    done = workbook("schemas", library, "--torch", "all")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "calls 2 ops by name" in done.stdout
    assert "  aten::chunk(Tensor, int, int) -> Tensor[]" in done.stdout


@pytest.mark.parametrize("signature, argument, said", [
    ("std::tuple<Tensor, int64_t>(bool)", "true",
     "libtorch 2.10 to 2.15 confuses the types of a call's returns"),
    ("Tensor(int)", "1", "no schema has this type"),
    ("std::tuple<Tensor, Tensor>(bool)", "true", "")])
def test_what_cannot_be_called_is_refused(signature, argument, said):
    """Returns of several types, and an int; a strict project gets no warning."""
    done = subprocess.run(
        ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
         "-DTORCH_TARGET_VERSION=0x020a000000000000", "-isystem",
         torch_root() / "include", "-xc++", "-"], text=True, capture_output=True,
        input=HEAD + f"""
constexpr OpDecl<{signature}> op{{"a::b", ""}};
void f() {{ call<op>({argument}); }}
""")
    assert (done.returncode != 0) == bool(said), done.stderr
    assert said in done.stderr
