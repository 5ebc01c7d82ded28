"""solutions/04_boxed_kernels as what it is for: copied out, renamed, given
another op, installed into an environment of its own, and tested there."""

import re
import subprocess

import pytest

from base.building import compiler
from base.sheets import find_chapter
from support import (
    alone,
    bare_environment,
    build_alone,
    compiler_after,
    copy_solution,
    passed,
)

CHAPTER = find_chapter("04")


@pytest.fixture(scope="module")
def bin(tmp_path_factory):
    return bare_environment(tmp_path_factory.mktemp("environment"))


def install(bin, project, **environment):
    """Install the project as its README says, with the torch that is here."""
    alone(bin / "python", "-m", "pip", "install", "-q", "--no-build-isolation",
          ".[test]", cwd=project, **{"CXX": compiler(), **environment})


def own_tests(bin, project, *options):
    return passed(alone(bin / "python", "-m", "pytest", "-q", *options,
                        cwd=project))


# --- the template ---------------------------------------------------------------


@pytest.mark.full
def test_installs_and_passes_its_own_tests(bin, tmp_path):
    """The environment need not be activated: the python3 on the PATH may be one without
    torch."""
    other = tmp_path / "other/python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    folder = copy_solution(CHAPTER, tmp_path / "a folder with spaces")
    install(bin, folder, PATH=f"{other.parent}:/usr/bin:/bin")
    assert own_tests(bin, folder) > 30
    library, = bin.parent.glob(
        "lib/*/site-packages/boxed_kernels/libboxed_kernels.so")
    assert "RUNPATH" not in alone("readelf", "-d", library, cwd=folder)
    # One wheel does for every Python, for nothing of it is used.
    assert not re.search(r"\bPy", alone(
        "nm", "-D", "--undefined-only", library, cwd=folder))
    wheel, = bin.parent.glob("lib/*/site-packages/boxed_kernels-*/WHEEL")
    assert re.search(r"^Tag: py3-none-linux_", wheel.read_text(), re.M)


def test_a_python_without_torch_is_named(bin, tmp_path):
    python = bin.parent.parent / "bare/bin/python"
    alone("python3", "-m", "venv", "--without-pip", python.parent.parent,
          cwd=tmp_path)
    done = subprocess.run(
        ["cmake", "-S", CHAPTER.solution, "-B", tmp_path / "build",
         f"-DPython_EXECUTABLE={python}"], text=True, capture_output=True)
    assert done.returncode != 0
    text = " ".join(done.stderr.split())
    assert f"no torch of 2.10 or newer: TORCH_ROOT is '', Python is '{python}'" in text
    assert "pip install 'torch>=2.10'" in text


@pytest.mark.full
def test_renamed_it_lives_beside_the_first(bin, workbook, tmp_path):
    """./workbook new; then both are loaded into one process."""
    folder = tmp_path / "renamed"
    done = workbook("new", "my_ops", "--from", "04", folder)
    assert done.returncode == 0, done.stderr
    install(bin, folder)
    own_tests(bin, folder, "-k", "values or opcheck or error")
    install(bin, copy_solution(CHAPTER, tmp_path / "first"))
    alone(bin / "python", "-c",
          "import torch, my_ops, boxed_kernels as b; x = torch.randn(2, 8);"
          "assert my_ops.ops.silu_and_mul(x).equal(b.ops.silu_and_mul(x))",
          cwd=folder)


# --- another op: one file of C++, one test ------------------------------------------

ADD_SCALED = """\
#include "checked_box.h"
#include "checks.h"
#include "dispatch.h"
#include "outputs.h"
#include "parallel.h"

STABLE_TORCH_LIBRARY(wb04, m) {
  m.def("add_scaled(Tensor input, Tensor other, float alpha=1.0) -> Tensor");
}

namespace wb {
namespace {

Tensor add_scaled(const Tensor& input, const Tensor& other, double alpha) {
  const TensorInfo info(input);
  const int64_t columns = info.sizes.empty() ? 1 : info.sizes.back();
  check_rows("other", TensorInfo(other), info, columns);
  const Tensor a = as_contiguous(input), b = as_contiguous(other);
  Tensor out = empty_contiguous(input);
  dispatch(a.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const T* x = static_cast<const T*>(a.const_data_ptr());
    const T* y = static_cast<const T*>(b.const_data_ptr());
    T* z = static_cast<T*>(out.mutable_data_ptr());
    for_each_piece(1, a.numel(), [&](int64_t, int64_t first, int64_t n) {
      for (int64_t i = first; i < first + n; ++i) {
        z[i] = static_cast<T>(
            static_cast<C>(x[i]) + static_cast<C>(alpha) * static_cast<C>(y[i]));
      }
    });
  });
  return out;
}

Tensor add_scaled_meta(const Tensor& input, const Tensor&, double) {
  return empty_contiguous(input);
}

} // namespace
} // namespace wb

STABLE_TORCH_LIBRARY_IMPL(wb04, CPU, m) {
  m.impl("add_scaled", CHECKED_BOX(&wb::add_scaled));
}
STABLE_TORCH_LIBRARY_IMPL(wb04, Meta, m) {
  m.impl("add_scaled", CHECKED_BOX(&wb::add_scaled_meta));
}
"""

TEST_ADD_SCALED = """\
import pytest
import torch

from boxed_kernels import ops
from contract import Contract


class TestAddScaled(Contract):
    op = ops.add_scaled.default

    def arguments(self, x):
        return x, x * x, 0.5

    def expected(self, x, y, alpha):
        return x + alpha * y


def test_errors():
    with pytest.raises(RuntimeError, match="other"):
        ops.add_scaled(torch.randn(2, 4), torch.randn(2, 5))
"""

RMS_NORM = """\
#include "checked_box.h"
#include "checks.h"
#include "dispatch.h"
#include "outputs.h"
#include "parallel.h"

#include <cmath>
#include <tuple>
#include <vector>

STABLE_TORCH_LIBRARY(wb04, m) {
  m.def("rms_norm(Tensor input, Tensor weight, float eps=1e-6) -> Tensor");
  m.def(
      "rms_norm_backward(Tensor grad, Tensor input, Tensor weight, float eps) "
      "-> (Tensor, Tensor)");
}

namespace wb {
namespace {

void check_weight(const Tensor& weight, const TensorInfo& input) {
  const TensorInfo info(weight);
  STD_TORCH_CHECK(
      !input.sizes.empty() && info.dtype == input.dtype &&
          info.sizes.equals({input.sizes.back()}),
      "weight must be [columns] of input ",
      to_string(input.sizes),
      ", got ",
      to_string(info.sizes));
}

template <typename T>
compute_t<T> inverse_rms(const T* x, int64_t columns, double eps) {
  compute_t<T> sum = 0;
  for (int64_t i = 0; i < columns; ++i) {
    const auto value = static_cast<compute_t<T>>(x[i]);
    sum += value * value;
  }
  return 1 / std::sqrt(
      sum / static_cast<compute_t<T>>(columns) +
      static_cast<compute_t<T>>(eps));
}

Tensor rms_norm(const Tensor& input, const Tensor& weight, double eps) {
  check_weight(weight, TensorInfo(input));
  const Tensor in = as_contiguous(input), w = as_contiguous(weight);
  Tensor out = empty_contiguous(input);
  const int64_t columns = in.size(-1);
  const int64_t rows = columns == 0 ? 0 : in.numel() / columns;
  dispatch(in.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const T* x = static_cast<const T*>(in.const_data_ptr());
    const T* g = static_cast<const T*>(w.const_data_ptr());
    T* y = static_cast<T*>(out.mutable_data_ptr());
    for_each_row(rows, columns, [&](int64_t row) {
      const C scale = inverse_rms(x + row * columns, columns, eps);
      for (int64_t i = 0; i < columns; ++i) {
        y[row * columns + i] = static_cast<T>(
            static_cast<C>(x[row * columns + i]) * scale * static_cast<C>(g[i]));
      }
    });
  });
  return out;
}

std::tuple<Tensor, Tensor> rms_norm_backward(
    const Tensor& grad, const Tensor& input, const Tensor& weight, double eps) {
  const TensorInfo info(input);
  check_weight(weight, info);
  check_rows("grad", TensorInfo(grad), info, info.sizes.back());
  const Tensor dy = as_contiguous(grad), in = as_contiguous(input);
  const Tensor w = as_contiguous(weight);
  Tensor dx = empty_contiguous(input), dw = empty_contiguous(weight);
  const int64_t columns = in.size(-1);
  const int64_t rows = columns == 0 ? 0 : in.numel() / columns;
  dispatch(in.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const T* grads = static_cast<const T*>(dy.const_data_ptr());
    const T* x = static_cast<const T*>(in.const_data_ptr());
    const T* g = static_cast<const T*>(w.const_data_ptr());
    T* to = static_cast<T*>(dx.mutable_data_ptr());
    std::vector<C> sums(static_cast<size_t>(columns));
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t at = row * columns;
      const C scale = inverse_rms(x + at, columns, eps);
      C dot = 0;
      for (int64_t i = 0; i < columns; ++i) {
        const C product =
            static_cast<C>(grads[at + i]) * static_cast<C>(x[at + i]);
        dot += product * static_cast<C>(g[i]);
        sums[static_cast<size_t>(i)] += product * scale;
      }
      dot *= scale * scale / static_cast<C>(columns);
      for (int64_t i = 0; i < columns; ++i) {
        const C own = static_cast<C>(grads[at + i]) * static_cast<C>(g[i]);
        to[at + i] =
            static_cast<T>(scale * (own - dot * static_cast<C>(x[at + i])));
      }
    }
    for (int64_t i = 0; i < columns; ++i) {
      static_cast<T*>(dw.mutable_data_ptr())[i] =
          static_cast<T>(sums[static_cast<size_t>(i)]);
    }
  });
  return {dx, dw};
}

Tensor rms_norm_meta(const Tensor& input, const Tensor&, double) {
  return empty_contiguous(input);
}
std::tuple<Tensor, Tensor> rms_norm_backward_meta(
    const Tensor&, const Tensor& input, const Tensor& weight, double) {
  return {empty_contiguous(input), empty_contiguous(weight)};
}

} // namespace
} // namespace wb

STABLE_TORCH_LIBRARY_IMPL(wb04, CPU, m) {
  m.impl("rms_norm", CHECKED_BOX(&wb::rms_norm));
  m.impl("rms_norm_backward", CHECKED_BOX(&wb::rms_norm_backward));
}
STABLE_TORCH_LIBRARY_IMPL(wb04, Meta, m) {
  m.impl("rms_norm", CHECKED_BOX(&wb::rms_norm_meta));
  m.impl("rms_norm_backward", CHECKED_BOX(&wb::rms_norm_backward_meta));
}
"""

TEST_RMS_NORM = """\
import torch

from boxed_kernels import ops
from contract import Contract


class TestRmsNorm(Contract):
    op = ops.rms_norm.default
    differentiable = True
    shapes = [(8,), (3, 8), (2, 3, 34), (129, 512), (0, 8)]

    def arguments(self, x):
        return x, x.reshape(-1, x.shape[-1]).sum(0) + 2, 1e-3

    def expected(self, x, weight, eps):
        return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * weight


class TestBackward(Contract):
    op = ops.rms_norm_backward.default
    shapes = [(3, 8), (2, 3, 34)]

    def arguments(self, x):
        return x * 2 + 1, x, x.reshape(-1, x.shape[-1]).sum(0) + 2, 1e-3

    def expected(self, grad, x, weight, eps):
        x, weight = (a.detach().requires_grad_() for a in (x, weight))
        out = TestRmsNorm().expected(x, weight, eps)
        return torch.autograd.grad(out, (x, weight), grad)
"""


@pytest.mark.full
@pytest.mark.parametrize("op, test, differentiable", [
    (ADD_SCALED, TEST_ADD_SCALED, None),
    (RMS_NORM, TEST_RMS_NORM, "rms_norm")], ids=["add_scaled", "rms_norm"])
@pytest.mark.inductor
def test_another_op_replaces_one_file_and_one_test(
        bin, tmp_path, op, test, differentiable):
    """And, as the README lists, one line of Python."""
    folder = copy_solution(CHAPTER, tmp_path / "other_op")
    (folder / "boxed_kernels.cpp").write_text(op)
    for old in ("silu", "swiglu"):
        for path in [*folder.glob(f"{old}*"), *folder.glob(f"tests/*{old}*")]:
            path.unlink()
    (folder / "tests/test_op.py").write_text(test)
    python = folder / "python/boxed_kernels/__init__.py"
    line = '_register_gradient("silu_and_mul")\n'
    assert python.read_text().count(line) == 1
    python.write_text(python.read_text().replace(
        line, line.replace("silu_and_mul", differentiable)
        if differentiable else ""))
    build_alone(folder, tmp_path / "build")  # without a warning
    install(bin, folder)
    assert own_tests(bin, folder) > 8


# --- what the compiler refuses ------------------------------------------------------

@pytest.fixture(scope="module")
def boxed(tmp_path_factory):
    """Return a function that compiles a kernel f and its registration."""
    header = CHAPTER.solution / "core/checked_box.h"
    compiled = compiler_after(
        tmp_path_factory.mktemp("boxed"), f'#include "{header}"\n#include <array>\n',
        "-Wall", "-Wextra", "-Werror")
    return lambda kernel: compiled(f"""
        using torch::stable::Tensor;
        {kernel}
        STABLE_TORCH_LIBRARY_IMPL(ns, CPU, m) {{ m.impl("f", CHECKED_BOX(&f)); }}
        """)


@pytest.mark.parametrize("kernel, text", [
    ("void f(Tensor, float) {}", "use double"),
    ("void f(Tensor, std::optional<float>) {}", "use double"),
    ("void f(Tensor, const std::vector<float>&) {}", "use double"),
    ("void f(Tensor, int) {}", "use int64_t"),
    ("void f(Tensor, int32_t) {}", "use int64_t"),
    ("void f(Tensor, uint64_t) {}", "use int64_t"),
    ("void f(Tensor, std::vector<int>) {}", "use int64_t"),
    ("void f(Tensor, std::optional<std::vector<int>>) {}", "use int64_t"),
    ("void f(Tensor, const char*) {}", "use std::string"),
    ("void f(Tensor, std::array<int64_t, 3>) {}", "a list is std::vector<T>"),
    ("float f(Tensor) { return 0; }", "use double"),
    ("std::tuple<Tensor, int> f(Tensor t) { return {t, 0}; }", "use int64_t"),
    ("Tensor& f(Tensor& t) { return t; }", "by value"),
])
def test_a_type_that_no_schema_has_is_refused(boxed, kernel, text):
    done = boxed(kernel)
    assert done.returncode != 0
    assert text in re.search("static assertion failed: (.*)", done.stderr)[1]


def test_the_types_of_schemas_are_taken(boxed):
    done = boxed("""
        std::tuple<Tensor, double, std::vector<int64_t>> f(
            Tensor a, Tensor&, const Tensor&, bool, int64_t, double,
            const std::string&, std::string_view, c10::ScalarType,
            c10::Layout, c10::MemoryFormat, torch::stable::Device,
            std::optional<Tensor>, const std::optional<double>&,
            std::vector<Tensor>, torch::headeronly::IntHeaderOnlyArrayRef,
            std::optional<std::vector<int64_t>>) { return {a, 0.0, {}}; }
        """)
    assert done.returncode == 0, done.stderr
