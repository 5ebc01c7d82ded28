"""Writes what the pages' tables are made from: docs/results/matrix.json, and of
each version a file with what each of the two probes finds on it; and
surface.json, for audits."""

import json
import os
import subprocess
from collections.abc import Callable

import ownership
from base.building import build_root
from base.project import BUILD, ROOT
from base.requirements import install
from torch_stable_abi.libtorch import runtimes, surface
from torch_stable_abi.programs import CannotRun

RESULTS = ROOT / "docs/results"


def conversions(**environment: str) -> str:
    return subprocess.run(
        [BUILD / "release/tests/conversions_probe"], text=True,
        capture_output=True, check=True,
        env={**os.environ, **environment}).stdout


def owners(**environment: str) -> str:
    return json.dumps(ownership.facts(**environment), indent=1) + "\n"


PROBES: dict[str, Callable[..., str]] = {
    "conversions": conversions, "ownership": owners}


def record(matrix: dict) -> None:
    install("headers")
    surface.record()
    build_root("release", ["conversions_probe"])
    (RESULTS / "matrix.json").write_text(json.dumps(matrix, indent=1) + "\n")
    for name, probe in PROBES.items():
        for file in (RESULTS / name).glob("*.json"):
            if file.stem not in matrix["versions"]:
                file.unlink()  # of a version that is no longer listed
        for version in matrix["versions"]:
            try:
                text = probe(LD_LIBRARY_PATH=str(
                    runtimes.root(version) / "lib"))
                found = json.loads(text)["libtorch"]
            except (ValueError, subprocess.CalledProcessError) as error:
                raise CannotRun(f"{name} on libtorch {version}: {error}") \
                    from None
            if found != version:
                raise CannotRun(f"{name} ran on libtorch {found}, not on "
                                f"{version}")
            (RESULTS / name / f"{version}.json").write_text(text)
