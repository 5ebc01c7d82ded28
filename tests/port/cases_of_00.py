"""Cases for chapter 00's op."""

import torch


def case_silu(ops):
    return ops.wb00.silu, torch.arange(6.0)


def case_nothing(ops):
    return ops.wb00.silu, torch.empty(0)
