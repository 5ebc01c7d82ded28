"""Imports a package as the Hub's loader does: by its id, from its folder."""

import importlib.util
import sys

import torch

from names import FUNCTIONS

OTHER_KERNELS = []


def read_id(folder):
    """Return the id of the build: the library's name."""
    library, = folder.glob("*.abi3.so")
    return library.name.removesuffix(".abi3.so")


def find_package(name, folder):
    """Return the package as a module of that name, which has not run yet."""
    spec = importlib.util.spec_from_file_location(name, folder / "__init__.py")
    sys.modules[name] = importlib.util.module_from_spec(spec)
    return sys.modules[name]


def run_package(package):
    package.__spec__.loader.exec_module(package)


def define_other_kernels():
    """Define ops of other kernels, which have the names of this one's."""
    for namespace in ("activation", "_activation_cpu", "_activation_cpu_0000000"):
        other = torch.library.Library(namespace, "DEF")
        OTHER_KERNELS.append(other)  # or its ops end
        for name in FUNCTIONS:
            for op, schema in ((name, "(Tensor! out, Tensor input) -> ()"),
                               (f"{name}_functional", "(Tensor input) -> Tensor")):
                other.define(op + schema)
                other.impl(op, _fail, "CPU")


def _fail(*arguments):
    raise AssertionError("ops of another kernel are called, of the same names")
