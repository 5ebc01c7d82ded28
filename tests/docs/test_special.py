"""docs/porting/special: ops that need a second look, as PyTorch uses them."""

import importlib
import os

import pytest

import snippets
from base.project import ROOT
from torch_stable_abi.libtorch.installed import torch_root

HERE = ROOT / "docs/porting/special"
pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def special(tmp_path_factory):
    """Return the module special.py, whose library is loaded."""
    library = tmp_path_factory.mktemp("special") / "special.so"
    root = torch_root()
    assert snippets.compile(
        f'#include "{HERE}/special.cpp"\n', root, "2.10", "-O1", "-shared", "-fPIC",
        "-o", library, f"-L{root}/lib", "-ltorch_cpu") == ""
    pytest.importorskip("torch").ops.load_library(library)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(HERE)
        yield importlib.import_module("special")


@pytest.fixture
def torch(special):
    special.torch._dynamo.reset()
    return special.torch


@pytest.mark.inductor
def test_a_size_that_depends_on_data_compiles(special, torch):
    compiled = torch.compile(lambda x: special.ops.positive(x) * 2, fullgraph=True)
    for x in (torch.randn(8), torch.ones(3), -torch.ones(3)):
        assert torch.equal(compiled(x), x[x > 0] * 2)
    torch.library.opcheck(special.ops.positive.default, (torch.randn(5),))


@pytest.mark.parametrize("size, compilations", [("SymInt", 1), ("int", 3)])
def test_symint_compiles_once_for_all_sizes(special, torch, size, compilations):
    counter = pytest.importorskip("torch._dynamo.testing").CompileCounter()
    with torch.library._scoped_library("special", "FRAGMENT") as library:
        library.define(f"first_{size}(Tensor x, {size} n) -> Tensor")
        library.impl(f"first_{size}", special.ops.first, "CPU")
        torch.library.register_fake(
            f"special::first_{size}", lambda x, n: x.new_empty(n, *x.shape[1:]),
            lib=library)
        op = getattr(special.ops, f"first_{size}").default
        compiled = torch.compile(lambda x, n: op(x, n) * 2, fullgraph=True,
                                 dynamic=True, backend=counter)
        for rows in (5, 6, 9):
            x = torch.randn(rows, 3)
            assert torch.equal(compiled(x, rows - 2), x[:rows - 2] * 2)
    assert counter.frame_count == compilations
    torch.library.opcheck(special.ops.first.default, (torch.randn(5, 2), 3))


@pytest.mark.parametrize("backend", [
    "aot_eager", pytest.param("inductor", marks=pytest.mark.inductor)])
def test_an_out_op_that_returns_nothing_compiles(special, torch, backend):
    x, y = torch.randn(4), torch.randn(4)
    compiled = torch.compile(lambda x, y: special.mul(x, y) + 1,
                             fullgraph=True, backend=backend)
    assert torch.equal(compiled(x, y), x * y + 1)
    out = torch.empty(4)
    assert special.mul(x, y, out) is out and torch.equal(out, x * y)
    torch.library.opcheck(special.ops.mul_out.default, (x, y, out))


@pytest.mark.parametrize("backend", [
    "aot_eager", pytest.param("inductor", marks=pytest.mark.inductor)])
def test_a_tagged_out_op_compiles(special, torch, backend):
    if not hasattr(torch.Tag, "out"):
        pytest.skip("torch before 2.13 has no Tag.out")

    def sixfold(x):
        out = torch.empty_like(x)
        return special.ops.triple(x, out=out) + out
    x = torch.randn(4)
    assert torch.equal(
        torch.compile(sixfold, fullgraph=True, backend=backend)(x), sixfold(x))
    torch.library.opcheck(special.ops.triple.out, (x,), {"out": torch.empty(4)})


def test_opcheck_with_none_misses_a_forgotten_mark(special, torch):
    for name in ("marked", "forgotten"):
        torch.library.register_fake(f"special::{name}", lambda x, out: None)
        torch.library.opcheck(getattr(special.ops, name).default,
                              (torch.ones(2), None))
    with pytest.raises(Exception, match="not defined as mutable but was mutated"):
        torch.library.opcheck(special.ops.forgotten.default,
                              (torch.ones(2), torch.zeros(2)))
    torch.library.opcheck(special.ops.marked.default, (torch.ones(2), torch.zeros(2)))

    def run(op, x):
        out = torch.zeros_like(x)
        op(x, out)
        return x + out
    ran = [torch.compile(run, fullgraph=True, backend="aot_eager")(op, torch.ones(1))
           for op in (special.ops.marked, special.ops.forgotten)]
    assert [float(x) for x in ran] == [8, 1]


def test_a_pointer_leaves_the_version_counter(special, torch):
    def gradient(write):
        x, w = torch.ones(1, requires_grad=True), torch.tensor([3.0])
        y = x * w # saves w
        write(w)
        y.backward()
        return x.grad.item()

    def counted(w):
        special.ops.double_(w)
        torch.autograd.graph.increment_version(w)
    assert gradient(special.ops.double_) == 6 # it should be 3
    for write in (special.double, counted, lambda w: special.ops.marked(w, w)):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            gradient(write)


def test_an_op_that_returns_nothing_needs_no_fake(special, torch):
    def quadruple(x, write):
        x = x * 2
        write(x)
        return x
    for write in (special.double, special.ops.double_):
        assert torch.compile(quadruple, fullgraph=True, backend="aot_eager")(
            torch.ones(1), write).item() == 4


@pytest.mark.parametrize("inside", [True, False])
def test_a_custom_op_reads_a_flag_at_each_call(special, torch, monkeypatch, inside):
    seen = []

    @torch.library.custom_op(f"special_python::flag_{inside}", mutates_args=["x"])
    def write(x: torch.Tensor, flag: str) -> None:
        seen.append(os.getenv("SPECIAL_FLAG") if inside else flag)
        special.ops.double_(x)

    def run(x):
        write(x, "" if inside else os.getenv("SPECIAL_FLAG"))
        return x + 1
    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    for value in "01":
        monkeypatch.setenv("SPECIAL_FLAG", value)
        compiled(torch.ones(1))
    assert seen == (["0", "1"] if inside else ["0", "0"])


def test_a_string_view_is_the_text(special, torch):
    x = torch.tensor([1.5, -1.5])
    assert torch.equal(special.ops.rounded(x), x.floor())
    assert torch.equal(special.ops.rounded(x, "ceil"), x.ceil())
    with pytest.raises(RuntimeError, match='must be "floor" or "ceil", got "up"'):
        special.ops.rounded(x, "up")


def test_channels_last_is_as_pytorch_says(special, torch):
    ops, last = special.ops, torch.channels_last
    image = torch.randn(2, 6, 4, 5)
    turned = image.to(memory_format=last)
    for x in (image, turned, image[:, :1], turned[:, :1], turned[:, ::2],
              torch.randn(2, 1, 4, 5), torch.randn(1, 3, 1, 1)):
        assert ops.is_channels_last(x) == x.is_contiguous(memory_format=last)
        assert ops.to_channels_last(x).is_contiguous(memory_format=last)
        assert ops.empty_channels_last(x).is_contiguous(memory_format=last)
    assert not ops.is_channels_last(image[0])


@pytest.mark.filterwarnings("ignore")
def test_a_quantized_tensor_is_read(special, torch):
    x = torch.quantize_per_tensor(torch.randn(9), 0.1, 3, torch.qint8)
    torch.testing.assert_close(special.ops.dequantized(x), x.dequantize())


def test_autocast_casts_before_the_op(special, torch):
    x = torch.tensor([1.0, -1.0]).bfloat16()
    with pytest.raises(RuntimeError, match="expected scalar type Float"):
        special.ops.positive(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert special.ops.positive(x).dtype == torch.float32


def test_gradients_and_vmap(special, torch):
    x = torch.randn(4, 2, requires_grad=True)
    special.ops.first(x, 3).sum().backward()
    assert torch.equal(x.grad, torch.tensor([[1.0] * 2] * 3 + [[0.0] * 2]))
    batch = torch.randn(5, 4)
    assert torch.equal(torch.vmap(special.ops.first, in_dims=(0, None))(batch, 3),
                       batch[:, :3])


def test_a_function_above_the_op_is_what_torch_func_takes(special, torch):
    def f(x):
        return special.first(x, 2).sum()

    x, wanted = torch.ones(4), [1, 1, 0, 0]
    assert torch.func.grad(f)(x).tolist() == wanted
    assert torch.func.jacrev(f)(x).tolist() == wanted
    assert torch.vmap(torch.func.grad(f))(torch.ones(3, 4)).tolist() == 3 * [wanted]
    with pytest.raises(RuntimeError, match="must override the setup_context"):
        torch.func.grad(lambda x: special.ops.first(x, 2).sum())(x)


@pytest.mark.inductor
def test_exported_and_compiled_ahead_of_time(special, torch, tmp_path):
    class Model(torch.nn.Module):
        def forward(self, x):
            return special.ops.first(x, x.shape[0] - 2) * 2

    n = torch.export.Dim("n", min=4, max=100)
    program = torch.export.export(Model(), (torch.randn(8, 3),),
                                  dynamic_shapes={"x": {0: n}})
    torch.export.save(program, tmp_path / "model.pt2")
    package = torch._inductor.aoti_compile_and_package(
        program, package_path=str(tmp_path / "compiled.pt2"))
    x = torch.randn(9, 3)
    for model in (torch.export.load(tmp_path / "model.pt2").module(),
                  torch._inductor.aoti_load_package(package)):
        assert torch.equal(model(x), x[:7] * 2)
