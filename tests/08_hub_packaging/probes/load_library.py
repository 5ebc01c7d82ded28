"""Imports a library alone, as Python does, before any file of its package is."""

import importlib.util
from importlib.machinery import ExtensionFileLoader

import torch


def read_id(library):
    """Return the id of the build: the library's name."""
    return library.name.removesuffix(".abi3.so")


def load_library(library):
    """Return the module that is in the library."""
    name = read_id(library)
    loader = ExtensionFileLoader(name, str(library))
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


def list_ops():
    return set(torch._C._dispatch_get_all_op_names())
