"""port: what it rewrites, what it leaves, and what it says of both."""

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from base.project import ROOT
from base.requirements import install
from support import passes
from torch_stable_abi.files import write_file
from torch_stable_abi.migration import ROWS


@pytest.fixture(scope="session")
def port():
    """Return a function that returns a ported text and its findings."""
    install("port")
    from torch_stable_abi.port.report import Ported, find_floor
    from torch_stable_abi.port.rewriting import Rewriter
    from torch_stable_abi.port.syntax import Source
    from torch_stable_abi.port.types import Types

    def port(text):
        source = Source(text.encode())
        rewriter = Rewriter(source, Types(source, []))
        new = rewriter.rewrite()
        return SimpleNamespace(text=new, findings=rewriter.findings, floor=find_floor(
            [Ported(Path("a.cpp"), text, new, methods=rewriter.methods)]))
    return port


def body(code, parameters="const at::Tensor& x, at::Tensor out, int64_t n"):
    return f"void f({parameters}) {{\n{code}\n}}\n"


@pytest.mark.parametrize("code, said", [
    ("auto y = x.max();", "aten::max(Tensor self)"),
    ("auto y = at::max(x, out);", "aten::max.other(Tensor self, Tensor other)"),
    ("auto y = x.max(-1);", 'max{"aten::max", "dim"}'),
    ("auto y = x.split(1, 0);", "aten::split.Tensor("),  # split alone is TorchScript's
    ("auto y = x.split({1, 2}, 0);", "aten::split.sizes("),
    ("auto y = at::randint(0, 10, {3});", "aten::randint.low("),
    ("auto y = at::randint(10, {3});", 'randint{"aten::randint", ""}'),
    ("at::matmul_out(out, x, x);", "aten::matmul.out by name"),
    ("auto y = x[1];", "torch::stable::select(x, 0, i)"),
    ("x.random_();", "TORCH_ERROR_CODE_CHECK(torch_call_dispatcher("),
    ("auto y = torch::stable::empty_like(x);\nauto z = y.max();",
     "aten::max(Tensor self)")])
def test_the_call_that_is_shown_is_that_of_the_overload(port, code, said):
    texts = [f.advice for f in port(body(code)).findings if f.kind == "yours"]
    assert any(said in text for text in texts), texts


@pytest.mark.parametrize("schema, said", [
    ("f(Tensor x, Dict(str, Tensor) y) -> Tensor", "Dict"), ("f", ""),
    ("f(Scalar x) -> ()", "Scalar"), ("f(Tensor x, int[] n) -> Tensor", "")])
def test_a_type_that_cannot_cross_is_named(port, schema, said):
    code = f'TORCH_LIBRARY(a, m) {{ m.def("{schema[:4]}" "{schema[4:]}"); }}\n'
    found = [f.advice for f in port(code).findings if "has no form" in f.advice]
    assert len(found) == bool(said) and said in "".join(found)


@pytest.mark.parametrize("value, differs", [
    ("0", False), ("-2.5", False), ("std::numeric_limits<int64_t>::max()", True),
    ("n", True), ("9223372036854775807", True)])
def test_a_value_that_a_double_may_change_is_told(port, value, differs):
    findings = port(body(f"out.fill_({value});")).findings
    assert any(f.kind == "differs" for f in findings) == differs


ORIGINAL = "solutions/09_port_an_extension/original/ops.cpp"
T, S = "torch::stable::", "torch::headeronly::ScalarType::"


@pytest.mark.parametrize("code, wanted", [
    ("at::Tensor y = torch::empty_like(x);", f"{T}Tensor y = {T}empty_like(x);"),
    ("auto y = x.contiguous().view({-1});",  # a chain
     f"auto y = {T}view({T}contiguous(x), {{-1}});"),
    ("auto y = at::zeros({n}, x.options().dtype(at::kFloat));",
     f"auto y = {T}new_zeros(x, {{n}}, {S}Float);"),
    ("auto o = x.options();\nauto y = at::empty({n}, o);",  # options that have a name
     f"auto o = x.options();\nauto y = {T}new_empty(x, {{n}});"),
    ("TORCH_CHECK(x.dim() == 2);",
     'STD_TORCH_CHECK(x.dim() == 2, "Expected x.dim() == 2 to be true, but got '
     'false");'),
    ('if (n) AT_ERROR("no"); else n = 1;',  # the new macro is an if
     'if (n) { STD_TORCH_CHECK(false, "no"); } else n = 1;'),
    ("auto y = x.sum(0);", f"auto y = {T}sum(x, std::vector<int64_t>{{0}});"),
    ("int64_t k = 6 * at::divup(n, 4) - at::internal::GRAIN_SIZE;",
     "int64_t k = 6 * divup(n, 4) - int64_t{32768};"),
    ('TORCH_CHECK(n, "f(a, )");', 'STD_TORCH_CHECK(n, "f(a, )");'),
    ("out.add_(x);", f"{T}copy_(out, {T}subtract(out, x, -1.0));"),
    ("const float* p = x.data_ptr<float>();",
     "const float* p = x.const_data_ptr<float>();"),
    ("float* p = x.data_ptr<float>();", "float* p = x.mutable_data_ptr<float>();"),
    ("for (const auto& y : std::vector<at::Tensor>{x}) g(y.clone());",
     f"for (const auto& y : std::vector<{T}Tensor>{{x}}) g({T}clone(y));"),
    ("auto [y, i] = at::max(x, 0);\ng(y.contiguous());",
     f"auto [y, i] = at::max(x, 0);\ng({T}contiguous(y));"),
    ("AT_DISPATCH_FLOATING_TYPES_AND2(\n    at::kHalf, at::kBFloat16, "
     'x.scalar_type(), "f", [&] { g<scalar_t>(); });',
     'THO_DISPATCH_V2(x.scalar_type(), "f", AT_WRAP(([&] { g<scalar_t>(); })), '
     f"AT_EXPAND(AT_FLOATING_TYPES), {S}Half, {S}BFloat16);"),
    ("const at::cuda::OptionalCUDAGuard guard(at::device_of(x));",
     f"std::optional<{T}accelerator::DeviceGuard> guard;\n"
     "  if (x.get_device_index() >= 0) {\n"
     "    guard.emplace(x.get_device_index());\n  }"),
    ("auto s = at::cuda::getCurrentCUDAStream();\nk<<<1, 1, 0, s.stream()>>>(n);",
     "auto s = current_cuda_stream();\nk<<<1, 1, 0, s>>>(n);"),
])
def test_it_rewrites(port, code, wanted):
    text = port(body(code)).text
    assert wanted in text
    assert port(text).text == text  # a second time changes nothing


def test_bare_names_where_a_space_is_opened(port):
    text = port("using namespace at;\n" + body(
        "Tensor y = empty_like(x);\nint device = 0, complex = device;\n"
        "Half h = kFloat;", "const Tensor& x")).text
    assert f"{T}Tensor y = {T}empty_like(x);\nint device = 0, complex = device;" in text
    assert f"torch::headeronly::Half h = {S}Float;" in text


def test_what_holds_a_tensor(port):
    text = port(body("g(b->contiguous(), b.value().clone(), (*b).size(0));",
                     "const c10::optional<at::Tensor>& b")).text
    assert f"g({T}contiguous(*b), {T}clone(b.value()), (*b).size(0));" in text


@pytest.mark.parametrize("code", [
    "// at::Tensor of TORCH_CHECK(x)",
    '/* c10::Half */ const char* s = "at::Tensor";',
    "auto r = other.contiguous();", "std::vector<int> v; v.view(3);",
    'const char* r = R"(at::Tensor)";', "my::at::Tensor t;",
    "torch::stable::Tensor t;"])
def test_it_leaves(port, code):
    text = f"void f(Other& other) {{\n{code}\n}}\n"
    assert port(text).text == text


@pytest.mark.parametrize("code", [
    "template <class T> void f(T x) { g(x.contiguous()); }\n",
    "void h(at::Half x); void h(torch::stable::Tensor x);\n"  # of another's x
    "void A::f() { g(x.contiguous()); }\n"])
def test_unknown_is_named_and_not_rewritten(port, code):
    ported = port(code)
    assert "g(x.contiguous())" in ported.text
    assert [one.line for one in ported.findings if one.kind == "unknown"] == [
        code.count("\n")]


@pytest.mark.parametrize("code", [
    "g([=] __device__(int& a, const float& b) { TORCH_CHECK(a); });",
    "g([] __host__ __device__ (float v) { TORCH_CHECK(v); });",
    # Branches of an #if that are no whole statements.
    "#if A\n  if (n) {\n    g(n);\n  } else {\n#endif\n  TORCH_CHECK(n);\n"
    "#if A\n  }\n#endif",
    '#ifdef A\n  g(n,\n#elif B\n  g(n + 1,\n#else\n  h(\n#endif\n  2);\n'
    "  TORCH_CHECK(n);",
    'asm volatile(\n  "{"\n#if A\n  "@p x;}"\n#else\n  "@p y;}"\n#endif\n'
    '  : "=r"(n));\n  TORCH_CHECK(n);'])
def test_what_the_grammar_does_not_know_of_cuda(port, code):
    old = body(code, "int n")
    done = port(old)
    assert [f for f in done.findings if f.kind == "unknown"] == []
    assert done.text.count("STD_TORCH_CHECK") == 1
    assert re.sub(r"STD_TORCH_CHECK\(.*?\);", "", done.text).endswith(
        re.sub(r"TORCH_CHECK\(.*?\);", "", old))


def test_a_branch_that_is_not_read_is_named(port):
    done = port(body("#if A\n  g(x.numel(),\n#else\n  g(x.options(),\n#endif\n  2);"))
    assert [(f.line, f.kind) for f in done.findings if f.kind == "unknown"] == [
        (5, "unknown")]


@pytest.mark.parametrize("code, said", [
    # What ATen copies into a view would be lost.
    ("x.select(0, 1) = y;", "ATen copies into the tensor on the left"),
    # Options are taken from their declaration only where they still are that.
    ("auto o = x.options(); o = o.dtype(at::kLong); auto t = at::zeros({n}, o);",
     "at::zeros"),
    ("auto o = x.options(); x = y; auto t = at::zeros({n}, o);", "at::zeros"),
    ("auto t = at::full({n}, 2, next().options());", "next() would be evaluated")])
def test_what_would_change_in_silence_is_named(port, code, said):
    done = port("at::Tensor next();\nvoid f(at::Tensor x, at::Tensor y, int64_t n) {\n"
                f"{code}\n}}\n")
    assert any(f.kind == "yours" and said in f.code + f.advice
               for f in done.findings), [
        (f.kind, f.code, f.advice) for f in done.findings]


def test_helpers_that_port_writes(port):
    text = port(body("int64_t a = at::divup(n, 4); int b = at::ceil_div(3, 2);",
                     "int64_t n")).text
    assert "static inline int64_t divup(int64_t a, int64_t b) {" in text
    assert "static inline C10_HOST_DEVICE T ceil_div(T a, T b) {" in text
    assert "#include <torch/headeronly/macros/Macros.h>" in text


def test_a_helper_in_two_files_is_made_once(port, tmp_path):
    """A source includes a header, and both have called at::divup."""
    code = "inline int64_t {}(int64_t n) {{ return at::divup(n, 4); }}\n"
    (tmp_path / "a.h").write_text("#include <cstdint>\n" + port(code.format("a")).text)
    (tmp_path / "b.cpp").write_text('#include "a.h"\n' + port(code.format("b")).text)
    passes("g++", "-fsyntax-only", tmp_path / "b.cpp")


def test_a_macro_of_one_line_stays_in_one(port):
    text = port("#define SAME(p, q) TORCH_CHECK_EQ(p, q);\n").text
    assert len([x for x in text.splitlines() if "SAME" in x or "==" in x]) == 1


CLASSES = """
struct Output { at::Tensor data; };
struct Derived : Output { int64_t n; };
typedef struct { at::Tensor data; } Old;
using Other = Old;
using Frame = std::unique_ptr<AVFrame, Deleter>;
struct Packet { Packet* operator->(); };
struct Decoder { at::Tensor frames_; std::queue<int> ready_; void f(); };
"""


@pytest.mark.parametrize("parameter, code, tensor", [
    ("Output& o", "g(o.data.contiguous());", True),
    ("std::unique_ptr<Output> o", "g(o->data.contiguous());", True),
    ("Derived& o", "g(o.data.contiguous());", True),
    ("Old& o", "g(o.data.contiguous());", True),
    ("const Other& o", "g(o.data.contiguous());", True),
    ("Frame& o", "g(o->data != nullptr);", False),
    ("const AVFrame* o", "g(o->data[0]);", False),  # of a library's header
    ("UniqueAVFrame& o", "g(o->data != nullptr);", False),
    ("Packet& o", "g(o->data > 0);", False)])
def test_fields_are_those_of_their_class(port, parameter, code, tensor):
    done = port(CLASSES + body(code, parameter))
    assert (f"g({T}contiguous(o" in done.text) == tensor
    assert [f for f in done.findings if f.line > 9 and f.kind != "done"
            and f.kind != "slower"] == []


def test_a_member_of_a_base_comes_before_what_is_global(port):
    done = port("struct Buf {};\nstruct Outer { Buf x; };\nat::Tensor x;\n"
                "struct D : Outer { void p() { x.clone(); } };\n")
    assert "{ x.clone(); }" in done.text


def test_a_method_knows_the_fields_of_its_class(port):
    done = port(CLASSES + "void Decoder::f() {\n  g(frames_.contiguous());\n"
                "  ready_.pop();\n}\n")
    assert f"g({T}contiguous(frames_))" in done.text
    assert "unknown" not in {f.kind for f in done.findings}


@pytest.mark.parametrize("alias", ["using T1 = at::Tensor;", "typedef at::Tensor T1;"])
def test_other_names_of_a_tensor(port, alias):
    text = port(f"{alias}\nvoid f(const T1& x) {{ g(x.contiguous()); }}\n").text
    assert f"g({T}contiguous(x))" in text


def test_macros_of_what_is_included(tmp_path, port):
    from torch_stable_abi.port import porting
    (tmp_path / "own.h").write_text("#define TORCH_OWN 1\n")
    (tmp_path / "a.cpp").write_text('#include "own.h"\nint a = TORCH_OWN;\n')
    files, _ = porting.port([str(tmp_path / "a.cpp")])
    assert files[0].findings == []


@pytest.mark.parametrize("code, what", [
    ("auto y = x + x;", "operator"), ("auto y = at::softmax(x, -1);", "call<softmax>"),
    ("auto y = x.trunc();", "aten::trunc(Tensor self)"),
    ("at::Scalar s = 2;", "`Scalar`"), ("auto y = x.item<float>();", "one element"),
    ('TORCH_CHECK(n, "got ", x.sizes());', "sizes in a message"),
    ("x.zero_();", "`narrow`, `zero_`, `copy_` of a const tensor"),
    ("std::optional<std::string_view> s;", "an optional string argument"),
    ("at::foo(1);", "no row"), ("TORCH_FOO(1);", "no row"),
    ("int a = at::vec::Vectorized<float>::size();", "SIMD"),
    ("#if TORCH_VERSION_MAJOR > 1\n#endif", "several versions")])
def test_what_is_left_is_named(port, code, what):
    left = [one for one in port(body(code)).findings
            if one.kind not in ("done", "differs", "slower")]
    assert left and {one.line for one in left} <= {2}
    assert any(what in one.advice + (one.row or {}).get("what", "") for one in left)


@pytest.mark.parametrize("code, parameters", [
    ("auto o = v[i].options();\n++i;\nauto y = at::empty({1}, o);",
     "std::vector<at::Tensor> v, int64_t i"),
    ("auto o = a.options();\nstd::swap(a, b);\nauto y = at::empty({1}, o);",
     "at::Tensor a, at::Tensor b"),
    ("auto o = a.options();\ncast(a);\nauto y = at::empty({1}, o);", "at::Tensor a"),
    ("auto o = pop(q).options();\nauto y = at::empty({1}, o);", "Queue& q"),
    ("auto o = a.options();\nfor (;;) {\n  y = at::empty({1}, o);\n  a = y;\n}",
     "at::Tensor a, at::Tensor y"),
    ("at::empty({1}, a.options().dtype(d));",
     "const at::Tensor& a, std::optional<at::ScalarType> d"),
    ("auto y = at::empty_like(pop(q), pop(q).options());", "Queue& q")])
def test_options_are_those_of_their_time(port, code, parameters):
    done = port("at::Tensor pop(Queue& q);\n" + body(code, parameters))
    assert "torch::stable::new_empty(" not in done.text
    assert "torch::stable::empty_like(" not in done.text
    assert [f for f in done.findings if f.kind in ("yours", "unknown") and
            "at::empty" in f.code], done.findings


@pytest.mark.parametrize("code, parameters", [
    ("auto o = a.options();\nauto y = at::empty({1}, o);\nlaunch(a, y);",
     "at::Tensor a"),
    ("auto o = a.options();\nlaunch(a);\nauto y = at::empty({1}, o);",
     "const at::Tensor& a")])
def test_options_of_what_has_not_changed(port, code, parameters):
    assert "torch::stable::new_empty(a, {1})" in port(body(code, parameters)).text


@pytest.mark.parametrize("code, parameters, named", [
    ("p[1].zero_();", "at::Tensor* p", True),
    ("(*p)->zero_();", "at::Tensor** p", True),
    ('m["w"].contiguous();', "std::map<std::string, at::Tensor>& m", True),
    ("p->contiguous();", "std::shared_ptr<at::Tensor> p", True),
    ("at::Tensor d[2];\nd[0].zero_();", "int n", True),
    ("auto y = std::make_optional<at::Tensor>(x);\ny->zero_();", "at::Tensor x", True),
    ("static_cast<at::Tensor>(h).contiguous();", "Handle h", True),
    ("t.contiguous();", "other::Thing t", True),
    ("g.contiguous();", "Grid& g", False),
    ("q.pop();", "std::queue<int>& q", False),
    ("for (auto& [k, v] : grids) v.clone();", "at::Tensor v, Grids& grids", True),
    ("v.contiguous();\nauto v = x.clone();", "at::Tensor x", True),
    ("auto f = [x = first()] { return x.contiguous(); };", "at::Tensor x", True)])
def test_what_is_no_tensor_is_not_rewritten(port, code, parameters, named):
    grid = "struct Grid { Grid contiguous(); };\n" if "Grid& g" in parameters else ""
    done = port(grid + body(code, parameters))
    assert not re.search(r"stable::(contiguous|zero_|fill_|clone)\((p|\(|m|d|y|t|g|v|"
                         r"static)", done.text), done.text
    last = [f for f in done.findings if f.kind == "unknown"]
    assert bool(last) == named, done.findings


@pytest.mark.parametrize("code, text", [
    ("template <class Layout> void f(Layout x);", "template <class Layout>"),
    ("template <typename Tensor> int w(const Tensor& t) { t.contiguous(); }",
     "t.contiguous()"),
    ("struct Device { int n; };", "struct Device {"),
    ("enum class Half { a };", "enum class Half {"),
    ("static inline int ceil_div(int a, int b);\nint n = at::ceil_div(1, 2);",
     "= at::ceil_div(1, 2)"),
    ("void f(P p) { p.impl(1, n); }", "p.impl(1, n)")])
def test_names_of_the_user_stay(port, code, text):
    done = port(f"using namespace at;\n{code}\n").text
    assert text in done, done


@pytest.mark.parametrize("code, said", [
    ("at::Tensor f(const at::Tensor& x, std::array<bool, 2> mask) { return x; }",
     "std::array"),
    ("namespace F = torch::nn::functional;", "names behind it"),
    ("#pragma omp parallel num_threads(at::get_num_threads())", "preprocessor"),
    ("at::Tensor& f(at::Tensor& x) { return x.zero_(); }", "reference"),
    ("void f(at::cuda::CUDAStream s) { s.synchronize(); }", "cudaStream_t"),
    ("void f(c10::cuda::CUDAGuard& g) { g.set_device(d); }", "set_index"),
    ('TORCH_LIBRARY_IMPL(a, CPU, m) { m.impl("f", [](at::Tensor x) { return x; }); }',
     "TORCH_BOX wants"),
    ("void f(at::Tensor x) { std::cout << x.device() << 1; }", "does not print"),
    ('void f(at::Tensor x) { TORCH_CHECK(g(), "got ", x); }', "does not print"),
    ("void f(at::Tensor x, at::Tensor y) { x.narrow(0, y, 3); }", "aten::narrow"),
    ("void f(at::Tensor x) { if (x.element_size() - 4 < 0) g(); }", "size_t")])
def test_what_would_not_compile_or_be_the_same_is_named(port, code, said):
    done = port(code + "\n")
    assert any(said in f.advice or said in (f.row or {}).get("differs", "")
               for f in done.findings), done.findings


def test_an_include_that_an_option_of_the_compiler_finds(tmp_path, port):
    """Only the folder that is named has it, at another place."""
    from torch_stable_abi.port import porting
    file, header = tmp_path / "cpu/a.cpp", tmp_path / "common/own.hpp"
    for path in (file, header):
        path.parent.mkdir()
    header.write_text("#include <ATen/ATen.h>\nusing namespace at;\n")
    file.write_text('#include "own.hpp"\nvoid f(Tensor x) {}\n')
    ported = {one.path.name: one for one in porting.port([str(tmp_path)])[0]}
    assert "void f(torch::stable::Tensor x) {}" in ported["a.cpp"].new
    alone, = porting.port([str(file)])[0]  # nothing says what Tensor is
    assert alone.new == alone.old
    assert [(f.line, f.kind) for f in alone.findings] == [(2, "unknown")]


@pytest.mark.parametrize("code, named", [
    ("#include <THC/THCAtomics.cuh>\n", 1), ("#include <cuda_fp16.h>\n", 0)])
def test_additions_that_were_pytorchs_are_named(port, code, named):
    code += "template <class T> __global__ void f(T* x) { atomicAdd(x, T(1)); }\n"
    assert len([f for f in port(code).findings if f.kind == "yours"]) == named


@pytest.mark.parametrize("body, code", [
    ("k<<<1, 1, 0, x.stream()>>>(n)", "x.stream()"),
    ("do { if (!x.type().is_cuda()) exit(1); } while (0)", "x.type().is_cuda()"),
    ("if (x.type().is_sparse()) exit(1)", "x.type().is_sparse()")])
def test_the_method_of_a_macros_parameter_is_named(port, body, code):
    found = port(f"#define CHECK_IT(x) {body}\n").findings
    assert [(f.line, f.kind, f.code) for f in found] == [(1, "unknown", code)]


def test_additions_that_an_include_brings(tmp_path, port):
    from torch_stable_abi.port import porting
    (tmp_path / "a.cuh").write_text("#include <ATen/cuda/Atomic.cuh>\n")
    file = tmp_path / "a.cu"
    file.write_text('#include "a.cuh"\n__device__ void f(T* x) { atomicAdd(x, *x); }\n')
    assert [f.kind for f in porting.port([str(file)])[0][0].findings] == ["yours"]


def test_a_source_that_lives_by_an_old_header_of_another(tmp_path, port):
    from torch_stable_abi.port import porting
    (tmp_path / "a.h").write_text("#include <ATen/ATen.h>\nvoid f(int64_t n);\n")
    (tmp_path / "b.h").write_text("#include <cstdint>\nvoid f(int64_t n);\n")
    for header, wanted in (("a.h", '#include "a.h"\n#include <memory>\n'),
                           ("b.h", '#include "b.h"\n')):
        file = tmp_path / "a.cpp"
        file.write_text(f'#include "{header}"\nstd::unique_ptr<int> n;\n')
        files, _ = porting.port([str(file)])
        assert files[0].new == wanted + "std::unique_ptr<int> n;\n"


def test_new_lines_stand_in_no_if(port):
    """Neither the includes nor a helper may go where an #if takes them away."""
    inside = "#ifdef USE_ROCM\n#include <ATen/hip/HIPContext.h>\n#endif\n"
    last = "#ifdef USE_ROCM\n#include <hip/hip_fp16.h>\n#endif\n"
    text = port(f"#pragma once\n{inside}#include <ATen/ATen.h>\n{last}" + body(
        "auto s = at::cuda::getCurrentCUDAStream();\nauto y = at::empty_like(x);")).text
    assert "#ifdef USE_ROCM\n#endif\n#include <torch/csrc" in text
    begin, end = text.index("#ifndef PORTED_CURRENT"), text.index(last)
    assert "stable/ops.h" in text[:begin] < text and begin < end


@pytest.mark.parametrize("code, differs", [
    ("auto n = x.sym_size(0);", "symbol"), ("auto n = x.size(0);", ""),
    ("at::cuda::CUDAGuard g(x.device());", "is_cuda"),
    ("at::cuda::CUDAGuard g(x.get_device());", ""),  # -1 did nothing before, too
    ("at::cuda::OptionalCUDAGuard g(at::device_of(x));", "is_cuda"),
    ("at::DeviceGuard g(x.device());", ""), ("g<at::TensorAccessor<float, 2>>();", "")])
def test_what_differs_is_of_the_construct(port, code, differs):
    texts = [f.advice for f in port(body(code)).findings if f.kind == "differs"]
    assert len(texts) == bool(differs) and differs in "".join(texts)


@pytest.mark.parametrize("function, said", [
    ("at::Tensor& f(at::Tensor& x)", "returns at::Tensor&: return at::Tensor"),
    ("std::pair<at::Tensor, at::Tensor> f(at::Tensor x)", "return std::tuple<at::Ten"),
    ("at::Tensor f(at::Tensor& x)", "")])
def test_a_kernel_that_returns_what_cannot_be_boxed_is_named(port, function, said):
    for kernel in ("&f", "f", "TORCH_FN(f)"):
        found = port(f"{function};\nTORCH_LIBRARY_IMPL(a, CPU, m) {{\n"
                     f'm.impl("f", {kernel});\n}}\n').findings
        assert [f.line for f in found if f.kind == "yours"] == [3] * bool(said)
        assert not said or any(said in f.advice for f in found)


@pytest.mark.parametrize("rest, said", [
    ("&f", ["def takes no kernel here"]), ("{at::Tag::pt2_compliant_tag}", []),
    ("torch::dispatch(c10::kCPU, &f)", ["def takes no kernel here"])])
def test_a_schema_and_more_in_def(port, rest, said):
    found = port("TORCH_LIBRARY(a, m) {\n"
                 f'm.def("f(Tensor x) -> Tensor", {rest});\n}}\n').findings
    texts = [f.advice for f in found if f.kind in ("yours", "no counterpart")]
    assert len(texts) >= len(said) and all(map(str.startswith, texts, said))
    assert said or not texts


def test_objects_of_python_are_named(port):
    code = ("namespace py = pybind11;\npy::dict f(at::Tensor x) {\npy::dict d;\n"
            'd["x"] = x;\nreturn d;\n}\nPYBIND11_MODULE(a, m) {\n'
            'm.def("f", &f, py::arg("x"));\n}\n')
    found = port(code).findings
    assert {f.line for f in found if f.code == "py::dict"} == {2, 3}
    without = code.replace("at::Tensor", "int")  # nothing of PyTorch's is converted
    assert not [f for f in port(without).findings if f.code == "py::dict"]
    assert not [f for f in found if f.code.startswith("py::arg")]


@pytest.mark.parametrize("code, named", [
    ("auto n2 = min(n - 1, n);", 0), ("auto y = min(x, out);", 1),
    ("auto y = exp(x);", 1), ("auto y = exp(unknown);", 1),
    ("double y = exp(2.0);", 0)])
def test_functions_of_numbers_where_a_space_is_opened(port, code, named):
    found = port("using namespace at;\n" + body(code)).findings
    assert len([f for f in found if f.kind == "yours" and f.line == 3]) == named


@pytest.mark.parametrize("code, named", [
    ("auto y = relu(x);", 1), ("auto y = matmul(x, out);", 1),
    ("auto m = max(n, n);", 0), ("auto s = toString(x.scalar_type());", 0),
    ("CHECK(isFloatingType(x.scalar_type()));", 1),
    ("g(DeviceTypeName(x.device().type()));", 1), ("auto y = mine(x);", 0)])
def test_a_function_that_is_found_by_its_argument_is_named(port, code, named):
    found = [f for f in port(body(code)).findings if f.kind == "yours"
             and f.code != "CHECK"]
    assert [f.line for f in found] == [2] * named
    if "relu" in code:  # the user's own comes first
        own = "at::Tensor relu(at::Tensor x);\n"
        assert not [f for f in port(own + body(code)).findings if f.kind == "yours"]


A = "torch::headeronly::HeaderOnlyGenericPackedTensorAccessor"
P = "torch::headeronly::RestrictPtrTraits"


@pytest.mark.parametrize("code, text", [
    ("at::PackedTensorAccessor32<float, 2, torch::RestrictPtrTraits> a = g();",
     f"{A}<float, 2, {P}, int32_t> a = g();"),
    ("const torch::PackedTensorAccessor32<at::Half, 2>& a = g();",
     f"const {A}<torch::headeronly::Half, 2, torch::headeronly::DefaultPtrTraits, "
     "int32_t>& a = g();"),
    ("auto a = x.packed_accessor32<float, 2, at::RestrictPtrTraits>();",
     f"auto a = {A}<float, 2, {P}, int32_t>(\n          x.mutable_data_ptr<float>(),"),
    ("auto a = x.accessor<const float, 2>();", "x.const_data_ptr<float>(),"),
    ("auto a = x.packed_accessor64<const c10::complex<float>, 2>();",
     "x.const_data_ptr<torch::headeronly::complex<float>>(),"),
    ("auto a = x.packed_accessor32<const float, 2>();", "x.const_data_ptr<float>(),")])
def test_accessors(port, code, text):
    found = port(body(code))
    assert text in found.text
    assert {f.kind for f in found.findings} <= {"done", "differs"}


def test_a_pointer_to_a_tensor(port):
    found = port("const float* f(const at::Tensor* v) {\n"
                 "  return v != nullptr ? v->data_ptr<float>() : nullptr;\n}\n")
    assert "v != nullptr ? v->mutable_data_ptr<float>() : nullptr" in found.text
    assert {f.kind for f in found.findings} == {"done"}
    written = port(body("p->zero_();", "at::Tensor* p")).text
    assert "torch::stable::zero_(*p);" in written
    found = port(body("(*p).zero_();", "at::Tensor* p")).findings
    assert "yours" in {f.kind for f in found}


def test_a_helper_stands_in_the_same_if_as_its_includes(port):
    text = port('#include "Config.h"\n#if BUILD\n#include <ATen/cuda/CUDAContext.h>\n'
                '#include "own.h"\n'
                "void f() { g<<<1, 1, 0, at::cuda::getCurrentCUDAStream()>>>(); }\n"
                "#endif\n").text
    places = [text.index(one) for one in (
        "#if BUILD", "#include <torch/", '#include "own.h"',
        "current_cuda_stream(int32_t", "void f()")]
    assert places == sorted(places)


def test_an_accessor_of_a_using_line(port):
    found = port("using torch::PackedTensorAccessor32;\n"
                 "void f(PackedTensorAccessor32<float, 2> a);\n")
    assert f"void f({A}<float, 2, torch::headeronly::DefaultPtrTraits, int32_t> a)" in \
        found.text
    assert {f.kind for f in found.findings} == {"done"}


@pytest.mark.parametrize("line, code, text, left", [
    ("using at::kFloat;", "auto y = x.to(kFloat);", f"y = {T}to(x, {S}Float);", []),
    ("using at::Tensor;", "Tensor y = x;", f"using {T}Tensor;\nvoid f", []),
    ("using torch::indexing::Slice;", "g(Slice());", "g(Slice());",
     ["torch::indexing::Slice"]),
    ("using namespace at;", "Tensor y = x;", f"{T}Tensor y = x;",
     ["using namespace at;"]),
    ("using namespace torch::stable;", "Tensor y = x;", "Tensor y = x;", []),
    ("namespace cu = at::cuda;", "cu::CUDAGuard g(x.get_device());",
     f"{T}accelerator::DeviceGuard g(x.get_device_index());",
     ["namespace cu = at::cuda;"]),
    ("namespace cu = at::cuda;", "cu::CUDAEvent e;", "cu::CUDAEvent e;",
     ["namespace cu = at::cuda;", "cu::CUDAEvent"]),
    ("namespace own = mine::cuda;", "own::CUDAEvent e;", "own::CUDAEvent e;", []),
    ("using at::PackedTensorAccessor64;", "PackedTensorAccessor64<float, 2> a = g();",
     "torch::headeronly::HeaderOnlyGenericPackedTensorAccessor<float, 2> a", [])])
def test_names_that_stand_for_others(port, line, code, text, left):
    found = port(f"{line}\n{body(code)}")
    assert text in found.text
    assert [f.code for f in found.findings if f.kind == "yours"] == left
    if line.startswith("namespace cu"):  # a macro's body knows it too
        found = port(f"{line}\n#define E cu::CUDAEvent\n").findings
        assert [f.line for f in found if f.kind == "yours"] == [1, 2]


@pytest.mark.parametrize("key, said", [
    ("Autograd", "register_autograd"), ("AutogradCUDA", "register_autograd"),
    ("AutocastCPU", "register_autocast"), ("ADInplaceOrView", "register_autograd"),
    ("CPU", ""), ("CompositeImplicitAutograd", "")])
def test_a_kernel_for_a_key_of_pytorchs_own_is_named(port, key, said):
    found = port(f'TORCH_LIBRARY_IMPL(a, {key}, m) {{ m.impl("f", &f); }}\n').findings
    texts = [f.advice for f in found if f.kind == "yours"]
    assert len(texts) == bool(said) and said in "".join(texts)


@pytest.mark.parametrize("code, named", [
    ("c10::complex<float> z; g(std::conj(z));", 1),
    ("std::complex<float> z; g(std::conj(z));", 0), ("g(std::norm(n));", 0),
    ("AT_DISPATCH_COMPLEX_TYPES(x.scalar_type(), \"f\", [&] { std::norm(n); });", 1)])
def test_a_function_of_complex_numbers_is_named(port, code, named):
    found = [f for f in port(body(code)).findings if f.code.startswith("std::")]
    assert [f.kind for f in found] == ["unknown"] * named


def test_what_a_module_has_besides_functions_is_named(port):
    found = port("PYBIND11_MODULE(a, m) { m.attr(\"X\") = 3; }\n").findings
    assert 'm.attr("X") = 3' in [f.code for f in found if f.kind == "yours"]


@pytest.mark.parametrize("code, named", [
    ("auto g = [x] { x.zero_(); };", 1), ("auto g = [=] { x.zero_(); };", 1),
    ("auto g = [x]() mutable { x.zero_(); };", 0), ("auto g = [&] { x.zero_(); };", 0),
    ("auto g = [=, &x] { x.zero_(); };", 0), ("auto g = [y, &x] { y.zero_(); };", 1),
    ("auto g = [y = x] { y.zero_(); };", 1),
    ("auto g = [=](at::Tensor z) { z.zero_(); };", 0),
    ("struct S { at::Tensor z; void g() const { z.zero_(); } };", 1),
    ("struct S { at::Tensor z; void g() { z.zero_(); } };", 0)])
def test_a_tensor_that_is_const_where_it_stands_is_named(port, code, named):
    found = port(body(code, "at::Tensor x, at::Tensor y"))
    assert [f.kind for f in found.findings if f.code.endswith(".zero_()")] == [
        "yours" if named else "done"]


@pytest.mark.parametrize("code, what", [
    ("g(xs.slice(0, 1));", "xs.slice(0, 1)"), ("g(xs.vec());", "xs.vec()"),
    ("g(sizes.drop_front(1));", "sizes.drop_front(1)"), ('LOG(INFO) << 1;', "LOG"),
    ("THCudaCheck(cudaGetLastError());", "THCudaCheck"),
    ("auto y = c10d::wait_tensor(x);", "c10d::wait_tensor"),
    ("CHECK_EQ(1, 1);", "CHECK_EQ"), ("g(WARP_SHFL(1, 0));", "WARP_SHFL"),
    ("s << sizes;", "sizes"), ("g(nested[0][0].options());", "nested[0][0].options()"),
    ("g(nested[0].slice(0, 1));", "nested[0].slice(0, 1)"),
    ('auto y = x.to("cuda");', 'x.to("cuda")')])
def test_what_went_with_the_old_headers_is_named(port, code, what):
    parameters = ("at::Tensor x, at::TensorList xs, at::IntArrayRef sizes, "
                  "std::vector<std::vector<at::Tensor>> nested")
    findings = port(body(code, parameters)).findings
    assert [f.code for f in findings if f.kind == "yours"] == [what]
    if what.isupper():  # unless it is the user's own
        own = port(f"#define {what}(x) f(x)\n" + body(code, parameters)).findings
        assert not [f for f in own if f.kind == "yours"]
    right = body("g(xs.size() + xs.back().dim()); g(sizes.slice(1).vec());", parameters)
    assert not [f for f in port(right).findings if f.kind == "yours"]


def test_a_second_run_changes_nothing(port):
    once = port(body("auto y = at::zeros({n}, x.dtype());")).text
    assert port(once).text == once


def test_what_differs_is_said(port):
    ported = port(body("at::parallel_for(0, n, 1, [](int64_t, int64_t) {});\n"
                       'TORCH_CHECK_VALUE(n, "no");'))
    differs = [(f.line, f.row["what"]) for f in ported.findings if f.kind == "differs"]
    assert differs == [(2, "threads"), (3, "a check with its own exception")]


def test_what_a_small_call_pays_for_is_said(port):
    ported = port(body("auto a = x.contiguous();\nauto b = x.clone();\n"
                       "auto c = at::empty_like(x);"))
    slower = [(f.line, f.advice) for f in ported.findings if f.kind == "slower"]
    assert [line for line, _ in slower] == [2, 4]
    assert "is_contiguous()" in slower[0][1] and "aoti_torch" in slower[1][1]


def test_bodies_of_macros(port):
    text = port("#define CHECK(x, ...) \\\n"
                "  TORCH_CHECK(x.is_cuda(), #x \" must be \", __VA_ARGS__)  \\\n"
                "  ; at::Half h##x\n").text
    assert text.endswith("#define CHECK(x, ...) \\\n"
                         "  STD_TORCH_CHECK(x.is_cuda(), #x \" must be \", "
                         "__VA_ARGS__)  \\\n  ; torch::headeronly::Half h##x\n")


def test_includes_by_use(port):
    text = port("#include <map>\n#include <ATen/ATen.h>\n#include <c10/util/Half.h>\n"
                "void f(at::Half h) { std::map<int, int> m; memset(&m, 0, 1); }\n").text
    assert text.startswith("#include <map>\n#include <torch/headeronly/util/Half.h>\n"
                           "#include <cstring>\nvoid f(torch::headeronly::Half h)")


def test_other_encodings_and_ends_of_lines(tmp_path, port):
    from torch_stable_abi.port import porting
    file = tmp_path / "a.cpp"
    file.write_bytes(b"// \xe9\r\n#include <c10/util/Half.h>\r\nat::Half a;\r\n")
    files, _ = porting.port([str(file)])
    write_file(file, files[0].new)
    assert file.read_bytes() == (
        b"// \xe9\r\n#include <torch/headeronly/util/Half.h>\r\n"
        b"torch::headeronly::Half a;\r\n")


def test_every_pattern_is_found_in_what_it_came_from(port):
    """A pattern that matches nothing would be silent."""
    from torch_stable_abi.port.patterns import Pattern, expand
    silent = []
    for row in ROWS:
        for pair in row.get("port", []):
            for text in expand(pair[0]):
                Pattern(row, text, None)  # the grammar knows it
                code = re.sub(r"\$\$?(\w+)", lambda found: {
                    "int": "1", "num": "2.5", "list": "{1}", "stream": "s",
                    "dtype": "at::kInt", "text": '"t"'}.get(found[1], found[1]),
                    text).replace("at::make_optional", "c10::make_optional")
                code = code.rstrip(";") + ";"
                ported = port(
                    "void f(const at::Tensor x, at::Tensor y, at::Tensor v, "
                    "at::Tensor m, at::cuda::CUDAStream s, int a, int n) "
                    f"{{\n{code}\n}}\n")
                if not any(one.row is row for one in ported.findings if one.line > 1):
                    silent.append(text)
    assert silent == []


def test_schemas_of_ops_are_those_of_the_torch_that_is_here():
    from torch_stable_abi.libtorch import aten
    assert aten.list_schemas() == aten.RECORDED.read_text()


def test_names_that_stand_bare_through_an_include(tmp_path, port):
    from torch_stable_abi.port import porting
    for name, using in [("all.h", "using namespace at;"),
                        ("one.h", "using at::Tensor;")]:
        (tmp_path / name).write_text(f"#include <ATen/ATen.h>\n{using}\n")
    for header in ("all.h", "one.h"):
        (tmp_path / "op.cpp").write_text(
            f'#include "{header}"\nvoid f(Tensor x, Tensor y) {{ x.copy_(y); }}\n')
        new = {one.path.name: one.new for one in porting.port([str(tmp_path)])[0]}
        assert "torch::stable::copy_(x, y)" in new["op.cpp"], header
    assert "using torch::stable::Tensor;" in new["one.h"]


def test_a_row_on_the_left_is_named(port):
    for left in ("x[0]", "x[0][n]", "l[0][1]", "x.select(0, 1)"):
        code = f"std::vector<at::Tensor> l; {left} = x;"
        said = [one.advice for one in port(body(code)).findings]
        assert any("ATen copies into the tensor on the left" in text for text in said)
    said = port(body("std::vector<at::Tensor> l; l[0] = x;")).findings
    assert not any("on the left" in one.advice for one in said)


def test_drafts(tmp_path, port):
    from torch_stable_abi.port import porting
    (tmp_path / "a.cpp").write_text(
        "void f(const at::Tensor& x, at::Tensor& out,\n"
        "       c10::optional<at::Tensor>& b, int n, double eps = 1e-6);\n"
        'PYBIND11_MODULE(m, m) {\n  m.def("go", &f, py::arg("x"), py::arg("out"),\n'
        '        py::arg("b") = py::none(), py::arg("n") = 3,\n'
        '        py::arg("eps") = 0.5);\n}\n')
    _, drafts = porting.port([str(tmp_path)])
    assert drafts[0].schema == "go(Tensor x, Tensor(a!) out, Tensor(b!)? b=None, " \
        "int n=3, float eps=0.5) -> ()"
    assert [mark.split(":")[0] for mark in drafts[0].marks] == ["out", "b", "n"]


@pytest.mark.parametrize("keywords, parameters", [
    ('py::arg("x"), py::arg("n") = 3', "Tensor x, int n=3"),
    ('arg("x").noconvert(), arg("n").noconvert() = 3', "Tensor x, int n=3"),
    ('pybind11::arg("x"), pybind11::arg_v("n", 3, "three")', "Tensor x, int n=3"),
    ('"", "y"_a, "m"_a = -1', "Tensor y, int m=-1"),
    ('"what, n", "y"_a.none(false), "m"_a=K', "Tensor y, int m=???"),
    ('py::arg("x"), py::kw_only(), py::arg("n") = 3', "Tensor x, *, int n=3")])
def test_a_draft_has_the_names_and_defaults_of_pybind(
        tmp_path, port, keywords, parameters):
    from torch_stable_abi.port import porting
    (tmp_path / "a.cpp").write_text(
        "void f(const at::Tensor& x, int64_t n);\n"
        f'PYBIND11_MODULE(m, m) {{\n  m.def("f", &f, {keywords});\n}}\n')
    _, drafts = porting.port([str(tmp_path)])
    assert drafts[0].schema == f"f({parameters}) -> ()"
    assert ("m: its default is K" in "".join(drafts[0].marks)) == ("K" in keywords)


@pytest.mark.parametrize("default, said", [
    ("std::vector<int64_t>{1, 2}", "[1, 2]"), ("std::vector<int64_t>()", "[]"),
    ("std::vector<int64_t>{}", "[]"), ("{}", "[]"), ("{1, 2}", "[1, 2]")])
def test_a_draft_has_a_list_s_default(tmp_path, port, default, said):
    from torch_stable_abi.port import porting
    (tmp_path / "a.cpp").write_text(
        f"void f(const at::Tensor& x, std::vector<int64_t> n = {default});\n"
        'PYBIND11_MODULE(m, m) {\n  m.def("f", &f);\n}\n')
    _, drafts = porting.port([str(tmp_path)])
    assert drafts[0].schema == f"f(Tensor x, int[] n={said}) -> ()"


def test_a_draft_says_which_numbers_do_not_cross(tmp_path, port):
    from torch_stable_abi.port import porting
    (tmp_path / "a.cpp").write_text(
        "float half(double n);\nstd::tuple<at::Tensor, int> both(at::Tensor x);\n"
        "c10::optional<float> maybe(std::vector<int> v, std::vector<int64_t> w);\n"
        'PYBIND11_MODULE(m, m) {\n  m.def("half", &half); m.def("both", &both);\n'
        '  m.def("maybe", &maybe);\n}\n')
    _, drafts = porting.port([str(tmp_path)])
    assert [[mark.partition(";")[0] for mark in one.marks] for one in drafts] == [
        ["what it returns: make it double"],
        ["what it returns: make it std::tuple<at::Tensor,int64_t>"],
        ["v: make it std::vector<int64_t>",
         "what it returns: make it c10::optional<double>"]]


def test_a_draft_follows_what_a_function_hands_on(tmp_path, port):
    from torch_stable_abi.port import porting
    (tmp_path / "cpu.cpp").write_text(
        "namespace cpu {\nvoid fill(const at::Tensor& to, float v) {\n"
        "  launch(to.data_ptr<float>(), v);\n}\n"
        "void add(const at::Tensor& x, at::Tensor to) { to.add_(x); }\n}\n")
    (tmp_path / "ops.cpp").write_text(
        "void fill(const at::Tensor& out, double v) { cpu::fill(out, v); }\n"
        "void add(const at::Tensor& x, at::Tensor out) { cpu::add(x, out); }\n"
        "void none(const at::Tensor& x) { x.size(0); }\n"
        'PYBIND11_MODULE(m, m) {\n  m.def("fill", &fill); m.def("add", &add);\n'
        '  m.def("none", &none);\n}\n')
    _, drafts = porting.port([str(tmp_path)])
    assert [one.marks[0].partition(";")[0] for one in drafts] == [
        "out: through a pointer that may write", "out is written to: Tensor(a!)",
        "returns nothing, and marks nothing: which tensor is written to?"]


def test_a_draft_is_of_the_function_that_is_named(tmp_path, port):
    from torch_stable_abi.port import porting
    (tmp_path / "a.cpp").write_text(
        "namespace gpu { void run(float p); }\nnamespace host {\n"
        "at::Tensor run(at::Tensor x) { return x; } }\n"
        "int64_t two(at::Tensor x);\nint64_t two(at::Tensor x, bool y);\n"
        "struct R { int64_t step(at::Tensor x) { return 0; } };\n"
        'PYBIND11_MODULE(m, m) {\n  m.def("run", &host::run);\n'
        '  m.def("two", &two);\n'
        '  py::class_<R>(m, "R").def("step", &R::step);\n}\n')
    _, drafts = porting.port([str(tmp_path)])
    assert [(one.schema, *one.marks) for one in drafts] == [
        ("run(Tensor x) -> Tensor",),
        ("two(...) -> ...", "2 functions have the name two: which one is it?")]


@pytest.mark.parametrize("code", [
    "auto d = y.value_or(x); d.sqrt_();", "at::Tensor d; d = *y; d.sqrt_();",
    "auto& d = y.value(); d.sqrt_();"])
def test_a_draft_follows_another_name(tmp_path, port, code):
    from torch_stable_abi.port import porting
    file = tmp_path / "a.cpp"
    file.write_text(
        f"at::Tensor f(at::Tensor x, std::optional<at::Tensor> y) {{\n{code}"
        'return x;\n}\nPYBIND11_MODULE(a, m) { m.def("f", &f); }\n')
    assert porting.port([str(file)])[1][0].marks == ("y is written to: Tensor(a!)",)


@pytest.mark.parametrize("returned, said", [
    ("std::pair<at::Tensor, at::Tensor>", "make it std::tuple"),
    ("at::Tensor&", "takes no reference"), ("at::Tensor", "")])
def test_a_draft_says_what_cannot_be_returned(tmp_path, port, returned, said):
    from torch_stable_abi.port import porting
    file = tmp_path / "a.cpp"
    file.write_text(f"{returned} f(at::Tensor x) {{ return g(x); }}\n"
                    'PYBIND11_MODULE(a, m) { m.def("f", &f); }\n')
    marks = porting.port([str(file)])[1][0].marks
    assert len(marks) == bool(said) and said in "".join(marks)


def test_a_draft_of_what_a_registry_has(tmp_path, port):
    from torch_stable_abi.port import porting
    (tmp_path / "a.cpp").write_text(
        "int64_t version() { return 1; }\n"
        "static auto registry = torch::RegisterOperators().op(\n"
        '    "q::version", [] { return version(); }).op("q::other", &version);\n')
    _, drafts = porting.port([str(tmp_path)])
    assert ("other() -> int", "version") in {(d.schema, d.function) for d in drafts}


def test_a_draft_says_what_the_kernel_may_write_behind_a_const(tmp_path, port):
    from torch_stable_abi.port import porting
    (tmp_path / "a.cpp").write_text(
        "void f(const at::Tensor& x, const at::Tensor& w, const at::Tensor& y,\n"
        "       const at::Tensor& z, const at::Tensor& v) {\n"
        "  float* a = x.data_ptr<float>();\n"
        "  const float* b = w.data_ptr<float>();\n"
        "  const auto e = v.requires_grad_();\n"
        "  launch(y.data_ptr<float>());\n  z.add_(w);\n  v.size(0);\n}\n"
        'TORCH_LIBRARY(q, m) { m.def("f", &f); }\n')
    _, drafts = porting.port([str(tmp_path)])
    assert drafts[0].marks[0] == "z is written to: Tensor(a!)"
    assert drafts[0].marks[1].startswith("x, y: through a pointer that may write")


@pytest.mark.parametrize("code, named", [
    ("at::IntArrayRef a = n;", False),  # what n is a person sees better
    ("at::IntArrayRef a = n - 1;", True),
    ("at::IntArrayRef a = {1, n};", True),
    ("at::IntArrayRef a{n - 1};", True),
    ("at::IntArrayRef a(-1);", True),
    ("c10::ArrayRef<int64_t> a = {n};", False),
    ("const at::IntArrayRef a = x.sizes().vec();", True),
    ("at::IntArrayRef a = x.sizes();", False),
    ("at::IntArrayRef a(p, 2);", False),
    ("at::IntArrayRef a{p, 2};", True),  # a list, or a pointer and a size: look
    ("std::vector<int64_t> a = {1, n};", False),
])
def test_an_array_that_borrows_from_its_own_line_is_named(port, code, named):
    said = [f.advice for f in port(body(code)).findings]
    assert any("borrows" in text for text in said) == named, said


def test_a_macro_that_a_row_names_is_named_once(port):
    found = [f for f in port(body('TORCH_WARN("slow");')).findings if f.line == 2]
    assert [f.row["what"] for f in found] == ["a warning"]


def test_what_a_check_prints_is_named_by_what_prints_instead(port):
    found = port(body(
        'TORCH_CHECK(n, "a ", x.layout(), x.device(), x.sizes(), x.scalar_type());'))
    named = [(f.code, f.advice or f.row["what"]) for f in found.findings
             if f.kind == "yours"]
    assert [code for code, _ in named] == ["x.layout()", "x.device()", "x.sizes()"]
    assert "static_cast<int>" in named[0][1] and "index()" in named[1][1]
    assert named[2][1] == "sizes in a message"


def test_a_method_that_stays_counts_for_the_headers_that_are_needed(port):
    assert port(body("x.dim();")).floor == ("2.10", "2.10")
    assert port(body("x.layout();")).floor == ("2.11", "2.10")


@pytest.mark.parametrize("code, named", [
    ("for (int64_t i = 0; i < x.numel(); ++i) f(i);", ["x.numel()"]),
    ("for (int64_t i = 0; i < n; ++i) f(i / x.size(1));", ["x.size(1)"]),
    ("while (n < x.dim()) ++n;", ["x.dim()"]),
    ("for (int64_t i = x.numel(); i > 0; --i) f(i);", []),
    ("for (auto size : x.sizes()) f(size);", []),
    ("for (int i = 0; i < n; ++i) { g([&] { return x.dim(); }); }", []),
    ("f(x.numel());", [])])
def test_a_question_that_a_loop_asks_again_is_named(port, code, named):
    assert [f.code for f in port(body(code)).findings if f.kind == "slower"] == named


@pytest.mark.parametrize("call, written", [
    ("sum(x, -1)", "sum(x, std::vector<int64_t>{-1})"),
    ("sum(x, {0}, true)", "sum(x, std::vector<int64_t>{0}, true)"),
    ("sum_out(out, x, 0)", "sum_out(out, x, std::vector<int64_t>{0})"),
    ("sum(x, dims)", "sum(x, dims)")])
def test_a_stable_sum_over_a_list_without_a_name(port, call, written):
    """An optional list keeps a pointer to the number, which ends with the call."""
    assert f"torch::stable::{written};" in port(body(f"torch::stable::{call};")).text


def test_builds(tmp_path, port):
    from torch_stable_abi.port import porting
    (tmp_path / "setup.py").write_text(
        "from torch.utils.cpp_extension import CUDAExtension\nsetup(\n"
        "  ext_modules=[CUDAExtension('a', ['a.cu'])],\n"
        "  install_requires=['torch'])\n")
    (tmp_path / "CMakeLists.txt").write_text("find_package(Torch REQUIRED)\n")
    files, _ = porting.port([str(tmp_path)])
    assert {f.path.name: [one.line for one in f.findings] for f in files} == {
        "CMakeLists.txt": [1], "setup.py": [3, 4]}


@pytest.mark.parametrize("name, line", [
    ("setup.py", "extension = CppExtension"),
    ("a.py", "from torch.utils.cpp_extension import load"),
    ("a.py", "from ._C import fwd"), ("a.py", "import pkg._C"),
    ("a.py", "from . import _cuda"), ("a.py", 'm = importlib.import_module("my._C")'),
    ("CMakeLists.txt", "FIND_PACKAGE(Torch REQUIRED)")])
def test_other_spellings_in_builds(tmp_path, port, name, line):
    from torch_stable_abi.port import builds
    (tmp_path / name).write_text(f"\n{line}\n")
    assert [one.line for one in builds.read_build(tmp_path / name)] == [2]


@pytest.mark.parametrize("seed", range(3))
def test_odd_sources(port, tmp_path, seed):
    """Nothing ends in a traceback, and what is no code stays as it is."""
    from torch_stable_abi.port import porting, report
    random.seed(seed)
    code = (ROOT / ORIGINAL).read_bytes()
    texts = [random.randbytes(5000), b"", b"\xef\xbb\xbfint a;", b"(" * 9000,
             b"void f() { " + b"{" * 3000, code[:random.randrange(len(code))],
             bytes(random.choice(code) for _ in range(3000))]
    for i, text in enumerate(texts):
        (tmp_path / f"{i}.cu").write_bytes(text)
    files, drafts = porting.port([str(tmp_path)])
    assert report.as_text(files, drafts, True) and report.as_json(files, drafts)
    assert all(one.old == one.new for one in files[:4])


# --- the command ------------------------------------------------------------------


@pytest.fixture
def project(tmp_path):
    """Return a folder of git with a source, and a function that runs port there."""
    (tmp_path / "op.cpp").write_text(body("at::Tensor y = x + x;"))
    for command in (["init", "-q"], ["add", "."],
                    ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q",
                     "-m", "a"]):
        subprocess.run(["git", "-C", tmp_path, *command], check=True)

    def run(*arguments):
        done = subprocess.run([ROOT / "workbook", "port", *arguments], cwd=tmp_path,
                              text=True, capture_output=True)
        return done.returncode, done.stdout, done.stderr
    return tmp_path, run


def test_report_and_ratchet(project):
    folder, run = project
    status, text, _ = run("op.cpp")
    assert status == 0 and "op.cpp: 3 done, 1 left" in text
    assert "2  yours: x + x" in text
    assert run("op.cpp", "--check", "0")[0] == 1 and run(".", "--check", "1")[0] == 0
    result = json.loads(run("op.cpp", "--format", "json")[1])
    assert result["schema"] == 1 and result["counts"] == {"done": 3, "yours": 1}
    assert run("none.cpp")[0] == 2


def test_the_page_shows_what_it_says(request):
    said = subprocess.run([ROOT / "workbook", "port", ORIGINAL], cwd=ROOT, text=True,
                          capture_output=True, check=True).stdout
    file = ROOT / "docs/results/port.txt"
    if request.config.getoption("--record"):
        file.write_text(f"$ ./workbook port {ORIGINAL}\n{said}")
    assert file.read_text().partition("\n")[2] == said


def test_apply_writes_what_git_has(project):
    folder, run = project
    file = folder / "op.cpp"
    file.write_text(file.read_text() + "// mine\n")
    before = file.read_text()
    status, _, error = run(".", "--apply")
    assert status == 2 and "op.cpp is not in git, or has changes" in error
    assert file.read_text() == before
    subprocess.run(["git", "-C", folder, "checkout", "-q", "."], check=True)
    assert run(".", "--apply")[0] == 0
    assert "torch::stable::Tensor y" in file.read_text()


def test_apply_knows_a_name_that_git_quotes(project):
    folder, run = project
    git = ["git", "-C", folder, "-c", "user.name=x", "-c", "user.email=x"]
    (folder / "op.cpp").rename(folder / "öp.cpp")
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "x"], check=True)
    assert run(".", "--apply")[0] == 0
    assert "torch::stable::Tensor y" in (folder / "öp.cpp").read_text()


def test_a_source_that_cannot_be_read_ends_no_other(project):
    folder, run = project
    (folder / "large.h").write_bytes(b" " * 5_000_001)
    (folder / "wide.cpp").write_bytes("at::Tensor x;".encode("utf-16"))
    for name, said in [("wide.cpp", "is saved as UTF-16"),
                       ("large.h", "has more than 5000000 bytes: leave it out")]:
        status, _, error = run(name)
        assert status == 2 and f"{name} {said}" in error
    (folder / "op.cpp").write_text('#include "large.h"\n' +
                                   (folder / "op.cpp").read_text())
    status, output, error = run(".", "--to", "new")
    assert status == 0 and not error
    output = " ".join(output.split())
    assert "is saved as UTF-16" in output and "has more than" in output
    assert "torch::stable::Tensor y" in (folder / "new/op.cpp").read_text()


@pytest.mark.parametrize("name", ["op.hh", "op.hxx", "op.c++"])
def test_it_reads_each_suffix_of_cpp(project, name):
    folder, run = project
    (folder / "op.cpp").rename(folder / name)
    assert f"{name}: 3 done, 1 left" in run(name)[1]


def test_to_writes_over_nothing(project):
    folder, run = project
    (folder / "new").mkdir()
    (folder / "new/second.cpp").touch()
    (folder / "second.cpp").write_text((folder / "op.cpp").read_text())
    status, _, error = run("op.cpp", "second.cpp", "--to", "new")
    assert status == 2 and "second.cpp exists: --to writes over nothing" in error
    assert not (folder / "new/op.cpp").exists()
    assert run("op.cpp", "--to", "new")[0] == 0
    assert "torch::stable::Tensor y" in (folder / "new/op.cpp").read_text()
    assert "at::Tensor y" in (folder / "op.cpp").read_text()
    (folder / "other").mkdir()
    (folder / "second.cpp").rename(folder / "other/op.cpp")
    status, _, error = run("op.cpp", "other", "--to", "newer")
    assert status == 2 and "newer/op.cpp would be that of two files" in error
    status, _, error = run("op.cpp", "--apply", "--to", "newest")
    assert status == 2 and "not allowed with argument" in error


def test_a_folder_of_examples_that_is_named_is_read(project):
    folder, run = project
    build = 'extra_link_args = ["-lc10"]\n'
    for name in ("examples/setup.py", "examples/tests/setup.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(build)
    assert "setup.py" not in run(".")[1]
    output = run("examples")[1]
    assert "examples/setup.py" in output and "examples/tests" not in output


def test_the_extra_that_it_needs_is_named(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.modules['tree_sitter'] = None\n"
         f"sys.argv[1:] = ['port', {str(tmp_path)!r}]\n"
         "from torch_stable_abi import cli; sys.exit(cli.main())"],
        text=True, capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "common/abi")})
    assert done.returncode == 2
    assert done.stderr == ("torch-stable-abi: port needs tree_sitter: pip install "
                           "'torch-stable-abi[port]'\n")


def test_diff_is_a_patch(project):
    folder, run = project
    patch = run("op.cpp", "--diff")[1]
    subprocess.run(["git", "-C", folder, "apply"], input=patch, text=True, check=True)
    assert "torch::stable::Tensor y" in (folder / "op.cpp").read_text()
