"""The schema verifier: what it reads, what it rejects, and that neither the
compiler nor AddressSanitizer rejects that."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

from base.building import build_root
from base.project import ROOT
from support import compiler_after
from torch_stable_abi.libtorch.installed import torch_root

SCHEMAS = str(ROOT / "common/abi/torch_stable_abi/schemas")
SOLUTION = ROOT / "solutions/05_torch_call_dispatcher"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
FLAGS = ["-std=c++17", *WARNINGS, "-DTORCH_TARGET_VERSION=0x020a000000000000"]


HEADER = f'#include "{SOLUTION}/call_op.h"\n'


def declaration(signature, op="aten::op"):
    return f"""
        using wb::Tensor, wb::call;
        struct Scalar {{}};
        inline constexpr wb::OpDecl<{signature}> op{{"{op}", ""}};
        """


def compiler(*arguments, code=None):
    return subprocess.run(
        [shutil.which("g++") or "c++", *FLAGS, "-isystem",
         torch_root() / "include", f"-I{SOLUTION}", *arguments], text=True,
        input=code, capture_output=True, env={**os.environ, "LC_ALL": "C"})


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """Return the library with wrong declarations: the compiler takes them."""
    library = tmp_path_factory.mktemp("planted") / "libplanted.so"
    done = compiler("-shared", "-fPIC",
                    ROOT / "tests/abi/wrong_declarations.cpp", "-o", library,
                    f"-L{torch_root()}/lib", "-ltorch_cpu")
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return library


@pytest.fixture(scope="module")
def library():
    build_root("release", ["05_torch_call_dispatcher"])
    return ROOT / "build/release/solutions/05_torch_call_dispatcher" \
        / "libprobe.so"


def verify(library, *versions):
    from torch_stable_abi.libtorch import runtimes
    return subprocess.run(
        [sys.executable, ROOT / "common", "schemas", library, "--torch",
         *(versions or [runtimes.installed()])], text=True, capture_output=True)


def check_solution(library, *versions):
    """Check that all is right but calls of the probe: of ops that are not there."""
    done = verify(library, *versions)
    assert done.returncode == 1, done.stdout + done.stderr
    wrong = re.findall(r"^  (\S+)\(.*\n    all: (?!ok)(.*)", done.stdout, re.M)
    absent = "there is no such op; a library that defines it is named by --load"
    assert sorted(wrong) == [
        (f"wb05_probe::absent.{overload}", absent)
        for overload in ("by_design", "list", "maybe", "maybe_list")]
    for op in ("aten::sum.dim_IntList", "aten::linear", "wb05::silu_and_mul"):
        assert re.search(rf"^  {re.escape(op)}\(.*\n    all: ok$", done.stdout,
                         re.M), done.stdout
    return done.stdout


@pytest.mark.full
def test_what_the_solution_calls_is_right_on_each_version(library):
    """Fetches those that are not here, as the matrix does."""
    text = check_solution(library, "all")
    for minor in range(10, 16):
        assert re.search(rf"^libtorch 2\.{minor}\.\d+: .* compared with native_"
                         "functions.yaml as well$", text, re.M), text


def test_what_the_solution_calls_is_right(library):
    check_solution(library)


def check_planted(planted, *versions):
    """Return the planted errors are rejected and nothing else. Gives what is said of an
    op whose schema has changed."""
    done = verify(planted, *versions)
    assert done.returncode == 1, done.stderr
    said = dict(re.findall(r"^  (\S+?)\(.*\n((?:    .*\n)+)", done.stdout, re.M))
    expected = {
        "aten::zeros_like": "1 argument declared, the schema has 6",
        "aten::sum.dim_IntList": "argument 3 (dtype) is missing: ScalarType?",
        "aten::add.Tensor": "argument 2 (alpha) is Scalar, declared float: it "
                            "cannot be passed by name",
        "aten::cumsum": "argument 1 (dim) is int, declared bool",
        "aten::max.dim": "1 return declared, the schema has 2",
        "aten::silu_and_mul": "there is no such op"}
    for op, text in expected.items():
        assert text in said[op], said[op]
        assert said[op].startswith("    all: ")
    assert said["aten::silu"] == "    all: ok\n"
    return said["aten::_flash_attention_forward"]


def test_planted_errors_are_rejected(planted):
    check_planted(planted)


@pytest.mark.full
def test_planted_errors_are_rejected_on_each_version(planted):
    flash = check_planted(planted, "all")
    assert re.search(r"^    2\.10\.\d+ 2\.11\.\d+: ok$", flash, re.M), flash
    assert "15 arguments declared, the schema has 17" in flash
    assert "argument 16 (num_splits) is missing: int?" in flash


def test_a_library_without_declared_calls_could_not_be_checked():
    build_root("release", ["03_stack_conventions"])
    done = verify(ROOT / "build/release/solutions/03_stack_conventions"
                  "/libstack_conventions.so")
    assert done.returncode == 2
    assert "declares no call: it calls ops by name, but not through call_op.h or " \
        "by_name.h. It holds the names aten::" in done.stderr
    assert "trace shows what" in done.stderr


def build_calling(library, *options):
    """Build a library with a call that is right, in a list that others can see."""
    done = compiler(
        "-shared", "-fPIC", "-xc++", "-", "-o", library, f"-L{torch_root()}/lib",
        "-ltorch_cpu", *options, code=HEADER + declaration(
            "Tensor(Tensor)", "aten::silu") + "void use(Tensor x) { call<op>(x); }")
    assert done.returncode == 0, done.stderr
    return library


def test_a_list_that_is_hidden(tmp_path):
    """After strip nothing tells it from none, but the calls are there."""
    (tmp_path / "script").write_text("{ local: *; };")
    library = build_calling(tmp_path / "libhidden.so",
                            f"-Wl,--version-script={tmp_path}/script")
    done = verify(library)
    assert done.returncode == 2
    assert "libhidden.so hides its list of calls: let its linker script" in done.stderr
    subprocess.run(["strip", library], check=True)
    done = verify(library)
    assert done.returncode == 2
    assert "or by_name.h, or is stripped and hides its list" in done.stderr


@pytest.mark.full
def test_a_wheel_whose_libraries_call_something_and_nothing(tmp_path):
    from torch_stable_abi.libtorch import runtimes
    library = build_calling(tmp_path / "liba.so")
    silent = tmp_path / "libb.so"
    done = compiler("-shared", "-fPIC", "-xc++", "-", "-o", silent, "-Wl,--no-as-"
                    "needed", f"-L{torch_root()}/lib", "-ltorch_cpu", code="int i;")
    assert done.returncode == 0, done.stderr
    done = verify(silent)
    assert done.returncode == 0, done.stderr
    assert "libb.so calls no op by name: it does not take torch_call_" in done.stdout
    wheel, file = tmp_path / "one-1-py3-none-any.whl", tmp_path / "schemas.json"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in library, silent:
            archive.write(path, f"one/{path.name}")
    done = verify(wheel, runtimes.installed(), "--json", file)
    assert done.returncode == 0, done.stderr
    assert "libb.so calls no op by name" in done.stdout
    assert "1 of 1 fit" in done.stdout
    assert [one["library"] for one in json.loads(file.read_text())["results"]] == [
        "liba.so"]


@pytest.mark.parametrize("order", [
    ["LIBRARY", "--torch", "VERSION"], ["--torch", "VERSION", "LIBRARY"],
    ["--torch", "VERSION", "--", "LIBRARY"]])
def test_the_order_of_words(library, order, tmp_path):
    from torch_stable_abi.libtorch import runtimes
    words = [{"LIBRARY": str(library), "VERSION": runtimes.installed()}.get(w, w)
             for w in order]
    file = tmp_path / "schemas.json"
    done = subprocess.run([sys.executable, ROOT / "common", "schemas",
                           f"--json={file}", *words], text=True, capture_output=True)
    assert done.returncode == 1 and " fit" in done.stdout, done.stderr
    assert json.loads(file.read_text())["schema"] == 1


def test_a_version_that_fails_does_not_end_the_others(library, monkeypatch):
    from torch_stable_abi.commands import schemas
    from torch_stable_abi.libtorch import runtimes
    mine = runtimes.installed()
    real = schemas.ask_libtorch
    monkeypatch.setattr(schemas, "ask_libtorch", lambda lib, version, *more: real(
        lib, mine, *more) if version == mine else real(
            library.with_name("none.so"), mine))
    result = schemas.check(library, ["2.10.0", mine])
    assert list(result["versions"]) == [mine]
    assert "none.so on libtorch" in result["errors"]["2.10.0"]


def print_ops(*ops):
    from torch_stable_abi.libtorch import runtimes
    words = [word for op in ops for word in ("--print", op)]
    return subprocess.run(
        [sys.executable, ROOT / "common", "schemas", *words,
         "--torch", runtimes.installed()], text=True, capture_output=True)


def test_a_schema_is_printed_with_its_call(request, workbook):
    done = print_ops("sum.dim_IntList")
    assert done.returncode == 0, done.stderr
    assert "  slots[4], all of them given:\n    0  Tensor self\n" in done.stdout
    assert "    3  ScalarType? dtype=None\n  after the call slot 0 has Tensor\n" \
        in done.stdout
    done = print_ops("aten::no_such_op")
    assert done.returncode == 1 and "there is no op aten::no_such_op" in done.stdout
    done = print_ops("aten::add.Tensor")
    assert "    2  Scalar alpha=1  (cannot be passed by name)\n" in done.stdout
    assert "  no call by name: a type of it cannot cross\n" in done.stdout
    for more, said in [(["a.so", "b.so"], "name one library, or an op by --print"),
                       (["--json", "x.json"], "--json is for the calls of a library")]:
        done = workbook("schemas", *more, "--print", "sum.dim_IntList")
        assert done.returncode == 2 and said in done.stderr
    if request.config.getoption("--record"):
        words = ["schemas", "--print", "aten::sum.dim_IntList", "--torch", "2.10.0",
                 "2.15.0"]
        (ROOT / "docs/results/print.txt").write_text(
            f"$ ./workbook {' '.join(words)}\n{workbook(*words).stdout}")


PRINTED = {  # an op, and what its call uses
    "aten::sum.dim_IntList": "Tensor self, std::optional<std::vector<int64_t>> dim",
    "aten::topk": "Tensor self, int64_t k", "aten::max.dim": "Tensor self, int64_t dim",
    "aten::linear": "Tensor input, Tensor weight", "aten::gelu": "Tensor self",
    "aten::roll": "Tensor self, std::vector<int64_t> shifts",
    "aten::unbind.int": "Tensor self", "aten::nan_to_num": "Tensor self",
    "aten::native_layer_norm": "Tensor input, std::vector<int64_t> normalized_shape, "
                               "std::optional<Tensor> weight, "
                               "std::optional<Tensor> bias, double eps",
    "aten::conv_transpose2d.input": "Tensor input, Tensor weight",
    "aten::pad": "Tensor self, std::vector<int64_t> pad",
    "aten::__and__.Tensor": "Tensor self, Tensor other",
    "aten::_assert_async.msg": "Tensor self, std::string assert_msg",
    "aten::randperm.generator": "int64_t n"}


@pytest.mark.full
@pytest.mark.parametrize("header", ["call_op.h", "by_name.h"])
def test_the_calls_that_are_printed_compile(header):
    blocks = re.split(r"^\S+: .*\n", print_ops(*PRINTED).stdout, flags=re.M)[1:]
    code = f'#include "{header}"\n#include <cmath>\nusing namespace wb;\n' \
        "using torch::stable::Tensor; using torch::stable::Device;\n" \
        "using namespace torch::headeronly;\n"
    for number, (block, parameters) in enumerate(zip(
            blocks, PRINTED.values(), strict=True)):
        text = block[re.search("^  (inline|StableIValue) ", block, re.M).start():]
        declaration, call = re.fullmatch(r"(.*\};\n)?(.+)", text, re.S).groups() \
            if "OpDecl" in text else ("", text)
        code += f"namespace n{number} {{\n{declaration}" \
            f"void use({parameters}) {{\n{call}}}\n}}\n"
    folder = {"call_op.h": "solutions/05_torch_call_dispatcher",
              "by_name.h": "solutions/04_boxed_kernels/core"}[header]
    done = compiler("-fsyntax-only", "-Wno-unused", f"-I{ROOT / folder}", "-xc++", "-",
                    code=code)
    assert done.returncode == 0, done.stderr + code


CUDA = """
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
extern "C" int cudaLaunchKernel(void*);
extern "C" int aoti_torch_get_current_cuda_stream(int, void**);
int launch() { return cudaLaunchKernel(nullptr); }
int stream() { return aoti_torch_get_current_cuda_stream(0, nullptr); }
"""


def test_a_library_for_cuda_is_read_without_it(tmp_path):
    """Needed libraries and functions of CUDA are stood in for."""
    from torch_stable_abi.libtorch import runtimes
    runtime = tmp_path / "libcudart.so.13"
    library = tmp_path / "libcuda_ops.so"
    subprocess.run(["cc", "-shared", "-xc", "-", "-o", runtime,
                    "-Wl,-soname,libcudart.so.13"], check=True, text=True,
                   input="int cudaLaunchKernel(void* p) { return 0; }")
    done = compiler("-shared", "-fPIC", "-xc++", "-", "-xnone", runtime, "-o", library,
                    f"-L{torch_root()}/lib", "-ltorch_cpu", code=HEADER +
                    declaration("void(bool)") + "void use() { call<op>(true); }" + CUDA)
    assert done.returncode == 0, done.stderr
    runtime.unlink()
    done = verify(library, runtimes.installed())
    assert "calls 1 op by name" in done.stdout, done.stderr


@pytest.mark.full
def test_two_libraries_in_a_process_have_a_list_each(planted, tmp_path):
    """Not one for both, as inline variables are unless they are hidden."""
    other = tmp_path / "libother.so"
    done = compiler("-shared", "-fPIC", "-xc++", "-", "-o", other,
                    f"-L{torch_root()}/lib", "-ltorch_cpu", code=HEADER +
                    declaration("void(bool)") + "void use() { call<op>(true); }")
    assert done.returncode == 0, done.stderr
    code = "import ctypes, running, sys\n" \
           "for name in sys.argv[1:]: print(len(running.find_declared(" \
           "ctypes.CDLL(name, ctypes.RTLD_GLOBAL))))"
    done = subprocess.run(
        [sys.executable, "-c", code, planted, other], text=True,
        capture_output=True, check=True,
        env={**os.environ, "PYTHONPATH": SCHEMAS,
             "LD_LIBRARY_PATH": str(torch_root() / "lib")})
    assert done.stdout.split() == ["8", "1"]


# --- the schemas themselves --------------------------------------------------

def test_types_of_a_schema():
    from torch_stable_abi.schemas import schema
    types = schema.parse(
        "aten::x.y(Tensor(a! -> *) self, SymInt[2]? size=[1, 1], *, str mode="
        "'a, b', Tensor(b)[] list, Dimname? d=None) -> (Tensor(a!), int[3] n)")
    assert types.arguments == ("Tensor", "int[]?", "str", "Tensor[]", "str?")
    assert types.names == ("self", "size", "mode", "list", "d")
    assert types.returns == ("Tensor", "int[]")
    assert schema.parse("f() -> ()") == schema.Types((), ())
    assert schema.parse("f(int) -> Tensor").returns == ("Tensor",)
    assert schema.differences(types, types) == []


ASK = """
import ctypes, json, sys
import running
torch = ctypes.CDLL("libtorch_cpu.so")
torch.aoti_torch_abi_version.restype = ctypes.c_uint64
print(json.dumps([running.schema(torch, n) for n in json.load(sys.stdin)]))
"""


def check_agreement(version, every):
    """libtorch's own words and native_functions.yaml give the same types, for
    each op: two sources, and two ways to read them."""
    from torch_stable_abi.libtorch import runtimes
    from torch_stable_abi.schemas import schema
    file = runtimes.root(version).parent / runtimes.SCHEMAS
    if not file.exists():
        pytest.skip("TORCH_ROOT is a libtorch without Python")
    lines = re.findall(r"^- func: (.*?)\s*$", file.read_text(), re.M)
    assert len(lines) > 2000
    lines = lines[::every]
    done = subprocess.run(
        [sys.executable, "-c", ASK], check=True, text=True, capture_output=True,
        input=json.dumps(["aten::" + schema.name_of(text) for text in lines]),
        env={**os.environ, "PYTHONPATH": SCHEMAS,
             "LD_LIBRARY_PATH": str(runtimes.root(version) / "lib")})
    for text, said in zip(lines, json.loads(done.stdout), strict=True):
        assert said, text
        assert schema.differences(
            schema.parse(text), schema.parse(said)) == [], (text, said)


def test_libtorch_and_its_file_agree_on_some_ops():
    from torch_stable_abi.libtorch import runtimes
    check_agreement(runtimes.installed(), every=50)


@pytest.mark.full
def test_libtorch_and_its_file_agree_on_every_op():
    from torch_stable_abi.libtorch import runtimes
    from torch_stable_abi.libtorch.versions import in_order, supported
    for version in in_order(runtimes.installed(), *supported()):
        if version != runtimes.installed():
            runtimes.fetch(version)
        check_agreement(version, 1 if version == runtimes.installed() else 10)


@pytest.mark.full
def test_python_says_the_same():
    """torch._C._get_schema is a third source, where Python is."""
    if not (torch_root() / "__init__.py").exists():
        pytest.skip("TORCH_ROOT is a libtorch without Python")
    from torch_stable_abi.schemas import schema
    code = "import torch\nfor name, overload in (('aten::sum', 'dim_IntList'), " \
           "('aten::zeros_like', ''), ('aten::max', 'dim')): " \
           "print(torch._C._get_schema(name, overload))"
    done = subprocess.run(
        [sys.executable, "-c", code], text=True, capture_output=True, check=True,
        env={**os.environ, "PYTHONPATH": str(torch_root().parent)})
    sums, zeros, largest = map(schema.parse, done.stdout.splitlines())
    assert sums.arguments == ("Tensor", "int[]?", "bool", "ScalarType?")
    assert len(zeros.arguments) == 6
    assert largest.returns == ("Tensor", "Tensor")


# --- what OpDecl refuses when it is compiled -----------------------------------

@pytest.fixture(scope="module")
def declared(tmp_path_factory):
    """Return a function that compiles the declaration of an op."""
    compiled = compiler_after(tmp_path_factory.mktemp("declared"), HEADER, *WARNINGS)
    return lambda signature: compiled(declaration(signature))


@pytest.mark.parametrize("signature", [
    "Tensor(Tensor, double, std::optional<std::vector<int64_t>>)", "void()",
    "std::tuple<int64_t, Tensor, int64_t>(std::vector<std::optional<Tensor>>)"])
def test_what_is_supported_compiles(declared, signature):
    done = declared(signature)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("signature, message", [
    ("Tensor(Tensor, float)", "double (not float)"),
    ("Tensor(Tensor, int)", "int64_t (not int)"),
    ("Tensor(Tensor, Scalar)", "A Scalar is not"),
    ("Tensor(Tensor, std::vector<int>)", "int64_t (not int)"),
    ("Tensor(Tensor, const char*)", "std::string"),
    ("Tensor(AtenTensorHandle)", "is not supported"),
    ("Tensor(wb::DeviceType)", "Device, and std::optional"),
    ("float(Tensor)", "is not supported"),
    ("std::tuple<Tensor, int64_t>(Tensor)", "cannot return these types")])
def test_what_is_not_supported_does_not_compile(declared, signature, message):
    done = declared(signature)
    assert done.returncode != 0
    first = next(x for x in done.stderr.splitlines() if "error:" in x)
    assert message in first, done.stderr
