"""A learner's mistakes, made on purpose: each gets its class, its line and one
sentence of help."""

import json

import pytest
from verdict import HELP

CPP = "headeronly_types.cpp"
ROUND = "  uint32_t bits = bit_cast<uint32_t>(value);\n"
SIZES = "  std::vector<int64_t> result = sizes.vec();\n"


def verdict_of(mine, kind, step, file, text):
    """Checks, and compares class, step and place with what is expected."""
    verdict = mine.check()
    assert verdict["class"] == kind, verdict
    assert verdict["step"] == step, verdict
    assert verdict["file"].endswith("/" + file), verdict
    assert verdict["line"] == mine.line_of(file, text), verdict
    assert HELP[kind]
    return verdict


def test_solution_passes(implementation):
    verdict = implementation("01").check()
    assert verdict["class"] == "pass", verdict
    assert set(verdict["steps"].values()) == {"pass"}


def test_missing_semicolon(implementation):
    mine = implementation("01")
    mine.replace("numerics.h", "constexpr float kMax = 57344;",
                 "constexpr float kMax = 57344")
    verdict = verdict_of(mine, "compile", "01.3", "numerics.h",
                         "value = value > kMax")
    assert "expected" in verdict["message"][0]


@pytest.mark.full
def test_error_that_nvcc_reports(implementation):
    import shutil
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc: python3 common/cuda/nvcc.py --fetch")
    mine = implementation("07")
    mine.replace("activation.cu", "cudaGetErrorString(", "cudaGetErrorText(")
    verdict = mine.check()
    assert verdict["class"] == "compile", verdict
    assert "cudaGetErrorText" in verdict["message"][0]
    assert verdict["line"] == mine.line_of("activation.cu", "cudaGetErrorText(")


@pytest.mark.full
def test_error_that_python_raises_in_a_build(implementation):
    mine = implementation("08")
    mine.replace("package.py", ".digest()).decode()", ".digest())")
    verdict = mine.check()
    assert verdict["class"] == "compile", verdict
    assert verdict["message"] == \
        ["TypeError: Object of type bytes is not JSON serializable"]
    assert verdict["file"].endswith("/package.py")


def test_undefined_symbol(implementation):
    mine = implementation("01")
    mine.replace("numerics.h", "// The nearest BFloat16, ties",
                 "uint32_t my_round(uint32_t bits);\n\n// The nearest BFloat16, ties")
    mine.replace("numerics.h", "  bits += 0x7fff + ((bits >> 16) & 1);",
                 "  bits = my_round(bits); // nobody defines it")
    verdict = mine.check()
    assert verdict["class"] == "load", verdict
    assert verdict["message"][0] == "undefined symbol: my_round(unsigned int)"
    assert verdict["line"] == mine.line_of(
        "numerics.h", "uint32_t my_round(uint32_t bits);")


def test_out_of_bounds_write(implementation):
    mine = implementation("01")
    mine.replace(CPP, "  result.back() /= 2;\n",
                 "  result.data()[result.size()] = 2; // past the end\n")
    verdict = verdict_of(mine, "sanitizer", "01.5", CPP, "past the end")
    assert verdict["message"][0] == "heap-buffer-overflow"


def test_dangling_reference(implementation):
    mine = implementation("01")
    mine.replace(CPP, "std::vector<int64_t> output_sizes(",
                 "IntHeaderOnlyArrayRef output_sizes(")
    verdict = mine.check()
    assert verdict["class"] == "sanitizer", verdict
    assert verdict["step"] == "01.5"
    assert "use-after-free" in verdict["message"][0]


def test_undefined_behaviour(implementation):
    mine = implementation("01")
    mine.replace("numerics.h", ROUND, ROUND +
                 "  volatile int far = static_cast<int>(bits >> 1) * 4; // too far\n"
                 "  (void)far;\n")
    verdict = verdict_of(mine, "sanitizer", "01.2", "numerics.h", "too far")
    assert "signed integer overflow" in verdict["message"][0]


def test_leak(implementation):
    mine = implementation("01")
    mine.replace(CPP, SIZES, "  auto* lost = new std::vector<int64_t>(sizes.vec());"
                 " // leaked\n  std::vector<int64_t> result = *lost;\n")
    verdict = verdict_of(mine, "leak", "01.5", CPP, "// leaked")
    assert "leak of" in verdict["message"][0]


def test_endless_loop(implementation, monkeypatch):
    import verdict
    monkeypatch.setattr(verdict, "CASE_SECONDS", 2)
    mine = implementation("01")
    mine.replace(CPP, SIZES, SIZES +
                 "  for (size_t i = 0; i < 8;) result[0] += 8; // for ever\n")
    verdict = verdict_of(mine, "timeout", "01.5", CPP, "for ever")
    assert verdict["message"] == ["no end after 2 s"]


def test_crash(implementation):
    mine = implementation("01")
    mine.replace(CPP, SIZES, SIZES +
                 "  volatile int64_t* nowhere = nullptr;\n"
                 "  __builtin_trap(); // the end\n  (void)nowhere;\n")
    verdict = verdict_of(mine, "crash", "01.5", CPP, "the end")
    assert "ILL" in verdict["message"][0]


def test_null_pointer(implementation):
    mine = implementation("01")
    mine.replace(CPP, SIZES, SIZES +
                 "  volatile int64_t* nowhere = nullptr;\n"
                 "  result[0] = *nowhere; // null\n")
    verdict = verdict_of(mine, "crash", "01.5", CPP, "// null")
    assert verdict["message"] == ["ended by SEGV, at a null pointer"]


@pytest.mark.parametrize("file, old, new, line, text", [
    ("silu_and_mul_backward.cpp", "LIBRARY_FRAGMENT(wb04, m)",
     "LIBRARY(wb04, m)", "m.def(\"silu", "ended by SEGV"),
    ("silu_and_mul_backward.cpp", "IMPL(wb04, CPU, m)",
     "IMPL(wb04, Cpu, m)", "TORCH_BOX(&silu_and_mul_backward)", "ended by SEGV"),
    ("boxed_kernels.cpp", "silu_and_mul(Tensor input) ->",
     "silu_and_mul(tensor input) ->", "LIBRARY(wb04, m)",
     "aoti_torch_library_def"),
])
def test_mistake_in_a_registration(implementation, file, old, new, line, text):
    mine = implementation("04")
    mine.replace(file, old, new)
    verdict = verdict_of(mine, "load", None, file, line)
    assert text in " ".join(verdict["message"])


def test_wrong_value(implementation):
    mine = implementation("01")
    mine.replace("numerics.h", "  bits += 0x7fff + ((bits >> 16) & 1);\n",
                 "  bits += 0x8000;\n")
    verdict = mine.check()
    assert (verdict["class"], verdict["step"]) == ("test", "01.2")
    assert any("values:" in line for line in verdict["message"])


def test_cmake_error(implementation):
    mine = implementation("01")
    mine.replace("CMakeLists.txt", "target_compile_features(",
                 "target_compile_feature(")
    verdict = mine.check()
    assert verdict["class"] == "configure", verdict
    assert verdict["line"] == mine.line_of(
        "CMakeLists.txt", "target_compile_feature(")
    assert implementation("01").check()["class"] == "pass"  # and mended


def test_json_and_exit_status(implementation, workbook):
    mine = implementation("01")
    done = workbook("check", "01", "--impl", mine.folder, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["class"] == "pass"
    mine.replace("numerics.h", "57344", "40000")
    done = workbook("check", "01.2", "--impl", mine.folder)
    assert done.returncode == 0, done.stdout  # 01.2 still passes
    done = workbook("check", "01.3", "--impl", mine.folder)
    assert done.returncode == 1
    last = done.stdout.strip().splitlines()[-1]
    assert "numerics.h:" in last and "./workbook check 01.3" in last
    assert max(map(len, done.stdout.splitlines()[:-1])) <= 80


@pytest.mark.parametrize("arguments, text", [
    (["check", "17"], "there is no chapter 17"),
    (["check", "01.9"], "chapter 01 has no step 01.9"),
    (["check", "--impl", "/tmp"], "--impl needs a chapter"),
    (["check", "01", "--impl", "/nowhere"], "/nowhere is no implementation"),
])
def test_bad_arguments(workbook, arguments, text):
    done = workbook(*arguments)
    assert done.returncode == 2
    assert text in done.stderr
