"""What PyTorch has to be told about the ops of special.cpp in Python: import it when
the library is loaded."""

import torch

ops = torch.ops.special


#! [positive]
@torch.library.register_fake("special::positive")
def _(x):
    count = torch.library.get_ctx().new_dynamic_size()
    return x.new_empty(count)
#! [positive]


#! [first]
@torch.library.register_fake("special::first")
def _(x, n):
    return x.new_empty(n, *x.shape[1:])
#! [first]


#! [mul_out]
def mul(x, y, out=None):
    """What users call: with `out` or without, it returns the result."""
    if out is None:
        out = torch.empty_like(x)
    ops.mul_out(x, y, out)
    return out
#! [mul_out]


#! [triple_out]
# Keep the library: its schemas go when it is collected.
_library = torch.library.Library("special", "FRAGMENT")
_library.define(
    "triple.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
    tags=[torch.Tag.out] if hasattr(torch.Tag, "out") else [])
#! [triple_out]


#! [doubled]
@torch.library.custom_op("special_python::double", mutates_args=["x"])
def double(x: torch.Tensor) -> None:
    ops.double_(x)
#! [doubled]


#! [autocast]
torch.library.register_autocast("special::positive", "cpu", torch.float32)
torch.library.register_autocast("special::positive", "cuda", torch.float32)
#! [autocast]


#! [autograd]
def _setup(ctx, inputs, output):
    x, n = inputs
    ctx.rest = x.shape[0] - n


def _backward(ctx, grad):
    zeros = grad.new_zeros(ctx.rest, *grad.shape[1:])
    return torch.cat([grad, zeros]), None


torch.library.register_autograd("special::first", _backward, setup_context=_setup)
#! [autograd]


#! [functorch]
class _First(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, n):  # without ctx: setup_context is for that
        return ops.first(x, n)

    setup_context = staticmethod(_setup)
    backward = staticmethod(_backward)


def first(x, n):
    return _First.apply(x, n)
#! [functorch]


#! [vmap]
@torch.library.register_vmap("special::first")
def _(info, in_dims, x, n):
    """n is a number, so only x can have a batch: behind its other dimensions."""
    return ops.first(x.movedim(in_dims[0], -1), n), -1
#! [vmap]
