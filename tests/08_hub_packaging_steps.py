"""The steps of chapter 08, on the variant that an implementation's build made.
Each imports in a process of its own: what is wrong may end it."""

import ast
import os
import re
import shutil
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
def variant(build):
    folder, = build.glob("torch*-cpu-*")
    return folder


@pytest.fixture(scope="module")
def library(variant):
    file, = variant.glob("*.abi3.so")
    return file


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
spec.loader.exec_module(package)
"""


def test_08_1_a_module_for_every_python(library):
    from kernel_abi_check import ObjectFile
    names = subprocess.run(["nm", "-D", "--undefined-only", library], text=True,
                           capture_output=True, check=True).stdout
    there = subprocess.run(["nm", library], text=True, capture_output=True,
                           check=True).stdout
    if re.search(r" t PyInit_", there):
        pytest.fail("PyInit_ is there, but hidden: the module does not export it")
    # Twice, as where one kernel is loaded from two places.
    python(LOAD + "assert load().__name__ == load().__name__ == id", library)
    assert ObjectFile(library).check_python_abi("3.9") == []
    assert re.findall(r"\b_?Py\w+", names) == ["PyModule_Create2"]


# package.py, asked in a folder of its own.
PACKAGE = """
import subprocess
import package
def git(*arguments):
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@example.org",
                    *arguments], cwd=package.SOURCE, check=True,
                   capture_output=True)
"""


def in_package(code, folder):
    python(PACKAGE + code, PYTHONPATH=os.pathsep.join(
        [str(folder), ENVIRONMENT["PYTHONPATH"]]))


@pytest.fixture
def own_package(build, tmp_path):
    """Copies of the sources that package.py reads, where no git is."""
    cache = (build / "CMakeCache.txt").read_text()
    source = Path(re.search(r"^CMAKE_HOME_DIRECTORY\S*=(.*)$", cache, re.M)[1])
    folder = tmp_path / "sources"
    folder.mkdir()
    for name in ("package.py", "build.toml"):
        shutil.copy(source / name, folder)
    return folder


def test_08_2_an_id_for_every_build(library, own_package):
    done = python(LOAD + """
# Another version of this kernel is there already.
other = torch.library.Library("activation", "DEF")
other.define("silu_and_mul(Tensor! out, Tensor input) -> ()")
load()
names = {n.split("::")[0] for n in torch._C._dispatch_get_all_op_names()}
assert id in names, f"the ops are not in the namespace {id}"
out, x = torch.empty(2, 4), torch.randn(2, 8)
getattr(torch.ops, id).silu_and_mul(out, x)
torch.testing.assert_close(
    out, torch.nn.functional.silu(x[:, :4]) * x[:, 4:])
""", library, check=False)
    if done.returncode < 0:
        pytest.fail("the process ended: another kernel's namespace was opened")
    if done.returncode != 0:
        pytest.fail(done.stdout.strip().splitlines()[-1])
    in_package("""
first, second = package.unique_id(), package.unique_id()
assert first != second, f"without git both ids are {first}"
git("init", "-q")
git("add", "-A")
git("commit", "-qm", "1")
id = package.unique_id()
tree = package.git("rev-parse", "HEAD:./")
assert tree.startswith(id) and len(id) >= 7, \
    f"the id of a commit is {id}, its tree {tree}"
git("commit", "--allow-empty", "-qm", "another commit of the same contents")
assert package.unique_id() == id, "the same contents have two ids"
file = package.SOURCE / "build.toml"
file.write_text(file.read_text() + "# changed")
assert package.unique_id() == f"{id}_dirty", \
    f"a changed file is not told: the id is {package.unique_id()}"
git("commit", "-qam", "2")
assert package.unique_id() not in (id, f"{id}_dirty"), \
    "other contents have the same id"
""", own_package)


def test_08_3_symbols_that_every_linux_has(library):
    def read(*options):
        return subprocess.run(["readelf", "-W", *options, library], text=True,
                              capture_output=True, check=True).stdout

    dynamic = read("-d")
    assert not re.search(r"\((RPATH|RUNPATH)\)", dynamic), \
        "a path of the build machine is in the library"
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    strange = [n for n in needed if not re.match(NEEDED, n)]
    assert strange == [], f"needs {strange}, which torch does not bring"
    symbols = read("--dyn-syms")
    too_new = sorted(
        f"{name}@{tag}_{version}" for name, tag, version in re.findall(
            r"UND (\w+)@+([A-Z]+)_([\d.]+)", symbols)
        if tag in NEWEST and tuple(map(int, version.split("."))) > NEWEST[tag])
    assert "libstdc++.so.6" in needed, \
        "libstdc++ is inside, beside torch's copy, and asks for " + \
        ", ".join(too_new[:3])
    assert too_new == [], f"not on manylinux_2_28: {', '.join(too_new[:3])}"
    unique = re.findall(r" UNIQUE .* (\S+)$", symbols, re.M)
    assert unique == [], f"shared with other kernels: {unique[0]}"
    # The Hub's own checker reads .symtab, and only names with a version in it.
    from kernel_abi_check import ObjectFile
    assert "@GLIBC" in read("--syms").split("'.symtab'")[1], \
        "the linker left the versions out: the Hub's check would see nothing"
    assert ObjectFile(library).check_manylinux("manylinux_2_28") == []


def imported(file):
    """The packages that a file imports by name."""
    for node in ast.walk(ast.parse(file.read_text(), feature_version=(3, 9))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.split(".")[0]


def test_08_4_a_package_without_a_fixed_name(variant):
    python(IMPORT + """
want, have = set(sys.argv[2].split()), set(package.__all__)
assert want == have, \
    f"__all__ lacks {sorted(want - have)}, and has {sorted(have - want)} too much"
from importlib import import_module
_ops = import_module("._ops", id)
assert _ops.ops is getattr(torch.ops, id)
assert _ops.add_op_namespace_prefix("silu") == f"{id}::silu"
out, x = torch.empty(2, 4), torch.randn(2, 8)
assert package.silu_and_mul(out, x) is out
foreign = {m for m in sys.modules if m.split(".")[0] == "activation"}
assert not foreign, "it was imported by a fixed name"
""", variant, " ".join([*FUNCTIONS, "layers"]))
    for file in variant.rglob("*.py"):
        foreign = set(imported(file)) - {"torch", *sys.stdlib_module_names}
        assert not foreign, f"{file.name} imports {foreign}"


def test_08_5_layers_without_a_state(variant):
    python(IMPORT + """
from kernels.layer.layer import _validate_layer
from torch import nn
class Layer(nn.Module):
    def forward(self, x): pass
for name in sys.argv[2].split():
    layer = getattr(package.layers, name)
    _validate_layer(check_cls=Layer, cls=layer, repo=name)
    assert layer.can_torch_compile and getattr(layer, "has_backward", True)
    layer()(torch.randn(2, 8))
class Fatrelu(nn.Module):  # a model's own layer, which kernelize replaces
    def __init__(self, threshold):
        super().__init__()
        self.threshold = threshold
    forward = package.layers.FatreluAndMul.forward
x = torch.tensor([[0.1, 0.4, 2.0, 2.0]])
assert Fatrelu(0.3)(x).tolist() == [[0.0, torch.tensor(0.4).item() * 2]], \
    "the replaced module's threshold is not read"
assert torch.equal(package.layers.FatreluAndMul()(x), x[:, :2] * 2)
""", variant, " ".join(LAYERS))


def test_08_6_metadata_that_the_loader_reads(
        build, variant, library, own_package, tmp_path):
    python("""
import sys
from pathlib import Path
from kernels._rust import Digest, Metadata
folder, file = map(Path, sys.argv[1:])
metadata = Metadata.read_from_file(folder / "metadata.json")
assert metadata.id == file.name[:-len(".abi3.so")], f"id is {metadata.id}"
assert (str(metadata.name), metadata.version) == ("activation", 1)
assert metadata.digest is not None, "there is no digest"
metadata.digest.validate(Digest.hash_variant(metadata.digest.algorithm, folder))
""", variant, library)

    # Of any backend, by the oldest torch; also of one that is older still.
    in_package("""
import platform
end = f"{platform.machine()}-linux"
for backend in ("cpu", "cu130"):
    found = package.variant_name(backend)
    want = f"torch-stable-abi210-{backend}-{end}"
    assert found == want, f"the variant for {backend} is {found}, not {want}"
file = package.SOURCE / "build.toml"
file.write_text(file.read_text().replace('"2.10"', '"2.11"'))
found = package.variant_name("cpu")
assert found == f"torch-stable-abi211-cpu-{end}", \\
    f"with 2.11 in build.toml it is {found}"
""", own_package)
    (tmp_path / "build").symlink_to(build)
    python("""
import sys, torch
from pathlib import Path
from kernels import (LocalLayerRepository, Mode, get_kernel, get_local_kernel,
                     kernelize, use_kernel_forward_from_hub, use_kernel_mapping)
from kernels.variants import parse_variant, resolve_variant
folder = Path(sys.argv[1])
found, trace = resolve_variant([parse_variant(sys.argv[2])], "cpu")
assert found is not None, trace[0].reason
kernel = get_kernel("your-name/activation", version=1, backend="cpu")
assert get_local_kernel(folder, backend="cpu").silu_and_mul
@use_kernel_forward_from_hub("SiluAndMul")
class SiluAndMul(torch.nn.Module):
    def forward(self, x):
        raise AssertionError("not replaced")
layer = LocalLayerRepository(folder, layer_name="SiluAndMul")
mapping = {"SiluAndMul": {"cpu": layer}}
model, x = SiluAndMul(), torch.randn(3, 8)
with use_kernel_mapping(mapping, inherit_mapping=False):
    model = kernelize(model, mode=Mode.INFERENCE, device="cpu",
                      use_fallback=False)
torch.testing.assert_close(
    model(x), torch.nn.functional.silu(x[:, :4]) * x[:, 4:])
""", tmp_path, variant.name, LOCAL_KERNELS=f"your-name/activation={tmp_path}")
