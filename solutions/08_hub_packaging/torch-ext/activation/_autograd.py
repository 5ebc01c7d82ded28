"""The gradients of the ops that return a new tensor, by PyTorch's own ops."""

import torch

from ._ops import add_op_namespace_prefix

_aten = torch.ops.aten


def _silu(x):
    return _aten.silu(x), lambda g: _aten.silu_backward(g, x)


def _gelu(x):
    return _aten.gelu(x), lambda g: _aten.gelu_backward(g, x)


def _gelu_tanh(x):
    def backward(g):
        return _aten.gelu_backward(g, x, approximate="tanh")

    return _aten.gelu(x, approximate="tanh"), backward


def _sigmoid_of(x, alpha):
    """x * sigmoid(alpha * x)"""
    s = torch.sigmoid(alpha * x)
    return x * s, lambda g: g * s * (1 + alpha * x * (1 - s))


def _gelu_quick(x):
    return _sigmoid_of(x, 1.702)


def _halves(grad, x, activation, swapped=False):
    gate, up = x.chunk(2, -1)
    if swapped:
        gate, up = up, gate
    value, backward = activation(gate)
    parts = backward(grad * up), grad * value
    return torch.cat(parts[::-1] if swapped else parts, -1)


def _clamped(grad, gate, up, limit, activation, shift):
    """Of activation(min(gate, limit)) * (clamp(up, limit) + shift)."""
    value, backward = activation(gate.clamp(max=limit))
    clamped = up.clamp(-limit, limit)
    return (backward(grad * (clamped + shift)) * (gate <= limit),
            grad * value * (up.abs() <= limit))


def _fatrelu(grad, x, threshold):
    def activation(gate):
        kept = gate > threshold
        zero = torch.zeros_like(gate)  # for inf * 0 is NaN
        return (torch.where(kept, gate, zero),
                lambda g: torch.where(kept, g, zero))

    return _halves(grad, x, activation)


def _with_clamp(grad, x, limit):
    return torch.cat(_clamped(grad, *x.chunk(2, -1), limit, _silu, 0), -1)


def _swigluoai(grad, x, alpha, limit):
    parts = _clamped(grad, x[..., ::2], x[..., 1::2], limit,
                     lambda gate: _sigmoid_of(gate, alpha), 1)
    return torch.stack(parts, -1).flatten(-2)


_GRADIENTS = {
    "silu_and_mul": lambda g, x: _halves(g, x, _silu),
    "mul_and_silu": lambda g, x: _halves(g, x, _silu, swapped=True),
    "gelu_and_mul": lambda g, x: _halves(g, x, _gelu),
    "gelu_tanh_and_mul": lambda g, x: _halves(g, x, _gelu_tanh),
    "fatrelu_and_mul": _fatrelu,
    "silu_and_mul_with_clamp": _with_clamp,
    "swigluoai_and_mul": _swigluoai,
    "silu": lambda g, x: _silu(x)[1](g),
    "gelu": lambda g, x: _gelu(x)[1](g),
    "gelu_tanh": lambda g, x: _gelu_tanh(x)[1](g),
    "gelu_new": lambda g, x: _gelu_tanh(x)[1](g),
    "gelu_fast": lambda g, x: _gelu_tanh(x)[1](g),
    "gelu_quick": lambda g, x: _gelu_quick(x)[1](g),
}


def _register(name, gradient):
    def setup_context(ctx, inputs, output):
        x, *ctx.numbers = inputs
        ctx.save_for_backward(x)

    def backward(ctx, grad):
        x, = ctx.saved_tensors
        # In float, and rounded once, as forward is.
        result = gradient(grad.float(), x.float(), *ctx.numbers).to(x.dtype)
        return (result, *(None for _ in ctx.numbers))

    torch.library.register_autograd(
        add_op_namespace_prefix(f"{name}_functional"), backward,
        setup_context=setup_context)


for _name, _gradient in _GRADIENTS.items():
    _register(_name, _gradient)
