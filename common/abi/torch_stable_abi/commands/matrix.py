"""matrix: a library of yours on every libtorch since 2.10.

    ./workbook matrix LIBRARY                   load it, and list its ops
    ./workbook matrix LIBRARY -- build/my_test  and run your test on each version
    ./workbook matrix WHEEL --python -- python -m pytest tests

LIBRARY is a file, a wheel, a Hub variant, or the folder of a CMakeLists.txt; there may
be several. Files and what folders make are tried together: one may define the ops that
another has the kernels of. VERSION is one of torch, such as 2.10.0. What your library
or your test has started is ended with it, daemons as well."""

import argparse
import json
import re
import sys
from pathlib import Path

from torch_stable_abi.cli import positive
from torch_stable_abi.files import refuse_unwritable
from torch_stable_abi.libtorch import extension
from torch_stable_abi.libtorch.versions import supported
from torch_stable_abi.programs import CannotRun

TAKES_COMMAND = True  # after --
SHAPE = 1  # of the JSON: a larger number, if a key is renamed or goes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "exit status: 0 all as it should be, 1 not, 2 could not run"
    limits = extension.Limits()
    parser.add_argument("words", nargs="+", metavar="LIBRARY|VERSION",
                        help=f"versions by default: {' '.join(supported())}")
    parser.add_argument("--python", action="store_true",
                        help="run the command beside each version's torch for "
                             "Python, which is installed if need be")
    parser.add_argument("--load-seconds", type=positive, default=limits.load,
                        metavar="N",
                        help="that loading may take (default: %(default)g)")
    parser.add_argument("--test-seconds", type=positive, default=limits.test,
                        metavar="N", help="that the command may take on each version "
                                          "(default: %(default)g)")
    parser.add_argument("--json", metavar="FILE", help="write the result there")


def run(arguments: argparse.Namespace) -> int:
    versions = [w for w in arguments.words if re.fullmatch(r"\d+(\.\d+){1,2}", w)
                and not Path(w).exists()]
    given = [w for w in arguments.words if w not in versions]
    for version in versions:
        if not re.fullmatch(r"2\.\d+\.\d+", version):
            raise CannotRun(f"{version} is no version of torch such as 2.10.0")
    if not given:
        raise CannotRun("name a library, and versions such as 2.10.0 if you want no "
                        "others")
    for name in given:
        if not Path(name).exists():
            raise CannotRun(f"{name} is no library, and no version such as 2.10.0")
    if arguments.json:
        refuse_unwritable(Path(arguments.json), "--json")
    refuse_tests_without_torch(given, arguments)
    limits = extension.Limits(arguments.load_seconds, arguments.test_seconds)
    results, statuses = [], []
    for names in extension.group(given):
        try:
            result = extension.matrix(names, versions, arguments.command,
                                      arguments.python, limits)
        except CannotRun as error:
            if len(given) == 1:
                raise
            library = " ".join(Path(name).name for name in names)
            result = {"library": library, "versions": {},
                      "error": f"{library}: {error}"}
        results.append(result)
        statuses.append(tell_sum(result))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(
            {"schema": SHAPE, "tool": "torch-stable-abi matrix", "results": results},
            indent=1) + "\n")
    return max(statuses)


def tell_sum(result: dict) -> int:
    """Print how many versions are good, and what could not be tried. Return the exit
    status."""
    rows = result["versions"]
    bad = [v for v, row in rows.items() if not row["good"]]
    if rows:
        print(f"{len(rows) - len(bad)} of {len(rows)} versions" +
              (f"; not {', '.join(bad)}" if bad else ""))
    if "error" in result:
        print(f"matrix: {result['error']}", file=sys.stderr)
        return 2
    return 1 if bad else 0


def refuse_tests_without_torch(given: list[str], arguments: argparse.Namespace) -> None:
    """Refuse pytest where no version's torch can be imported."""
    command = arguments.command
    first = [Path(word).name for word in command[:1]]
    if not arguments.python and (first == ["pytest"] or
                                 command[1:3] == ["-m", "pytest"]):
        raise CannotRun("a test in Python imports torch, and not the libtorch that is "
                        f"tried: matrix {given[0]} --python -- {' '.join(command)}")
