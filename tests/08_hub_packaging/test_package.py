"""solutions/08_hub_packaging as what it is for: built alone, read by the Hub's
own parsers, loaded beside another version of itself, tested by its own tests.
The steps' tests are in 08_hub_packaging_steps.py."""

import ast
import json
import os
import re
import shutil
import sys
import sysconfig
from pathlib import Path

import pytest

from base import nvcc
from base.building import compiler
from base.project import ROOT
from base.sheets import find_chapter
from hub import ENVIRONMENT, NEEDED, NEWEST, python
from support import PYTHON, copy_solution, passed, passes
from torch_stable_abi.files import read_toml
from torch_stable_abi.libtorch.installed import torch_root

CHAPTER = find_chapter("08")


def run(*command, cwd, **environment):
    return passes(*command, cwd=cwd, env={
        **os.environ, **ENVIRONMENT, **environment})


def script(name):
    return Path(sysconfig.get_path("scripts"), name)


def build(folder, *options, by=""):
    """The README's first command; gives the variants."""
    run("cmake", "-G", "Ninja", "-B", "build", f"-DTORCH_ROOT={torch_root()}",
        "-DACTIVATION_CUDA=OFF", *options, cwd=folder,
        CXX=by or os.environ.get("CXX", "c++"))
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
    folder = copy_solution(CHAPTER, tmp_path_factory.mktemp("hub") / "activation")
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
    # Without it kernel-builder refuses the folder.
    assert "genKernelFlakeOutputs" in (repository / "flake.nix").read_text()


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


def test_what_is_visible_of_its_own(variant):
    """Templates of std, which libstdc++ makes visible, are not."""
    library, = variant.glob("*.so")
    names = re.findall(r" [A-Z] (.*)", run(
        "nm", "-DC", "--defined-only", library, cwd=variant))
    own = {n for n in names if "std::" not in n and "__gnu_cxx::" not in n}
    assert own - {"__bss_start", "_edata", "_end"} == {
        f"PyInit_{id_of(variant)}", "call_op_declared"}


def test_a_kernel_without_a_digest_is_loaded(variant, tmp_path):
    """So nobody hears of a mistyped one."""
    copy = shutil.copytree(variant, tmp_path / variant.name)
    metadata = json.loads((copy / "metadata.json").read_text())
    metadata["digests"] = metadata.pop("digest")
    (copy / "metadata.json").write_text(json.dumps(metadata))
    python("""
import sys
from pathlib import Path
from kernels import get_local_kernel
assert get_local_kernel(Path(sys.argv[1]), backend="cpu").__name__ == sys.argv[2]
""", tmp_path, metadata["id"])


def test_every_module_is_python_3_9(repository):
    for path in [*repository.rglob("*.py"), *repository.rglob("*.py.in")]:
        text = path.read_text().replace("@ID@", "id")
        ast.parse(text, feature_version=(3, 9))


def test_ops_in_cpp(variant):
    library, = variant.glob("*.so")
    run(ROOT / "build/release/tests/08_hub_packaging_test",
        f"--library={library}", cwd=ROOT)


# --- package.py ------------------------------------------------------------------


def package_py(code, arch, **options):
    """The package's own package.py, asked of a value of CMake's."""
    path = os.pathsep.join([str(CHAPTER.solution), ENVIRONMENT["PYTHONPATH"]])
    return python("import package, sys; found = package.metadata('_a_cuda_1', "
                  "'cu130', sys.argv[1:], package.SOURCE / 'torch-ext');" + code,
                  arch, PYTHONPATH=path, **options)


@pytest.mark.parametrize("arch, capability", [
    ("75-real", "7.5"), ("90", "9.0+PTX"), ("90a", "9.0a+PTX"),
    ("90a-real", "9.0a"), ("100f-virtual", "10.0f+PTX"), ("121", "12.1+PTX")])
def test_archs_of_cmake(arch, capability):
    done = package_py("print(found['backend'])", arch)
    assert done.stdout.strip() == str({"type": "cuda", "archs": [capability]})


@pytest.mark.parametrize("arch", ["native", "all", "all-major", "90x", ""])
def test_archs_that_are_no_number_are_refused(arch):
    done = package_py("", arch, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stdout
    assert f"CMAKE_CUDA_ARCHITECTURES has {arch!r}" in done.stdout


# --- as kernel-builder builds it ------------------------------------------------


BUILDERS_ID = "_activation_cpu_1a2b3c4"


def visible(library):
    """What another kernel in the process could be bound to, but for what is the
    same in all: names of std, of torch and of CUDA."""
    names = re.findall(r" ([A-Zu]) (.*)", run(
        "nm", "-DC", "--defined-only", library, cwd=library.parent))
    return {name for kind, name in names if kind not in "WVu" or re.search(
        r"wb::|silu|gelu|launch|functional", name)} - {
            "__bss_start", "_edata", "_end"}


@pytest.fixture(scope="module")
def builders(tmp_path_factory):
    """A copy of the package with a registration.h of kernel-builder's macros,
    which it writes over ours."""
    folder = copy_solution(CHAPTER, tmp_path_factory.mktemp("builders") / "a")
    shutil.copy(ROOT / "tests/08_hub_packaging/registration.h",
                folder / "torch-ext/registration.h")
    return folder


def compiled(folder, compiler, backend="cpu", only="", more=()):
    """Objects of build.toml's sections, by kernel-builder's command: C++20,
    Python's headers, nothing about visibility, and the section's own folders
    and flags."""
    toml = read_toml(folder / "build.toml")
    sections = [toml["torch"], *(k for k in toml["kernel"].values()
                                 if k["backend"] == backend)]
    for section in sections:
        for source in section["src"]:
            if source.endswith(".cpp") and only in source:
                target = f"{Path(source).stem}.{compiler}.o"
                run(compiler, "-std=c++20", "-O2", "-fPIC", "-fno-gnu-unique",
                    f"-DTORCH_EXTENSION_NAME={BUILDERS_ID}", "-DCPU_KERNEL",
                    "-DTORCH_TARGET_VERSION=0x020a000000000000",
                    "-DPy_LIMITED_API=0x03090000",
                    "-isystem", torch_root() / "include",
                    "-isystem", sysconfig.get_path("include"),
                    *(f"-I{part}" for part in section["include"]),
                    *section.get("cxx-flags", []), *more,
                    "-c", source, "-o", target, cwd=folder)
                yield target


needs_python_h = pytest.mark.skipif(
    not Path(sysconfig.get_path("include"), "Python.h").exists(),
    reason="no Python.h, which kernel-builder's header includes")


@needs_python_h
def test_its_binding_takes_kernel_builders_macros(builders):
    binding, = compiled(builders, "g++", only="torch_binding")
    symbols = run("readelf", "-W", "--syms", binding, cwd=builders)
    assert re.search(rf"FUNC +GLOBAL +DEFAULT .* PyInit_{BUILDERS_ID}$",
                     symbols, re.M)


@needs_python_h
@pytest.mark.full
def test_it_compiles_for_aarch64_as_kernel_builder_does(builders):
    if shutil.which("aarch64-linux-gnu-g++") is None:
        pytest.skip("no aarch64-linux-gnu-g++")
    # Debian's Python has a pyconfig.h for each machine, and this one's will do.
    include = Path(sysconfig.get_path("include"))
    stub = builders / "multiarch/aarch64-linux-gnu" / include.name / "pyconfig.h"
    stub.parent.mkdir(parents=True)
    stub.write_text(f"#include <x86_64-linux-gnu/{include.name}/pyconfig.h>\n")
    assert len([*compiled(builders, "aarch64-linux-gnu-g++", more=[
        f"-isystem{builders}/multiarch", "-idirafter/usr/include"])]) == 4


@needs_python_h
@pytest.mark.full
def test_built_as_kernel_builder_does_every_level_is_right(builders):
    """The rows for every machine, with AVX2 and with AVX-512: the dynamic
    linker picks one, so each is built alone."""
    if os.uname().machine != "x86_64":
        pytest.skip("instruction sets of x86_64")
    objects = [*compiled(builders, "g++")]
    for level in ("", "x86-64", "x86-64-v3"):
        if level:
            [*compiled(builders, "g++", only="activation_row", more=[
                f'-Dtarget_clones(...)=target("arch={level}")'])]
        library = builders / f"{BUILDERS_ID}.abi3.so"
        run("g++", "-shared", *objects, torch_root() / "lib/libtorch_cpu.so",
            "-o", library, cwd=builders)
        assert visible(library) == {f"PyInit_{BUILDERS_ID}"}
        run(ROOT / "build/release/tests/08_hub_packaging_test",
            f"--library={library}", cwd=ROOT)


# --- other people's material ----------------------------------------------------

SUITE = """\
import kernels
import pytest
import torch

activation = kernels.get_kernel("kernels-community/activation", version=1)
CUDA_DEVICES = [f"cuda:{i}" for i in range(2)]


def gelu_fast(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * (1 + torch.tanh(x * 0.7978845608 * (1 + 0.044715 * x * x)))


def gelu_new(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


@pytest.mark.parametrize("device", CUDA_DEVICES)
@pytest.mark.parametrize("dtype", [torch.half, torch.float])
def test_gated(dtype, device):
    x = torch.randn(7, 64, dtype=dtype, device=device)
    gate, up = x.chunk(2, -1)
    ref_out = torch.nn.functional.silu(gate) * up
    mod_out = activation.layers.SiluAndMul()(x)
    out = activation.silu_and_mul(torch.empty_like(ref_out), x)
    torch.testing.assert_close(out, ref_out, atol=0.0, rtol=0.0)
    torch.testing.assert_close(mod_out, ref_out, atol=0.0, rtol=0.0)
    torch.library.opcheck(activation.ops.silu_and_mul, (out, x))


@pytest.mark.parametrize("device", CUDA_DEVICES)
@pytest.mark.parametrize("torch_fn", [gelu_fast, gelu_new])
def test_alone(torch_fn, device):
    x = torch.randn(50, 512, dtype=torch.bfloat16, device=device)
    out = getattr(activation, torch_fn.__name__)(torch.empty_like(x), x)
    torch.testing.assert_close(out, torch_fn(x), atol=1e-3, rtol=1.6e-2)
"""


@pytest.mark.full
def test_a_suite_of_another_package_is_run(tmp_path, variant, capfd):
    """With a tree of the shape that kernels-community has."""
    import hub_checkouts
    file = tmp_path / "activation/tests/kernels/test_activation.py"
    file.parent.mkdir(parents=True)
    file.write_text(SUITE)
    assert hub_checkouts.suite(tmp_path, built=variant.parent) == 0
    text = capfd.readouterr().out
    assert passed(text.strip()) == 4 and '+CUDA_DEVICES = ["cpu"]' in text
    # Where the suite is another, what is relaxed is not guessed.
    file.write_text(SUITE.replace("atol=0.0, rtol=0.0", "atol=0, rtol=0"))
    with pytest.raises(SystemExit, match="not 2: look at CHANGES"):
        hub_checkouts.suite(tmp_path, built=variant.parent)


def test_no_worse_than_the_original_is_not_any_result():
    import torch

    from hub_checkouts import no_worse
    formula = no_worse(torch.nn.functional.silu)
    x = torch.randn(1000, dtype=torch.bfloat16)
    out = torch.nn.functional.silu(x)
    assert torch.equal(formula(x), out)
    out = out * 1.02
    with pytest.raises(AssertionError, match="and the original by"):
        formula(x)


@pytest.mark.full
@pytest.mark.parametrize("what, variable", [
    ("suite", "KERNELS_COMMUNITY"), ("builder", "KERNELS_REPOSITORY")])
def test_on_a_checkout(what, variable):
    if variable not in os.environ:
        pytest.skip(f"{variable} names no checkout, and none can be fetched "
                    "here: see tests/hub_checkouts.py")
    path = os.pathsep.join([str(ROOT / "common"), ENVIRONMENT["PYTHONPATH"]])
    run(PYTHON, "tests/hub_checkouts.py", what, os.environ[variable], cwd=ROOT,
        PYTHONPATH=path)


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
            PYTHON, "-c",
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
    text = run(PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider",
               "tests", cwd=repository)
    assert passed(text)


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
def test_versions_ids_and_bytes(tmp_path, monkeypatch):
    """One commit gives the same bytes in any folder; a change marks the id as
    dirty; without git it is random; and two versions live in one process."""
    first = copy_solution(CHAPTER, tmp_path / "a folder with spaces")
    git(first, "init", "-q")
    git(first, "add", "-A")
    git(first, "commit", "-qm", "1")
    git(first, "clone", "-q", first, tmp_path / "second")
    with monkeypatch.context() as each_compiled:
        each_compiled.setenv("CCACHE_DISABLE", "1")
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
    drawn = id_of(build(second)[0])
    assert re.fullmatch(r"_activation_cpu_[0-9a-f]{8}", drawn)
    assert id_of(build(second)[0]) == drawn


@pytest.mark.full
def test_renamed_it_is_a_package_of_its_own(workbook, tmp_path):
    folder = tmp_path / "mine"
    done = workbook("new", "gated_acts", "--from", "08", folder)
    assert done.returncode == 0, done.stderr
    variant, = build(folder, "-DGATED_ACTS_CUDA=OFF", by=compiler())
    assert id_of(variant).startswith("_gated_acts_cpu_")
    info = json.loads(run(script("kernels"), "info", "--json", folder,
                          cwd=folder))
    assert info["name"] == "gated-acts"
    # As the Hub tests it: by the name that build.toml gives.
    repo = re.search(r'^repo-id = "(.*)"$', (folder / "build.toml").read_text(),
                     re.M)[1]
    assert repo == "your-name/gated-acts"
    text = run(PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider",
               "-m", "kernels_ci", "tests", cwd=folder,
               LOCAL_KERNELS=f"{repo}={folder}")
    assert passed(text)
    text = run(PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider",
               "-k", "opcheck or errors or names", "tests", cwd=folder)
    assert passed(text)


@pytest.mark.full
def test_sanitizers_see_nothing(tmp_path):
    """The C++ test again, the kernels built with ASan and UBSan."""
    folder = copy_solution(CHAPTER, tmp_path / "activation")
    flags = "-fsanitize=address,undefined -fno-sanitize-recover=undefined"
    variant, = build(
        folder, f"-DCMAKE_CXX_FLAGS={flags}",
        f"-DCMAKE_MODULE_LINKER_FLAGS={flags}",
        f"-DCMAKE_PROJECT_INCLUDE={ROOT}/common/cmake/package.cmake",
        "-DCMAKE_CXX_FLAGS_RELEASE=-O1", by="g++")
    library, = variant.glob("*.so")
    asan = run("g++", "-print-file-name=libasan.so", cwd=ROOT).strip()
    run(ROOT / "build/release/tests/08_hub_packaging_test",
        f"--library={library}", cwd=ROOT, LD_PRELOAD=asan,
        ASAN_OPTIONS="detect_leaks=0")


@pytest.mark.full
def test_cuda_variant(tmp_path):
    """Compiled, not run: its symbols, metadata and name; that it loads where
    torch is one for CPU and libcudart is found, and that its CPU ops work
    there."""
    if shutil.which("nvcc") is None and "CUDACXX" not in os.environ:
        pytest.skip("no nvcc: the CUDA variant is not made")
    from kernel_abi_check import ObjectFile
    folder = copy_solution(CHAPTER, tmp_path / "activation")
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
    assert visible(library) == {f"PyInit_{id_of(cuda)}"}
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


@pytest.mark.full
def test_launches_on_a_pretended_gpu(tmp_path):
    """Every op and dtype; errors, its own and others'; a graph capture; pieces."""
    if nvcc.find() is None:
        pytest.skip("no nvcc: the kernels are not compiled")
    package, torch = CHAPTER.solution, torch_root()
    passes(nvcc.find(), "-std=c++17", "-arch=sm_90", "-cudart", "none",
           "-Xcompiler", "-fPIC", "-I", package / "torch-ext",
           "-c", package / "activation_cuda/activation.cu",
           "-o", tmp_path / "kernels.o")
    passes("g++", "-std=c++20", "-Wall", "-Wextra", "-rdynamic", "-I", package,
           "-I", package / "torch-ext",
           "-isystem", torch / "include", ROOT / "tests/08_hub_packaging/launch.cpp",
           tmp_path / "kernels.o", torch / "lib/libtorch_cpu.so",
           f"-Wl,-rpath,{torch / 'lib'}", "-ldl", "-o", tmp_path / "launch")
    passes(tmp_path / "launch")
