"""Compares the package's functions, on rows of all kinds, with formulas in float64:
the solution's tests/reference.py."""

import torch
from reference import NUMBERS, REFERENCE, assert_right

from places import point_at

# Other numbers than the ops' own, by name, and those that they take by default.
OTHERS = {"fatrelu_and_mul": {"threshold": 0.25},
          "silu_and_mul_with_clamp": {"limit": 1.5},
          "swigluoai_and_mul": {"alpha": 1.25, "limit": 2.5}}
DEFAULTS = {"fatrelu_and_mul": (0.0,), "swigluoai_and_mul": (1.702, 7.0)}


def check_functions(package):
    torch.manual_seed(0)
    for name in REFERENCE:
        for dtype in (torch.float, torch.half, torch.bfloat16):
            check_function(name, getattr(package, name), dtype)


def check_function(name, function, dtype):
    """Call the function with its numbers by name, then with its defaults, then by
    position."""
    numbers = OTHERS.get(name, {})
    values = tuple(numbers.values())
    wide = (torch.randn(4, 2, 24) * 5).to(dtype)

    def call_by_name(out, x):
        return function(out=out, x=x, **numbers)

    def call_by_place(out, x):
        return function(out, x, *values)

    for x in (wide, wide[..., ::2], wide[..., 1:9], wide.permute(2, 1, 0), wide[:0]):
        check_result(name, call_by_name, x, values)
    if name in DEFAULTS:
        check_result(name, function, wide, DEFAULTS[name])
        check_result(name, call_by_place, wide, values)


def check_result(name, call, x, numbers):
    NUMBERS[name] = numbers
    shape = REFERENCE[name](x.double(), *numbers).shape
    canvas = torch.full((*shape, 2), 9.0, dtype=x.dtype)
    said = f"{name}, called with x and out of {str(x.dtype)[6:]}, "
    place = point_at("torch-ext/activation/__init__.py", "")
    for out in (torch.empty(shape, dtype=x.dtype), canvas[..., 0]):
        returned = call(out, x)
        assert returned is out, said + "does not return out" + place
        try:
            assert_right(name, out, x)
        except AssertionError:
            raise AssertionError(
                said + "does not compute what its docstring says: for " +
                (f"x of {list(x.shape)} with strides {list(x.stride())} and "
                 f"out's {list(out.stride())}") + place) from None
    assert canvas[..., 1].eq(9).all(), said + "writes beside out" + place
