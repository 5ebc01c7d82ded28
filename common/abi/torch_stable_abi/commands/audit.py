"""audit: what a built extension needs, without loading it.

For a library, a wheel or a Hub variant: the oldest libtorch and why, what is not
of the stable ABI, the platform, Python, CUDA, the ops that it calls and defines,
and how it was linked."""

import argparse
import json
import sys
import textwrap

from torch_stable_abi.programs import CannotRun


def text(name: str, reports: list, verbose: bool = False) -> str:
    lines = [name]
    for report in reports:
        more = len(report.names) - 1
        lines.append("  all of it" if more < 0 else f"  {report.names[0]}" + (
            f" and {more} alike" if more else ""))
        for line in report.lines:
            lines += textwrap.wrap(
                line.text, 80, initial_indent=f"  {line.level:<5}{line.what:<10}",
                subsequent_indent=" " * 17, break_long_words=False,
                break_on_hyphens=False)
            lines += [f"{'':<17}{more}" for more in line.more if verbose]
    return "\n".join(lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "exit status: 0 nothing failed, 1 something did, 2 could not run"
    parser.add_argument("files", nargs="+", metavar="FILE",
                        help="a library, a wheel, or a folder with libraries")
    parser.add_argument("-v", "--verbose", action="store_true",
                        help="every symbol, call and schema")
    parser.add_argument("--json", action="store_true", help="all of it, as JSON")


def run(arguments: argparse.Namespace) -> int:
    from torch_stable_abi.audit import checks, subject  # need pyelftools
    results, failed, broken = [], False, False
    for given in arguments.files:
        try:
            one = subject.open_(given)
        except CannotRun as error:
            print(f"workbook: {error}", file=sys.stderr)
            broken = True
            continue
        reports = checks.audit(one)
        failed |= checks.level(reports) == checks.FAIL
        results.append(checks.as_json(one, reports))
        if not arguments.json:
            print(text(one.name, reports, arguments.verbose))
    if arguments.json:
        print(json.dumps(results, indent=1))
    return 2 if broken else 1 if failed else 0
