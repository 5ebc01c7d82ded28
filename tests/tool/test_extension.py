"""./workbook matrix LIBRARY: an extension that is not the workbook's, on the
libtorch that are here."""

import json
import os
import re
import time
import zipfile
from pathlib import Path

import pytest

import snippets
from base.project import ROOT
from support import passes
from torch_stable_abi.libtorch import extension, runtimes
from torch_stable_abi.libtorch.installed import is_for_cuda, torch_root
from torch_stable_abi.libtorch.versions import supported
from torch_stable_abi.projects import find_library

pytestmark = pytest.mark.full
MINE = runtimes.installed()
OPS = """
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>
using torch::stable::Tensor;
Tensor same(Tensor x) { return x; }
STABLE_TORCH_LIBRARY(matrix_, m) {
  m.def("same(Tensor x) -> Tensor");
  m.def("same.two(Tensor x) -> Tensor");
}
STABLE_TORCH_LIBRARY_IMPL(matrix_, CPU, m) {
  m.impl("same", TORCH_BOX(&same));
  m.impl("same.two", TORCH_BOX(&same));
}
"""
CALL = 'extern "C" int %s(void*); int call_%s() { return %s(nullptr); }\n'
MISSING = CALL % (("torch_no_such_function",) * 3)
GPU = CALL % (("torch_c10_cuda_free_error_msg",) * 3)


BUILT: dict[tuple, bytes] = {}  # libraries, by their code and what they need


@pytest.fixture
def build(tmp_path):
    def make(code, name="libmatrix.so", needs=("-ltorch_cpu",)):
        if (code, needs) not in BUILT:
            text = snippets.compile(
                code, torch_root(), "2.10", "-shared", "-fPIC", "-o", tmp_path / name,
                f"-L{torch_root()}/lib", "-Wl,--no-as-needed", *needs)
            assert not text
            BUILT[code, needs] = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(BUILT[code, needs])
        return tmp_path / name
    return make


def test_the_ops_are_listed(build, workbook, tmp_path):
    report = tmp_path / "report.json"
    done = workbook("matrix", build(OPS), MINE, "--json", report)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "libmatrix.so: loads, 2 ops" in done.stdout
    said = json.loads(report.read_text())
    assert said["schema"] == 1
    row = said["results"][0]["versions"][MINE]
    assert row["libraries"]["libmatrix.so"]["ops"] == [
        "matrix_::same", "matrix_::same.two"]
    assert row["libraries"]["libmatrix.so"]["kernels"]["matrix_::same"] == ["CPU"]


def test_a_command_sees_the_libtorch(build, workbook):
    library = build(OPS)
    done = workbook("matrix", library, MINE, "--", "sh", "-c",
                    'test -f "$TORCH_ROOT/lib/libtorch_cpu.so" && '
                    'echo at "${LD_LIBRARY_PATH%%:*}"')
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"the command passed: at {torch_root()}/lib" in done.stdout
    done = workbook("matrix", library, MINE, "--", "sh", "-c", "echo why; exit 3")
    assert done.returncode == 1
    assert "the command FAILED: why (the process ended with status 3)" in done.stdout
    assert "          why\n" in done.stdout
    done = workbook("matrix", library, MINE, "--", "sh", "-c", "kill -ABRT $$")
    assert "was ended by SIGABRT; trace shows in which op" in done.stdout


def test_a_library_that_is_refused(build, workbook):
    done = workbook("matrix", build(MISSING), MINE)
    assert done.returncode == 1
    assert "refused: libmatrix.so: undefined symbol: torch_no_such_function" \
        in done.stdout
    assert f"0 of 1 versions; not {MINE}" in done.stdout


def test_a_library_that_names_no_libtorch(build, workbook, tmp_path):
    """Python refuses it too: libtorch's names are there for those that need it."""
    done = workbook("matrix", build(OPS, needs=()), MINE)
    assert done.returncode == 1 and "undefined symbol: aoti_torch" in done.stdout
    cuda = tmp_path / "libtorch_cuda.so"  # PyTorch's needs libtorch_cpu
    passes("cc", "-shared", "-xc", "/dev/null", "-o", cuda,
           "-Wl,-soname,libtorch_cuda.so")
    library = build(OPS, "libcuda_ops.so", needs=(f"-L{tmp_path}", "-ltorch_cuda"))
    cuda.unlink()
    result = extension.load(library, MINE, tmp_path, extension.Limits())
    lacks = [] if is_for_cuda() else ["libtorch_cuda.so"]
    assert (result.without, len(result.ops)) == (lacks, 2)


@pytest.mark.parametrize("command", ["matrix", "schemas"])
def test_a_library_that_never_ends_loading(build, workbook, command):
    library = build(
        "#include <unistd.h>\n"
        'extern "C" __attribute__((visibility("default"))) void call_op_declared() {}\n'
        "__attribute__((constructor)) static void wait() { sleep(999); }")
    words = [MINE] if command == "matrix" else ["--torch", MINE]
    done = workbook(command, library, "--load-seconds", "2", *words)
    assert done.returncode == (1 if command == "matrix" else 2)
    assert "no end of loading it in 2 s" in done.stdout + done.stderr


@pytest.mark.parametrize("command", ["matrix", "schemas"])
def test_what_has_no_end(workbook, tmp_path, command):
    os.mkfifo(tmp_path / "one.so")
    done = workbook(command, tmp_path / "one.so")
    assert done.returncode == 2
    assert "one.so is a named pipe, where a file is expected" in done.stderr


def test_without_a_gpu_the_rest_is_looked_up(build, tmp_path):
    limits = extension.Limits()
    result = extension.load(build(GPU), MINE, tmp_path, limits)
    assert (result.ops, result.without) == ([], ["functions of CUDA"])
    for code in GPU + MISSING, MISSING + GPU:  # whichever is missed first
        result = extension.load(build(code), MINE, tmp_path, limits)
        assert "undefined symbol: torch_no_such_function" in result.refused


def test_a_wheel(build, workbook, tmp_path):
    wheel = tmp_path / "one-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(build(OPS), "one/libone.so")
        archive.writestr("one-1.0.dist-info/METADATA", "Name: one\n")
    done = workbook("matrix", wheel, MINE)
    assert "libone.so: loads, 2 ops" in done.stdout, done.stdout + done.stderr
    wheel.write_bytes(wheel.read_bytes()[:-99])
    done = workbook("matrix", wheel, MINE)
    assert done.returncode == 2 and "cut off" in done.stderr


@pytest.mark.parametrize("words, said", [
    (["nonesuch.so"], "is no library, and no version such as 2.10.0"),
    (["2.10.0", "--", "true"], "name a library"),
    ([__file__, "9.9.9"], "9.9.9 is no version of torch such as 2.10.0"),
    ([__file__, "--test-seconds", "0"], "must be a whole number above 0, got 0"),
    ([__file__, "--", "python", "-m", "pytest"], "--python -- python -m pytest"),
    ([__file__, MINE], "is no ELF file, as a shared library is")])
def test_words_that_make_no_sense(workbook, words, said):
    done = workbook("matrix", *words)
    assert done.returncode != 0 and "Traceback" not in done.stderr
    assert said in done.stdout + done.stderr


HEADERS, DEFINE = re.split("(?=STABLE_TORCH_LIBRARY)", OPS, maxsplit=1)
DEFINE, IMPLEMENT = re.split("(?=STABLE_TORCH_LIBRARY_IMPL)", DEFINE)


def test_which_kernels_compute(build, tmp_path):
    keys = ("Meta", "AutocastCPU", "AutogradCPU", "CPU", "CUDA",
            "CompositeExplicitAutograd")
    code = HEADERS + "".join(
        (DEFINE + IMPLEMENT).replace("matrix_, CPU", f"matrix_, {key}").replace(
            "matrix_", f"matrix_{key}") for key in keys)
    result = extension.load(build(code), MINE, tmp_path, extension.Limits())
    assert result.kernels["matrix_CUDA::same"] == ["CUDA"]
    found = extension.judge({"libmatrix.so": result}, extension.Subject())
    assert found["without_kernel"] == [f"matrix_{key}::{op}" for key in sorted(
        keys[:3]) for op in ("same", "same.two")]
    assert not found["silent"] and not found["without_schema"]


def test_slips_in_the_names_of_kernels(build, workbook):
    code = OPS.replace('impl("same.two"', 'impl("same.tow"') + \
        IMPLEMENT.replace("matrix_", "other_")
    done = workbook("matrix", build(code), MINE)
    assert done.returncode == 1
    for said in ("FAILED: no kernel that computes, so that a call may throw: "
                 "matrix_::same.two\n",
                 "FAILED: kernels without a schema (name the library that has it too): "
                 "matrix_::same.tow\n",
                 "left to who defines these ops: other_::same, other_::same.two\n"):
        assert "        " + said in done.stdout, done.stdout


def test_kernels_of_libtorchs_ops(build, workbook):
    done = workbook("matrix", build(
        HEADERS + IMPLEMENT.replace("matrix_, CPU", "aten, PrivateUse1").replace(
            '"same', '"relu').replace("relu.two", "relu_")), MINE)
    assert done.returncode == 0, done.stdout
    assert "libmatrix.so: loads, 0 ops, kernels for 2 of others\n" in done.stdout


def test_ops_and_kernels_in_two_libraries(build, workbook, tmp_path):
    """Both are of one folder, as of a Hub variant, or both are named."""
    folder = tmp_path / "torch-stable-abi210-cpu-x86_64-linux"
    folder.mkdir()
    ops = build(HEADERS + DEFINE).rename(folder / "a.so")
    done = workbook("matrix", folder, MINE)
    assert done.returncode == 1
    assert "FAILED: no kernel that computes, so that a call may throw: " \
        "matrix_::same, matrix_::same.two\n" in done.stdout
    kernels = build(HEADERS + IMPLEMENT).rename(folder / "b.so")
    done = workbook("matrix", kernels, MINE)
    assert done.returncode == 1
    assert "FAILED: kernels without a schema (name the library that" in done.stdout
    for words in [folder], [kernels, ops]:
        done = workbook("matrix", *words, MINE)
        assert done.returncode == 0, done.stdout + done.stderr


def test_each_library_that_is_named_registers_something(build, workbook):
    """The linker may drop the object file that does it."""
    ops, silent = build(OPS), build("int f() { return 1; }", "libsilent.so")
    for words, said in ([silent], "FAILED: no op was registered"), (
            [ops, silent], "drop the object file that does it?: libsilent.so\n"):
        done = workbook("matrix", *words, MINE)
        assert done.returncode == 1 and said in done.stdout, done.stdout


def test_kernels_in_python(build, workbook, tmp_path):
    """The names are looked for in the files that register, and in no other."""
    wheel, library = tmp_path / "one-1.0-py3-none-any.whl", build(HEADERS + DEFINE)
    for text, status in (
            ("@torch.library.register_kernel('matrix_::same', 'cpu')", 0),
            ("torch.library.register_fake('matrix_::same')", 1),
            ("library.impl('another', f, 'CPU')", 1)):
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.write(library, "one/libone.so")
            archive.writestr("one/__init__.py", text)
            archive.writestr("one/ops.py", "torch.ops.matrix_.same(x)")
        done = workbook("matrix", wheel, MINE)
        assert done.returncode == status, done.stdout + done.stderr
        assert status or "left to the package's Python: matrix_::same, matrix_::" \
            "same.two\n" in done.stdout


def test_a_crash_is_shown_with_what_libtorch_said(build, workbook):
    """Libtorch before 2.13 prints it, and newer ones only keep it."""
    done = workbook("matrix", build(OPS.replace("CPU", "CPUU")), "2.10.0", MINE)
    assert done.returncode == 1
    for version in "2.10.0", MINE:
        assert f"{version}  libmatrix.so: refused: could not parse dispatch key: " \
            "CPUU (the process was ended by SIGSEGV; audit reads" in done.stdout


def test_a_crash_is_shown_with_its_first_reason(build, workbook):
    library = build(OPS.replace("two(Tensor x)", "two(Tensor)"))
    done = workbook("matrix", library, MINE, "--", "sh", "-c",
                    "echo terminate called; echo '  what():  no dim 4'; "
                    "echo frame 0: here; kill -ABRT $$")
    assert "frame #" not in done.stdout and re.search(
        r"refused: expected .+\(the process was ended by SIGABRT", done.stdout), \
        done.stdout
    assert "FAILED: no dim 4 (the process was ended by SIGABRT; trace shows" \
        in done.stdout


DAEMON = "setsid sh -c 'echo $$ > %s; exec sleep 987' & sleep 0.5; "


def has_ended(file):
    """Return whether the daemon that has left its number in the file ends soon."""
    for _ in range(50):
        if not Path("/proc", file.read_text().strip()).exists():
            return True
        time.sleep(0.1)
    return False


def test_what_a_library_has_started_ends_with_it(build, workbook, tmp_path):
    daemon = tmp_path / "daemon"
    code = ("#include <unistd.h>\n#include <cstdlib>\n"
            "__attribute__((constructor)) static void f() "
            f'{{ (void)!system("{DAEMON % daemon}"); sleep(99); }}')
    done = workbook("matrix", build(code), MINE, "--load-seconds", "3")
    assert "no end of loading it in 3 s" in done.stdout and done.returncode == 1
    assert has_ended(daemon)


@pytest.mark.parametrize("end", ["sleep 99", "true"])
def test_what_a_command_has_started_ends_with_it(build, workbook, tmp_path, end):
    """A daemon that is left holds the pipe."""
    daemon = tmp_path / "daemon"
    start = time.monotonic()
    done = workbook("matrix", build(OPS), MINE, "--test-seconds", "2", "--",
                    "sh", "-c", DAEMON % daemon + end)
    assert done.returncode == (0 if end == "true" else 1), done.stdout
    assert end == "true" or "FAILED: no end in 2 s" in done.stdout
    assert has_ended(daemon) and time.monotonic() - start < 60


def test_libraries_that_exclude_each_other(build, workbook):
    ops = build(OPS), build(OPS + "// again", "libagain.so")
    done = workbook("matrix", *ops, MINE)
    assert done.returncode == 0, done.stdout
    assert "a process can load one of these, which define the same op: " \
        "libmatrix.so, libagain.so (matrix_::same, matrix_::same.two)\n" in done.stdout


@pytest.mark.skipif(not (torch_root() / "lib/libtorch_python.so").exists(),
                    reason="this libtorch is without Python")
@pytest.mark.parametrize("version", [supported()[0], MINE])
def test_what_libtorch_itself_brings(build, tmp_path, version):
    """libtorch_python registers ops, and the libtorch.so of PyPI needs CUDA's."""
    runtimes.fetch(version)
    library = build(OPS, needs=("-ltorch_python", "-ltorch"))
    result = extension.load(library, version, tmp_path, extension.Limits())
    assert not result.refused and set(result.without) <= {"libtorch_python.so"}
    assert result.ops == ["matrix_::same", "matrix_::same.two"]
    assert sorted(result.kernels) == result.ops


@pytest.mark.parametrize("output", [
    "libtorch said: \nno number:\nf(int n=x)\n      ~ <-- HERE\n",
    "[E1 shim.cpp:1] Exception in aoti_torch: \nno number:\nf(int n=x)\n ~ HERE\n"
    "terminate called\n  what():  API call failed\n"])
def test_the_words_of_libtorchs_parser(output):
    assert extension.find_reason(output) == "no number: f(int n=x)"


def test_an_op_of_two_libraries_is_listed_once(capsys):
    one = {"refused": "", "ops": ["x::f"]}
    extension.list_ops({"versions": {v: {"libraries": {"a": one, "b": one}}
                                     for v in ("2.10.0", "2.13.0")}})
    assert capsys.readouterr().out == "  x::f\n"


def test_a_flood_of_output(build, workbook):
    start = time.monotonic()
    done = workbook("matrix", build(OPS), MINE, "--", "sh", "-c",
                    "head -c 100000000 /dev/zero | tr '\\0' x | fold -w 100; exit 3")
    assert done.returncode == 1 and "the process ended with status 3" in done.stdout
    assert len(done.stdout) < 10**5 and time.monotonic() - start < 30


def test_what_is_no_program(workbook, build, tmp_path):
    library = build(OPS)
    (tmp_path / "file").write_text("")
    for name, said in ("nonesuch", "there is no program nonesuch"), (
            tmp_path / "file", "file cannot be run: chmod +x it"):
        done = workbook("matrix", library, MINE, "--", name)
        assert done.returncode == 2 and said in done.stderr


def test_several_and_one_for_another_machine(build, workbook, tmp_path):
    library = build(OPS)
    data = bytearray(library.read_bytes())
    data[18] = 183
    other = tmp_path / "other.so"
    other.write_bytes(data)
    done = workbook("matrix", other, library, MINE)
    assert done.returncode == 2 and "1 of 1 versions" in done.stdout
    assert "other.so is for aarch64, and this machine is x86_64" in done.stderr


def test_a_version_is_fetched_whatever_pip_may_install(tmp_path, monkeypatch):
    (tmp_path / "pip.conf").write_text(
        f"[global]\nconstraint = {tmp_path}/constraints.txt\n")
    (tmp_path / "constraints.txt").write_text("some-torch<=2.14\n")
    wheel = tmp_path / "some_torch-2.15-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        info = "some_torch-2.15.dist-info"
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\n"
                         "Name: some-torch\nVersion: 2.15\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\n"
                         "Root-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    fetched = runtimes._download("some-torch==2.15", runtimes.HERE, tmp_path)
    assert fetched.name == wheel.name


def test_each_installed_torch_has_an_environment_of_its_own(monkeypatch):
    first = extension.python_folder(MINE)
    monkeypatch.setattr(extension, "torch_root", lambda: Path("/another/torch"))
    assert extension.python_folder(MINE) not in (
        first, extension.python_folder("2.10.0"))


def test_two_projects_of_one_name(tmp_path):
    for place in ("a", "b"):
        project = tmp_path / place / "src/ops"
        project.mkdir(parents=True)
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.22)\nproject(ops C)\n"
            "add_library(ops SHARED ops.c)\n")
        (project / "ops.c").write_text(f"int of_{place};\n")
        assert f"of_{place}".encode() in find_library(str(project)).read_bytes()


def test_a_project_of_new_on_every_version(workbook, tmp_path, request):
    project = tmp_path / "my_ops"
    assert workbook("new", "my_ops", "--from", "04", project).returncode == 0
    done = workbook("matrix", project)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("libmy_ops.so: loads, 4 ops") >= len(supported())
    assert "  my_ops::silu_and_mul.out\n" in done.stdout
    if request.config.getoption("--record"):
        (ROOT / "docs/results/library.txt").write_text(
            f"$ ./workbook matrix my_ops\n{done.stdout}")
