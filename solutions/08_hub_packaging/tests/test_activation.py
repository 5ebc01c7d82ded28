"""Values, shapes, strides and errors of every op."""

import pytest
import torch
from reference import (NUMBERS, REFERENCE, assert_right, bound, exact,
                       has_halves, ulps)

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
EACH_OP = pytest.mark.parametrize("name", REFERENCE)
EACH_DTYPE = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def call(activation, name, x):
    shape = list(x.shape)
    if has_halves(name):
        shape[-1] //= 2
    out = torch.empty(shape, dtype=x.dtype, device=x.device)
    function = getattr(activation, name)
    assert function(out, x, *NUMBERS.get(name, ())) is out
    return out


def with_gates(name, gates, ups):
    if not has_halves(name):
        return gates
    if name == "swigluoai_and_mul":
        return torch.stack((gates, ups), -1).flatten()
    return torch.cat((ups, gates) if name == "mul_and_silu" else (gates, ups))


@pytest.mark.kernels_ci
@EACH_OP
@EACH_DTYPE
def test_every_gate_is_rounded_once(activation, device, name, dtype):
    """It takes all finite gates of 16 bits, and many of float."""
    if dtype == torch.float32:
        generator = torch.Generator().manual_seed(0)
        gates = torch.cat((torch.linspace(-120, 100, 100001),
                           torch.randn(100001, generator=generator) * 4))
    else:
        bits = torch.arange(65536, dtype=torch.int32).to(torch.int16)
        gates = bits.view(dtype)
        gates = gates[gates.isfinite()]
    ups = torch.randn(gates.shape, generator=torch.Generator().manual_seed(1))
    for up in (torch.ones_like(ups), ups):
        x = with_gates(name, gates, up.to(dtype))
        assert_right(name, call(activation, name, x.to(device)), x)
        if not has_halves(name):
            break


@EACH_OP
@EACH_DTYPE
def test_inf_and_nan(activation, device, name, dtype):
    special = torch.tensor([torch.inf, -torch.inf, torch.nan, 0, -0.0, 1, -1])
    gates = special.repeat_interleave(7).to(dtype)
    x = with_gates(name, gates, special.repeat(7).to(dtype))
    got = call(activation, name, x.to(device)).cpu().double()
    want = exact(name, x).to(dtype).double()
    assert torch.equal(got.isnan(), want.isnan())
    torch.testing.assert_close(got, want, equal_nan=True, rtol=1e-2, atol=1e-2)


@EACH_DTYPE
def test_a_threshold_is_a_float(activation, device, dtype):
    """A value that equals the threshold in float is not above it, as in PyTorch."""
    x = torch.full((1, 80), 0.1).to(device, dtype)
    kept = x[:, :40].float() > torch.tensor(0.1)
    got = torch.empty_like(x[:, :40])
    activation.fatrelu_and_mul(got, x, 0.1)
    assert torch.equal(got != 0, kept)


def test_a_limit_is_a_float(activation, device):
    got = torch.empty(1, 40, device=device)
    x = torch.full((1, 80), 9.0, device=device)
    activation.silu_and_mul_with_clamp(got, x, 0.3)
    limit = torch.tensor(0.3).double()
    want = limit * torch.sigmoid(limit) * limit
    assert ulps(got.cpu(), want.expand(1, 40)) <= bound(
        "silu_and_mul_with_clamp", torch.float32, device)


SHAPES = [(0,), (2,), (6,), (34,), (1, 2), (3, 0), (0, 8), (5, 0, 8), (5, 14),
          (7, 2, 130), (2, 3, 5, 66), (3, 2050)]


@EACH_OP
@EACH_DTYPE
def test_shapes_and_strides(activation, device, name, dtype):
    for shape in SHAPES:
        whole = torch.randn(*shape[:-1], 3 * shape[-1] + 1).to(device, dtype)
        every_third = whole[..., :-1:3]
        columns = torch.randn(shape[::-1]).to(device, dtype).permute(
            *reversed(range(len(shape))))
        slice_of_rows = whole[..., 1:1 + shape[-1]]
        expanded = torch.randn(shape[-1]).to(device, dtype).expand(shape)
        for x in (every_third.contiguous(), every_third, columns,
                  slice_of_rows, expanded):
            got = call(activation, name, x)
            assert_right(name, got, x)
            assert torch.equal(got, call(activation, name, x.contiguous()))
            # An `out` with gaps: what lies between is not touched.
            canvas = torch.full((*got.shape, 2), 7.0).to(device, dtype)
            getattr(activation, name)(
                canvas[..., 0], x, *NUMBERS.get(name, ()))
            assert torch.equal(canvas[..., 0], got)
            assert torch.equal(canvas[..., 1], torch.full_like(got, 7))


@EACH_DTYPE
def test_large_results_are_written_past_the_cache(activation, device, dtype):
    """Several threads write them, from addresses that are not aligned."""
    for rows, d in ((3, 1_200_001), (1001, 3001)):
        x = torch.randn(rows, 2 * d).to(device, dtype)
        got = call(activation, "silu_and_mul", x)
        assert_right("silu_and_mul", got, x)
        buffer = torch.zeros(rows * d + 2, dtype=dtype, device=device)
        out = buffer[1:-1].view(rows, d)
        activation.silu_and_mul(out, x)
        assert torch.equal(out, got) and buffer[0] == 0 and buffer[-1] == 0


@EACH_OP
def test_in_place(activation, device, name):
    if not has_halves(name):
        x = torch.randn(5, 37, device=device)
        want = call(activation, name, x)
        assert torch.equal(getattr(activation, name)(x, x), want)


# What kernels-community/activation asks of its ops that are not gated. Of those
# that are it asks for PyTorch's own bits, which round twice.
TOLERANCE = {torch.float16: (1e-3, 1e-3), torch.bfloat16: (1e-3, 1.6e-2),
             torch.float32: (1e-5, 1.3e-6)}


@EACH_OP
@EACH_DTYPE
def test_the_originals_tolerances(activation, device, name, dtype):
    for tokens in (7, 83):
        x = torch.randn(tokens, 2 * 512, dtype=dtype).to(device)
        atol, rtol = TOLERANCE[dtype]
        torch.testing.assert_close(
            call(activation, name, x).cpu(), exact(name, x.cpu()).to(dtype),
            atol=atol, rtol=rtol)


@pytest.mark.parametrize("columns, call, words", [
    (2, lambda x: x, ["out", "[2, 6]", "3", "[2, 2]"]),
    (3, lambda x: x.double(), ["out", "Double", "Float"]),
    (2, lambda x: x[:, :5], ["input", "even", "[2, 5]"])])
def test_an_error_says_what_came(activation, device, columns, call, words):
    x = call(torch.randn(2, 6, device=device))
    out = torch.empty(2, columns, device=device)
    with pytest.raises(RuntimeError) as error:
        activation.silu_and_mul(out, x)
    for word in words:
        assert word in str(error.value)


def test_a_negative_limit_is_refused(activation, device):
    x = torch.randn(2, 6, device=device)
    with pytest.raises(RuntimeError, match="limit must not be negative, got -1"):
        activation.silu_and_mul_with_clamp(x[:, :3].contiguous(), x, -1.0)


def test_another_dtype_is_refused(activation, device):
    x = torch.ones(2, 6, dtype=torch.float64, device=device)
    with pytest.raises(RuntimeError, match="input must be Float.*got Double"):
        activation.silu_and_mul(x[:, :3].contiguous(), x)
