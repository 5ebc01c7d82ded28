"""Compares what a layer or an op computes, its gradient, and its result on Meta, with
formulas in float64: the solution's tests/reference.py."""

import re

import torch
from reference import NUMBERS, assert_right, exact, ulps

from places import point_at

OTHER_NAMES = {"FastGELU": "gelu_fast", "NewGELU": "gelu_new",
               "QuickGELU": "gelu_quick"}


def check_gradient_of_layer(layer, made):
    name = OTHER_NAMES.get(layer) or re.sub("(?<=.)([A-Z])", r"_\1", layer).lower()
    x = torch.randn(2, 8, 6).transpose(1, 2).requires_grad_()
    got = made(x)
    try:
        assert_right(name, got.detach(), x.detach())
    except AssertionError:
        raise AssertionError(f"{layer} does not compute {name}") from None
    place = point_at("torch-ext/activation/layers.py", "class " + layer)
    assert got.requires_grad, \
        f"{layer} says that it has a gradient, and its result has none" + place
    mine, = torch.autograd.grad(got.sum(), x)
    wide = x.detach().double().requires_grad_()
    right, = torch.autograd.grad(exact(name, wide).sum(), wide)
    assert ulps(mine, right, 0.25) <= 64, \
        f"the gradient of {layer} is not that of {name}" + place
    meta = made(x.detach().to("meta"))
    assert meta.shape == got.shape, \
        f"{layer} has a result of {list(meta.shape)} on Meta, and should have one " \
        f"of {list(got.shape)}" + place


def check_op(name, op, dtype):
    numbers = NUMBERS.get(name, ())
    # In quarters, so that some equal a threshold or a limit.
    x = (torch.randint(-16, 17, (2, 3, 40)) / 4).to(dtype).requires_grad_()
    got, wide = op(x, *numbers), x.detach().double().requires_grad_()
    weight = torch.randn(got.shape).to(dtype)
    said = f"the gradient of {name}, in {str(dtype)[6:]}, "
    assert got.requires_grad, said + "is missing"
    try:
        mine, = torch.autograd.grad(got, x, weight)
    except RuntimeError as error:
        raise AssertionError(f"{said}is refused: {error}") from None
    right, = torch.autograd.grad(exact(name, wide), wide, weight.double())
    assert ulps(mine, right, 0.25) <= (64 if dtype is torch.float else 0.51), \
        said + "is not that of what it computes, rounded once"
    meta = op(x.detach().to("meta"), *numbers)
    assert (meta.shape, meta.stride(), meta.dtype) == \
        (got.shape, got.stride(), dtype), \
        f"for torch.compile {name} has a result of {list(meta.shape)}, and " \
        f"should have one of {list(got.shape)}"


def check_infinite(ops):
    gates, ups = [-torch.inf, 0.25, 2.0, -1.0], [3.0, 5.0, torch.inf, torch.inf]
    x = torch.tensor([gates + ups], requires_grad=True)
    ops.fatrelu_and_mul_functional(x, 0.25).sum().backward()
    assert x.grad.tolist() == [[0.0, 0.0, torch.inf, 0.0, 0.0, 0.0, 2.0, 0.0]], \
        f"the gradient of fatrelu_and_mul is {x.grad.tolist()[0]} for gates {gates} " \
        f"and ups {ups}: what is not kept has none, though something be infinite"
