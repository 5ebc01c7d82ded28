"""matrix: a library of yours on every libtorch since 2.10.

    ./workbook matrix LIBRARY                   load it, and list its ops
    ./workbook matrix LIBRARY -- build/my_test  and run your test on each version
    ./workbook matrix WHEEL --python -- python -m pytest tests

LIBRARY is a file, a wheel, or the folder of a CMakeLists.txt."""

import argparse
import json
import re
from pathlib import Path

from torch_stable_abi.files import refuse_unwritable
from torch_stable_abi.libtorch import extension
from torch_stable_abi.libtorch.versions import supported
from torch_stable_abi.programs import CannotRun

TAKES_COMMAND = True  # after --


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "exit status: 0 all as it should be, 1 not, 2 could not run"
    parser.add_argument("words", nargs="+", metavar="LIBRARY [VERSION...]",
                        help=f"of torch; default: {' '.join(supported())}")
    parser.add_argument("--python", action="store_true",
                        help="run the command beside each version's torch for "
                             "Python, which is installed if need be")
    parser.add_argument("--json", metavar="FILE", help="write the result there")


def run(arguments: argparse.Namespace) -> int:
    versions = [w for w in arguments.words if re.fullmatch(r"2\.\d+\.\d+", w)]
    given = [w for w in arguments.words if w not in versions]
    if len(given) != 1:
        raise CannotRun("name one library, and versions such as 2.10.0 if you want "
                        f"no others: {' '.join(arguments.words)}")
    if arguments.json:
        refuse_unwritable(Path(arguments.json), "--json")
    if not Path(given[0]).exists():
        raise CannotRun(f"{given[0]} is no library, and no version such as 2.10.0")
    result = extension.matrix(given[0], versions, arguments.command, arguments.python)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(result, indent=1) + "\n")
    bad = [v for v, row in result["versions"].items() if not row["good"]]
    print(f"{len(result['versions']) - len(bad)} of {len(result['versions'])} "
          "versions" + (f"; not {', '.join(bad)}" if bad else ""))
    return 1 if bad else 0
