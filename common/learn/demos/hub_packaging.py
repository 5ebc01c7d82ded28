"""Chapter 08: two versions of a kernel, loaded into one process by the Hub's own
loader. First they share a name, then only the loader's part of it is their own,
then all of it."""

import json
import os
import platform
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from base.project import ROOT
from base.requirements import install_with_torch
from learn.demos import FOLDER
from torch_stable_abi.libtorch.installed import torch_root
from torch_stable_abi.programs import CannotRun, run

OTHERS: list[str] = []  # only the one that is here
RECORDED = OTHERS

SOURCES = ROOT / "docs/demos/08"
HEADERS = ROOT / "solutions/08_hub_packaging/torch-ext"
VARIANT = f"torch-stable-abi210-cpu-{platform.machine()}-linux"
SLOPES = {"v1": "0.01f", "v2": "0.1f"}
RIGHT = "  v2: leaky_relu([-100, 100]) = [-10, 100]"


def prepare() -> None:
    install_with_torch("hub")


def show(versions: list[str], say: Callable[[str], None]) -> bool:
    shutil.rmtree(FOLDER / "hub", ignore_errors=True)
    for version in SLOPES:
        _build(version, "leaky", say)
        _describe(version, "leaky")
    shared = _load(say)
    for version in SLOPES:
        _describe(version, f"leaky_{version}")
    half = _load(say)
    for version, digits in (("v1", "4e1f0a2"), ("v2", "93b7c5d")):
        _build(version, f"_leaky_cpu_{digits}", say)
        _describe(version, f"_leaky_cpu_{digits}")
    return _load(say) == RIGHT and RIGHT not in (shared, half)


def _folder(version: str) -> Path:
    return FOLDER / "hub" / version / "build" / VARIANT


def _build(version: str, id: str, say: Callable[[str], None]) -> None:
    """Make the variant but for its metadata."""
    folder = _folder(version)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    flags = [f"-DID={id}", f"-DSLOPE={SLOPES[version]}"]
    say(f"$ c++ -shared {' '.join(flags)} leaky.cpp  # {version}")
    done = run(["c++", "-shared", "-fPIC", "-std=c++17", "-fvisibility=hidden",
                *flags, f"-I{HEADERS}", f"-I{HEADERS}/core",
                "-DTORCH_TARGET_VERSION=0x020a000000000000",
                "-isystem", torch_root() / "include", SOURCES / "leaky.cpp",
                "-o", folder / f"{id}.abi3.so",
                torch_root() / "lib/libtorch_cpu.so"])
    if done.returncode != 0:
        raise CannotRun(done.stdout[-1500:])
    text = (SOURCES / "package.py").read_text()
    (folder / "__init__.py").write_text(text.replace("ID", id))


def _describe(version: str, id: str) -> None:
    (_folder(version) / "metadata.json").write_text(json.dumps({
        "name": "leaky", "id": id, "version": int(version[1:]),
        "license": "MIT", "python-depends": [], "backend": {"type": "cpu"}}))


def _load(say: Callable[[str], None]) -> str:
    """Return what the program's last line was."""
    ids = (f"{version} has the id {json.loads(path.read_text())['id']}"
           for version in SLOPES
           for path in [_folder(version) / "metadata.json"])
    say(f"  metadata.json: {', '.join(ids)}")
    say("$ python two_models.py")
    done = run([sys.executable, SOURCES / "two_models.py"],
               cwd=FOLDER / "hub", env={
        **os.environ, "HF_HUB_OFFLINE": "1", "DISABLE_TELEMETRY": "1"})
    if done.returncode > 0:
        raise CannotRun(done.stdout[-1500:])
    lines = done.stdout.splitlines()
    if done.returncode < 0:
        lines = [line for line in lines if line.startswith("  v")]
        lines.append(f"  ended by {signal.Signals(-done.returncode).name}")
    say("\n".join(lines))
    return lines[-1]
