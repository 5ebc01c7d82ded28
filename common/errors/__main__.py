"""errors: provokes each error of tests/errors.toml, and records what is said, by
every libtorch since 2.10 where the version can matter. docs/errors.md is made
from it: .venv/bin/python common/errors --json docs/results/errors.json"""

import argparse
import datetime
import json
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version as installed_version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
READY = ROOT / ".venv/torch-root"
if "TORCH_ROOT" not in os.environ and READY.exists():
    os.environ["TORCH_ROOT"] = READY.read_text().strip()
for folder in ("tool", "matrix"):
    sys.path.insert(0, str(ROOT / "common" / folder))

import runtimes  # noqa: E402
from provoking import ERRORS, provoke, versions_of, wrong  # noqa: E402
from workspace import CannotRun  # noqa: E402


def software() -> dict:
    compiler = subprocess.run(["g++", "--version"], text=True,
                              capture_output=True).stdout.splitlines()[0]
    found = {"compiler": compiler, "headers": runtimes.installed(),
             "python": sys.version.split()[0]}
    for package in ("torch", "kernels"):
        try:
            found[package] = installed_version(package)
        except PackageNotFoundError:
            pass
    return found


def show(said: dict[str, dict]) -> None:
    for id, by_version in said.items():
        print(id)
        last = None
        for version, found in by_version.items():
            text = " ".join(filter(None, [
                found.get("signal"), found["message"]]))
            print(f"  {version:<7} " + ("the same" if text == last else text))
            last = text


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="common/errors", description=__doc__,
        epilog="exit status: 0 each said what it should, 1 not, 2 could not run")
    parser.add_argument("ids", nargs="*", metavar="ID", help="default: all")
    parser.add_argument("--json", metavar="FILE", help="write the result there")
    arguments = parser.parse_args()
    known = [e["id"] for e in ERRORS]
    for id in arguments.ids:
        if id not in known:
            parser.error(f"{id} is none of {', '.join(known)}")
    errors = [e for e in ERRORS if e["id"] in (arguments.ids or known)]
    try:
        for version in {v for e in errors for v in versions_of(e)}:
            if not runtimes.whole(version):
                print(f"Fetching torch {version}: 0.5 to 0.9 GB")
                runtimes.fetch(version)
        said = provoke(errors)
    except CannotRun as error:
        print(f"workbook: {error}", file=sys.stderr)
        return 2
    show(said)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({
            "schema": 1, "what": "errors",
            "date": datetime.date.today().isoformat(), "software": software(),
            "said": said}, indent=1, ensure_ascii=False) + "\n")
    found = wrong(said)
    print(f"{sum(map(len, said.values())) - len(found)} as expected, "
          f"{len(found)} not")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
