"""Lets the loader judge the layers, calls them, and puts one's forward into layers of
a model's own.

    python check_layers.py VARIANT"""

import sys
from pathlib import Path

import torch
from kernels.layer.layer import _validate_layer
from reference import NUMBERS, REFERENCE
from torch import nn

from check_gradients import check_gradient_of_layer, check_infinite, check_op
from check_threshold import check_own_threshold, check_replaced_layers
from import_package import define_other_kernels, find_package, read_id, run_package
from names import LAYERS
from places import point_at

FILE = "torch-ext/activation/layers.py"
PLAIN = {"getattr", "hasattr", "float"}


class Layer(nn.Module):
    """The layer of a model, as the loader compares it with the package's."""

    def forward(self, x):
        pass


def check_loader_takes(name, layer):
    try:
        _validate_layer(check_cls=Layer, cls=layer, repo=name)
    except TypeError as error:
        more = set(dir(layer)) - set(dir(nn.Module)) - {
            "can_torch_compile", "has_backward"}
        members = "members" in str(error)
        raise AssertionError(
            f"the loader says: {error}" +
            (f" They are: {', '.join(more)}." if members else "") +
            point_at(FILE, f"{min(more)} =" if members else "__init__")) from None
    assert getattr(layer, "can_torch_compile", False), \
        f"{name} has no can_torch_compile: a compiled model keeps its own layer"
    assert not getattr(layer.forward, "_torchdynamo_disable", False), \
        f"{name} has can_torch_compile, and its forward is kept out of the graph"
    assert getattr(layer, "has_backward", True), \
        f"{name} says that it has no gradient: a model in training keeps its own"


def list_names_in_a_call(build_id):
    """Return the names that a call of an op consists of."""
    return PLAIN | {"ops", "threshold"} | {
        n.split("::")[1] for n in torch._C._dispatch_get_all_op_names()
        if n.startswith(f"{build_id}::")}


def only_calls_an_op(forward, names, module, ops):
    """Return whether that can be seen of the code: a call of an op is one graph."""
    code, known = getattr(forward, "__code__", None), vars(module)
    return code and not code.co_freevars and set(code.co_names) <= names and \
        not any(isinstance(c, type(code)) for c in code.co_consts) and \
        forward.__globals__ is known and known.get("ops") is ops and \
        not PLAIN & set(known)


def check_one_graph(name, layer, in_a_call, module, ops):
    """Asks the compiler only of what may be more than a call: its import takes a
    second."""
    layer()(torch.randn(2, 8))
    if only_calls_an_op(layer.forward, in_a_call, module, ops):
        return
    try:
        torch.compile(layer(), fullgraph=True, backend="eager")(torch.randn(2, 8))
    except Exception as error:
        raise AssertionError(
            f"{name} has can_torch_compile, and is not one graph: " +
            str(error).strip().partition("\n")[0] +
            point_at(FILE, f"class {name}")) from None


def check_results(layers, ops):
    """Compare what layers and ops compute with formulas in float64."""
    NUMBERS.update(fatrelu_and_mul=(0.0,))
    torch.manual_seed(0)
    for name in LAYERS:
        check_gradient_of_layer(name, getattr(layers, name)())
    NUMBERS.update(fatrelu_and_mul=(0.25,), swigluoai_and_mul=(1.25, 2.5))
    for name in REFERENCE:
        for dtype in (torch.float, torch.half, torch.bfloat16):
            check_op(name, getattr(ops, f"{name}_functional"), dtype)
    check_infinite(ops)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    package = find_package(read_id(folder), folder)
    define_other_kernels()
    run_package(package)
    layers, ops = package.layers, sys.modules[f"{package.__name__}._ops"].ops
    in_a_call = list_names_in_a_call(package.__name__)
    for name in LAYERS:
        check_loader_takes(name, getattr(layers, name))
        check_one_graph(name, getattr(layers, name), in_a_call, layers, ops)
    check_results(layers, ops)
    check_replaced_layers(layers.FatreluAndMul.forward)
    check_own_threshold(layers.FatreluAndMul)
