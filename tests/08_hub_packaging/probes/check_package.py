"""Imports the package beside other kernels, calls it, and imports it where its library
cannot be loaded.

    python check_package.py VARIANT FOLDER"""

import ctypes
import importlib
import os
import shutil
import sys
import traceback
import types
from pathlib import Path

import torch

from check_functions import check_functions
from import_package import define_other_kernels, find_package, read_id, run_package
from names import FUNCTIONS
from places import point_at

INIT = "torch-ext/activation/__init__.py"
OPS = "torch-ext/activation/_ops.py.in"


def describe_process():
    return {"sys.getdlopenflags()": sys.getdlopenflags(), "sys.path": [*sys.path],
            "the folder": os.getcwd(),
            "torch's default dtype": torch.get_default_dtype(),
            "torch's threads": torch.get_num_threads(),
            "torch's grad mode": torch.is_grad_enabled()}


def check_import(package):
    before = describe_process()
    try:
        run_package(package)
    finally:  # what is wrong with _ops.py is the cause of what was raised
        check_ops_module(package.__name__)
    changed = [what for what, value in describe_process().items()
               if value != before[what]]
    assert not changed, \
        f"after the import {changed[0]} is another, for the whole process"
    assert not hasattr(ctypes.CDLL(None), f"PyInit_{package.__name__}"), \
        "all libraries find the functions of this one: it is not for others, so load " \
        "it without RTLD_GLOBAL"


def check_ops_module(build_id):
    there = f"{build_id}::silu_and_mul" in torch._C._dispatch_get_all_op_names()
    module = sys.modules.get(f"{build_id}._ops")
    if module and not there:
        raise AssertionError(
            "_ops.py does not import the library beside it: no op is registered"
        ) from None
    ops = getattr(module, "ops", None)
    if module and ops is not getattr(torch.ops, build_id):
        raise AssertionError(
            f"ops in _ops.py is {getattr(ops, '__name__', ops)}, and should be "
            "torch.ops.@ID@" + point_at(OPS, "ops =")) from None


def check_prefix(build_id):
    module = sys.modules.get(f"{build_id}._ops")
    for op in ("silu", "silu_of_python"):  # the second is yet to be registered
        try:
            what = f"is {module.add_op_namespace_prefix(op)!r}"
        except Exception as error:
            what = f"ends in {type(error).__name__}"
        assert what == f"is {f'{build_id}::{op}'!r}", \
            f'add_op_namespace_prefix("{op}") {what}, and should be "@ID@::{op}"' + (
                "" if op == "silu" else ", for an op that Python is to register") + \
            point_at(OPS, "def add_op_namespace_prefix")


def check_promise(package):
    want, have = {*FUNCTIONS, "layers"}, set(package.__all__)
    assert want == have, "; ".join(
        f"__all__ {says} {', '.join(sorted(names))}" for says, names in
        (("lacks", want - have), ("should not have", have - want)) if names) + \
        point_at(INIT, "")
    twice = {n for n in have if package.__all__.count(n) > 1}
    assert not twice, \
        f"__all__ has {', '.join(sorted(twice))} twice" + point_at(INIT, "")


def check_call(package):
    out, x = torch.empty(2, 4), torch.randn(2, 8)
    assert package.silu_and_mul(out, x) is out, \
        "silu_and_mul does not return out" + point_at(INIT, "")
    assert torch._C._dispatch_has_kernel_for_dispatch_key(
        f"{package.__name__}::silu_functional", "Autograd"), \
        "no op has a gradient: does __init__.py import _autograd?" + \
        point_at(INIT, "import _auto")


def check_other_names(package, folder):
    """Import the ops in a package of another name, and check that nothing asks for the
    name `activation`."""
    other = sys.modules["other"] = types.ModuleType("other")
    other.__path__ = [str(folder)]
    found = importlib.import_module("other._ops").ops
    assert found is sys.modules[f"{package.__name__}._ops"].ops, \
        f"in a package that is imported as other, ops is {found.__name__}, and " \
        "should be torch.ops.@ID@ as before" + point_at(OPS, "ops =")
    foreign = {m for m in sys.modules if m.split(".")[0] == "activation"}
    assert not foreign, \
        "the package was imported by the fixed name activation" + point_at(INIT, "")


def check_error_of_library(folder, copy):
    """Import a copy whose library cannot be loaded, as where it needs a newer glibc
    than there is."""
    shutil.copytree(folder, copy)
    (copy / f"{read_id(folder)}.abi3.so").write_bytes(b"no library" * 100)
    text = "nothing"
    try:
        run_package(find_package("copy_", copy))
    except Exception:
        text = traceback.format_exc()
    assert "invalid ELF header" in text, \
        "where the library cannot be loaded, the import of the package does not say " \
        f"why; it says {text.strip().splitlines()[-1]}" + point_at(OPS, "import")


if __name__ == "__main__":
    folder, empty = map(Path, sys.argv[1:])
    package = find_package(read_id(folder), folder)
    define_other_kernels()
    check_import(package)
    check_prefix(package.__name__)
    check_promise(package)
    check_call(package)
    check_functions(package)
    check_other_names(package, folder)
    check_error_of_library(folder, empty / "copy")
