"""./workbook audit: its formats, exit status, accepted findings and limits."""

import errno
import json
import os
import re
import shutil
import signal
import subprocess

import pytest

from audited import UNSTABLE
from base.project import ROOT
from torch_stable_abi.audit import checks
from torch_stable_abi.audit.limits import audit_file
from torch_stable_abi.libtorch.installed import torch_root

BOTH = ["note", "warn"]


@pytest.fixture(scope="module")
def noted(build):
    """Return a library with a note and a warning, and nothing worse."""
    return build("template <class T> struct S { static T x; };"
                 "template <class T> T S<T>::x; int* f() { return &S<int>::x; }", "-g",
                 linked=False)


def test_levels_and_exit_status(workbook, noted, unstable, tmp_path):
    for level, status in [("note", 1), ("warn", 1), ("fail", 0)]:
        assert workbook("audit", noted, "--fail-on", level).returncode == status
    assert workbook("audit", noted, unstable).returncode == 1
    (tmp_path / "one.so").write_text("")
    done = workbook("audit", unstable, tmp_path / "one.so")
    assert done.returncode == 2 and "one.so is no ELF file" in done.stderr
    assert "bound-to-one-libtorch" in done.stdout


def test_json(workbook, noted, unstable, tmp_path):
    done = workbook("audit", noted, unstable, tmp_path / "none.so", "--json")
    said = json.loads(done.stdout)
    assert said["schema"] == 1 and done.returncode == 2
    assert [r["level"] for r in said["results"]] == ["warn", "FAIL", None]
    assert "there is no file" in said["results"][2]["error"]
    rules = {f["rule"]: f["level"] for report in said["results"][0]["reports"]
             for f in report["findings"]}
    assert rules["gnu-unique"] == "warn" and rules["debug-information"] == "note"


def test_annotations_of_github(workbook, noted, tmp_path):
    library = tmp_path / "a, 100%: \n\x1b[2Jb.so"
    library.write_bytes(noted.read_bytes())
    lines = workbook("audit", library, "--format", "github").stdout.splitlines()
    where = str(tmp_path) + "/a%2C 100%25%3A %0A\\x1b[2Jb.so"
    assert lines and all(re.match(r"::(notice|warning) file=", line) for line in lines)
    assert any(line.startswith(f"::warning file={where},title=gnu-unique::exports: ")
               for line in lines), lines


def test_annotations_name_one_library_of_several(workbook, unstable, build, wheel):
    path = wheel({"one/libone.so": unstable.read_bytes(), "one/libtwo.so": build(
        UNSTABLE, "-g", target=None).read_bytes()})
    lines = workbook("audit", path, "--format", "github").stdout.splitlines()
    about = [re.search("::(one/lib...)", line)[1] for line in lines
             if ",title=bound-to-one-libtorch::" in line]
    assert about == ["one/libone", "one/libtwo"], lines


def test_sarif(workbook, noted):
    run, = json.loads(workbook(
        "audit", noted, "--format", "sarif").stdout)["runs"]
    known = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert {r["ruleId"] for r in run["results"]} <= known
    assert {r["level"] for r in run["results"]} == {"note", "warning"}
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"].endswith("/libone.so")


def accept(**entry):
    return "[[tool.torch-stable-abi.accept]]\n" + "".join(
        f"{key} = {json.dumps(value)}\n" for key, value in entry.items())


def test_accepted_findings(workbook, noted, tmp_path):
    config = tmp_path / "pyproject.toml"
    config.write_text(accept(rule="gnu-unique", reason="Shared on purpose."))
    words = ["audit", noted, "--fail-on", "warn"]
    assert workbook(*words).returncode == 1
    done = workbook(*words, "--config", config)
    assert done.returncode == 0
    assert "(accepted: Shared on purpose.)" in " ".join(done.stdout.split())
    run, = json.loads(workbook(
        *words, "--config", config, "--format", "sarif").stdout)["runs"]
    kept, = [r for r in run["results"] if r["ruleId"] == "gnu-unique"]
    assert kept["suppressions"][0]["justification"] == "Shared on purpose."
    for fields, needless in [({"says": "2 gnu-unique"}, True),
                             ({"files": "*.whl"}, False)]:
        config.write_text(accept(rule="gnu-unique", reason="So.", **fields))
        done = workbook(*words, "--config", config)
        assert done.returncode == 1
        assert ("accepted, and not found: gnu-unique in * that says '2 gnu-unique'" in
                " ".join(done.stdout.split())) == needless


def test_a_file_that_is_accepted_by_its_path_from_the_config(workbook, noted, tmp_path):
    dist = tmp_path / "dist"
    dist.mkdir()
    (dist / "one.so").write_bytes(noted.read_bytes())
    config = tmp_path / "pyproject.toml"
    for files, status in [("dist/*", 0), ("wheels/*", 1)]:
        config.write_text(accept(rule="gnu-unique", reason="So.", files=files))
        assert workbook("audit", dist / "one.so", "--fail-on", "warn", "--config",
                        config).returncode == status


@pytest.mark.parametrize("text, said", [
    ("[", "is no TOML"),
    (accept(rule="none", reason="So."), "there is no rule 'none'"),
    (accept(reason="So."), "names no rule"),
    (accept(rule="rpath"), "of rpath gives no reason"),
    (accept(rule="rpath", reason="So.", file="x"), "has file, which is none of"),
    ("tool = 3", "must be an array of tables"), ("a = " + 9999 * "[", "is no TOML"),
    ("[tool.torch-stable-abi]\naccept = 1", "must be an array of tables"),
    ("[tool.torch-stable-abi]\naccept = [1]", "must be a table of strings")])
def test_what_accepts_nothing(workbook, noted, tmp_path, text, said):
    (tmp_path / "odd.toml").write_text(text)
    done = workbook("audit", noted, "--config", tmp_path / "odd.toml")
    assert done.returncode == 2 and said in done.stderr, done
    assert "Traceback" not in done.stderr


def test_a_config_that_is_none(workbook, noted, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name, said in [("pipe", "is a named pipe"), ("none.toml", "there is no file"),
                       (".", "there is no file")]:
        done = workbook("audit", noted, "--config", tmp_path / name)
        assert done.returncode == 2 and said in done.stderr, done


def test_limits(workbook, tmp_path, build):
    text = "a" * 2**20
    library = build(f'const char* f() {{ return "{text}"; }}', linked=False)
    done = workbook("audit", library, "--memory", "1")
    assert done.returncode == 2 and "needs more than 1 MiB of memory" in done.stderr


@pytest.mark.parametrize("given", ["one.so", "."])
def test_the_time_is_over_wherever_it_is(tmp_path, monkeypatch, given):
    """It is over in one of several libraries too, each of which may be damaged."""
    for name in ("one.so", "two.so"):
        shutil.copy(torch_root() / "lib/libtorch_python.so", tmp_path / name)
    monkeypatch.setattr(signal, "alarm", lambda seconds: signal.setitimer(
        signal.ITIMER_REAL, 0.05 * bool(seconds)))
    path = str(tmp_path / given)
    result, = audit_file(path, 9, 4096)
    assert result.error == f"{path} takes more than 9 s: raise --seconds"


@pytest.mark.parametrize("error", [
    MemoryError(), SystemError("error return without exception set"),
    OSError(errno.ENOMEM, "Cannot allocate memory")])
def test_a_lack_of_memory_has_several_errors(monkeypatch, noted, error):
    def audit(subject):
        raise error

    monkeypatch.setattr(checks, "audit", audit)
    result, = audit_file(str(noted), 9, 1)
    assert result.error == f"{noted} needs more than 1 MiB of memory: raise --memory"


def test_a_name_moves_no_cursor(workbook, noted, tmp_path):
    path = tmp_path / "\x1b[2Jone.so"
    path.write_bytes(noted.read_bytes())
    done = workbook("audit", path, tmp_path / "\x1b[2Jtwo.so")
    assert "\x1b" not in done.stdout + done.stderr
    assert "\\x1b[2Jone.so" in done.stdout


def test_each_rule_has_a_heading():
    from torch_stable_abi.audit.findings import RULES
    headings = re.findall(r"^### ([a-z0-9-]+)$", (ROOT / "docs/audit.md").read_text(),
                          re.M)
    assert headings == list(RULES)
    for rule in RULES:  # each is used
        assert subprocess.run(["git", "grep", "--untracked", "-q", f'"{rule}"', "--",
                               "common/abi/torch_stable_abi/audit",
                               ":!*/findings.py"], cwd=ROOT).returncode == 0, rule
