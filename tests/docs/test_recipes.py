"""docs/porting/scale by setuptools and by scikit-build-core: a wheel of each is
built, installed and used; and what the pages say of CUDA, as far as it can be
tried without a GPU."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig

import pytest
from packaging.tags import compatible_tags, cpython_tags

import snippets
from base import nvcc
from base.project import ROOT
from support import fetch_libtorch, passes
from torch_stable_abi.libtorch import runtimes
from torch_stable_abi.libtorch.installed import is_for_cuda, torch_root
from torch_stable_abi.libtorch.versions import numbers, supported

PORTING = ROOT / "docs/porting"
pytestmark = pytest.mark.full

USE = """
import torch
from scale_ops import scale
for dtype in (torch.float32, torch.bfloat16):
    x = torch.tensor([1.0, -2.0, 0.0], dtype=dtype)
    assert torch.equal(scale(x, 2.5), x * 2.5)
f = torch.compile(lambda x: scale(x, 2.0) + 1, fullgraph=True, backend="aot_eager")
assert torch.equal(f(torch.ones(3)), torch.full((3,), 3.0))
"""
# In place of libtorch_cuda.so: nothing of it is called.
STAND_IN = """
extern "C" {
int torch_c10_cuda_check_msg() { return 1; }
void torch_c10_cuda_free_error_msg() {}
int aoti_torch_get_current_cuda_stream() { return 1; }
}
"""
LOAD = """
import sys, torch
torch.ops.load_library(sys.argv[1])
torch.ops.load_library(sys.argv[2])
has = torch._C._dispatch_has_kernel_for_dispatch_key
assert has("scale_ops::scale", "CPU") and has("scale_ops::scale", "CUDA")
"""


# C++ of libtorch, which changes with every version. What is in torch::stable
# and torch::headeronly is compiled into the extension.
UNSTABLE = re.compile(r"\b(?:at|c10|torch)::(?!stable\b|headeronly\b)")


def unstable_symbols(library):
    return [line for line in passes("nm", "-D", "-C", "--undefined-only",
                                    library).splitlines() if UNSTABLE.search(line)]


def needed(library):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", passes("readelf", "-d", library))


def installed(recipe, folder, *settings):
    """Return the folder where pip has put the wheel's package."""
    source = folder / "source"
    for part in ("scale", recipe):
        shutil.copytree(PORTING / part, source, dirs_exist_ok=True)
    passes(sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps",
             "--no-build-isolation", "--target", folder / "site", *settings, source,
             env={**os.environ, **toolkit(), "MAX_JOBS": "2", "PATH":
                  f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"})
    return folder / "site"


def toolkit():
    """Return what a PyTorch for CUDA has to be told of nvcc and of GPUs that are not
    here."""
    if not is_for_cuda() or nvcc.find() is None:
        return {}
    said = passes(nvcc.find(), "--dryrun", "-E", "-x", "cu", "/dev/null")
    return {"CUDA_HOME": re.search(r"_HERE_=(.*)/bin\n", said)[1],
            "TORCH_CUDA_ARCH_LIST": "9.0"}


@pytest.fixture(scope="module", params=["scale_setuptools", "scale_cmake"])
def site(request, tmp_path_factory):
    settings = ["--config-settings", "cmake.define.WITH_CUDA=OFF"] \
        if request.param == "scale_cmake" else []
    return installed(request.param, tmp_path_factory.mktemp("recipe"), *settings)


def test_the_wheel_of_a_recipe_works(site):
    pytest.importorskip("torch")
    passes(sys.executable, "-c", USE, env={**os.environ, "PYTHONPATH": os.pathsep.join(
        [str(site), *filter(None, [os.environ.get("PYTHONPATH")])])})
    library = site / "scale_ops/libscale.so"
    assert unstable_symbols(library) == []
    assert [n for n in needed(library) if re.match("lib(torch|c10|python)", n)] \
        == ["libtorch_cpu.so"]


def test_one_wheel_is_for_every_python(site):
    """A free-threaded one takes it too, which takes no wheel of abi3."""
    tag, = re.findall("^Tag: (.*)$", next(
        site.glob("*.dist-info/WHEEL")).read_text(), re.M)
    assert re.fullmatch(r"py3-none-linux_\w+", tag)
    platform = tag.rsplit("-", 1)[1]
    assert tag in map(str, compatible_tags((3, 14), platforms=[platform]))
    takes = [set(map(str, cpython_tags((3, 14), [abi], [platform])))
             for abi in ("cp314", "cp314t")]
    assert [f"cp310-abi3-{platform}" in tags for tags in takes] == [True, False]


def with_nvcc(version, output, *macros):
    """Compile scale.cu with the headers of this version, and return nvcc's errors; an
    empty text if there are none."""
    if nvcc.find() is None:
        pytest.skip("no nvcc: the .cu file is not compiled")
    done = subprocess.run(
        list(map(str, [nvcc.find(), "-std=c++17", "-arch=sm_90", "-c", *macros,
                       f"-isystem={headers(version)}", "-o", output,
                       PORTING / "scale/scale.cu"])),
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout if done.returncode else ""


def headers(version):
    return fetch_libtorch(version) / "include"


TARGET = "-DTORCH_TARGET_VERSION=0x020a000000000000"


def test_the_cuda_file_needs_both_macros(tmp_path):
    """The compiler says so of USE_CUDA, and not a word of the target: without it the
    file needs a newer libtorch."""
    newest, output = supported()[-1], tmp_path / "scale.o"
    said = with_nvcc(newest, output, TARGET)
    for name in ("aoti_torch_get_current_cuda_stream", "torch_c10_cuda_check_msg"):
        assert f'identifier "{name}" is undefined' in said
    names = []
    for macros in ([TARGET], []):
        assert with_nvcc(newest, output, "-DUSE_CUDA", *macros) == ""
        text = passes("nm", "--undefined-only", output)
        names.append(set(re.findall(r"U ((?:aoti_)?torch_\w+)", text)))
    assert names[0] < names[1] and "torch_exception_get_what" in names[1] - names[0]


def test_the_cuda_file_compiles_with_the_oldest_headers(tmp_path):
    assert with_nvcc(supported()[0], tmp_path / "scale.o", TARGET, "-DUSE_CUDA") == ""


# Each row of "In kernels": the first headers that have it, and the new code.
IN_KERNELS = [
    ("2.10", """#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>
#include <cuda_fp16.h>
template <class T> __global__ void halves(T* x) { x[0] = x[1] * x[2] + T(1.f); }
template __global__ void halves(torch::headeronly::Half*);
template __global__ void halves(torch::headeronly::BFloat16*);
__global__ void cuda_half(torch::headeronly::Half* x) {
  const auto h = static_cast<__half>(*x);
  x[1] = __hadd(h, h);
}"""),
    ("2.10", """#include <torch/headeronly/macros/Macros.h>
#include <cstdio>
C10_HOST_DEVICE inline int one() { return 1; }
C10_LAUNCH_BOUNDS_1(256) __global__ void macros(float* x) {
  __shared__ float sums[1024 / C10_WARP_SIZE];
  CUDA_KERNEL_ASSERT(x != nullptr);
  CUDA_KERNEL_ASSERT_MSG(x != nullptr, "null");
  CUDA_KERNEL_ASSERT_PRINTF(x != nullptr, "null %d", 1);
  sums[0] = one();
  x[0] = sums[0];
}
C10_LAUNCH_BOUNDS_2(256, 4) __global__ void bounds(float* x) { x[0] = 1; }"""),
    ("2.10", """#include <torch/headeronly/util/complex.h>
#include <thrust/complex.h>
using C = torch::headeronly::complex<float>;
__global__ void complexes(C* z) {
  z[1] = z[0] * z[2];
  z[3] = C(z->real(), -z->imag());
  z[4] = thrust::exp(static_cast<thrust::complex<float>>(z[5]));
}"""),
    ("2.10", """#include <algorithm>
__global__ void max_of_three(int* x) { *x = std::max({x[0], x[1], x[2]}); }"""),
    ("2.14", """#include <torch/headeronly/cuda/Atomic.h>
#include <torch/headeronly/cuda/KernelUtils.h>
__global__ void atomics(float* x, c10::Half* h, int64_t* n) {
  gpuAtomicAdd(x, 1.f);
  gpuAtomicAdd(h, c10::Half(1.f));
  gpuAtomicAdd(n, int64_t{1});
  gpuAtomicMax(x, 1.f);
  gpuAtomicMin(x, 1.f);
  gpuAtomicMul(x, 1.f);
  torch::headeronly::fastAtomicAdd(h, 1, 10, c10::Half(1.f), true);
}"""),
]


def device_code(version, folder, code, *options):
    """Return what nvcc says of the code, compiled with the headers of this version."""
    if nvcc.find() is None:
        pytest.skip("no nvcc: device code is not compiled")
    (folder / "device.cu").write_text(f"#include <cuda_runtime.h>\n{code}\n")
    done = subprocess.run(
        list(map(str, [nvcc.find(), "-std=c++17", "-arch=sm_80", TARGET, "-c", *options,
                       f"-isystem={headers(version)}", "-o", folder / "device.o",
                       folder / "device.cu"])),
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout if done.returncode else ""


@pytest.mark.parametrize("version", [v for v in supported() if v.startswith(
    ("2.10", "2.14"))] + supported()[-1:])
def test_device_code_compiles(version, tmp_path):
    code = "\n".join(code for since, code in IN_KERNELS
                     if numbers(since)[:2] <= numbers(version)[:2])
    assert device_code(version, tmp_path, code, "--expt-relaxed-constexpr") == ""


def test_device_code_says_what_it_lacks(tmp_path):
    for code in (IN_KERNELS[2][1], IN_KERNELS[3][1]):
        assert "calling a constexpr __host__ function" in device_code(
            supported()[-1], tmp_path, code)
    assert 'no instance of overloaded function "std::conj"' in device_code(
        supported()[-1], tmp_path, IN_KERNELS[2][1].replace(
            "C(z->real(), -z->imag())", "std::conj(*z)"), "--expt-relaxed-constexpr")
    assert 'no instance of overloaded function "std::max"' in device_code(
        supported()[-1], tmp_path, IN_KERNELS[3][1].replace(
            "#include <algorithm>", ""), "--expt-relaxed-constexpr")


def test_the_cuda_library_lacks_three_functions_only(tmp_path):
    """Not in a PyTorch for the CPU, which therefore refuses it."""
    if nvcc.find() is None:
        pytest.skip("no nvcc: the .cu file is not compiled")
    pytest.importorskip("torch")
    site = installed("scale_cmake", tmp_path, "--config-settings",
                     f"cmake.define.CMAKE_CUDA_COMPILER={nvcc.find()}")
    libraries = [site / f"scale_ops/lib{n}.so" for n in ("scale", "scale_cuda")]
    assert not any("cudart" in name for name in needed(libraries[1]))
    (tmp_path / "stand_in.cpp").write_text(STAND_IN)
    passes("c++", "-shared", "-fPIC", tmp_path / "stand_in.cpp", "-o",
             tmp_path / "stand_in.so")
    command = [sys.executable, "-c", LOAD, *libraries]
    passes(*command, env={**os.environ, "LD_PRELOAD": str(tmp_path / "stand_in.so")})
    done = subprocess.run(list(map(str, command)), text=True, capture_output=True)
    assert ("undefined symbol: torch_c10_cuda_" in done.stderr) == (not is_for_cuda())


@pytest.mark.parametrize("version", supported())
def test_calls_for_cuda_compile(version):
    code = f'#define USE_CUDA\n#include "{PORTING}/cuda_calls.cpp"\n'
    assert snippets.compile(code, headers(version).parent, "2.10") == ""


OLD = """
#include <ATen/core/Tensor.h>
#include <torch/library.h>
at::Tensor same(const at::Tensor& x) { return x.alias(); }
TORCH_LIBRARY(two, m) {
  m.def("left(Tensor x) -> Tensor");
  m.def("moved(Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(two, CPU, m) {
  m.impl("left", &same);
  if (KEPT) m.impl("moved", &same);
}
"""
CALL_BOTH = """
import sys, torch
for library in sys.argv[1:]:
    torch.ops.load_library(library)
x = torch.ones(2)
print([op(x).data_ptr() == x.data_ptr() for op in (
    torch.ops.two.left, torch.ops.two.moved, torch.ops.two.fresh)])
"""


def library(tmp_path, name, code, target, *options):
    torch, path = torch_root(), tmp_path / f"{name}.so"
    assert snippets.compile(
        code, torch, target, "-std=c++20", "-shared", "-fPIC", "-o", path, *options,
        f"-L{torch}/lib", "-ltorch_cpu", "-lc10") == ""
    return path


def test_two_libraries_fill_one_namespace(tmp_path):
    pytest.importorskip("torch")
    new = library(tmp_path, "new", f'#include "{PORTING}/second.cpp"\n', "2.10")
    old, kept = [library(tmp_path, f"old{i}", f"#define KEPT {i}\n{OLD}", None)
                 for i in (0, 1)]
    here = str([True, False, False])
    for order in ((old, new), (new, old)):
        assert passes(sys.executable, "-c", CALL_BOTH, *order).strip() == here
    text = passes(sys.executable, "-c", CALL_BOTH, kept, new)
    assert text.strip().endswith(here)
    said = "Overriding a previously registered kernel" in text
    assert said == (not is_for_cuda())  # its import uses up the one warning
    text = passes(sys.executable, "-c", CALL_BOTH, new, kept)
    assert text.strip().endswith(str([True, True, False]))


def test_a_stable_and_an_unstable_file_in_one_library(tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "ported.cpp").write_text(
        "#define TORCH_TARGET_VERSION 0x020a000000000000\n"
        f'#include "{PORTING}/second.cpp"\n')
    mixed = library(tmp_path, "mixed", f"#define KEPT 0\n{OLD}", None,
                    tmp_path / "ported.cpp")
    assert passes(sys.executable, "-c", CALL_BOTH, mixed).strip() == \
        str([True, False, False])
    assert unstable_symbols(mixed)
    ported = library(tmp_path, "ported", f'#include "{PORTING}/second.cpp"\n', "2.10")
    assert unstable_symbols(ported) == []


def test_pybind11_in_the_same_file(tmp_path):
    pytest.importorskip("torch")
    python = sysconfig.get_path("include")
    if not os.path.exists(f"{python}/Python.h"):
        pytest.skip("no Python.h: apt-get install python3-dev")
    library(tmp_path, "beside", """
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>
#include <pybind11/pybind11.h>
torch::stable::Tensor same(const torch::stable::Tensor& x) { return x; }
STABLE_TORCH_LIBRARY(beside, m) { m.def("same(Tensor x) -> Tensor"); }
STABLE_TORCH_LIBRARY_IMPL(beside, CompositeExplicitAutograd, m) {
  m.impl("same", TORCH_BOX(&same));
}
PYBIND11_MODULE(beside, m) { m.def("add", [](int a, int b) { return a + b; }); }
""", "2.10", "-fvisibility=hidden", "-isystem", python)
    assert passes(
        sys.executable, "-c", "import torch, beside; print(beside.add(1, 2), "
        "torch.ops.beside.same(torch.ones(1)).item())",
        env={**os.environ, "PYTHONPATH": str(tmp_path)}).strip() == "3 1.0"


def test_a_newer_function_is_called_where_it_is(tmp_path):
    """Built once, with the newest headers at target 2.10."""
    newest, program = headers(supported()[-1]), tmp_path / "newer"
    lib = torch_root() / "lib"
    passes("c++", "-std=c++17", "-DTORCH_TARGET_VERSION=0x020a000000000000",
             "-isystem", newest, PORTING / "newer.cpp", "-o", program, f"-L{lib}",
             "-ltorch_cpu", "-ldl", f"-Wl,-rpath-link,{lib}")
    for version in supported():
        text = passes(program, env={
            **os.environ, "LD_LIBRARY_PATH": str(headers(version).parent / "lib")})
        assumed = numbers(version)[1] < 14
        assert text == "assumed\n" * assumed + "has storage\n", version


REASON = """
#include <torch/csrc/stable/ops.h>
#include <torch/headeronly/util/Exception.h>
#include <cstdio>
template <class F> void print(F f) {
  try { f(); } catch (const std::exception& e) { std::puts(e.what()); }
}
int main() {
  const auto x = torch::stable::full({2}, 1);
  print([&] { x.size(9); });
  print([&] {
    torch::stable::parallel_for(0, 1, 1, [](int64_t, int64_t) {
      STD_TORCH_CHECK(false, "in a thread");
    });
  });
  int64_t size = 0;
  print([&] { SHIM_CHECK(aoti_torch_get_size(x.get(), 9, &size)); });
}
"""


def program(tmp_path, name, code, root, *options):
    """Compiled with these headers, at target 2.10."""
    path, lib = tmp_path / name, torch_root() / "lib"
    path.with_suffix(".cpp").write_text(code)
    passes("c++", "-std=c++17", "-Wno-unused", *options, "-isystem", root / "include",
             path.with_suffix(".cpp"), "-o", path, f"-L{lib}", "-ltorch_cpu", "-ldl",
             f"-Wl,-rpath-link,{lib}")
    return path


def said(path, version):
    done = subprocess.run(
        [path], text=True, capture_output=True,
        env={**os.environ, "LD_LIBRARY_PATH": str(headers(version).parent / "lib")})
    assert done.returncode == 0, done.stderr
    return done


def test_newer_headers_pass_the_reason_on(tmp_path):
    """Headers of 2.14 on, at target 2.10; libtorch 2.13 on; not the old macro."""
    for built in ("2.13", "2.14", "2.15"):
        root = headers(next(v for v in supported() if v.startswith(built))).parent
        path = program(tmp_path, f"reason{built}", REASON, root, TARGET,
                       "-DSHIM_CHECK=STABLE_TORCH_ERROR_CODE_CHECK")
        for version in supported():
            done = said(path, version)
            reasons = done.stdout.splitlines()
            known = built != "2.13" and numbers(version)[1] >= 13
            for line, text in zip(reasons, (
                    "Dimension out of range", "in a thread", "Dimension out of range"),
                    strict=True):
                assert line.startswith(text) or text in line.split("(orig")[0] \
                    if known else "API call failed" in line and text not in line
            if known:
                assert "Exception across libtorch C API boundary" in done.stderr
    done = said(program(tmp_path, "old_macro", REASON, root, TARGET,
                        "-DSHIM_CHECK=TORCH_ERROR_CODE_CHECK"), supported()[-1])
    assert "Dimension" not in done.stdout.splitlines()[2]


def test_a_target_below_an_include_comes_too_late(tmp_path):
    """Nobody says a word: the library asks for functions that 2.10 lacks."""
    lines = ["#define TORCH_TARGET_VERSION 0x020a000000000000",
             "#include <torch/csrc/stable/version.h>"]
    for version in (runtimes.installed(), supported()[-1]):
        needed = []
        for order in (lines, lines[::-1]):
            path = program(tmp_path, "order", "\n".join([*order, REASON]),
                           headers(version).parent,
                           "-DSHIM_CHECK=TORCH_ERROR_CODE_CHECK")
            needed.append("U torch_exception_get_what" in passes("nm", "-D", path))
        assert needed == [False, True], version


SHIM = """
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <cassert>
#include <cstdio>
int main() {
  auto x = torch::stable::full({6}, 1);
  for (int i = 0; i < 6; ++i) x.mutable_data_ptr<float>()[i] = i;
  const int64_t sizes[] = {2, 2}, strides[] = {3, 1};
  AtenTensorHandle handle = nullptr;
  assert(!aoti_torch__reinterpret_tensor(x.get(), 2, sizes, strides, 1, &handle));
  const torch::stable::Tensor view(handle);
  assert(view.dim() == 2 && view.const_data_ptr<float>()[0] == 1);
  assert(!aoti_torch_as_strided(x.get(), sizes, strides, &handle));
  assert(torch::stable::Tensor(handle).dim() == 1); // as x, not as sizes
  assert(!aoti_torch_empty_strided(2, sizes, strides, aoti_torch_dtype_float32(),
                                   aoti_torch_device_type_cpu(), 0, &handle));
  assert(torch::stable::Tensor(handle).stride(0) == 3);
  double number = 0;
  assert(!aoti_torch_item_float64(torch::stable::full({}, 2.5).get(), &number));
  assert(number == 2.5 && aoti_torch_item_float64(x.get(), &number));
  int64_t bytes = 0;
  assert(!aoti_torch_get_storage_size(x.get(), &bytes) && bytes == 24);
  assert(aoti_torch_grad_mode_is_enabled());
  aoti_torch_grad_mode_set_enabled(false);
  assert(!aoti_torch_grad_mode_is_enabled());
  AtenRecordFunctionHandle range = nullptr;
  assert(!aoti_record_function_start("range", nullptr, nullptr, 0, &range));
  assert(!aoti_record_function_end(range));
  aoti_torch_warn(__func__, __FILE__, __LINE__, "slow path");
}
"""


def test_the_c_shim_has_what_is_often_missed(tmp_path):
    path = program(tmp_path, "shim", SHIM, headers(supported()[0]).parent, TARGET)
    for version in supported():
        assert "Warning: slow path" in said(path, version).stderr, version


def test_libc10_has_a_part_of_the_standard_library(tmp_path):
    """A program that links it seems to need an older libstdc++."""
    code = REASON.replace("SHIM_CHECK", "TORCH_ERROR_CODE_CHECK")
    newest = []
    for options in ([], ["-Wl,--no-as-needed", f"-L{torch_root()}/lib", "-lc10"]):
        path = program(tmp_path, "linked", code, torch_root(), TARGET, *options)
        text = passes("readelf", "-W", "--dyn-syms", path)
        newest.append(set(re.findall(r"UND (_ZNK?St\S+@GLIBCXX\S+)", text)))
    assert newest[1] < newest[0]


@pytest.mark.parametrize("option, exported", [([], True), (
    ["-Xcompiler=-fvisibility=hidden"], False)])
def test_nvcc_hides_host_functions_when_told(tmp_path, option, exported):
    assert device_code(supported()[-1], tmp_path, "int helper() { return 1; }",
                       "-Xcompiler=-fPIC", *option) == ""
    text = passes("readelf", "-W", "--syms", tmp_path / "device.o")
    visibility, = re.findall(r"GLOBAL (\w+) .*helper", text)
    assert (visibility == "DEFAULT") == exported
