"""Writes what the pages' tables are made from: docs/results/matrix.json, and of
each version a file with what each of the two probes prints on it."""

import json
import os
import subprocess
import sys

import runtimes
from workspace import BUILD, ROOT, CannotRun, build_root

RESULTS = ROOT / "docs/results"
RELEASE = BUILD / "release"
PROBES = {
    "conversions": [RELEASE / "tests/conversions_probe"],
    "ownership": [
        sys.executable, ROOT / "common/probe/ownership.py",
        RELEASE / "tests/03_stack_conventions_test",
        RELEASE / "solutions/03_stack_conventions/libprobe.so"],
}


def record(matrix: dict) -> None:
    build_root("release", ["conversions_probe"])
    (RESULTS / "matrix.json").write_text(json.dumps(matrix, indent=1) + "\n")
    for name, command in PROBES.items():
        for version in matrix["versions"]:
            folder = str(runtimes.root(version) / "lib")
            done = subprocess.run(
                list(map(str, command)), text=True, capture_output=True,
                env={**os.environ, "LD_LIBRARY_PATH": folder})
            try:
                found = json.loads(done.stdout)
            except ValueError:
                raise CannotRun(f"{command[-1]} on libtorch {version}: "
                                f"{done.stderr[-300:]}") from None
            if found["libtorch"] != version:
                raise CannotRun(f"{command[-1]} ran on libtorch "
                                f"{found['libtorch']}, not on {version}")
            (RESULTS / name / f"{version}.json").write_text(done.stdout)
