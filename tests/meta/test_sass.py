"""The instructions that chapter 07's page counts are those of its code."""

import json
import subprocess
import sys

import nvcc
import pytest
from conftest import ROOT


@pytest.mark.full
def test_counted_instructions_are_up_to_date(tmp_path):
    assert nvcc.find("cuobjdump") or nvcc.fetch() == ""
    done = subprocess.run(
        [sys.executable, ROOT / "common/cuda/sass.py",
         "--json", tmp_path / "sass.json"], text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    counted = json.loads((tmp_path / "sass.json").read_text())
    shown = json.loads((ROOT / "docs/results/sass.json").read_text())
    if counted["nvcc"] != shown["nvcc"]:
        pytest.skip(f"nvcc {counted['nvcc']} is not the page's")
    assert counted["rows"] == shown["rows"], \
        "run: python3 common/cuda/sass.py --json docs/results/sass.json"
    best = {row["version"]: row["per_element"] for row in counted["rows"]}
    assert best["fast arithmetic"] < min(
        best["vLLM style"], best["FlashInfer style"], best["sglang style"])
    # Four reads of 16 bytes before anything waits for the first.
    mine, = (r for r in counted["rows"] if r["version"] == "fast arithmetic")
    assert mine["loads"] == ["LDG.E.128"] * 4
