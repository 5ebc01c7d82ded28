"""What must not compile does not, with the message on record, and the same file
compiles where it should. Here with the installed headers; ./workbook matrix
does it with those of each version."""


import pytest

from workbook.installed import torch_root, torch_version
from workbook.libtorch import gates
from workbook.project import ROOT

HERE = gates.minor(torch_version())
pytestmark = pytest.mark.full


@pytest.mark.parametrize("gate", gates.GATES, ids=lambda g: g["api"])
def test_gate(gate):
    assert gates.wrong(gate, {HERE: torch_root()}) == ""
    assert gate["message"] and gate["means"]


def test_an_unstable_header_is_refused_with_a_target():
    code = "#include <c10/util/Exception.h>\n"
    text = gates.compile(code, torch_root(), "2.10")
    assert "when either TORCH_STABLE_ONLY or TORCH_TARGET_VERSION is defined" \
        in text
    assert gates.compile(code, torch_root()) == ""


def test_2_16_for_2_10_is_refused_by_our_guard():
    """0x0210... is 2.16. PyTorch's own guard came with the headers of 2.15."""
    theirs = "#include <torch/csrc/stable/library.h>\n"
    ours = f'#include "{ROOT}/solutions/06_version_gating/compat.h"\n'
    assert gates.packed("2.16") == "0x0210000000000000"
    assert (gates.compile(theirs, torch_root(), "2.16") == "") == (HERE < 15)
    assert "TORCH_TARGET_VERSION is newer than the headers" in \
        gates.compile(ours, torch_root(), "2.16")
    assert gates.compile(ours, torch_root(), "2.10") == ""
