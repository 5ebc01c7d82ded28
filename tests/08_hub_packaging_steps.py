"""The steps of chapter 08, on the variant that an implementation's build made.
Each imports in a process of its own: what is wrong may end it."""

import ast
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hub import ENVIRONMENT, NEEDED, NEWEST, python
from workbook.project import ROOT

FUNCTIONS = {
    "silu_and_mul", "mul_and_silu", "gelu_and_mul", "gelu_tanh_and_mul",
    "fatrelu_and_mul", "silu_and_mul_with_clamp", "swigluoai_and_mul", "silu",
    "gelu", "gelu_tanh", "gelu_new", "gelu_fast", "gelu_quick"}
LAYERS = {
    "SiluAndMul", "MulAndSilu", "GeluAndMul", "GeluTanhAndMul", "FatreluAndMul",
    "Silu", "Gelu", "GeluTanh", "FastGELU", "NewGELU", "QuickGELU"}


@pytest.fixture(scope="module")
def build(pytestconfig):
    folder = pytestconfig.getoption("--implementation") or \
        ROOT / "build/release/solutions/08_hub_packaging"
    assert list(folder.glob("torch*-cpu-*/__init__.py")), \
        f"{folder} holds no variant: ./workbook check 08 builds one"
    return folder


@pytest.fixture(scope="module")
def source(build):
    """The sources that it was made of: the learner's."""
    cache = (build / "CMakeCache.txt").read_text()
    return Path(re.search(r"^CMAKE_HOME_DIRECTORY\S*=(.*)$", cache, re.M)[1])


@pytest.fixture(scope="module")
def variant(build):
    folder, = build.glob("torch*-cpu-*")
    return folder


@pytest.fixture(scope="module")
def library(variant):
    file, = variant.glob("*.abi3.so")
    return file


@pytest.fixture
def own_package(source, tmp_path):
    """Copies of the sources that package.py reads, where no git is."""
    folder = tmp_path / "sources"
    folder.mkdir()
    for name in ("package.py", "build.toml"):
        shutil.copy(source / name, folder)
    return folder


@pytest.fixture
def look_at(record_property):
    """Where the cause is, if what follows fails: LOOK_AT() of C++."""
    return lambda file, text="": record_property("look at", f"{file}: {text}")


@pytest.fixture
def ask(source, variant, tmp_path, look_at):
    """Runs Python code. What it ends with is what is wrong, and "look at FILE:
    TEXT" in a last line where; what it prints names the sources, not copies."""
    def run(code, *arguments, died="", **environment):
        done = python(code, *arguments, check=False, PYTHONWARNINGS="ignore",
                      **environment)
        text = done.stdout.replace(
            f"{variant}/_ops.py", f"{variant}/_ops.py.in").replace(
            f"{variant}/", f"{source}/torch-ext/activation/").replace(
            f"{tmp_path}/sources/", f"{source}/")
        print(text)
        if done.returncode < 0:
            pytest.fail(died or "the process was ended by "
                        f"{signal.Signals(-done.returncode).name}")
        if done.returncode > 0:
            last = text.rpartition("Traceback (most recent call last):\n")[2]
            said = re.sub(r"\A(?:[ \t].*\n)*", "", last).strip()
            said, _, place = said.partition("\nlook at ")
            if place:
                file, _, line = place.partition(":")
                look_at(file, line.strip())
            pytest.fail(said.removeprefix("AssertionError: "))
    return run


@pytest.fixture
def ask_package(own_package, ask):
    """Runs Python code that has package.py, in a folder of its own."""
    return lambda code: ask(PACKAGE + code, PYTHONPATH=os.pathsep.join(
        [str(own_package), ENVIRONMENT["PYTHONPATH"]]))


# The library alone, as Python imports it, before any file of the package is.
LOAD = """
import importlib.machinery, importlib.util, sys, torch
from pathlib import Path
file = Path(sys.argv[1])
id = file.name[:-len(".abi3.so")]
loader = importlib.machinery.ExtensionFileLoader(id, str(file))
def load():
    spec = importlib.util.spec_from_loader(id, loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
def names():
    return set(torch._C._dispatch_get_all_op_names())
"""

# The package, as the Hub's loader imports it: by its id, from its folder.
IMPORT = """
import importlib.util, sys, torch
from pathlib import Path
folder = Path(sys.argv[1])
id = next(folder.glob("*.abi3.so")).name[:-len(".abi3.so")]
spec = importlib.util.spec_from_file_location(id, folder / "__init__.py")
package = importlib.util.module_from_spec(spec)
sys.modules[id] = package
def load():
    spec.loader.exec_module(package)
"""


def test_08_1_a_module_for_every_python(library, ask):
    """Python finds a module in the library, which needs one function of Python's

    Python finds no module in the library, or the module needs more of Python."""
    from kernel_abi_check import ObjectFile
    names = subprocess.run(["nm", "-D", "--undefined-only", library], text=True,
                           capture_output=True, check=True).stdout
    there = subprocess.run(["nm", "--defined-only", library], text=True,
                           capture_output=True, check=True).stdout
    wanted = "PyInit_" + library.name.removesuffix(".abi3.so")
    found = re.search(r" ([Tt]) (\w*PyInit_\w*)", there)
    if found and found[1] == "t":
        pytest.fail(f"{found[2]} is there, but hidden: Python does not see it")
    if found and re.match("_Z[0-9]+PyInit_", found[2]):
        pytest.fail("the function has C++'s linkage: the library calls it "
                    f"{found[2]}")
    if found and found[2] != wanted:
        pytest.fail(f"the function is {found[2]}; Python looks for {wanted}, after "
                    "the file's name")
    # Twice, as where one kernel is loaded from two places.
    ask(LOAD + """
assert load().__name__ == load().__name__ == id, \\
    f"the module is {load().__name__}, and should be {id}"
""", library, died="the process ended in the import")
    later = ObjectFile(library).check_python_abi("3.9")
    assert later == [], f"not in Python's stable ABI of 3.9: {later}"
    needed = re.findall(r"\b_?Py\w+", names)
    assert needed == ["PyModule_Create2"], \
        f"of Python it needs {', '.join(needed)}; PyModule_Create2 is enough"


# package.py, asked in a folder of its own.
PACKAGE = """
import os, subprocess
import package
def git(*arguments):
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@example.org",
                    *arguments], cwd=package.SOURCE, check=True,
                   capture_output=True)
"""


def test_08_2_an_id_for_every_build(library, ask, ask_package, look_at):
    """the same contents have one id, other contents another, which no process
    has twice

    Two builds that differ share a name, or two that are the same do not."""
    look_at("torch-ext/torch_binding.cpp", "#define OPS")
    ask(LOAD + """
# Another version of this kernel is there already.
other = torch.library.Library("activation", "DEF")
other.define("silu_and_mul(Tensor! out, Tensor input) -> ()")
before = names()
load()
opened = {n.split("::")[0] for n in names() - before}
assert id in opened, \\
    f"the ops are in {', '.join(opened)}, a name that every build has; " \\
    "TORCH_EXTENSION_NAME is this build's own"
out, x = torch.empty(2, 4), torch.randn(2, 8)
getattr(torch.ops, id).silu_and_mul(out, x)
torch.testing.assert_close(
    out, torch.nn.functional.silu(x[:, :4]) * x[:, 4:])
""", library, died="the process ended: another kernel has opened the namespace "
                   "activation")
    look_at("package.py", "unique_id")
    ask_package("""
first, second = package.unique_id(), package.unique_id()
assert first != second, f"without git unique_id() is {first!r} for every build"
git("init", "-q")
git("add", "-A")
git("commit", "-qm", "1")
id = package.unique_id()
tree, commit = package.git("rev-parse", "HEAD:./", "HEAD").split()
assert not commit.startswith(id), \\
    "unique_id() is that of the commit: one that changes nothing has another id"
assert tree.startswith(id) and len(id) >= 7, \\
    f"unique_id() is {id!r}; the folder's tree is {tree}"
git("commit", "--allow-empty", "-qm", "another commit of the same contents")
assert package.unique_id() == id, \\
    "after a commit that changes nothing unique_id() is another"
file = package.SOURCE / "build.toml"
file.write_text(file.read_text() + "# changed")
found = package.unique_id()
assert found == f"{id}_dirty", \\
    "with a changed file unique_id() is " + (
        "still that of the last commit" if found == id else repr(found)) + \\
    ", and should end in _dirty"
git("commit", "-qam", "2")
assert package.unique_id() not in (id, f"{id}_dirty"), \\
    "after a commit of other contents unique_id() is the same"
""")


def named(symbols):
    """As in C++, without parameters and what they are instances of."""
    text = subprocess.run(["c++filt"], input="\n".join(symbols), text=True,
                          capture_output=True, check=True).stdout
    while (less := re.sub(r"\([^()]*\)|<[^<>]*>|\[abi:\w+\]", "", text)) != text:
        text = less
    return ", ".join(text.splitlines())


def test_08_3_symbols_that_every_linux_has(library, look_at):
    """every symbol is there on manylinux_2_28, and none is shared with others

    The library's symbols are too new, shared with others, or without a version."""
    def read(*options):
        return subprocess.run(["readelf", "-W", *options, library], text=True,
                              capture_output=True, check=True).stdout

    look_at("CMakeLists.txt", "RPATH")
    dynamic = read("-d")
    assert not re.search(r"\((RPATH|RUNPATH)\)", dynamic), \
        "a path of the build machine is in the library"
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    strange = [n for n in needed if not re.match(NEEDED, n)]
    assert strange == [], \
        f"it needs {', '.join(strange)}, which torch does not bring"
    symbols = read("--dyn-syms")
    too_new = sorted(
        (name, f"{tag}_{version}") for name, tag, version in re.findall(
            r"UND (\w+)@+([A-Z]+)_([\d.]+)", symbols)
        if tag in NEWEST and tuple(map(int, version.split("."))) > NEWEST[tag])
    asked = "; ".join(f"{named([name])} of {version}"
                      for name, version in too_new[:3])
    look_at("CMakeLists.txt", "static-libstdc++")
    assert "libstdc++.so.6" in needed, \
        "libstdc++ is inside, beside torch's copy: this one asks for newer symbols"
    look_at("torch-ext/portable.cpp")
    assert too_new == [], f"manylinux_2_28 has no {asked}"
    look_at("CMakeLists.txt", "gnu-unique")
    unique = re.findall(r" UNIQUE .* (\S+)$", symbols, re.M)
    assert unique == [], \
        f"one for the whole process (UNIQUE): {named(unique[:1])}"
    # The Hub's own checker reads .symtab, and only names with a version in it.
    from kernel_abi_check import ObjectFile
    look_at("CMakeLists.txt", "fuse-ld")
    assert "@GLIBC" in read("--syms").split("'.symtab'")[1], \
        "the linker left the versions out: the Hub's check would see nothing"
    refused = ObjectFile(library).check_manylinux("manylinux_2_28")
    assert refused == [], f"the Hub's checker refuses {refused}"


def imported(file):
    """The packages that a file imports by name."""
    for node in ast.walk(ast.parse(file.read_text(), feature_version=(3, 9))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.split(".")[0]


def test_08_4_a_package_without_a_fixed_name(variant, ask, look_at):
    """the package works under its id alone, and promises what it has

    The package does not reach its ops under its id, or __all__ is not right."""
    look_at("torch-ext/activation/_ops.py.in")
    ask(IMPORT + """
look = "\\nlook at torch-ext/activation/__init__.py: "
try:
    load()
finally:
    there = f"{id}::silu_and_mul" in torch._C._dispatch_get_all_op_names()
    _ops = sys.modules.get(f"{id}._ops")
    if _ops and not there:
        raise AssertionError(
            "_ops.py does not import the library beside it: no op is registered"
        ) from None
    ops = getattr(_ops, "ops", None)
    if _ops and ops is not getattr(torch.ops, id):
        raise AssertionError(
            f"ops in _ops.py is {getattr(ops, '__name__', ops)}, and should be "
            "torch.ops.@ID@\\nlook at torch-ext/activation/_ops.py.in: ops ="
        ) from None
name = _ops.add_op_namespace_prefix("silu")
assert name == f"{id}::silu", \\
    f'add_op_namespace_prefix("silu") is {name!r}, and should be "@ID@::silu"\\n' \\
    "look at torch-ext/activation/_ops.py.in: def add_op_namespace_prefix"
want, have = set(sys.argv[2].split()), set(package.__all__)
assert want == have, "; ".join(
    f"__all__ {says} {', '.join(sorted(names))}" for says, names in
    (("lacks", want - have), ("should not have", have - want)) if names) + look
out, x = torch.empty(2, 4), torch.randn(2, 8)
assert package.silu_and_mul(out, x) is out, "silu_and_mul does not return out" + look
foreign = {m for m in sys.modules if m.split(".")[0] == "activation"}
assert not foreign, "the package was imported by the fixed name activation" + look
""", variant, " ".join([*FUNCTIONS, "layers"]))
    for file in variant.rglob("*.py"):
        foreign = set(imported(file)) - {"torch", *sys.stdlib_module_names}
        assert not foreign, \
            f"{file.name} imports {', '.join(foreign)}, which torch does not bring"


def test_08_5_layers_without_a_state(variant, ask, look_at):
    """the loader takes all eleven layers, and a replaced one keeps its threshold

    A layer is not one that kernelize can put into every model."""
    look_at("torch-ext/activation/layers.py")
    ask(IMPORT + """
load()
from kernels.layer.layer import _validate_layer
from torch import nn
class Layer(nn.Module):
    def forward(self, x): pass
for name in sys.argv[2].split():
    layer = getattr(package.layers, name)
    try:
        _validate_layer(check_cls=Layer, cls=layer, repo=name)
    except TypeError as error:
        more = set(dir(layer)) - set(dir(nn.Module)) - {
            "can_torch_compile", "has_backward"}
        members = "members" in str(error)
        raise AssertionError(
            f"the loader says: {error}" +
            (f" They are: {', '.join(more)}." if members else "") +
            "\\nlook at torch-ext/activation/layers.py: " +
            (f"{min(more)} =" if members else "__init__")) from None
    assert getattr(layer, "can_torch_compile", False), \\
        f"{name} has no can_torch_compile: a compiled model keeps its own layer"
    assert getattr(layer, "has_backward", True), \\
        f"{name} says that it has no gradient: a model in training keeps its own"
    layer()(torch.randn(2, 8))
class Fatrelu(nn.Module):  # a model's own layer, which kernelize replaces
    def __init__(self, threshold):
        super().__init__()
        self.threshold = threshold
    forward = package.layers.FatreluAndMul.forward
x = torch.tensor([[0.1, 0.4, 2.0, 2.0]])
assert Fatrelu(0.3)(x).tolist() == [[0.0, torch.tensor(0.4).item() * 2]], \\
    "forward does not take the threshold of the layer that it was put into"
class LayerWithoutThreshold(nn.Module):
    forward = package.layers.FatreluAndMul.forward
assert torch.equal(LayerWithoutThreshold()(x), x[:, :2] * 2), \\
    "forward does not take 0 where the layer has no threshold"
assert torch.equal(package.layers.FatreluAndMul()(x), x[:, :2] * 2), \\
    "FatreluAndMul() has another threshold than 0"
half = package.layers.FatreluAndMul(0.5)(x)
assert torch.equal(half, torch.tensor([[0.0, 0.0]])), \\
    "FatreluAndMul(0.5) has another threshold than 0.5"
""", variant, " ".join(LAYERS))


def test_08_6_metadata_that_the_loader_reads(
        build, variant, library, tmp_path, ask, ask_package, look_at):
    """the loader reads the metadata, finds the variant, and uses a layer of it

    The loader refuses metadata.json or its digest, or the variant by its name."""
    look_at("package.py", "metadata(id")
    ask("""
import json as reader, re, sys
from pathlib import Path
from kernels._rust import Digest, Metadata
folder, file = map(Path, sys.argv[1:])
json = folder / "metadata.json"
try:
    metadata = Metadata.read_from_file(json)
except Exception as error:
    said = re.sub(r" at line .*", "", str(error).split(": ")[-1])
    at = re.search(r" at line (\\d+)", str(error))
    line = json.read_text().splitlines()[int(at[1]) - 1].strip() if at else ""
    key = re.match('"[\\\\w-]+"', line)
    raise AssertionError(
        f"the loader cannot read metadata.json: {said}" +
        (f", in the line {line}\\nlook at package.py: {key[0]}" if key else "")
    ) from None
assert metadata.id == file.name[:-len(".abi3.so")], \\
    f"the metadata's id is {metadata.id}; the library is {file.name}"
assert (str(metadata.name), metadata.version) == ("activation", 1), \\
    f"the metadata's name and version are {metadata.name} and {metadata.version}"
assert metadata.digest is not None, "there is no digest"
try:
    metadata.digest.validate(
        Digest.hash_variant(metadata.digest.algorithm, folder))
except Exception as error:
    mine = reader.loads(json.read_text())["digest"]["files"]
    there = {p.relative_to(folder).as_posix() for p in folder.rglob("*")
             if p.is_file()} - {"metadata.json"}
    lacks, more = sorted(there - set(mine)), sorted(set(mine) - there)
    long = sorted(name for name, text in mine.items() if len(text) != 44)
    raise AssertionError((
        f"the digest leaves out {', '.join(lacks)}" if lacks else
        f"the digest has {', '.join(more)}, which is not there" if more else
        f"the digest of {long[0]} has {len(mine[long[0]])} characters: "
        "base64 of a SHA-256 has 44" if long else
        "the digest is that of other bytes: " +
        ", ".join(re.findall(r"for ([^\\s:]+)", str(error)))) +
        "\\nlook at package.py: def digest") from None
""", variant, library)

    # Of any backend, by the oldest torch; also of one that is older still.
    look_at("package.py", "variant_name(")
    ask_package("""
import platform
end = f"{platform.machine()}-linux"
for backend in ("cpu", "cu130"):
    found = package.variant_name(backend)
    want = f"torch-stable-abi210-{backend}-{end}"
    assert found == want, \\
        f'variant_name("{backend}") is {found}, and should be {want}'
file = package.SOURCE / "build.toml"
file.write_text(file.read_text().replace('"2.10"', '"2.11"'))
found = package.variant_name("cpu")
assert found == f"torch-stable-abi211-cpu-{end}", \\
    f'with 2.11 in build.toml variant_name("cpu") is {found}'
""")
    (tmp_path / "build").symlink_to(build)
    ask("""
import sys, torch
from pathlib import Path
from kernels import (LocalLayerRepository, Mode, get_kernel, get_local_kernel,
                     kernelize, use_kernel_forward_from_hub, use_kernel_mapping)
from kernels.variants import parse_variant, resolve_variant
folder = Path(sys.argv[1])
found, trace = resolve_variant([parse_variant(sys.argv[2])], "cpu")
assert found is not None, f"the loader refuses {sys.argv[2]}: {trace[0].reason}"
kernel = get_kernel("your-name/activation", version=1, backend="cpu")
assert get_local_kernel(folder, backend="cpu").silu_and_mul
@use_kernel_forward_from_hub("SiluAndMul")
class SiluAndMul(torch.nn.Module):
    def forward(self, x):
        raise AssertionError("kernelize has not replaced the layer")
layer = LocalLayerRepository(folder, layer_name="SiluAndMul")
mapping = {"SiluAndMul": {"cpu": layer}}
model, x = SiluAndMul(), torch.randn(3, 8)
with use_kernel_mapping(mapping, inherit_mapping=False):
    model = kernelize(model, mode=Mode.INFERENCE, device="cpu",
                      use_fallback=False)
torch.testing.assert_close(
    model(x), torch.nn.functional.silu(x[:, :4]) * x[:, 4:])
""", tmp_path, variant.name, LOCAL_KERNELS=f"your-name/activation={tmp_path}")
