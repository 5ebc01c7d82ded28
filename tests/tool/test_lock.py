"""What is downloaded is locked: pip takes the files whose hashes stand in
requirements/, and no other ones."""

import hashlib
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from base import requirements
from support import copy_set_up
from torch_stable_abi.programs import CannotRun

PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]
SETS = sorted(requirements.lock_files())


def locked(name):
    """Return [(requirement, hashes)] of a set."""
    text = requirements.lock_files()[name].read_text()
    entries = re.sub(r"^ *#.*\n", "", text, flags=re.M).replace("\\\n", "")
    return [(Requirement(line.split("--hash")[0]),
             re.findall(r"--hash=sha256:([0-9a-f]{64})\b", line))
            for line in entries.splitlines()]


def asked(name):
    lines = requirements.lock_files()[name].with_suffix(".in").read_text().splitlines()
    return [Requirement(line) for line in lines if line and line[0] not in "#-"]


def applies(requirement, python):
    environment = {"python_version": python, "python_full_version": f"{python}.9",
                   "sys_platform": "linux", "platform_system": "Linux"}
    return requirement.marker is None or requirement.marker.evaluate(environment)


@pytest.mark.parametrize("name", SETS)
def test_each_entry_is_one_version_with_hashes(name):
    entries = locked(name)
    for requirement, hashes in entries:
        assert [s.operator for s in requirement.specifier] == ["=="], requirement
        assert hashes, requirement
    for python in PYTHONS:
        versions = {r.name: str(r.specifier)[2:] for r, _ in entries
                    if applies(r, python)}
        for wanted in asked(name):
            if applies(wanted, python) and wanted.name != "torch":
                assert versions[wanted.name] in wanted.specifier, \
                    f"{wanted}: requirements/renew.sh"


@pytest.mark.parametrize("python", PYTHONS)
def test_a_package_has_one_version_in_all_sets(python):
    """They are installed into one environment."""
    found = {}
    for name in SETS:
        for requirement, _ in locked(name):
            if applies(requirement, python):
                found.setdefault(requirement.name, set()).add(
                    str(requirement.specifier))
    assert not {name: v for name, v in found.items() if len(v) > 1}


@pytest.mark.full
def test_each_python_has_a_wheel_of_all_that_it_needs(tmp_path):
    try:
        requirements.install("renew")
    except CannotRun as error:
        pytest.skip(str(error))
    for python in PYTHONS:
        for machine in ("x86_64", "aarch64"):
            done = subprocess.run([
                Path(sys.executable).with_name("uv"), "pip", "install", "--dry-run",
                "--require-hashes", "--only-binary", ":all:", "--target", tmp_path,
                "--python-version", python,
                "--python-platform", f"{machine}-manylinux_2_28",
                *(f"-r{path}" for path in requirements.lock_files().values())],
                text=True, capture_output=True)
            assert done.returncode == 0, (python, machine, done.stderr)


# --- a file of another hash -----------------------------------------------------------


def make_wheel(folder, name, needs=()):
    """Return its hash."""
    folder.mkdir(exist_ok=True)
    wheel = folder / f"{name}-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        info = f"{name}-1.dist-info"
        archive.writestr(f"{name}.py", "")
        archive.writestr(f"{info}/METADATA", "\n".join([
            "Metadata-Version: 2.1", f"Name: {name}", "Version: 1",
            *(f"Requires-Dist: {other}" for other in needs), ""]))
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\n"
                         "Root-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


@pytest.fixture
def index(tmp_path, monkeypatch):
    """Return a folder of wheels, which is all that pip finds."""
    for name, value in {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull,
                        "PIP_FIND_LINKS": str(tmp_path / "index")}.items():
        monkeypatch.setenv(name, value)
    return tmp_path / "index"


def test_another_file_is_refused(tmp_path, monkeypatch, index):
    make_wheel(index, "wb_lock_probe")
    monkeypatch.setattr(requirements, "REQUIREMENTS", tmp_path)
    monkeypatch.setattr(requirements, "ROOT", tmp_path)
    (tmp_path / "set.txt").write_text(
        f"wb_lock_probe==1 --hash=sha256:{'0' * 64}\n")
    with pytest.raises(CannotRun, match="DO NOT MATCH THE HASHES"):
        requirements.install("set")


@pytest.mark.full
@pytest.mark.parametrize("fault", ["", "another file", "a need that floats"])
def test_set_up_takes_the_locked_tools_only(tmp_path, index, fault):
    digest = make_wheel(index, "tool", ["need"])
    need = make_wheel(index, "need")
    folder = tmp_path / "workbook"
    copy_set_up(folder)
    (folder / "requirements/tools.txt").write_text(
        f"tool==1 --hash=sha256:{'0' * 64 if fault == 'another file' else digest}\n" +
        (f"need==1 --hash=sha256:{need}\n" if fault != "a need that floats" else ""))
    done = subprocess.run([folder / "workbook"], text=True, capture_output=True,
                          stdin=subprocess.DEVNULL)
    site, = folder.glob(".venv/lib/python3*/site-packages")
    assert (site / "tool.py").exists() == (not fault), done.stderr
    assert (folder / ".venv/tools-missing").exists() == bool(fault), done.stderr
