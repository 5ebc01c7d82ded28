"""Both halves of a row, and what `port` makes of the unstable one, do the same on the
same inputs: the same values, errors and changes of `out`, but for the inputs that the
row names in `otherwise`."""

import re

import pytest

import snippets
from support import fetch_libtorch
from test_migration import HOST, UNSTABLE_HEADERS, VERSIONS, least, port
from torch_stable_abi.libtorch import runtimes
from torch_stable_abi.libtorch.installed import torch_root

torch = pytest.importorskip("torch")

# What a half leaves behind, as tensors. `{0}` is the class of one.
RESULTS = """
template <class T> {0} as_tensor(T value) {{
  double number = static_cast<double>(value);
  return {1};
}}
inline {0} as_tensor(const {0}& value) {{ return value; }}
template <class... T> std::vector<{0}> results(const T&... value) {{
  return {{as_tensor(value)...}};
}}
"""
FUNCTION = """
std::vector<{0}> {1}({0} x, {0} y, {0} out, int64_t n) {{
  static float memory[16] = {{1, 2, 3, 4}};
  void* p = memory;
  std::string s;
  (void)p;
{2}
  return results({3});
}}
"""
SCHEMA = "(Tensor x, Tensor y, Tensor(a!) out, int n) -> Tensor[]"
UNSTABLE = "".join(f"#include <{name}>\n" for name in UNSTABLE_HEADERS) + \
    RESULTS.format("at::Tensor", "at::scalar_tensor(number, at::kDouble)")
STABLE = """
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <string>
#include <vector>
""" + RESULTS.format("torch::stable::Tensor", "torch::stable::full({}, number, "
                     "torch::headeronly::ScalarType::Double)")


def inputs() -> dict:
    """Return tensors like which x, y and out are made."""
    x = torch.arange(16.).reshape(4, 4) / 4
    kinds = {
        "float": x, "transposed": x.t(), "strided": x.repeat(1, 2)[:, ::2],
        "empty": x[:0], "one dimension": x[0], "no dimension": x[1, 1],
        "meta": x.to("meta"), "requires grad": x.clone().requires_grad_()}
    for dtype in ("double", "half", "bfloat16", "long", "bool", "cfloat"):
        kinds[dtype] = x.to(getattr(torch, dtype))
    kinds["long, one dimension"] = torch.arange(4)
    return kinds


def pieces() -> list[tuple[dict, str, str, str]]:
    """Return (row, name, unstable code, results) of all that is run."""
    found = []
    for i, row in enumerate(HOST):
        if least(row)[1] > snippets.minor(runtimes.installed()):
            continue
        if "run" in row:
            found.append((row, f"row_{i}", row["unstable"].strip(), row["run"]))
        for j, line in enumerate(row.get("ported", [])):
            name = "t" if line.startswith("auto t") else "out"
            found.append((row, f"row_{i}_{j}", line, name))
    return found


PIECES = pieces()


def registered(text: str, names: list[str], macro: str, box: str, spell: str) -> str:
    definitions = "".join(f'  m.def("{name}{SCHEMA}");\n' for name in names)
    kernels = "".join(f'  m.impl("{name}", {spell.format(name)});\n' for name in names)
    return (f"{text}\n{macro}({box}, m) {{\n{definitions}}}\n"
            f"{macro}_IMPL({box}, CompositeExplicitAutograd, m) {{\n{kernels}}}\n")


def build(code: str, path, root, target: str | None) -> None:
    lib = torch_root() / "lib"
    include = root / "include/torch/csrc/api/include"
    said = snippets.compile(
        code, root, target, "-O0", "-shared", "-fPIC", "-o", path, "-isystem", include,
        f"-L{lib}", "-ltorch_cpu", "-lc10")
    assert said == "", said
    torch.ops.load_library(path)


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    text = UNSTABLE + "".join(
        FUNCTION.format("at::Tensor", name, code, results)
        for _, name, code, results in PIECES)
    build(registered(text, [name for _, name, _, _ in PIECES], "TORCH_LIBRARY",
                     "halves_old", "&{0}"),
          tmp_path_factory.mktemp("old") / "old.so", torch_root(), None)
    return torch.ops.halves_old


def newest():
    """Return the newest headers, and the target that the installed torch has."""
    return fetch_libtorch(VERSIONS[-1]), f"2.{snippets.minor(runtimes.installed())}"


@pytest.fixture(scope="module")
def new(tmp_path_factory):
    root, target = newest()
    made = [(row, name, row["stable"].strip(), results)
            for row, name, _, results in PIECES if re.fullmatch(r"row_\d+", name)
            if "stable" in row]
    includes = {name for row, *_ in made for name in row["include"]}
    defines = {name for row, *_ in made for name in row.get("define", [])}
    text = "".join(f"#define {name}\n" for name in sorted(defines)) + "".join(
        f"#include <{name}>\n" for name in sorted(includes)) + STABLE + "".join(
        FUNCTION.format("torch::stable::Tensor", name, code, results)
        for _, name, code, results in made)
    build(registered(text, [name for _, name, *_ in made], "STABLE_TORCH_LIBRARY",
                     "halves_new", "TORCH_BOX(&{0})"),
          tmp_path_factory.mktemp("new") / "new.so", root, target)
    return torch.ops.halves_new


@pytest.fixture(scope="module")
def ported(tmp_path_factory):
    """Return the ops that `port` rewrote whole, and the lines that it left in them all
    the same."""
    text, made, left = "", [], []
    for _, name, code, results in PIECES:
        function = FUNCTION.format("at::Tensor", name, code, results)
        written, lines = port("#include <ATen/ATen.h>\n" + function)
        if lines:
            left.append((name, code))
            continue
        made.append(name)
        text += written
    includes = sorted({*re.findall(r"(?m)^#include.*\n", text)})
    text = re.sub(r"(?m)^#include.*\n", "", text)
    root, target = newest()
    build(registered("".join(includes) + STABLE + text, made, "STABLE_TORCH_LIBRARY",
                     "halves_ported", "TORCH_BOX(&{0})"),
          tmp_path_factory.mktemp("ported") / "ported.so", root, target)
    return torch.ops.halves_ported, [code for name, code in left if "_" in name[4:]]


def do(op, kind: torch.Tensor):
    """Return what an op leaves of inputs of a kind, or its error."""
    x, y = kind.detach().clone(memory_format=torch.preserve_format), kind.detach()
    if kind.stride() != x.stride():
        x = kind.detach()
    out = torch.zeros_like(y)
    x.requires_grad_(kind.requires_grad)
    try:
        got = op(x, y, out, 2)
    except Exception as error:
        return type(error)
    return got, out


def same(a, b) -> bool:
    if isinstance(a, type) or isinstance(b, type):
        return a is b or b is RuntimeError and a in (
            IndexError, NotImplementedError, TypeError, ValueError)
    return len(a[0]) == len(b[0]) and all(
        look_same(s, t) for s, t in zip([*a[0], a[1]], [*b[0], b[1]]))


def look_same(s: torch.Tensor, t: torch.Tensor) -> bool:
    return (s.dtype, s.shape, s.stride(), s.device) == \
        (t.dtype, t.shape, t.stride(), t.device) and \
        (s.is_meta or torch.equal(s.isnan(), t.isnan()) and
         torch.equal(s.detach().nan_to_num(), t.detach().nan_to_num()))


def differing(ops, others) -> dict[str, list[str]]:
    """{name: the inputs on which an op of both does not do the same}"""
    kinds = inputs()
    return {name: [kind for kind, x in kinds.items()
                   if kind not in row.get("without", [])
                   and not same(do(getattr(ops, name), x),
                                do(getattr(others, name), x))]
            for row, name, _, _ in PIECES if hasattr(others, name)}


def unlike(ops, others) -> list[str]:
    """Return what differs on other inputs than the row says."""
    found: dict[str, set[str]] = {}
    for name, kinds in differing(ops, others).items():
        found.setdefault(name.split("_")[1], set()).update(kinds)
    rows = {name.split("_")[1]: row for row, name, _, _ in PIECES}
    return [f"{rows[i]['what']}: {sorted(kinds)}" for i, kinds in found.items()
            if kinds != set(rows[i].get("otherwise", []))]


@pytest.mark.full
def test_halves_do_the_same(old, new):
    assert unlike(old, new) == []


@pytest.mark.full
def test_what_port_writes_does_the_same(old, ported):
    ops, left = ported
    assert left == []
    found = differing(old, ops)
    assert len(found) > 100
    rows = {name: row for row, name, _, _ in PIECES}
    assert [f"{name}: {kinds}" for name, kinds in found.items()
            if not set(kinds) <= set(rows[name].get("otherwise", []))] == []


def test_another_value_is_noticed():
    one = ([torch.ones(2)], torch.zeros(2))
    assert same(one, one) and same(IndexError, RuntimeError)
    assert not same(one, ([torch.ones(2)], torch.ones(2)))
    assert not same(one, ([torch.ones(2).double()], torch.zeros(2)))
    assert not same(one, ([torch.ones(2), one[1]], one[1]))
    nan = torch.tensor([float("nan")])
    assert look_same(nan, nan) and not look_same(nan, torch.zeros(1))
    assert not same(one, RuntimeError) and not same(RuntimeError, IndexError)
