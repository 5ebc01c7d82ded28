"""Cases for ./workbook compare: calls that are right, and calls to be refused."""

import torch


def case_scale_rows(ops):
    return ops.rowops.scale_rows_, torch.rand(3, 4), torch.rand(3)


def case_segment_sum(ops):
    return ops.rowops.segment_sum, torch.rand(9, 3), torch.tensor([0, 2, 5, 9])


def case_offsets_that_fall(ops):
    return ops.rowops.segment_sum, torch.rand(9, 3), torch.tensor([0, 5, 2])


def case_gather_rows(ops):
    return ops.rowops.gather_rows, torch.rand(5, 3), torch.tensor([4, 0])


def case_a_row_that_is_not_there(ops):
    return ops.rowops.gather_rows, torch.rand(5, 3), torch.tensor([4, -1])


def case_row_share(ops):
    return ops.rowops.row_share, torch.rand(3, 4, requires_grad=True)


def case_segment_lengths(ops):
    return ops.rowops.segment_lengths, torch.tensor([0, 2, 5, 9])
