"""What must not compile, load or be called is refused, with the message on record:
each error and each gate of snippets.toml. An error is provoked with the installed
libtorch where it can be, and with --record by every libtorch since 2.10: then
docs/results/errors.json is written. A gate is tried with the headers of each."""

import datetime
import json
import platform
import re
import subprocess
import warnings
from importlib import metadata

import pytest

import provoking
import snippets
from base import nvcc, stamp
from base.project import ROOT
from torch_stable_abi.libtorch import runtimes
from torch_stable_abi.libtorch.installed import torch_root, torch_version
from torch_stable_abi.libtorch.versions import supported
from torch_stable_abi.programs import CannotRun

FILE = ROOT / "docs/results/errors.json"


@pytest.fixture(scope="module")
def said(request):
    """Return {id: {version: what was said}}, and {id: why it is missing}."""
    here = runtimes.installed()
    record = request.config.getoption("--record")
    missing = {case["id"]: reason for case in provoking.CASES
               if (reason := provoking.lacks(case))}
    for reason in sorted(set(missing.values())):
        warnings.warn(f"{list(missing.values()).count(reason)} errors are not "
                      f"provoked: {reason}", stacklevel=1)

    def versions(error):
        if error["id"] in missing:
            return []
        possible = provoking.versions_of(error)
        if here in possible and not record:
            return [here]
        for one in possible:  # the matrix needs it as well
            try:
                if not runtimes.whole(one):
                    runtimes.fetch(one)
            except CannotRun as reason:
                missing[error["id"]] = str(reason)
        return possible if error["id"] not in missing else []
    selected = {item.callspec.params["error"]["id"] for item in request.session.items
                if getattr(item, "function", None) is test_error_is_provoked}
    texts = provoking.provoke([case for case in provoking.CASES
                               if case["id"] in selected], versions)
    if record and not missing and not provoking.wrong(texts):
        before = json.loads(FILE.read_text())
        texts = {case["id"]: texts.get(case["id"], before["said"].get(case["id"]))
                 for case in provoking.CASES}
        whole = selected == {case["id"] for case in provoking.CASES}
        FILE.write_text(json.dumps({
            "schema": 1, "what": "errors",
            "date": datetime.date.today().isoformat() if whole else before["date"],
            "software": software() if whole else before["software"],
            "said": texts}, indent=1, ensure_ascii=False) + "\n")
    return texts, missing


def software():
    found = {"compiler": stamp.compiler(), "headers": runtimes.installed(),
             "python": platform.python_version()}
    for package in ("torch", "kernels"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            pass
    for program, path in (("clang", "clang++"), ("nvcc", nvcc.find())):
        text = subprocess.run([path, "--version"], text=True, check=True,
                              capture_output=True).stdout
        found[program] = re.search(r"(?:V|version )(\d+\.\d+\.\d+)", text)[1]
    return found


@pytest.mark.full
@pytest.mark.parametrize("error", provoking.CASES, ids=lambda e: e["id"])
def test_error_is_provoked(said, error, request):
    texts, missing = said
    id = error["id"]
    if provoking.lacks(error) and not request.config.getoption("--record"):
        pytest.skip(missing[id])
    assert texts[id], missing[id]
    assert provoking.wrong({id: texts[id]}) == []


def test_an_error_that_says_something_else_is_noticed(tmp_path):
    error = {"id": "x", "when": "call", "text": "gone",
             "python": "raise SystemExit('here')"}
    found = provoking.Provoked(error, tmp_path / "x").with_version(
        runtimes.installed())
    assert found["message"] == provoking.UNEXPECTED + "here"
    error["text"], error["signal"] = "here", "SIGSEGV"
    found = provoking.Provoked(error, tmp_path / "y").with_version(
        runtimes.installed())
    assert found["message"] == provoking.UNEXPECTED + "status 1: here"


def test_the_record_is_of_these_errors():
    recorded = json.loads(FILE.read_text())["said"]
    errors = {e["id"]: e for e in provoking.CASES}
    assert list(recorded) == list(errors) and len(errors) >= 20
    assert provoking.wrong(recorded) == []
    for id, by_version in recorded.items():
        for version, found in by_version.items():
            for any_of in provoking.wanted_texts(errors[id], version):
                assert any(text in found["message"] for text in any_of), id
            assert errors[id].get("signal") in (None, found.get("signal"))


def test_each_entry_has_only_known_keys():
    provoked = {"code", "python", "script", "target", "flags", "unlinked", "on",
                "packages", "inductor", "cpu", "text", "lines", "clang", "nvcc",
                "unprovoked", "signal", "when"}
    for error in provoking.ERRORS:
        assert set(error) <= provoked | {
            "id", "what", "means", "cure", "bugs", "page", "also"}, error["id"]
        for more in error.get("also", []):
            assert set(more) <= provoked, error["id"]


def test_a_case_inherits_the_code_and_has_the_words_of_its_compiler():
    main, nvcc_s, second = provoking.cases({
        "id": "x", "when": "compile", "what": "", "code": "c", "text": "a",
        "nvcc": "b", "means": "", "also": [
            {"lines": ["d", "e"]}, {"text": "f", "unprovoked": "a reason"}]})
    assert (main["id"], main["text"], "by" in main) == ("x", "a", False)
    assert (nvcc_s["id"], nvcc_s["by"], nvcc_s["code"]) == ("x nvcc", "nvcc", "c")
    assert provoking.wanted_texts(nvcc_s, "2.13.0") == [["b"]]
    assert (second["id"], second["code"]) == ("x.2", "c")
    assert provoking.wanted_texts(second, "2.13.0") == [["d"], ["e"]]


# --- gates --------------------------------------------------------------------------

HERE = snippets.minor(torch_version())
@pytest.mark.full
@pytest.mark.parametrize("gate", snippets.GATES, ids=lambda g: g["api"])
def test_gate(gate):
    for version in supported():
        if not runtimes.whole(version):
            runtimes.fetch(version)
    roots = {snippets.minor(v): runtimes.root(v) for v in supported()}
    assert snippets.wrong(gate, roots) == ""
    assert gate["message"] and gate["means"]


@pytest.mark.full
def test_an_unstable_header_is_refused_with_a_target():
    code = "#include <c10/util/Exception.h>\n"
    text = snippets.compile(code, torch_root(), "2.10")
    assert "when either TORCH_STABLE_ONLY or TORCH_TARGET_VERSION is defined" \
        in text
    assert snippets.compile(code, torch_root()) == ""


@pytest.mark.full
def test_2_16_for_2_10_is_refused_by_our_guard():
    """0x0210... is 2.16. PyTorch's own guard came with the headers of 2.15."""
    theirs = "#include <torch/csrc/stable/library.h>\n"
    ours = f'#include "{ROOT}/solutions/06_version_gating/compat.h"\n'
    assert snippets.pack_version("2.16") == "0x0210000000000000"
    assert (snippets.compile(theirs, torch_root(), "2.16") == "") == (HERE < 15)
    assert "TORCH_TARGET_VERSION is newer than the headers" in \
        snippets.compile(ours, torch_root(), "2.16")
    assert snippets.compile(ours, torch_root(), "2.10") == ""
