"""What the documentation says of ownership is what the test finds."""

import json
import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "common/probe"))


def test_documented_ownership_is_that_of_this_libtorch():
    import ownership
    now = ownership.facts(
        ROOT / "build/release/tests/03_stack_conventions_test",
        ROOT / "build/release/solutions/03_stack_conventions/libprobe.so")
    file = ROOT / f"docs/results/ownership/{now['libtorch']}.json"
    if not file.exists():
        pytest.skip(f"no documented result for libtorch {now['libtorch']}")
    assert json.loads(file.read_text()) == now
