"""What the documentation says of conversions is what the probe prints."""

import json
import subprocess

import pytest
from conftest import ROOT

RESULTS = ROOT / "docs/results/conversions"


def test_documented_conversions_are_those_of_this_libtorch():
    program = ROOT / "build/release/tests/conversions_probe"
    done = subprocess.run([program], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    now = json.loads(done.stdout)
    file = RESULTS / f"{now['libtorch']}.json"
    if not file.exists():
        pytest.skip(f"no documented result for libtorch {now['libtorch']}")
    said = json.loads(file.read_text())
    for row, expected in zip(now["rows"], said["rows"], strict=True):
        for key in ("schema", "to_libtorch", "from_libtorch", "leaked_bytes"):
            assert row.get(key) == expected.get(key), row
