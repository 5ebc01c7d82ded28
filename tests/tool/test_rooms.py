"""The rooms of the tool: who imports whom, and that the tools for anyone's extension
are a package of their own."""

import ast
import os
import shutil
import subprocess
import sys

import pytest

from base.project import ROOT
from base.requirements import lock_files
from support import checkout_files, passes
from torch_stable_abi.libtorch.installed import torch_root

# Each imports itself and those before it.
ROOMS = ["torch_stable_abi", "base", "learn", "upkeep", "cli"]
PACKAGE = ROOT / "common/abi"


def rooms_that(path):
    """Return the rooms that a file imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
        elif isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
    return names & set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_imports_go_one_way(room):
    folder = {"torch_stable_abi": PACKAGE / room, "cli": ROOT / "common/cli.py"}.get(
        room, ROOT / "common" / room)
    files = [folder] if folder.is_file() else [
        path for path in folder.rglob("*.py") if "bare" not in path.parts]
    allowed = set(ROOMS[:ROOMS.index(room) + 1])
    wrong = {f"{path.relative_to(ROOT)}: {other}" for path in files
             for other in rooms_that(path) - allowed}
    assert files and not wrong, wrong


def test_twenty_entries_at_the_root():
    names = {name.partition("/")[0] for name in checkout_files()}
    assert len([n for n in names if not n.startswith(".")]) <= 20, names


@pytest.mark.full
def test_the_package_is_closed(tmp_path):
    """A wheel is built of a copy of its folder, and it audits without torch."""
    shutil.copytree(PACKAGE, tmp_path / "abi")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    passes(*pip, "wheel", "-q", "--no-deps", "-w", tmp_path, tmp_path / "abi")
    wheel, = tmp_path.glob("torch_stable_abi-*.whl")
    site = tmp_path / "site"
    passes(*pip, "install", "-q", "--no-deps", "--target", site, wheel)
    passes(*pip, "install", "-q", "--target", site, "--require-hashes",
           "-r", lock_files()["audit"])
    done = subprocess.run(
        [sys.executable, "-S", site / "bin/torch-stable-abi", "audit",
         torch_root() / "lib/libtorch_global_deps.so"], text=True, cwd=tmp_path,
        capture_output=True, env={"PYTHONPATH": str(site), "PATH": os.environ["PATH"]})
    assert done.returncode == 0, done.stderr
    assert "takes nothing of it" in done.stdout
    passes(sys.executable, "-m", "pytest", "-q", "tests/audit/test_wheels.py",
           "--override-ini", f"pythonpath={site} common tests tests/abi tests/audit",
           cwd=ROOT, env={**os.environ, "ABI_OF_TESTS": str(site)})
