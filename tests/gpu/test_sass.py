"""The instructions that chapter 07's page counts are those of its code."""

import json

import pytest

import sass
from base import nvcc
from base.project import ROOT

FILE = ROOT / "docs/results/sass.json"


@pytest.fixture(autouse=True)
def cuobjdump():
    if nvcc.find("cuobjdump") is None:
        nvcc.fetch()


@pytest.mark.full
def test_counted_instructions_are_up_to_date(request):
    counted = sass.counted()
    if request.config.getoption("--record"):
        FILE.write_text(json.dumps(counted, indent=1) + "\n")
    shown = json.loads(FILE.read_text())
    if counted["nvcc"] != shown["nvcc"]:
        pytest.skip(f"nvcc {counted['nvcc']} is not the page's")
    assert counted["rows"] == shown["rows"], \
        "run: ./workbook test -- tests/gpu/test_sass.py --record"
    best = {row["version"]: row["per_element"] for row in counted["rows"]}
    # What engines' own kernels take, as counted apart from this.
    for version, known in (("same traffic", 2.5), ("vLLM style", 26.5),
                           ("FlashInfer style", 22.5)):
        assert abs(best[version] / known - 1) <= 0.1, version
    assert best["fast arithmetic"] < min(
        best["vLLM style"], best["FlashInfer style"], best["sglang style"])
    # Both reads of 16 bytes before anything waits for the first.
    mine, = (r for r in counted["rows"] if r["version"] == "fast arithmetic")
    assert mine["loads"] == ["LDG.E.128"] * 2


@pytest.mark.full
def test_the_gradient_takes_what_its_page_says():
    code = sass.disassemble(sass.SOLUTION / "silu_and_mul.cu",
                            [sass.SOLUTION, sass.SOLUTION / "core"], "sm_90")
    kernel, = (name for name in code
               if "plain_backward<wb::cuda::BFloat16, unsigned" in name)
    instructions = sass.count(sass.list_instructions(code[kernel]))
    if sass.release() != json.loads(FILE.read_text())["nvcc"]:
        pytest.skip(f"nvcc {sass.release()} is not the page's")
    assert f"{instructions} instructions (sm_90, bfloat16)" in (
        ROOT / "docs/07_cuda_activation_kernel.md").read_text()
