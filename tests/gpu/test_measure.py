"""What measures on a GPU, as far as it runs without one: that it says so, that a
part that fails does not end it, and that only what is true is shown."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import bench
import device
import machine_code
import measure
import pictures
import sass
import tables
from base import nvcc
from base.project import ROOT

GPU = ROOT / "tests/gpu"
CODE_FILE = ROOT / "docs/results/machine_code.json"
CODE = json.loads(CODE_FILE.read_text())



def run(*words, **environment):
    return subprocess.run(
        [sys.executable, *map(str, words)], text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, env={**os.environ, **environment})


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "made"
    made.mkdir()
    (made / "machine_code.json").write_text(json.dumps(CODE))
    return made


@pytest.mark.full
@pytest.mark.parametrize("words", [
    ["device.py", "--library", "none.so"],
    ["device.py", "--library", "none.so", "--first-in-capture"],
    ["device_package.py", "none"],
    ["bench.py", "--library", "none.so", "--versions", "none.so"],
    ["variants.py", "--library", "a.so", "--versions", "a.so", "--variants", "a.so"],
    ["measure.py", "none", "OUT"]])
def test_without_a_gpu_it_says_so(words, tmp_path):
    words = [str(tmp_path) if word == "OUT" else word for word in words]
    done = run(GPU / words[0], *words[1:], CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 77, done.stdout
    assert "compiled, not run" in done.stdout


def python(code, **more):
    return measure.Command(code, [sys.executable, "-c", code], **more)


def test_a_part_that_fails_does_not_end_the_run(tmp_path, folder, capsys):
    """A library that does not load, a command that hangs, a program that is not
    there: the others run, and what they found is kept."""
    result = measure.fresh(folder, tmp_path, False, {"hardware": {}})
    speed = tmp_path / "speed07.json"
    found = {
        "check": [python("import ctypes; ctypes.CDLL('/none.so')"),
                  python("print('fine')")],
        "speed07": [python(
            f"open({str(speed)!r}, 'w').write('{{\"groups\": [1]}}'); import time;"
            "time.sleep(60)", seconds=1)],
        "profile": [python("raise SystemExit(1)", needs="no-such-program")],
        "package": [measure.Command("absent", [tmp_path / "absent"])],
        "sanitize": [python("raise SystemExit(77)")]}
    assert measure.run_parts(found, tmp_path, result) == 1
    kept = json.loads((tmp_path / f"{measure.NAME}.json").read_text())
    assert {name: part["status"] for name, part in kept["parts"].items()} == {
        "check": "failed", "speed07": "timeout", "profile": "skipped",
        "package": "failed", "sanitize": "skipped"}
    first, second = kept["parts"]["check"]["commands"]
    assert "/none.so" in first["tail"] and second["status"] == "passed"
    assert kept["groups"] == [1], "what was measured before it hung"
    assert "not run: no no-such-program" in capsys.readouterr().out
    assert "fine" in (tmp_path / "check.log").read_text()


def test_the_result_is_there_while_a_part_runs(tmp_path, folder):
    file = tmp_path / f"{measure.NAME}.json"
    look = python(f"import json; r = json.load(open({str(file)!r}));"
                  "assert r['parts']['b']['status'] == 'running';"
                  "assert r['parts']['a']['status'] == 'passed'")
    result = measure.fresh(folder, tmp_path, False, {})
    assert measure.run_parts(
        {"a": [python("pass")], "b": [look]}, tmp_path, result) == 0


def test_a_part_runs_again_by_its_name_and_keeps_the_others(tmp_path, folder):
    result = measure.fresh(folder, tmp_path, False, {})
    bad = {"a": [python("pass")], "b": [python("raise SystemExit(3)")]}
    assert measure.run_parts(bad, tmp_path, result) == 1
    again = measure.fresh(folder, tmp_path, False, {})
    assert measure.run_parts({"b": [python("pass")]}, tmp_path, again) == 0
    assert {p["status"] for p in again["parts"].values()} == {"passed"}
    # Of another build nothing is kept.
    (folder / "machine_code.json").write_text("{}")
    assert measure.fresh(folder, tmp_path, False, {})["parts"] == {}


def test_results_of_several_runs_are_joined(tmp_path):
    def part(seconds):
        return {"commands": [{"what": "ops", "seconds": seconds, "tail": "/a/place"}]}
    one = {"machine_code": {"a": "1"}, "parts": {"check": part(1), "speed07": part(1)},
           "groups": [1]}
    two = {"machine_code": {"a": "1"}, "parts": {"check": part(2)}, "groups": [],
           "variants": [3]}
    for name, result in (("1", one), ("2", two)):
        (tmp_path / name).write_text(json.dumps(result))
    assert run(GPU / "measure.py", "--join", tmp_path / "all", tmp_path / "1",
               tmp_path / "2").returncode == 0
    joined = json.loads((tmp_path / "all").read_text())
    assert (joined["groups"], joined["variants"]) == ([1], [3])
    assert {name: p["commands"] for name, p in joined["parts"].items()} == {
        "check": [{"what": "ops", "seconds": 2}],
        "speed07": [{"what": "ops", "seconds": 1}]}, "no places of that machine"


def test_parts_fit_into_their_time(tmp_path, folder):
    found = measure.parts(folder, tmp_path, quick=False)
    assert list(found) == ["check", "speed07", "check08", "package", "programs",
                           "variants", "sanitize", "profile"]
    for name, commands in found.items():
        assert sum(c.seconds for c in commands) <= measure.LIMIT, name
        for command in commands:
            script = [Path(w) for w in command.words
                      if str(w).endswith(".py") and "gpu" in str(w)]
            assert all(path.is_file() for path in script), command.words
    done = run(GPU / "measure.py", "--part", "nothing", "a", "b")
    assert done.returncode == 2 and "invalid choice" in done.stdout


def test_ncus_table_is_read():
    text = '''==PROF== Connected to process 7
"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","kernel","dram__bytes.sum","Gbyte","1.41"
"0","kernel","launch__registers_per_thread","register/thread","40"
'''
    assert measure.metrics(text) == {
        "dram__bytes.sum": "1.41 Gbyte",
        "launch__registers_per_thread": "40 register/thread"}
    assert measure.metrics("==ERROR== no permission") == {}


def test_a_profile_that_is_not_permitted_is_not_a_failure(tmp_path):
    program = tmp_path / "ncu"
    program.write_text("#!/bin/sh\necho ==ERROR== ERR_NVGPUCTRPERM; exit 1\n")
    program.chmod(0o755)
    with open(tmp_path / "log", "w") as log, pytest.MonkeyPatch.context() as here:
        here.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        row = measure.run(measure.Command("x", ["ncu"], needs="ncu"), 60, log)
    assert row["status"] == "skipped" and row["metrics"] == {}


def test_distances_are_in_units_of_the_last_place():
    import torch
    wanted = torch.tensor([1.5, 3.0, 2.0**-130, 1e300], dtype=torch.double)
    for dtype, digits in ((torch.float, 23), (torch.bfloat16, 7)):
        got = wanted.to(dtype)
        assert device.ulps(got, wanted) == 0
        got[1] += 2.0**(2 - digits)
        assert device.ulps(got, wanted) == 2
        got[0] = torch.nan
        assert not device.ulps(got, wanted) <= 1e9
    tiny = torch.tensor([0.0])
    assert device.ulps(tiny, tiny.double() + 2.0**-143) == 1
    assert device.bound("gelu", torch.float) == 10
    assert device.bound("gelu", torch.half) == 0.51


def test_ratios_follow_a_drift_of_the_clock():
    """Each member beside the floor: a GPU that slows down shows in the seconds,
    not in the ratio."""
    now = {"slow": 1.0}

    def seconds(name):
        now["slow"] *= 1.002
        return {"floor": 1.0, "mine": 1.01, "theirs": 1.3}[name] * now["slow"]

    found = bench.compare(["floor", "mine", "theirs"], seconds, 20, 60)
    rows = {name: bench.summary(name, bench.role(name, "floor"), *of)
            for name, of in found.items()}
    assert rows["floor"]["ratio"] == pytest.approx(1, abs=2e-3)
    assert rows["mine"]["ratio"] == pytest.approx(1.01, abs=2e-3)
    assert rows["theirs"]["ratio"] == pytest.approx(1.3, abs=2e-3)
    assert rows["mine"]["repetitions"] == 20
    assert rows["theirs"]["seconds"] > 1.35
    slow = bench.compare(["floor"], lambda _: 1.0, 40, 0)
    assert len(slow["floor"][0]) == 8, "enough for quartiles, then no more"
    assert bench.role("solution", "empty") == "subject"
    assert bench.role("same traffic", "empty") == "step"
    assert bench.role("vLLM style", "empty") == "peer"


def test_sizes_go_from_4_kb_to_4_gb_in_all_dtypes():
    sizes = {dtype: [rows * d * 3 * (4 if dtype == "float" else 2)
                     for kind, rows, d in bench.GROUPS if kind == dtype]
             for dtype in ("bfloat16", "half", "float")}
    assert min(sizes["bfloat16"]) < 5e3 and max(sizes["bfloat16"]) > 4e9
    assert all(max(of) > 1e9 and min(of) < 1e4 for of in sizes.values())
    assert all(d % 8 == 0 for _, _, d in bench.GROUPS)


def fake(path, code):
    members = [
        {"name": name, "role": role, "ratio": ratio, "low": ratio, "high": ratio,
         "repetitions": 9, "seconds": 1e-3} for name, role, ratio in (
             ("same traffic", "floor", 1.0), ("solution", "subject", 1.01),
             ("plain", "step", 3.5), ("ATen", "peer", 1.77))]
    path.write_text(json.dumps({
        "chapter": measure.NAME, "date": "2026-01-01", "machine_code": code,
        "hardware": {"gpu": "A GPU", "multiprocessors": 132},
        "software": {"torch": "2.11.0", "driver": "580"},
        "groups": [{"name": "x", "dtype": "bfloat16", "shape": "1 x 8",
                    "cache": "cold", "bytes": 48, "threads": 0,
                    "floor": "same traffic", "floor_gb_per_s": 4300,
                    "members": members}]}))


@pytest.fixture
def cuda():
    if nvcc.find("cuobjdump") is None:
        nvcc.fetch()
    if sass.release() != CODE["nvcc"]:
        pytest.skip(f"nvcc {sass.release()} is not that of {CODE_FILE.name}")


@pytest.mark.full
def test_the_tree_makes_the_machine_code_on_record(request, cuda):
    code = machine_code.identify()
    if request.config.getoption("--record"):
        CODE_FILE.write_text(json.dumps(code, indent=1) + "\n")
    assert code == json.loads(CODE_FILE.read_text()), \
        "run: ./workbook test -- tests/gpu/test_measure.py --record"


@pytest.mark.full
def test_a_name_or_a_comment_is_no_other_kernel(tmp_path, cuda):
    folder = shutil.copytree(ROOT / "solutions" / measure.NAME, tmp_path / "copy")
    arithmetic = folder / "core/arithmetic.h"
    before = arithmetic.read_text()

    def hash_with(old, new):
        assert old in before
        arithmetic.write_text(before.replace(old, new))
        return machine_code.hash_kernels(folder)
    assert hash_with("Precise", "Exact") == hash_with("//", "// So:") == \
        CODE[measure.NAME]
    assert hash_with("1.44269504f", "1.44269516f") != CODE[measure.NAME]


def test_a_figure_is_shown_while_the_kernels_are_those_measured(
        tmp_path, monkeypatch):
    # The other pictures are of these.
    for name in ("matrix.json", "sass.json", CODE_FILE.name):
        shutil.copy(ROOT / "docs/results" / name, tmp_path)
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    monkeypatch.setattr(pictures, "RESULTS", tmp_path)
    path = tmp_path / f"{measure.NAME}.json"

    def shown():
        assert (measure.NAME in pictures.sources()) == \
            ("| 1.77 |" in tables.benchmark(measure.NAME))
        return tables.benchmark(measure.NAME)
    assert "Not measured yet" in shown()
    fake(path, CODE)
    assert "| 1.77 |" in shown()
    for part in CODE:
        fake(path, {**CODE, part: "another"})
        assert "Not measured yet" in shown()
    fake(path, {})
    assert "Not measured yet" in shown()
