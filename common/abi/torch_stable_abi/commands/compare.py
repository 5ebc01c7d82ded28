"""compare: run the same cases with two libraries, and say what differs.

CASES.py has functions case_NAME(ops), each of which returns what is called and its
arguments, such as (ops.my.add, x, y). ops is torch.ops for an .so, or else the module
that is named. Each case runs in a process of its own for each library. Results are
compared to the bit, with dtypes, strides and what memory they are; besides, types and
texts of errors (without the place that STD_TORCH_CHECK puts in front of each),
arguments after the call, version counters, gradients, warnings."""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from torch_stable_abi import programs
from torch_stable_abi.cli import positive
from torch_stable_abi.files import printable
from torch_stable_abi.programs import CannotRun, environment_of_user

SCHEMA = 1  # the version of the JSON's shape
LENGTH = 400  # characters of a line of the table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = ("exit status: 0 all cases are the same, 1 one differs, 2 a "
                     "library or the cases could not be loaded")
    for name in ("old", "new"):
        parser.add_argument(name, metavar=name.upper(),
                            help="an .so, a module, or FOLDER:MODULE")
    parser.add_argument("cases", metavar="CASES.py")
    parser.add_argument("--seconds", type=positive, default=60, metavar="N",
                        help="that a case may take (default: %(default)s)")
    parser.add_argument("--format", choices=["text", "json"], default="text")


def run(arguments: argparse.Namespace) -> int:
    results = compare(arguments)
    if arguments.format == "json":
        print(json.dumps({"schema": SCHEMA, "cases": results}, indent=2))
    else:
        print_table(results)
    return 1 if any(results.values()) else 0


def compare(arguments: argparse.Namespace) -> dict[str, list[str]]:
    """Return {case: what differs}."""
    from torch_stable_abi.compare.comparing import compare_case, read
    if not Path(arguments.cases).is_file():
        raise CannotRun(f"{arguments.cases} is a folder, where a file is expected"
                        if Path(arguments.cases).is_dir() else
                        f"there is no file {arguments.cases}")
    with tempfile.TemporaryDirectory() as name:
        def look_at(library: str, folder: str, *cases: str) -> dict[str, dict]:
            execute(library, arguments.cases, Path(name, folder), arguments.seconds,
                    *cases)
            return read(Path(name, folder))
        old, new = look_at(arguments.old, "old"), look_at(arguments.new, "new")
        results = {case: compare_case(seen, new.get(case, {"ended": "did not run"}))
                   for case, seen in old.items()}
        differ = [case for case in old if results[case] and "value" in old[case]]
        again = look_at(arguments.old, "again", *differ) if differ else {}
        for case, seen in again.items():
            if compare_case(old[case], seen):
                results[case].append("OLD differs from itself too, run twice")
    if not old:
        raise CannotRun(f"{arguments.cases} has no function whose name begins with "
                        "case_")
    return results


def execute(library: str, cases: str, folder: Path, seconds: int, *names: str) -> None:
    """Run the cases with a library: all, or those of these names."""
    import torch_stable_abi as package
    folder.mkdir()
    place, _, named = library.rpartition(":")
    if library.endswith(".so"):
        if not Path(library).is_file():
            raise CannotRun(f"there is no file {library}")
        place, named = "", str(Path(library).resolve())
    env = environment_of_user()
    paths = [place, str(Path(cases).resolve().parent), env.get("PYTHONPATH", ""),
             str(Path(package.__file__).parents[1])]
    env["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    done = programs.run(
        [sys.executable, "-m", "torch_stable_abi.compare.running", named,
         Path(cases).resolve(), folder, seconds, *names],
        title=f"Running {Path(library).name}", env=env)
    if done.returncode:
        if "No module named 'torch'" in done.stdout:
            raise CannotRun("compare needs torch beside this tool: pip install torch")
        last = done.stdout.strip().splitlines()[-1:] or [
            "the process that loads it was ended by "
            + programs.name_signal(-done.returncode)
            if done.returncode < 0 else "it says nothing"]
        raise CannotRun(f"{library}: {last[0]}")
    if not (folder / "loaded").exists():
        raise CannotRun(f"{library}, or {cases}, ends the process as it is loaded")


def shorten(line: str) -> str:
    """Return a line without the end of a text that is long: pybind11's error on
    arguments shows each tensor whole."""
    return line if len(line) <= LENGTH else \
        f"{line[:LENGTH].rstrip()} ... (all of it: --format json)"


def print_table(results: dict[str, list[str]]) -> None:
    width = max(map(len, results))
    for case, lines in results.items():
        print(f"{case:<{width}}  {'differs' if lines else 'same'}")
        for line in lines:
            print(f"    {printable(shorten(line))}")
    differ = sum(map(bool, results.values()))
    print(f"{len(results) - differ} the same, {differ} differ")
