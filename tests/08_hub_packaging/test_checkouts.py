"""The package of chapter 08 beside other people's: their tests, and their builder."""

import os
from pathlib import Path

import pytest

from base.project import ROOT
from hub.packages import run
from hub.processes import ENVIRONMENT
from support import PYTHON, passed

SUITE = Path(__file__).parent / "suite_of_another.py"


@pytest.mark.full
def test_a_suite_of_another_package_is_run(tmp_path, variant, capfd):
    """It lies in a tree of the shape that kernels-community has."""
    import hub_checkouts
    suite = SUITE.read_text()
    file = tmp_path / "activation/tests/kernels/test_activation.py"
    file.parent.mkdir(parents=True)
    file.write_text(suite)
    assert hub_checkouts.suite(tmp_path, built=variant.parent) == 0
    text = capfd.readouterr().out
    assert passed(text.strip()) == 4 and '+CUDA_DEVICES = ["cpu"]' in text
    # Where the suite is another, what is relaxed is not guessed.
    file.write_text(suite.replace("atol=0.0, rtol=0.0", "atol=0, rtol=0"))
    with pytest.raises(SystemExit, match="not 2: look at CHANGES"):
        hub_checkouts.suite(tmp_path, built=variant.parent)


def test_no_worse_than_the_original_is_not_any_result():
    import torch

    from hub_checkouts import no_worse
    formula = no_worse(torch.nn.functional.silu)
    x = torch.randn(1000, dtype=torch.bfloat16)
    out = torch.nn.functional.silu(x)
    assert torch.equal(formula(x), out)
    out = out * 1.02
    with pytest.raises(AssertionError, match="and the original by"):
        formula(x)


@pytest.mark.full
@pytest.mark.parametrize("what, variable", [
    ("suite", "KERNELS_COMMUNITY"), ("builder", "KERNELS_REPOSITORY")])
def test_on_a_checkout(what, variable):
    if variable not in os.environ:
        pytest.skip(f"{variable} names no checkout, and none can be fetched "
                    "here: see tests/hub_checkouts.py")
    path = os.pathsep.join([str(ROOT / "common"), ENVIRONMENT["PYTHONPATH"]])
    run(PYTHON, "tests/hub_checkouts.py", what, os.environ[variable], cwd=ROOT,
        PYTHONPATH=path)
