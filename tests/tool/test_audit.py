"""./workbook audit, on small libraries that have one fault each."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import snippets
from base.building import build_root
from base.project import ROOT
from base.requirements import install
from base.sheets import find_chapter
from torch_stable_abi.libtorch import surface
from torch_stable_abi.libtorch.installed import torch_root
from torch_stable_abi.programs import CannotRun

STABLE = """
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/csrc/stable/ops.h>
using torch::stable::Tensor;
Tensor twice(Tensor x) { return torch::stable::subtract(x, x, -1); }
STABLE_TORCH_LIBRARY(audited, m) { m.def("twice(Tensor x) -> Tensor"); }
STABLE_TORCH_LIBRARY_IMPL(audited, CPU, m) { m.impl("twice", TORCH_BOX(&twice)); }
"""
CALL = """
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/c/shim.h>
void call(StableIValue* stack) {
  torch_call_dispatcher("aten::%s", "%s", stack, 0x020a000000000000);
}
"""
SHIM = 'extern "C" %s int %s(void*); int call() { return %s ? %s(nullptr) : 0; }'


@pytest.fixture(scope="module")
def audit():
    install("audit")
    from torch_stable_abi.audit import checks, subject

    def lines(path):
        """Return {what: [level text]} of all that is said of it."""
        found = {}
        for report in checks.audit(subject.open_(str(path))):
            for line in report.lines:
                found.setdefault(line.what, []).append(f"{line.level} {line.text}")
        return found
    return lines


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    def make(code, *options, target="2.10", linked=True):
        library = tmp_path_factory.mktemp("audit") / "libone.so"
        text = snippets.compile(code, torch_root(), target, "-shared", "-fPIC", "-o",
                             library, *options, *(
                                 (f"-L{torch_root()}/lib", "-Wl,--no-as-needed",
                                  "-ltorch_cpu") if linked else ()))
        assert not text
        return library
    return make


@pytest.fixture(scope="module")
def stable(build):
    return build(STABLE, "-fvisibility=hidden", "-fno-gnu-unique")


@pytest.fixture
def wheel(tmp_path):
    def make(library, tags="py3-none-manylinux_2_40_x86_64", requires="torch>=2.10",
             name="libone.so"):
        path = tmp_path / f"one-1.0-{tags}.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.write(library, f"one/{name}")
            archive.writestr("one-1.0.dist-info/METADATA",
                             f"Name: one\nRequires-Dist: {requires}\n")
        return path
    return make


def test_a_stable_library(audit, stable):
    said = audit(stable)
    assert not {"warn", "FAIL"} & {s.split()[0] for lines in said.values()
                                   for s in lines}
    assert "2.10 or newer, for " in said["libtorch"][0]
    assert "1 op in torch.ops.audited" in said["defines"][0]
    assert "uses nothing of it" in said["Python"][0]


def test_its_unstable_twin(audit, build, workbook):
    library = build("#include <c10/util/Exception.h>\n"
                    "void f(int n) { TORCH_CHECK(n > 0, n); }", target=None)
    said = audit(library)
    assert "FAIL runs on the libtorch that it was built with" in said["libtorch"][0]
    assert "c10::detail::torchCheckFail(" in said["symbols"][0]  # demangled
    assert workbook("audit", library).returncode == 1


@pytest.mark.parametrize("op, overload, level, text", [
    ("relu", "", "ok", "1 aten op by name, each in libtorch 2.10 to 2.15"),
    ("_foreach_mm", "", "warn", "aten::_foreach_mm is not in 2.10, 2.11, 2.12"),
    ("no_such_op", "", "warn", "aten::no_such_op is in no libtorch since 2.10"),
    ("align_to", "", "warn", "aten::align_to is not in 2.13, 2.14, 2.15"),
    ("_flash_attention_forward", "", "warn", "a schema changed")])
def test_ops_by_name(audit, build, op, overload, level, text):
    said = " ".join(audit(build(CALL % (op, overload)))["calls"])
    assert text in said and level in said.split()


@pytest.mark.parametrize("name", ["torch_from_blob", "torch_tensor_to_pyobject"])
def test_the_oldest_libtorch(audit, build, name):
    since = surface.since(name)
    said = audit(build(SHIM % ("", name, 1, name), linked=False))["libtorch"]
    assert said == [f"ok {since} or newer, for {name}"]
    weak = audit(build(SHIM % ("__attribute__((weak))", name, name, name),
                       linked=False))["libtorch"]
    assert f"can do without: {name} ({since})" in weak[1]


def test_a_function_that_no_libtorch_has(audit, build):
    name = "torch_no_such_function"
    said = audit(build(SHIM % ("", name, 1, name)))["libtorch"]
    assert f"has {name}" in said[1]


DELETE = SHIM % ("", "torch_delete_list", 1, "torch_delete_list")
FAULTS = {  # what is said: the code, and options; None: not linked to libtorch
    "RPATH of the machine": (DELETE, "-Wl,-rpath,/home/builder"),
    "names no libtorch_cpu.so": (DELETE, None),
    "links to libtorch_python.so": (
        DELETE, f"-Wl,--no-as-needed,{torch_root()}/lib/libtorch_python.so"),
    "a CPU build of torch refuses it": (DELETE.replace(
        "torch_delete_list", "torch_c10_cuda_free_error_msg"),),
    "an executable stack": ("int f;", "-Wl,-z,execstack"),
    "gnu-unique symbol": (
        "template <class T> struct S { static T x; }; template <class T> T S<T>::x;"
        "int* f() { return &S<int>::x; }",),
    "uses libc++": ("namespace std { namespace __1 { struct string {}; } }"
                    "void f(std::__1::string) {}",),
    "debug information": ("int f() { return 1; }", "-g"),
    "not of the limited API": ('extern "C" void* _PyLong_Sign(void*);'
                               "void* f() { return _PyLong_Sign(nullptr); }",),
    "the limited API of 3.11": ('extern "C" int PyBuffer_Release(void*);'
                                "int f() { return PyBuffer_Release(nullptr); }",),
    "torch.compile refuses an op that returns an argument, or": (
        'const char* f() { return "f_(Tensor(a!) x) -> Tensor(a!)"; }',),
    "anything but new tensors: g(Tensor(a!) x) -> Tensor[]": (
        'const char* f() { return "g(Tensor(a!) x) -> Tensor[]"; }',),
    "21 C++ symbols": (" ".join(f"void f{n}() {{}}" for n in range(21)),),
}


@pytest.mark.parametrize("said", FAULTS)
def test_a_fault(audit, build, said):
    code, *options = FAULTS[said]
    library = build(code, *filter(None, options), linked=None not in options)
    assert said in str(audit(library)), audit(library)


TWO_SPACES = """
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
using torch::stable::Tensor;
Tensor twice(Tensor x) { return torch::stable::subtract(x, x, -1); }
STABLE_TORCH_LIBRARY(SCHEMAS, m) { m.def("twice(Tensor x) -> Tensor"); }
STABLE_TORCH_LIBRARY_IMPL(KERNELS, CPU, m) { m.impl("twice", TORCH_BOX(&twice)); }
"""


@pytest.mark.parametrize("schemas, kernels, defined, said", [
    ("one", "one", "", "1 op in torch.ops.one"),
    ("one", "two", "", "warn no op here has a kernel here: the kernels are for the "
                       "ops of two"),
    # A macro that is expanded, and one that headers before 2.13 leave as it is.
    ("NAME", "NAME", "NAME=one", "1 op in the namespace that NAME stands for"),
    ("TORCH_EXTENSION_NAME", "one", "", "warn the namespace is the name of a macro")])
def test_namespaces(audit, build, schemas, kernels, defined, said):
    library = build(TWO_SPACES.replace("SCHEMAS", schemas).replace(
        "KERNELS", kernels), *([f"-D{defined}"] if defined else []))
    assert said in str(audit(library)["defines"])


def test_schemas_that_torch_compile_refuses():
    """Audit's rule is what each torch was recorded to do."""
    from torch_stable_abi.schemas import schema
    recorded = json.loads((ROOT / "docs/results/compiled.json").read_text())
    for shapes in recorded["versions"].values():
        for name, shape in shapes.items():
            if shape["tag"] in (None, "out_variant") and "unmarked" not in name \
                    and name != "number":
                refused = shape["inductor"].startswith("refused")
                text = name + shape["schema"]
                assert schema.is_refused_by_compile(text) == refused, text


def test_the_driver_of_nvidia(audit, build, tmp_path):
    driver = tmp_path / "libcuda.so.1"
    subprocess.run(["cc", "-shared", "-xc", "/dev/null", "-o", driver,
                    "-Wl,-soname,libcuda.so.1"], check=True)
    library = build("int f;", f"-Wl,--no-as-needed,{driver}")
    assert "a machine without NVIDIA's driver refuses it: it needs libcuda.so.1" \
        in str(audit(library)["CUDA"])


def test_cuda_architectures():
    from torch_stable_abi.audit.elf import architectures
    entry = bytearray(48)
    entry[0], entry[4], entry[8], entry[28] = 2, 48, 16, 90  # an ELF for sm_90
    entry[40:44] = (0x100011).to_bytes(4, "little")  # whose name ends in a
    entry += bytes(16)
    head = b"\x50\xed\x55\xba\x01\0\x10\0" + len(entry).to_bytes(8, "little")
    assert architectures(bytes(8) + head + entry + bytes(64)) == ["sm_90a"]


# --- wheels, variants -----------------------------------------------------------


def test_a_wheel(audit, stable, wheel):
    said = audit(wheel(stable))
    assert not [s for lines in said.values() for s in lines if "FAIL" in s]
    assert "requires torch>=2.10" in str(said["wheel"])


@pytest.mark.parametrize("change, said", [
    ({"requires": "torch>=2.9"}, "FAIL requires torch>=2.9, but the libraries"),
    ({"requires": "torch"}, "warn requires torch of any version"),
    ({"requires": "torch==2.13.*"}, "load on 2.10, 2.11, 2.12, 2.14, 2.15 too"),
    ({"requires": "numpy"}, "does not require torch"),
    ({"tags": "py3-none-manylinux_2_5_x86_64"}, "FAIL says manylinux_2_5_x86_64"),
    ({"tags": "py3-none-manylinux_2_40_aarch64"}, "holds libraries for x86_64")])
def test_a_wheel_that_says_otherwise(audit, stable, wheel, change, said):
    assert said in str(audit(wheel(stable, **change)))


@pytest.mark.parametrize("requires, said", [
    ("numpy", "FAIL does not require torch in its metadata; a library is bound to one"),
    ("torch>=2.13", "FAIL requires torch>=2.13, which admits 2.13, 2.14, 2.15; a "
                    "library is bound to one of them")])
def test_a_bound_wheel_that_does_not_pin_torch(audit, build, wheel, requires, said):
    library = build("#include <c10/util/Exception.h>\n"
                    "void f(int n) { TORCH_CHECK(n > 0, n); }", target=None)
    assert said in str(audit(wheel(library, requires=requires))["wheel"])


def test_a_wheel_says_abi3(audit, build, wheel):
    for fault, said in [
            ("not of the limited API", "FAIL one build for each Python"),
            ("the limited API of 3.11", "for PyBuffer_Release, though the wheel "
                                        "says cp310")]:
        library = build(*FAULTS[fault])
        path = wheel(library, "cp310-abi3-linux_x86_64")
        assert said in str(audit(path)["Python"])


@pytest.mark.parametrize("tag", ["cp310-abi3", "py3-none"])
def test_a_module_that_one_python_finds(audit, build, wheel, tag):
    library = build(*FAULTS["the limited API of 3.11"])
    name = "one.cpython-310-x86_64-linux-gnu.so"
    path = wheel(library, f"{tag}-linux_x86_64", name=name)
    assert "FAIL CPython 3.10 alone finds a module of this name" in \
        str(audit(path)["Python"])
    path = wheel(library, "cp310-cp310-linux_x86_64", name=name)
    assert "FAIL" not in str(audit(path)["Python"])


def test_a_wheel_says_more_or_less_of_python_than_is_so(
        audit, build, stable, wheel):
    assert "but the wheel says cp311-cp311, where py3-none would do" in \
        str(audit(wheel(stable, "cp311-cp311-manylinux_2_40_x86_64"))["Python"])
    private = build(*FAULTS["not of the limited API"])
    assert "FAIL one build for each Python: _PyLong_Sign are not of the limited API, " \
        "though the wheel says py3-none" in str(audit(wheel(private))["Python"])


def test_a_hub_variant(audit, stable, tmp_path):
    folder = tmp_path / "torch-stable-abi29-cpu-x86_64-linux"
    folder.mkdir()
    shutil.copy(stable, folder / "one.abi3.so")
    (folder / "metadata.json").write_text('{"id": "_one_cpu_0123456"}')
    said = audit(folder)
    assert "FAIL says libtorch 2.9, and needs 2.10" in str(said["variant"])
    assert "FAIL the Hub wants the namespace _one_cpu_0123456" in str(said["defines"])


def test_a_template_of_ours(audit):
    name = find_chapter("04").name
    build_root("release", [name])
    said = audit(ROOT / f"build/release/solutions/{name}/lib{name[3:]}.so")
    doubts = [line for lines in said.values() for line in lines
              if not line.startswith(("ok", "note"))]
    # Of the build tree alone: what is installed has none.
    assert len(doubts) == 1 and "warn RPATH" in doubts[0], doubts


# --- what is no library -------------------------------------------------------------


@pytest.mark.parametrize("content, said", [
    (b"text", "is no ELF file"), (b"MZ" + bytes(99), "is a library of Windows"),
    (b"\xcf\xfa\xed\xfe" + bytes(99), "is one of macOS"), (b"", "is no ELF file"),
    (b"version https://git-lfs", "is a pointer of Git LFS")])
def test_another_file(audit, tmp_path, content, said):
    (tmp_path / "one.so").write_bytes(content)
    with pytest.raises(CannotRun, match=said):
        audit(tmp_path / "one.so")


def test_what_has_no_end(audit, tmp_path):
    os.mkfifo(tmp_path / "one.so")
    for path, what in ((tmp_path / "one.so", "a named pipe"),
                       (Path("/dev/zero"), "a device")):
        with pytest.raises(CannotRun, match=f"{path} is {what}, where a file is"):
            audit(path)


def test_a_large_file_that_is_no_library_is_not_read(audit, tmp_path):
    with open(tmp_path / "one.so", "wb") as file:
        file.truncate(2**42)  # 4 TiB, of which the disk has none
    with pytest.raises(CannotRun, match="one.so is no ELF file"):
        audit(tmp_path / "one.so")


def test_numbers_that_are_too_large(audit, stable, tmp_path):
    data = bytearray(stable.read_bytes())
    at = int.from_bytes(data[40:48], "little")  # e_shoff: the sections' headers
    for place in range(at, len(data), 64):
        data[place + 24:place + 40] = b"\xff" * 16  # sh_offset and sh_size
    (tmp_path / "one.so").write_bytes(data)
    with pytest.raises(CannotRun, match="is damaged, or was cut off"):
        audit(tmp_path / "one.so")


def damage_wheel(path, how):
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        info, = (i for i in archive.infolist() if i.filename.endswith(".so"))
    begin, entry = 30 + len(info.filename), data.index(b"PK\1\2")
    if how == "bad bytes":
        data[begin:begin + 99] = b"\xff" * 99
    elif how == "encrypted":
        data[6] |= 1
        data[entry + 8] |= 1
    else:  # a compression that zipfile does not know
        data[8] = data[entry + 10] = 77
    path.write_bytes(data)


@pytest.mark.parametrize("command", ["audit", "matrix"])
@pytest.mark.parametrize("how", ["bad bytes", "encrypted", "unknown"])
def test_a_damaged_wheel(workbook, stable, tmp_path, how, command):
    path = tmp_path / "one-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(stable, "libone.so")
    damage_wheel(path, how)
    done = workbook(command, path)
    assert done.returncode == 2
    assert f"{path.name} is damaged, or was cut off" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("part", [0.001, 0.3, 0.9, 0.999])
def test_a_library_that_was_cut_off(audit, stable, tmp_path, part):
    data = stable.read_bytes()
    (tmp_path / "one.so").write_bytes(data[:int(len(data) * part)])
    with pytest.raises(CannotRun, match="one.so is damaged, or was cut off"):
        audit(tmp_path / "one.so")


def test_another_machine(audit, stable, tmp_path):
    data = bytearray(stable.read_bytes())
    data[18] = 183  # e_machine: AArch64
    (tmp_path / "one.so").write_bytes(data)
    assert "aarch64" in audit(tmp_path / "one.so")["platform"][0]
    data[4] = 1  # 32 bits
    (tmp_path / "one.so").write_bytes(data)
    with pytest.raises(CannotRun):
        audit(tmp_path / "one.so")


def test_wheels_that_are_none(audit, stable, wheel, tmp_path, workbook):
    good = wheel(stable)
    cut = tmp_path / "cut-1.0-py3-none-any.whl"
    cut.write_bytes(good.read_bytes()[:-500])
    pure = tmp_path / "pure-1.0-py3-none-any.whl"
    with zipfile.ZipFile(pure, "w") as archive:
        archive.writestr("pure.py", "")
    shutil.copy(good, tmp_path / "name.whl")
    for path, said in [(cut, "is damaged, or was cut off"),
                       (pure, "holds no library"),
                       (tmp_path / "name.whl", "is no name of a wheel"),
                       (tmp_path / "nonesuch.so", "there is no")]:
        with pytest.raises(CannotRun, match=said):
            audit(path)
    done = workbook("audit", cut, good, "--json")  # the good one all the same
    assert done.returncode == 2 and "cut off" in done.stderr
    result, = json.loads(done.stdout)
    assert result["name"] == good.name and result["level"] != "FAIL"
    assert result["reports"][0]["floor"] == "2.10"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="torch-abi-audit has none")
def test_the_checkers_of_others_agree(audit, stable, build):
    install("hub")
    from kernel_abi_check import ObjectFile
    from torch_abi_audit import inspect_extension
    assert inspect_extension(stable).torch.min_torch_version == "2.10.0"
    bad = build(*FAULTS["not of the limited API"])
    assert ObjectFile(str(bad)).check_python_abi("3.9")
    unstable = build("#include <c10/util/Exception.h>\n"
                     "void f(int n) { TORCH_CHECK(n > 0, n); }", target=None)
    assert not inspect_extension(unstable).torch.stable
