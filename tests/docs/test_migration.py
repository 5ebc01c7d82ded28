"""Each row of the migration table compiles: the unstable half with the
installed headers, the stable half with the headers and the target that it names
and all newer ones, and with neither one version lower. What has no counterpart
is in no C header either."""

import os
import re
import subprocess
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import snippets
from base import nvcc
from base.project import ROOT
from base.requirements import install
from support import fetch_libtorch
from torch_stable_abi.libtorch import runtimes, surface
from torch_stable_abi.libtorch.installed import torch_root
from torch_stable_abi.libtorch.versions import supported
from torch_stable_abi.migration import ROWS

UNSTABLE_HEADERS = [
    "ATen/ATen.h", "ATen/Dispatch.h", "ATen/OpMathType.h", "ATen/Parallel.h",
    "ATen/TensorUtils.h", "ATen/ceil_div.h", "ATen/core/dispatch/Dispatcher.h",
    "ATen/cpu/vec/vec.h", "ATen/native/cpu/Loops.h", "ATen/record_function.h",
    "c10/core/impl/VirtualGuardImpl.h", "torch/custom_class.h",
    "torch/csrc/autograd/custom_function.h", "torch/library.h", "torch/types.h",
    "torch/version.h"]
PARAMETERS = "{0} x, {0} y, {0} out, int64_t n, std::string s, void* p"
VERSIONS = supported()
HOST = [row for row in ROWS if not row.get("nvcc")]
DEVICE = [row for row in ROWS if row.get("nvcc")]
STABLE = [row for row in HOST if "stable" in row]
PAGE = ROOT / "docs/migration.md"
NOTES = Path(__file__).with_name("row_notes.cpp")


def placed(rows: list[dict], kind: str, tensor: str) -> str:
    """Put snippets where they may stand. Rows do not see each other, and the compiler
    names the third one "row_3"."""
    text = ""
    for i, row in enumerate(rows):
        code = row[kind].strip()
        if row.get("scope") != "file":
            code = f"void f({PARAMETERS.format(tensor)}) {{\n{code}\n}}"
        text += f'#line 1 "row_{i}"\nnamespace row_{i} {{\n{code}\n}}\n'
    return text


def unstable_code(rows: list[dict]) -> str:
    names = list(UNSTABLE_HEADERS)
    if any(row.get("python") for row in rows):
        names.append("torch/extension.h")
    return "".join(f"#include <{name}>\n" for name in names) + \
        placed(rows, "unstable", "at::Tensor")


def stable_code(rows: list[dict], kind: str = "stable") -> str:
    """`kind` of each row, with the rows' own includes, as far as these exist,
    and those of the parameters around."""
    names = [name for row in rows for name in row["include"]]
    if any(row.get("scope") != "file" for row in rows):
        names += ["torch/csrc/stable/tensor.h", "cstdint", "string"]
    defines = {name for row in rows for name in row.get("define", [])}
    return "".join(f"#define {name}\n" for name in sorted(defines)) + "".join(
        f"#if __has_include(<{name}>)\n#include <{name}>\n#endif\n"
        for name in dict.fromkeys(names)) + \
        placed(rows, kind, "torch::stable::Tensor")


def least(row):
    return snippets.minor(row["headers"]), snippets.minor(row["target"])


def all_of(tasks):
    """tasks: (rows, kind, TORCH_ROOT, target). Each a compilation, on all
    cores; gives what the compiler said of each."""
    def one(task):
        rows, kind, root, target = task
        return snippets.compile(stable_code(rows, kind), root,
                             f"2.{target}")
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(one, tasks))


def grouped(rows, key):
    found = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def accepted(rows, text):
    """Return the rows of which the compiler said nothing bad."""
    bad = {int(n) for n in re.findall(r"^row_(\d+):\d+:\d+: error", text, re.M)}
    return [row["what"] for i, row in enumerate(rows) if i not in bad]


@pytest.fixture(scope="module")
def headers():
    """{minor: TORCH_ROOT} of each version."""
    return {snippets.minor(v): fetch_libtorch(v)
            for v in sorted({*VERSIONS, runtimes.installed()})}


def test_rows_are_complete():
    names = [(row["group"], row["what"]) for row in ROWS]
    assert len(set(names)) == len(names) >= 50
    page = PAGE.read_text()
    for group in {row["group"] for row in ROWS}:
        assert f'<!-- begin: migration "{group}" -->' in page
    for row in ROWS:
        assert set(row) <= {
            "group", "what", "unstable", "stable", "refused", "absent",
            "include", "define", "headers", "target", "scope", "python",
            "nvcc", "note", "port", "dispatch", "differs", "run", "ported",
            "otherwise", "without"}, row["what"]
        assert "stable" in row or "note" in row, \
            f"{row['what']} has no counterpart, and nothing says what to do"
        assert "stable" in row or {"refused", "absent"} <= set(row), \
            f"{row['what']}: what shows that there is none?"


@pytest.mark.full
def test_unstable_half():
    python = Path(sysconfig.get_path("include"))
    rows = HOST
    if not (python / "Python.h").exists():
        rows = [row for row in HOST if not row.get("python")]
    include = torch_root() / "include/torch/csrc/api/include"
    assert snippets.compile(
        unstable_code(rows), torch_root(), None, "-fsyntax-only",
        "-isystem", include, "-isystem", python) == ""
    if rows is not HOST:
        pytest.skip("the other rows compile; two need Python.h: "
                    "apt-get install python3-dev")


@pytest.mark.full
def test_stable_half_at_its_minima(headers):
    """Rows that name the same includes are compiled together, with nothing
    else."""
    tasks = [(rows, "stable", headers[oldest], target)
             for (_, _, oldest, target), rows in grouped(STABLE, lambda row: (
                 tuple(row["include"]), tuple(row.get("define", [])),
                 *least(row))).items()]
    assert [text for text in all_of(tasks) if text] == []


@pytest.mark.full
def test_stable_half_with_newer_headers(headers):
    """All rows that a version has, at its own target; the newest at 2.10 too."""
    wanted = [(minor, minor) for minor in headers] + [(max(headers), 10)]
    tasks = [([row for row in STABLE if least(row)[0] <= minor and
               least(row)[1] <= target], "stable", headers[minor], target)
             for minor, target in wanted]
    assert [text for text in all_of(tasks) if text] == []


@pytest.mark.full
def test_not_below_its_minima(headers):
    """One version lower, of the headers or of the target, each row is refused."""
    lower = {}
    for row in STABLE:
        oldest, target = least(row)
        if oldest - 1 in headers:
            at = oldest - 1, min(target, oldest - 1)
            lower.setdefault(at, []).append(row)
        if target > 10:
            lower.setdefault((max(headers), target - 1), []).append(row)
    assert sum(map(len, lower.values())) >= 15
    tasks = [(rows, "stable", headers[minor], target)
             for (minor, target), rows in lower.items()]
    for task, text in zip(tasks, all_of(tasks)):
        assert accepted(task[0], text) == []


@pytest.mark.full
def test_what_is_refused_is_refused(headers):
    """The newest headers refuse it at the newest target. If one is accepted, its row
    has to be written anew."""
    newest = max(headers)
    rows = [row for row in ROWS if "refused" in row]
    text, = all_of([(rows, "refused", headers[newest], newest)])
    # An error in a template is said of the header, and not of its row.
    rows = [row for row in rows if row["what"] in accepted(rows, text)]
    assert len(rows) < 6
    texts = all_of([([row], "refused", headers[newest], newest) for row in rows])
    assert [row["what"] for row, text in zip(rows, texts) if not text] == []


def test_what_is_absent_is_in_no_c_header():
    """Neither as a wrapper nor as a C function, with headers of any version."""
    names = surface.functions()
    assert {"aoti_torch_warn", "torch_call_dispatcher"} <= set(names)
    for row in ROWS:
        if "absent" in row:
            assert [name for name in names if re.search(row["absent"], name)] == [], \
                row["what"]


def port(code: str) -> tuple[str, list[int]]:
    """Return what `port` makes of a source, and the lines that it leaves."""
    install("port")
    from torch_stable_abi.port.rewriting import Rewriter
    from torch_stable_abi.port.syntax import Source
    from torch_stable_abi.port.types import Types
    source = Source(code.encode())
    ported = Rewriter(source, Types(source, []))
    return ported.rewrite(), [one.line for one in ported.findings
                              if one.kind not in ("done", "differs", "slower")]


@pytest.mark.full
def test_port_names_what_does_not_compile(headers):
    """The newest headers take each unstable half, as `port` leaves it, in which it
    names nothing."""
    code = unstable_code(HOST)
    row_of, row = {}, None
    for number, line in enumerate(code.splitlines(), 1):
        if begin := re.match(r'#line 1 "row_(\d+)"', line):
            row = int(begin[1])
        row_of[number] = row
    text, lines = port(code)
    named = {row_of[line] for line in lines}
    said = snippets.compile(text, headers[max(headers)], f"2.{max(headers)}",
                            "-fsyntax-only")
    refused = {int(n) for n in re.findall(r"^row_(\d+):\d+:\d+: error", said, re.M)}
    assert [HOST[i]["what"] for i in refused - named] == []
    assert len(set(range(len(HOST))) - named) > len(HOST) / 3


@pytest.mark.full
@pytest.mark.parametrize("code", [
    *(row["unstable"] for row in DEVICE),
    "void f(const at::Tensor& x) {\n  const at::cuda::CUDAGuard guard(x.device());\n"
    "  auto stream = at::cuda::getCurrentCUDAStream();\n"
    "  AT_CUDA_CHECK(cudaStreamSynchronize(stream.stream()));\n}\n"])
def test_port_of_device_code(code, headers, tmp_path):
    if nvcc.find() is None:
        pytest.skip("no nvcc: ./workbook nvcc --fetch")
    text, lines = port(code)
    said = device_code(
        text, headers[max(headers)], tmp_path / "ported.cu", "-DUSE_CUDA",
        f"-DTORCH_TARGET_VERSION={snippets.pack_version('2.10')}")
    assert said == "" or lines, text + said


@pytest.mark.full
def test_a_check_names_its_place_in_every_version(headers):
    for root in headers.values():
        text = (root / "include/torch/headeronly/util/Exception.h").read_text()
        macro = text.partition("#define STD_TORCH_CHECK(")[2].partition("\n\n")[0]
        assert [word for word in ("__func__", "__FILE__", "__LINE__")
                if word not in macro] == []


def device_code(code: str, torch: Path, file: Path, *options) -> str:
    """"" if nvcc takes `code`, put into `file`, else what it said."""
    file.write_text(code)
    done = subprocess.run(
        [nvcc.find(), "-std=c++17", "-arch=sm_90", "-w", "-ptx", "-o",
         file.with_suffix(".ptx"), f"-isystem={torch / 'include'}", *options,
         file], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout if done.returncode else ""


@pytest.mark.full
@pytest.mark.parametrize("row", DEVICE, ids=lambda row: row["what"])
def test_device_code(row, headers, tmp_path):
    if nvcc.find() is None:
        pytest.skip("no nvcc: ./workbook nvcc --fetch")
    file = tmp_path / "row.cu"
    assert device_code(row["unstable"], torch_root(), file,  # a header of CUDA builds
                       "-DC10_USING_CUSTOM_GENERATED_MACROS") == ""
    oldest, _ = least(row)
    includes = "".join(f"#include <{name}>\n" for name in row["include"])
    for minor in {oldest - 1, oldest, max(headers)} & set(headers):
        said = device_code(
            includes + row["stable"], headers[minor], file,
            *(f"-D{name}" for name in row.get("define", [])),
            f"-DTORCH_TARGET_VERSION={snippets.pack_version('2.10')}")
        assert (said == "") == (minor >= oldest), f"headers 2.{minor}: {said}"


def types_of(code: str, torch: Path, header: str) -> list[str]:
    """Return the dtypes for which a dispatch has a case, as the preprocessor sees
    it."""
    done = subprocess.run(
        ["g++", "-std=c++17", "-E", "-P", "-isystem", torch / "include",
         "-xc++", "-"], input=f"#include <{header}>\nint start;\n{code}\n",
        text=True, capture_output=True, check=True)
    text = done.stdout.rpartition("int start;")[2]
    return sorted(re.findall(r"case\s+[\w:]*ScalarType::(\w+)", text))


@pytest.mark.full
def test_dispatch_macros_have_the_types_of_the_page():
    rows = re.findall(r"^\| `(AT_DISPATCH_\w+)` \| `(.*)` \|$",
                      PAGE.read_text(), re.M)
    assert len(rows) >= 10
    for macro, types in rows:
        own = ["A", "B"][:2 if macro.endswith("2") else macro.endswith("_AND")]
        arguments = ", ".join([*(f"ScalarType::{t}" for t in own), "t", '"f"'])
        old = types_of(f"{macro}({arguments}, [&] {{}})", torch_root(),
                       "ATen/Dispatch.h")
        new = types_of(f'THO_DISPATCH_V2(t, "f", AT_WRAP([&] {{}}), {types})',
                       torch_root(), "torch/headeronly/core/Dispatch_v2.h")
        assert old == new != [], macro


def test_a_row_without_an_error_is_noticed():
    rows = [{"what": "wrong", "x": "no_such();", "include": []},
            {"what": "right", "x": "(void)n;", "include": []}]
    text, = all_of([(rows, "x", torch_root(), 10)])
    assert accepted(rows, text) == ["right"]


@pytest.fixture(scope="module")
def notes(tmp_path_factory):
    """Return the ops of row_notes.cpp, in the installed torch."""
    torch = pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("notes")
    check, = (row["stable"] for row in ROWS
              if row["what"] == "a check without a text")
    (folder / "check.h").write_text(check.rpartition("\nCHECK(")[0] + "\n")
    path = folder / "notes.so"
    assert snippets.compile(
        NOTES.read_text(), torch_root(), "2.11", "-O1", "-shared", "-fPIC", "-o",
        path, "-I", folder, f"-L{torch_root()}/lib", "-ltorch_cpu") == ""
    torch.ops.load_library(path)
    return torch.ops.row_notes


@pytest.mark.full
def test_errors_are_as_the_notes_say(notes):
    import torch

    def said(how):
        with pytest.raises(Exception) as error:
            notes.fails(torch.ones(3), how)
        return type(error.value), str(error.value)
    assert re.fullmatch(r"fails, .*:\d+, ", said(0)[1])
    assert "Expected x.dim() == 2 to be true, but got false" in said(1)[1]
    assert said(2) == (IndexError, "out of range")
    assert said(3)[0] is RuntimeError  # at::Tensor throws an IndexError
    kind, text = said(4)  # headers 2.13 at a lower target lose the reason
    assert kind is RuntimeError and "torch_parallel_for" in text
    assert ("own text" in text) == (snippets.minor(runtimes.installed()) >= 14)
    if torch.version.cuda is None:
        assert "aoti_torch_create_device_guard" in said(5)[1]
    notes.fails(torch.ones(3), 6)


@pytest.mark.full
def test_values_are_as_the_notes_say(notes):
    import torch
    assert notes.item(torch.tensor([[2.5]])) == 2.5
    assert notes.item_int(torch.tensor(7.5)) == 7
    with pytest.raises(RuntimeError):
        notes.item(torch.ones(2))
    number = notes.number()
    assert (number.dtype, number.shape) == (torch.float64, ())
    x = torch.arange(12.)[3:]
    assert notes.strided(x, True).tolist() == [[4, 5], [6, 7]]
    assert x.as_strided((2, 2), (2, 1), 1).tolist() == [[1, 2], [3, 4]]
    assert notes.strided(x, False).dim() == 1
    assert notes.nested([[1], [7]]) == 7


@pytest.mark.full
def test_autograd_records_what_a_kernel_calls_by_name(notes):
    import torch
    x = torch.ones(2, 2, requires_grad=True)
    assert type(notes.square(x, False).grad_fn).__name__ == "MmBackward0"
    assert type(notes.square(x, True).grad_fn).__name__ != "MmBackward0"


@pytest.mark.full
def test_a_range_is_in_the_profile(notes):
    import torch
    from torch.profiler import profile
    with profile() as profiled:
        notes.ranged(torch.ones(2))
    assert "my_range" in {event.key for event in profiled.key_averages()}


@pytest.mark.full
def test_an_object_lives_in_a_tensor(notes):
    kept = notes.make()
    again = kept
    assert (notes.next(kept), notes.next(again)) == (1, 2)
    copy = kept.clone()  # the bytes, and not the object
    assert (notes.next(copy), notes.next(kept)) == (3, 3)
    del kept, copy
    assert notes.living() == 1
    del again
    assert notes.living() == 0


@pytest.mark.full
@pytest.mark.parametrize("op, argument, text", [
    ("table", {}, "Dict(str, Tensor)"), ("pairs", [("a", 1)], "(str, int)")])
def test_a_dictionary_does_not_cross(notes, op, argument, text):
    with pytest.raises(RuntimeError, match=re.escape(
            "Not yet supported conversion from IValue to StableIValue for "
            f"schema type: {text}")):
        getattr(notes, op)(argument)
