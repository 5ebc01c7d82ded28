"""What the documentation says of ownership is what the test finds."""

import json

import pytest

import ownership
from base.project import ROOT


@pytest.mark.full
def test_documented_ownership_is_that_of_this_libtorch():
    now = ownership.facts()
    file = ROOT / f"docs/results/ownership/{now['libtorch']}.json"
    if not file.exists():
        pytest.skip(f"no documented result for libtorch {now['libtorch']}")
    assert json.loads(file.read_text()) == now
