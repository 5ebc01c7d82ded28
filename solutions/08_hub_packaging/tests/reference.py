"""What the ops compute, in float64, and how far a result is from it."""

import torch
from torch.nn import functional as F


def _gelu(x):
    return x * torch.special.erfc(-x * 0.5**0.5) / 2


def _gelu_tanh(x):
    # As a sigmoid, since 1 + tanh loses the left tail's digits.
    return x * torch.sigmoid(2 * (2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))


def _fatrelu(x, threshold=0.0):  # 0 for NaN
    return torch.where(x > threshold, x, torch.zeros_like(x))


def _halves(function, swapped=False):
    def call(x, *numbers):
        gate, up = x.chunk(2, -1)
        if swapped:
            gate, up = up, gate
        return function(gate, *numbers) * up
    return call


def _with_clamp(x, limit):
    gate, up = x.chunk(2, -1)
    return F.silu(gate.clamp(max=limit)) * up.clamp(-limit, limit)


def _swigluoai(x, alpha=1.702, limit=7.0):
    gate, up = x[..., ::2].clamp(max=limit), x[..., 1::2].clamp(-limit, limit)
    return gate * torch.sigmoid(alpha * gate) * (up + 1)


REFERENCE = {
    "silu_and_mul": _halves(F.silu),
    "mul_and_silu": _halves(F.silu, swapped=True),
    "gelu_and_mul": _halves(_gelu),
    "gelu_tanh_and_mul": _halves(_gelu_tanh),
    "fatrelu_and_mul": _halves(_fatrelu),
    "silu_and_mul_with_clamp": _with_clamp,
    "swigluoai_and_mul": _swigluoai,
    "silu": F.silu,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "gelu_new": _gelu_tanh,
    "gelu_fast": _gelu_tanh,
    "gelu_quick": lambda x: x * torch.sigmoid(1.702 * x),
}
NUMBERS = {"fatrelu_and_mul": (0.25,), "silu_and_mul_with_clamp": (1.5,),
           "swigluoai_and_mul": (1.702, 7.0)}


def has_halves(name):
    return "_and_" in name


def exact(name, x):
    return REFERENCE[name](x.double(), *NUMBERS.get(name, ()))


def bound(name, dtype, device, tiny=False):
    """Return how far a result may be off, in ulp. Of 16 bits: the last rounding,
    and hardly more; of float: what its exp and erfc are allowed comes on top."""
    if name == "fatrelu_and_mul":
        return 0.51
    if dtype != torch.float32:
        return 0.55
    gelu = name in ("gelu", "gelu_and_mul")
    if tiny:
        return 10 if gelu else 8
    return 8 if gelu or device == "cuda" else 4


def ulps(got, want, smallest=None):
    """Return the largest distance in units of the last place. What is beyond the
    dtype's largest number must be infinite, and NaN must be NaN. What is below
    `smallest` is measured in units of that."""
    info = torch.finfo(got.dtype)
    smallest = torch.full_like(want, smallest or info.smallest_normal)
    _, exponent = torch.frexp(torch.maximum(want.abs(), smallest))
    unit = torch.ldexp(torch.full_like(want, info.eps), exponent.double() - 1)
    got = got.double()
    assert torch.equal(got.isnan(), want.isnan())
    finite = want.abs() <= info.max
    beyond = want.abs() >= info.max + unit
    assert torch.equal(got[beyond], want[beyond].sign() * torch.inf)
    distance = ((got - want).abs() / unit)[finite]
    return distance.max().item() if distance.numel() else 0.0


def assert_right(name, got, x):
    """Check the error of a result. exp is 0 or infinite where a result in float is
    tiny, as it is in PyTorch's own ops: below 2^-96, and more so below 2^-100, the
    error is an absolute one."""
    want, device = exact(name, x.cpu()), got.device.type
    is_float = got.dtype == torch.float32
    for tiny, smallest in ((False, 2.0**-96), (True, 2.0**-100)):
        distance = ulps(got.cpu(), want, smallest if is_float else None)
        assert distance <= bound(name, got.dtype, device, tiny)
