"""The test that every step passes: pytest test_rowops.py, with the library to
be tested in ROWOPS_LIBRARY."""

import os

import pytest
import torch

torch.ops.load_library(os.environ["ROWOPS_LIBRARY"])
ops = torch.ops.rowops
close = torch.testing.assert_close
FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


def normed(input, weight=None, eps=1e-6):
    x = input.double()
    x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    return (x if weight is None else x * weight.double()).to(input.dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(8,), (3, 5), (0, 4), (3, 0), (200, 300)])
def test_rms_norm(shape, dtype):
    torch.manual_seed(0)
    input, weight = (torch.randn(s, dtype=dtype) for s in (shape, shape[-1:]))
    close(ops.rms_norm(input), normed(input))
    close(ops.rms_norm(input, weight, 0.5), normed(input, weight, 0.5))
    out = torch.empty_like(input)
    assert ops.rms_norm.out(input, weight, out=out) is out
    close(out, normed(input, weight))


def test_segment_sum():
    torch.manual_seed(0)
    offsets = torch.tensor([0, 2, 2, 5, 9])
    for values in (torch.randn(9, 3), torch.randn(3, 9).double().t()):
        want = [values[a:b].sum(0) for a, b in zip(offsets, offsets[1:])]
        close(ops.segment_sum(values, offsets), torch.stack(want))
    assert ops.segment_sum(torch.ones(2, 3), torch.tensor([1])).shape == (0, 3)


def test_row_share():
    input = torch.rand(4, 3, 7)
    close(ops.row_share(input), input / input.sum(-1, keepdim=True))


@pytest.mark.parametrize("call, text", [
    (lambda: ops.rms_norm(torch.ones(2, 3), torch.ones(2)),
     r"weight must be \[3\] of Float, got \[2\] of Float"),
    (lambda: ops.rms_norm(torch.ones(2, 3, dtype=torch.int32)),
     "not implemented for 'Int'"),
    (lambda: ops.rms_norm.out(torch.ones(2, 3), out=torch.ones(3, 2)),
     r"out must be contiguous and as input, \[2, 3\], got \[3, 2\]"),
    (lambda: ops.segment_sum(torch.ones(3), torch.tensor([0, 3])),
     r"values must be \[n, d\] and offsets \[s \+ 1\], got \[3\] and \[2\]"),
    (lambda: ops.segment_sum(torch.ones(3, 1), torch.tensor([0.0, 3.0])),
     "offsets must be Long, got Float"),
    (lambda: ops.segment_sum(torch.ones(3, 1), torch.tensor([0, 4])),
     "offsets must rise from 0 to 3 at most, got 0 before 4"),
    (lambda: ops.segment_sum(torch.ones(3, 1).half(), torch.tensor([0, 3])),
     "not implemented for 'Half'"),
    (lambda: ops.row_share(torch.tensor(1.0)),
     r"input must be \[..., d\], got \[\]"),
])
def test_errors(call, text):
    with pytest.raises(RuntimeError, match=text):
        call()
