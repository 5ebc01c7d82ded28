"""new --bare: the core of a template builds alone, and its op can be replaced
by changing one file of C++ and one test."""

import hashlib
import importlib.util
import json
import os
import re
import shutil

import pytest

from base import nvcc
from base.project import ROOT
from base.requirements import install
from hub.packages import read_id
from hub.processes import ENVIRONMENT
from hub.symbols import list_visible
from support import PYTHON, alone, bare_environment, build_alone, passed, passes


def made(workbook, number, folder, *options):
    done = workbook("new", "my_ops", "--from", number, "--bare", *options, folder)
    assert done.returncode == 0, done.stderr
    assert "is made" in done.stdout and "pytest" in done.stdout
    left = {path.name for path in folder.rglob("*")}
    assert {"LICENSE", ".gitignore", "README.md"} <= left
    assert not any(re.search("silu|swiglu|gelu", name) for name in left)
    return folder


@pytest.mark.parametrize("number", ["04", "07", "08"])
def test_little_is_to_be_replaced(workbook, number, tmp_path):
    """A bare template that gets another op: no file goes, and few are edited."""
    folder = made(workbook, number, tmp_path / "mine")
    of_the_op = [path for path in folder.rglob("*") if path.is_file() and
                 path.suffix in (".cpp", ".cu", ".h", ".py") and
                 "add_scaled" in path.read_text()]
    lines = sum(1 if path.match("python/*/*") else  # that with the op's name
                len(path.read_text().splitlines()) for path in of_the_op)
    assert len(of_the_op) <= 6 and lines <= 250, (lines, of_the_op)


def test_cuda_is_an_option_of_08(workbook, tmp_path):
    folder = made(workbook, "08", tmp_path / "mine", "--cuda")
    (folder / "my_ops_cuda/core/plan.h").unlink()
    record = json.loads((folder / ".core.json").read_text())
    del record["files"]["my_ops_cuda/core/plan.h"]
    (folder / ".core.json").write_text(json.dumps(record))
    assert "my_ops_cuda/core/plan.h is new" in workbook(
        "new", "--update", folder).stdout
    for options in (["08"], ["07", "--bare"], ["08", "--wrap", folder]):
        done = workbook("new", "x_y", tmp_path / "other", "--cuda", "--from", *options)
        assert done.returncode == 2 and "--cuda goes with" in done.stderr, options


def test_core_is_brought_up_to_date(workbook, tmp_path):
    """A file that was not edited is written; one that was is left, and the change is
    shown."""
    folder = made(workbook, "08", tmp_path / "mine")
    old, edited, gone = (folder / "torch-ext/core" / name for name in (
        "sizes.h", "checks.h", "dispatch.h"))
    now = {path: path.read_text() for path in (old, edited, gone)}
    record = json.loads((folder / ".core.json").read_text())
    old.write_text("// of an older template\n")
    record["files"]["torch-ext/core/sizes.h"] = hashlib.sha256(
        old.read_bytes()).hexdigest()
    edited.write_text(now[edited].replace("namespace my_ops {", "namespace mine {"))
    record["files"]["torch-ext/core/checks.h"] = "another"
    gone.unlink()
    del record["files"]["torch-ext/core/dispatch.h"]  # older ones had none
    (folder / ".core.json").write_text(json.dumps(record))

    done = workbook("new", "--update", folder)
    assert done.returncode == 0, done.stderr
    assert "sizes.h is updated" in done.stdout and "dispatch.h is new" in done.stdout
    assert "-namespace mine {\n+namespace my_ops {" in done.stdout
    assert old.read_text() == now[old] and gone.read_text() == now[gone]
    assert "namespace mine" in edited.read_text()
    again = workbook("new", "--update", folder)
    assert again.stdout.count("\n") == 1 and record["version"] in again.stdout


def test_a_folder_that_new_did_not_make_is_refused(workbook, tmp_path):
    done = workbook("new", "--update", tmp_path)
    assert done.returncode == 2 and "has no .core.json" in done.stderr
    for text in ("", "[]", '{"template": "04", "name": "x", "bare": 1}'):
        (tmp_path / ".core.json").write_text(text)
        done = workbook("new", "--update", tmp_path)
        assert done.returncode == 2 and ".core.json is damaged: it has no " in \
            done.stderr


@pytest.mark.full
@pytest.mark.inductor
def test_the_core_of_04(workbook, tmp_path):
    folder = made(workbook, "04", tmp_path / "mine")
    library = build_alone(folder, tmp_path / "build")
    shutil.copy(library, folder / "python/my_ops")
    bin = bare_environment(tmp_path / "environment")
    assert passed(alone(bin / "python", "-m", "pytest", "-q", cwd=folder,
                        PYTHONPATH=str(folder / "python"))) > 15


def built(folder, *options, tests="tests"):
    build_alone(folder, folder / "build", *options)
    repo = re.search(r'^repo-id = "(.*)"$', (folder / "build.toml").read_text(),
                     re.M)[1]
    return passed(passes(
        PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests,
        cwd=folder, env={**os.environ, **ENVIRONMENT,
                         "LOCAL_KERNELS": f"{repo}={folder}"}))


INIT = '''\
"""rms_norm, with a gradient."""

import torch

from ._ops import add_op_namespace_prefix, ops


def rms_norm(x, weight, eps=1e-6):
    return ops.rms_norm(x, weight, eps)


def _setup_context(ctx, inputs, output):
    *tensors, ctx.eps = inputs
    ctx.save_for_backward(*tensors)


def _backward(ctx, grad):
    return (*ops.rms_norm_backward(grad, *ctx.saved_tensors, ctx.eps), None)


torch.library.register_autograd(
    add_op_namespace_prefix("rms_norm"), _backward,
    setup_context=_setup_context)
__all__ = ["rms_norm"]
'''
TEST = '''\
import torch


def test_rms_norm(my_ops, ops):
    x = torch.randn(3, 8, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(8, dtype=torch.float64, requires_grad=True)
    arguments = (x, weight, 1e-3)
    want = x * (x.square().mean(-1, keepdim=True) + 1e-3).rsqrt() * weight
    torch.testing.assert_close(my_ops.rms_norm(*arguments), want)
    torch.library.opcheck(ops.rms_norm.default, arguments)
    assert torch.autograd.gradcheck(my_ops.rms_norm, arguments)
'''


@pytest.mark.full
def test_the_core_of_08_with_cuda(workbook, tmp_path):
    """Compiled, not run, where no GPU is."""
    compiler = nvcc.find()
    if compiler is None:
        pytest.skip("no nvcc: the CUDA variant is not made")
    install("hub")
    folder = made(workbook, "08", tmp_path / "mine", "--cuda")
    assert built(folder, "-DMY_OPS_CUDA=ON", "-DCMAKE_CUDA_ARCHITECTURES=90",
                 f"-DCMAKE_CUDA_COMPILER={compiler}", tests="tests/test_package.py")
    cuda, = folder.glob("build/torch-stable-abi210-cu*")
    library, = cuda.glob("*.so")
    assert list_visible(library) == {f"PyInit_{read_id(cuda)}"}


@pytest.mark.full
def test_the_core_of_08_and_another_op_in_it(workbook, tmp_path):
    """The same rms_norm as in template 04: its kernels fit this core too."""
    install("hub")  # its own tests load it as the Hub does
    folder = made(workbook, "08", tmp_path / "mine")
    assert built(folder) > 8
    spec = importlib.util.spec_from_file_location(
        "of_04", ROOT / "tests/04_boxed_kernels/test_python.py")
    of_04 = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(of_04)
    op = re.sub(r"\bwb\b", "my_ops", of_04.RMS_NORM)
    op = re.sub(r"(STABLE_TORCH_LIBRARY\w*)\(wb04",
                r"\1_EXPAND(TORCH_EXTENSION_NAME", op)
    op = op.replace('#include "parallel.h"',
                    '#include "parallel.h"\n#include "registration.h"', 1)
    (folder / "torch-ext/torch_binding.cpp").write_text(
        f"{op}\nREGISTER_EXTENSION(TORCH_EXTENSION_NAME)\n")
    (folder / "torch-ext/my_ops/_autograd.py").unlink()
    (folder / "torch-ext/my_ops/__init__.py").write_text(INIT)
    (folder / "tests/test_ops.py").write_text(TEST)
    assert built(folder) > 2
