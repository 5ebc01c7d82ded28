"""./workbook audit, on small libraries that have one fault each."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from audited import FAULTS, SHIM, UNSTABLE
from base.building import build_root
from base.project import ROOT
from base.requirements import install
from base.sheets import find_chapter
from torch_stable_abi.audit import platforms
from torch_stable_abi.audit.findings import Report
from torch_stable_abi.libtorch import surface
from torch_stable_abi.programs import CannotRun

CALL = """
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/c/shim.h>
void call(StableIValue* stack) {
  torch_call_dispatcher("aten::%s", "%s", stack, 0x020a000000000000);
}
"""


def test_the_debug_information_of_a_library_alone(findings, build, tmp_path):
    path = tmp_path / "libone.so"
    subprocess.run(["objcopy", "--only-keep-debug",
                    build("int f() { return 1; }", "-g"), path], check=True)
    with pytest.raises(CannotRun, match="it has the debug information of one alone"):
        findings(path)


def test_a_stable_library(audit, stable):
    said = audit(stable)
    assert not {"warn", "FAIL"} & {s.split()[0] for lines in said.values()
                                   for s in lines}
    assert "2.10 or newer, for " in said["libtorch"][0]
    assert "1 op in torch.ops.audited" in said["defines"][0]
    assert "uses nothing of it" in said["Python"][0]


@pytest.mark.full
def test_its_unstable_twin(audit, build, workbook):
    library = build(UNSTABLE, target=None)
    said = audit(library)
    assert "FAIL runs on the libtorch that it was built with" in said["libtorch"][0]
    assert "c10::detail::torchCheckFail(" in said["symbols"][0]  # demangled
    assert workbook("audit", library).returncode == 1


@pytest.mark.full
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


@pytest.mark.parametrize("said", FAULTS)
def test_a_fault(findings, build, said):
    code, *options = FAULTS[said]
    found = findings(build(code, *filter(None, options), linked=None not in options))
    assert said in str([f"{f.level} {f.rule} {f.text}" for f in found]), found


@pytest.mark.parametrize("option, said", [
    ("-fprofile-arcs", "warn was built with --coverage"),
    ("-fprofile-instr-generate", "warn was built with --coverage"),
    ("-fprofile-generate", "warn was built with --coverage"),
    ("-fsanitize=undefined", "FAIL was built with a sanitizer: it needs __ubsan_"),
    ("-fsanitize=address", "FAIL was built with a sanitizer: it needs __asan_"),
    ("-fsanitize=thread", "FAIL was built with a sanitizer: it needs __tsan_"),
    ("-fPIC", "")])
def test_what_clang_was_asked_for(findings, build, option, said):
    found = [f"{f.level} {f.text}" for f in findings(build(
        "int f(int* x) { return *x + 1; }", option, by="clang++"))
        if f.rule == "instrumented"]
    assert said in str(found) and len(found) == bool(said)


def test_a_library_without_cpp_needs_no_libstdcxx(findings, build, tmp_path):
    (tmp_path / "one.c").write_text(
        "int torch_delete_list(void*); int call() { return torch_delete_list(0); }")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "one.so",
                    tmp_path / "one.c"], check=True)
    linked_in = build("#include <stdexcept>\n" + SHIM % (
        "", "torch_delete_list", 1, "torch_delete_list") +
        'void f() { throw std::runtime_error("one"); }', "-static-libstdc++")
    for library, there in [(tmp_path / "one.so", False), (linked_in, True)]:
        assert there == ("no-libstdcxx" in {f.rule for f in findings(library)})


def test_a_library_that_is_needed_by_its_place_or_is_pythons(findings, build, tmp_path):
    for name, rule in [("libhelp.so", "needs-a-place"),
                       ("libpython3.11.so.1.0", "private-python")]:
        other = build("void help() {}", *([] if "help" in name else [
            f"-Wl,-soname,{name}"]), linked=False).rename(tmp_path / name)
        library = build("int f;", f"-Wl,--no-as-needed,{other}")
        assert (rule, "warn") in {(f.rule, f.level) for f in findings(library)}


def test_a_library_without_section_headers(audit, stable, tmp_path):
    data = bytearray(stable.read_bytes())
    data[40:48] = data[60:64] = bytes(4)  # e_shoff; e_shnum, e_shstrndx
    (tmp_path / "one.so").write_bytes(data)
    with pytest.raises(CannotRun, match="one.so has no section headers"):
        audit(tmp_path / "one.so")


def test_a_version_that_the_library_beside_it_lacks(findings, build, tmp_path):
    def make(version):
        (tmp_path / "map").write_text(f"{version} {{ global: help; local: *; }};")
        return build('extern "C" void help() {}', "-Wl,-soname,libhelp.so",
                     f"-Wl,--version-script={tmp_path}/map", linked=False)
    newer, older = make("HELP_2"), make("HELP_1")
    library = build('extern "C" void help(); void f() { help(); }',
                    f"-Wl,{newer},-rpath,$ORIGIN")
    library.rename(tmp_path / "libneeds.so")
    for helper, there in [(newer, False), (older, True)]:
        (tmp_path / "libhelp.so").write_bytes(helper.read_bytes())
        found = [f.text for f in findings(tmp_path) if f.rule == "needs-other-version"]
        assert bool(found) == there, found
        assert "needs HELP_2 of libhelp.so, and the one beside it has HELP_1" in \
            str(found) or not there


def test_the_driver_of_nvidia(audit, build, tmp_path):
    driver = tmp_path / "libcuda.so.1"
    subprocess.run(["cc", "-shared", "-xc", "/dev/null", "-o", driver,
                    "-Wl,-soname,libcuda.so.1"], check=True)
    library = build("int f;", f"-Wl,--no-as-needed,{driver}")
    assert "a machine without NVIDIA's driver refuses it: it needs libcuda.so.1" \
        in str(audit(library)["CUDA"])


def test_the_run_time_of_one_cuda(findings, build, tmp_path):
    runtime = tmp_path / "libcudart.so.13"
    subprocess.run(["cc", "-shared", "-xc", "/dev/null", "-o", runtime,
                    "-Wl,-soname,libcudart.so.13"], check=True)
    found = findings(build("int f;", f"-Wl,--no-as-needed,{runtime}"))
    assert "needs libcudart.so.13, which a PyTorch for CUDA 13 brings" in \
        str([f.text for f in found if f.rule == "cuda-major"])


@pytest.mark.parametrize("code, rules", [
    (["sm_80", "sm_90"], {"cuda-no-ptx"}), (["sm_80", "compute_80"], set()),
    (["compute_80"], {"cuda-ptx-alone"}),
    (["sm_80", "sm_90a", "compute_90a"], {"cuda-exact-gpu", "cuda-no-ptx"}),
    (["sm_80", "compute_80", "sm_90a"], {"cuda-exact-gpu"})])
def test_which_gpus_have_code(code, rules):
    report = Report([])
    platforms._check_architectures(code, report)
    assert {f.rule for f in report.findings} == {"cuda-code", *rules}


def test_cuda_architectures():
    from torch_stable_abi.audit.elf import find_architectures
    entry = bytearray(48)
    entry[0], entry[4], entry[8], entry[28] = 2, 48, 16, 90  # an ELF for sm_90
    entry[40:44] = (0x100011).to_bytes(4, "little")  # whose name ends in a
    entry += bytes(16)
    head = b"\x50\xed\x55\xba\x01\0\x10\0" + len(entry).to_bytes(8, "little")
    data = bytes(8) + head + entry + bytes(64)
    assert find_architectures(data, 0, len(data)) == ["sm_90a"]


def test_the_package_of_chapter_08(findings):
    build_root("release", [find_chapter("08").name])
    found = findings(ROOT / f"build/release/solutions/{find_chapter('08').name}")
    assert len(found) > 5 and {f.level for f in found} <= {"ok", "note"}, found


def test_a_template_of_ours(audit):
    name = find_chapter("04").name
    build_root("release", [name])
    said = audit(ROOT / f"build/release/solutions/{name}/lib{name[3:]}.so")
    doubts = [line for lines in said.values() for line in lines
              if not line.startswith(("ok", "note"))]
    # Of the build tree alone: what is installed has none.
    assert len(doubts) == 1 and "warn RPATH" in doubts[0], doubts


# --- what is no library -------------------------------------------------------------


def test_a_folder_of_wheels(findings, tmp_path):
    (tmp_path / "one-1.0-py3-none-any.whl").touch()
    with pytest.raises(CannotRun, match=r"name its wheels, as by .*/\*\.whl"):
        findings(tmp_path)


@pytest.mark.parametrize("content, said", [
    (b"INPUT(-lone)\n", "is no ELF file but text, 'INPUT.-lone"),
    (b"MZ" + bytes(99), "is a library of Windows"),
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


@pytest.mark.skipif(sys.version_info < (3, 11), reason="torch-abi-audit has none")
def test_the_checkers_of_others_agree(audit, stable, build):
    install("hub")
    from kernel_abi_check import ObjectFile
    from torch_abi_audit import inspect_extension
    assert inspect_extension(stable).torch.min_torch_version == "2.10.0"
    bad = build(*FAULTS["not of the limited API"])
    assert ObjectFile(str(bad)).check_python_abi("3.9")
    unstable = build(UNSTABLE, target=None)
    assert not inspect_extension(unstable).torch.stable


# --- what cannot load ---------------------------------------------------------------


def test_a_source_file_that_was_left_out(findings, build):
    code = ('void launch(float*, int); extern "C" int help(); '
            "void f() { launch(nullptr, help()); }")
    found, = [f for f in findings(build(code)) if f.rule == "undefined-symbols"]
    assert found.level == "FAIL" and found.more == ["help", "launch(float*, int)"]


@pytest.mark.parametrize("code", [
    "#include <torch/headeronly/util/Half.h>\nvoid launch(torch::headeronly::Half*);"
    "void f() { launch(nullptr); }",
    "#include <torch/headeronly/util/Half.h>\n#include <stdexcept>\n"
    "namespace at { class Tensor; int of_libtorch(); } void launch(at::Tensor&);"
    "int f(at::Tensor& x) { launch(x); return at::of_libtorch(); }"])
def test_a_function_of_ones_own_that_takes_a_type_of_libtorchs(findings, build, code):
    found = findings(build(code))
    undefined, = [f for f in found if f.rule == "undefined-symbols"]
    assert len(undefined.more) == 1 and undefined.more[0].startswith("launch(")
    unstable = [f.more for f in found if f.rule == "unstable-symbols"]
    assert unstable == ([["at::of_libtorch()"]] if "of_libtorch" in code else [])


def test_a_libstdcxx_that_was_linked_in_is_hidden_by_the_linker(findings, build):
    code = "#include <iostream>\nvoid f() { std::cout << 1; throw 2; }"
    hidden = ["-static-libstdc++", "-fvisibility=hidden", "-fno-gnu-unique"]
    found = {f.rule: f.text for f in findings(build(code, *hidden))}
    for rule in ("gnu-unique", "visible-symbols"):
        assert "-Wl,--exclude-libs,ALL" in found[rule]
    found = {f.rule for f in findings(build(code, *hidden, "-Wl,--exclude-libs,ALL"))}
    assert not {"gnu-unique", "visible-symbols"} & found


@pytest.mark.parametrize("code", [
    'extern "C" int help() __attribute__((weak)); int f() { return help ? help() : 0;}',
    'extern "C" void* PyList_New(long); void* f() { return PyList_New(0); }',
    "#include <vector>\n#include <cmath>\n#include <stdexcept>\n"
    "double f(double x) { std::vector<double> v(9, x); if (x > 9) throw "
    "std::runtime_error(\"x\"); return std::sin(v[3]); }",
    "#include <thread>\n"
    "void f() { thread_local int n; std::thread([] { ++n; }).join(); }"])
def test_names_that_others_bring(findings, build, code):
    assert "undefined-symbols" not in {f.rule for f in findings(build(code))}


@pytest.mark.parametrize("code, options", [
    ("void f(int* p) { delete p; }", ["-nostdlib"]),  # without a version
    ("namespace at { class Tensor { long sum(); }; } namespace pybind11::detail {"
     "template <class T, class = void> struct type_caster;"
     "template <> struct type_caster<at::Tensor> { static void cast(); }; }"
     "void f() { pybind11::detail::type_caster<at::Tensor>::cast(); }",
     ["-std=c++17", "-Wl,--no-as-needed", "-ltorch_python"])])
def test_names_of_libraries_that_it_names(findings, build, code, options):
    assert "undefined-symbols" not in {f.rule for f in findings(build(code, *options))}


def test_one_of_a_library_for_each_torch_takes_names_of_the_standard_library(
        findings, wheel, build):
    code = ("namespace at { struct Tensor { long sum() const; }; }\n#include <string>\n"
            "long f(const at::Tensor& x) { return x.sum() + std::string(9, 'x')[3]; }")
    library = build(code, "-nostdlib", target=None).read_bytes()
    found = findings(wheel({f"one/torch-2.{n}/libone.so": library for n in (4, 5)}))
    assert {"library-for-each-torch"} == {f.rule for f in found} & {
        "library-for-each-torch", "undefined-symbols"}


def test_a_library_that_is_not_known_may_bring_any_name(findings, build):
    helper = build("void help() {}", "-Wl,-soname,libhelp.so.2", linked=False)
    library = build("void help(); void f() { help(); }", "-Wl,--no-as-needed",
                    f"-L{helper.parent}", "-l:libone.so")
    assert "undefined-symbols" not in {f.rule for f in findings(library)}
