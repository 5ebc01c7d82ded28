"""Cases for ./workbook compare: a call of each kind, also such as fail."""

import torch


def case_sums(ops):
    return ops.rowops.segment_sum, torch.rand(9, 3), torch.tensor([0, 2, 5, 9])


def case_offsets_that_fall(ops):
    return ops.rowops.segment_sum, torch.rand(9, 3), torch.tensor([0, 5, 2])


def case_offsets_of_int(ops):
    return ops.rowops.segment_sum, torch.rand(9, 3), torch.tensor([0, 9]).int()


def case_norm(ops):
    return ops.rowops.rms_norm, torch.rand(4, 8), torch.rand(8), 0.5


def case_norm_in_bfloat16(ops):
    return ops.rowops.rms_norm, torch.rand(4, 8).bfloat16()


def case_norm_of_integers(ops):
    return ops.rowops.rms_norm, torch.arange(4)


def case_norm_into_out(ops):
    return ops.rowops.rms_norm.out, torch.rand(4, 8), {"out": torch.empty(4, 8)}


def case_share(ops):
    return ops.rowops.row_share, torch.rand(3, 4)


def case_share_of_a_number(ops):
    return ops.rowops.row_share, torch.tensor(2.0)


def case_share_of_integers(ops):
    return ops.rowops.row_share, torch.arange(4).reshape(2, 2)
