"""solutions/08_hub_packaging as what it is for: built alone, read by the Hub's
own parsers, loaded beside another version of itself, tested by its own tests.
The steps' tests are in test_08_hub_packaging.py."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from conftest import ROOT
from test_08_hub_packaging import NEEDED, NEWEST, python
from workspace import find_chapter, source_files, torch_root

CHAPTER = find_chapter("08")


def run(*command, cwd, check=True, **environment):
    path = os.pathsep.join([sysconfig.get_path("purelib"),
                            str(torch_root().parent)])
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={
            **os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1",
            "DISABLE_TELEMETRY": "1", **environment})
    assert not check or done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def script(name):
    return Path(sysconfig.get_path("scripts"), name)


def copy(folder):
    for path in [*source_files(CHAPTER.solution), CHAPTER.solution / "README.md"]:
        target = folder / path.relative_to(CHAPTER.solution)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    return folder


def build(folder, *options):
    """The README's first command; gives the variants."""
    run("cmake", "-G", "Ninja", "-B", "build", f"-DTORCH_ROOT={torch_root()}",
        "-DACTIVATION_CUDA=OFF", *options, cwd=folder)
    run("cmake", "--build", "build", cwd=folder)
    return sorted((folder / "build").glob("torch*"))


def git(folder, *arguments):
    return run("git", "-c", "user.name=a", "-c", "user.email=a@example.org",
               *arguments, cwd=folder)


def id_of(variant):
    return json.loads((variant / "metadata.json").read_text())["id"]


@pytest.fixture(scope="module")
def variant():
    found, = (ROOT / "build/release/solutions/08_hub_packaging").glob("torch*")
    return found


@pytest.fixture(scope="module")
def repository(tmp_path_factory, variant):
    """A Hub repository: the sources, and the release build as its build."""
    folder = copy(tmp_path_factory.mktemp("hub") / "activation")
    (folder / "build").mkdir()
    shutil.copytree(variant, folder / "build" / variant.name)
    return folder


# --- the Hub's own parsers -------------------------------------------------------


def test_kernels_info_and_build_toml(repository):
    info = json.loads(run(script("kernels"), "info", "--json", repository,
                          cwd=repository))
    assert (info["name"], info["version"], info["backends"]) == \
        ("activation", 1, ["cpu"])
    python("""
import sys
from kernels._rust import Build
assert [str(b) for b in Build.open(sys.argv[1]).general.backends] \
    == ["cpu", "cuda"]
""", repository)
    # What it lists is there, and it lists what there is.
    listed = set(re.findall(r'"([\w/-]+\.(?:cpp|cu|h))"',
                            (repository / "build.toml").read_text()))
    there = {str(path.relative_to(repository)) for path in
             repository.rglob("*") if path.suffix in (".cpp", ".cu", ".h")}
    assert listed == there - {"torch-ext/registration.h"}  # kernel-builder's


def test_build_toml_with_an_unknown_key_is_refused(repository, tmp_path):
    text = (repository / "build.toml").read_text()
    (tmp_path / "build.toml").write_text(
        text.replace("[torch.stable-abi]", "[torch.stabel-abi]"))
    with pytest.raises(pytest.fail.Exception, match="Unknown field stabel-abi"):
        python("import sys; from kernels._rust import Build;"
               "Build.open(sys.argv[1])", tmp_path)


def test_a_second_auditor_agrees(variant):
    if sys.version_info < (3, 11):
        pytest.skip("torch-abi-audit needs Python 3.11")
    library, = variant.glob("*.so")
    found = json.loads(run(script("torch-abi-audit"), "--json", library,
                           cwd=variant))["extensions"][0]
    assert found["cpython"]["compliant"]
    assert found["torch"]["stable"] and not found["torch"]["unstable_symbols"]
    assert found["torch"]["min_torch_version"] == "2.10.0"


@pytest.mark.parametrize("key", [
    "name", "id", "version", "license", "python-depends", "backend"])
def test_metadata_without_a_key_is_refused(variant, tmp_path, key):
    metadata = json.loads((variant / "metadata.json").read_text())
    del metadata[key]
    (tmp_path / "metadata.json").write_text(json.dumps(metadata))
    with pytest.raises(pytest.fail.Exception, match=f"missing field `{key}`"):
        python("import sys; from kernels._rust import Metadata;"
               "Metadata.read_from_file(sys.argv[1])",
               tmp_path / "metadata.json")


def test_every_module_is_python_3_9(repository):
    for path in [*repository.rglob("*.py"), *repository.rglob("*.py.in")]:
        text = path.read_text().replace("@ID@", "id")
        ast.parse(text, feature_version=(3, 9))


def test_ops_in_cpp(variant):
    library, = variant.glob("*.so")
    run(ROOT / "build/release/tests/08_hub_packaging_test",
        f"--library={library}", cwd=ROOT)


def test_objects_for_newer_machines_share_no_function():
    """A function that two objects define weakly, one for AVX-512: the linker
    may take that one for all, and an older machine stops at it."""
    objects = ROOT / "build/release/solutions/08_hub_packaging/CMakeFiles"
    checked = 0
    for name in ("rows_v3", "rows_v4"):
        file, = objects.rglob(f"{name}.cpp.o")
        defined = run("nm", "-C", "--defined-only", file, cwd=ROOT)
        shared = re.findall(r" [WVTBDu] (?!level_v)(.*)", defined)
        assert shared == []
        checked += "level_v" in defined
    assert checked == 2 or os.uname().machine != "x86_64"


# --- rules that the package cannot break by itself ---------------------------------


def test_gnu_unique_statics_are_shared_without_the_flag(tmp_path):
    """What -fno-gnu-unique is for: two libraries, loaded privately, one
    object."""
    (tmp_path / "a.cpp").write_text("""
template <class T> struct Counter { static int& value() {
  static int it = 0; return it; } };
extern "C" int next() { return ++Counter<int>::value(); }
""")
    found = {}
    for flag in ("-fgnu-unique", "-fno-gnu-unique"):
        for name in "ab":
            run("g++", "-shared", "-fPIC", flag, "a.cpp", "-o", f"{name}.so",
                cwd=tmp_path)
        symbols = run("readelf", "-W", "--dyn-syms", "a.so", cwd=tmp_path)
        found[flag] = ("UNIQUE" in symbols, run(
            sys.executable, "-c",
            "import ctypes; a, b = (ctypes.CDLL(f'./{n}.so') for n in 'ab');"
            "print(a.next(), b.next())", cwd=tmp_path).split())
    assert found == {"-fgnu-unique": (True, ["1", "2"]),
                     "-fno-gnu-unique": (False, ["1", "1"])}


@pytest.mark.parametrize("linker, hidden", [("bfd", False), ("gold", True)])
def test_the_hubs_checker_sees_what_gnu_ld_wrote(tmp_path, linker, hidden):
    """A symbol of GLIBC 2.34 is a violation; by gold's table it is none."""
    from kernel_abi_check import ObjectFile
    if shutil.which(f"ld.{linker}") is None:
        pytest.skip(f"ld.{linker} is not installed")
    (tmp_path / "a.c").write_text(
        "#include <dlfcn.h>\nvoid* f(void) { return dlopen(0, 1); }\n")
    run("gcc", "-shared", "-fPIC", f"-fuse-ld={linker}", "a.c", "-o", "a.so",
        cwd=tmp_path)
    symbols = run("readelf", "-W", "--dyn-syms", "a.so", cwd=tmp_path)
    version = re.search(r"dlopen@GLIBC_([\d.]+)", symbols)[1]
    if tuple(map(int, version.split("."))) <= (2, 28):
        pytest.skip(f"this system's dlopen is of GLIBC {version}")
    found = ObjectFile(tmp_path / "a.so").check_manylinux("manylinux_2_28")
    assert (found == []) == hidden


# --- whole builds --------------------------------------------------------------------


@pytest.mark.full
def test_its_own_tests_through_local_kernels(repository):
    text = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
               "tests", cwd=repository)
    assert re.search(r"\d+ passed", text) and "failed" not in text


@pytest.mark.full
def test_its_own_benchmark(repository, tmp_path):
    pytest.importorskip("matplotlib")
    run(script("kernels"), "benchmark", "--iterations", 2, "--warmup", 1,
        "--output", tmp_path / "x.json", repository, cwd=repository)
    result = json.loads((tmp_path / "x.json").read_text())
    workloads = result["results"]
    assert len(workloads) == 6 and all(
        w["verified"] for w in workloads), workloads


@pytest.mark.full
def test_versions_ids_and_bytes(tmp_path):
    """One commit gives the same bytes in any folder; a change marks the id as
    dirty; without git it is random; and two versions live in one process."""
    first = copy(tmp_path / "a folder with spaces")
    git(first, "init", "-q")
    git(first, "add", "-A")
    git(first, "commit", "-qm", "1")
    git(first, "clone", "-q", first, tmp_path / "second")
    variants = [build(first)[0], build(tmp_path / "second")[0]]
    tree = git(first, "rev-parse", "--short=7", "HEAD:./").strip()
    assert id_of(variants[0]) == f"_activation_cpu_{tree}"
    files = [{path.relative_to(v): path.read_bytes() for path in v.rglob("*")}
             for v in variants]
    assert files[0] == files[1]

    # The next version, which some model asks for as well.
    second = tmp_path / "second"
    (second / "build.toml").write_text((second / "build.toml").read_text()
                                       .replace("version = 1", "version = 2"))
    assert id_of(build(second)[0]) == f"_activation_cpu_{tree}_dirty"
    git(second, "commit", "-qam", "2")
    newer, = build(second)
    assert re.fullmatch(r"_activation_cpu_[0-9a-f]{7}", id_of(newer))
    assert id_of(newer) != id_of(variants[0])
    python("""
import sys, torch
from pathlib import Path
from kernels import get_local_kernel
a, b = (get_local_kernel(Path(p), backend="cpu") for p in sys.argv[1:])
assert a.__name__ != b.__name__
x = torch.randn(3, 8)
one, two = a.silu_and_mul(torch.empty(3, 4), x), b.layers.SiluAndMul()(x)
assert torch.equal(one, two)
names = torch._C._dispatch_get_all_op_names()
assert all(f"{k.__name__}::silu_and_mul" in names for k in (a, b))
""", first, second)

    shutil.rmtree(second / ".git")
    shutil.rmtree(second / "build")
    assert re.fullmatch(r"_activation_cpu_[0-9a-f]{8}", id_of(build(second)[0]))


@pytest.mark.full
def test_renamed_it_is_a_package_of_its_own(workbook, tmp_path):
    folder = tmp_path / "mine"
    done = workbook("new", "gated_acts", "--from", "08", folder)
    assert done.returncode == 0, done.stderr
    variant, = build(folder, "-DGATED_ACTS_CUDA=OFF")
    assert id_of(variant).startswith("_gated_acts_cpu_")
    info = json.loads(run(script("kernels"), "info", "--json", folder,
                          cwd=folder))
    assert info["name"] == "gated-acts"
    text = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
               "-k", "opcheck or errors or names", "tests", cwd=folder)
    assert re.search(r"\d+ passed", text) and "failed" not in text


@pytest.mark.full
def test_sanitizers_see_nothing(tmp_path):
    """The C++ test again, the kernels built with ASan and UBSan."""
    folder = copy(tmp_path / "activation")
    flags = "-fsanitize=address,undefined -fno-sanitize-recover=undefined"
    variant, = build(folder, f"-DCMAKE_CXX_FLAGS={flags}",
                     f"-DCMAKE_MODULE_LINKER_FLAGS={flags}")
    library, = variant.glob("*.so")
    asan = run("g++", "-print-file-name=libasan.so", cwd=ROOT).strip()
    for level in ("baseline", "v3", "v4"):
        run(ROOT / "build/release/tests/08_hub_packaging_test",
            f"--library={library}", cwd=ROOT, LD_PRELOAD=asan,
            ACTIVATION_CPU_LEVEL=level, ASAN_OPTIONS="detect_leaks=0")


@pytest.mark.full
def test_cuda_variant(tmp_path):
    """Compiled, not run: its symbols, metadata and name; that it loads where
    there is no CUDA, and that its CPU ops work there."""
    if shutil.which("nvcc") is None and "CUDACXX" not in os.environ:
        pytest.skip("no nvcc: the CUDA variant is not made")
    from kernel_abi_check import ObjectFile
    folder = copy(tmp_path / "activation")
    variants = build(folder, "-DACTIVATION_CUDA=ON",
                     "-DCMAKE_CUDA_ARCHITECTURES=90")
    cpu, cuda = variants
    assert re.fullmatch(r"torch-stable-abi210-cu\d{3}-\w+-linux", cuda.name)
    assert id_of(cpu) != id_of(cuda)
    metadata = json.loads((cuda / "metadata.json").read_text())
    assert metadata["backend"] == {"type": "cuda", "archs": ["9.0+PTX"]}
    library, = cuda.glob("*.so")
    assert ObjectFile(library).check_manylinux("manylinux_2_28") == []
    assert ObjectFile(library).check_python_abi("3.9") == []
    dynamic = run("readelf", "-dW", library, cwd=folder)
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    assert all(re.match(NEEDED, name) for name in needed), needed
    assert "libtorch.so" in needed and "PATH" not in dynamic
    for tag, version in re.findall(r"@([A-Z]+)_([\d.]+)", run(
            "readelf", "-W", "--dyn-syms", library, cwd=folder)):
        assert tuple(map(int, version.split("."))) <= NEWEST.get(tag, (99,))
    python("""
import sys, torch
from pathlib import Path
from packaging.version import Version
from kernels._rust import Digest, Metadata
from kernels.backends import CUDA
from kernels.variants import _resolve_variant_for_system, parse_variant
folder = Path(sys.argv[1])
metadata = Metadata.read_from_file(folder / "metadata.json")
metadata.digest.validate(Digest.hash_variant(metadata.digest.algorithm, folder))
for torch_version in ("2.10", "2.15"):
    found, trace = _resolve_variant_for_system(
        variants=[parse_variant(folder.name)],
        selected_backend=CUDA(Version("13.2")), cpu=folder.name.split("-")[-2],
        os="linux", torch_version=Version(torch_version), torch_cxx11_abi=True,
        tvm_ffi_version=None)
    assert found, trace
""", cuda)
    runtime = [str(p.parent) for p in Path("/usr/local").glob(
        "cuda*/lib64/libcudart.so.*")]
    python("""
import importlib.util, sys, torch
from pathlib import Path
folder = Path(sys.argv[1])
id = next(folder.glob("*.so")).name[:-len(".abi3.so")]
spec = importlib.util.spec_from_file_location(id, folder / "__init__.py")
package = importlib.util.module_from_spec(spec)
sys.modules[id] = package
spec.loader.exec_module(package)
x = torch.randn(3, 8)
torch.testing.assert_close(
    package.silu_and_mul(torch.empty(3, 4), x),
    torch.nn.functional.silu(x[:, :4]) * x[:, 4:])
assert torch._C._dispatch_has_kernel_for_dispatch_key(
    f"{id}::silu_and_mul", "CUDA")
""", cuda, LD_LIBRARY_PATH=os.pathsep.join(
        [*runtime[:1], os.environ.get("LD_LIBRARY_PATH", "")]))
