"""audit: what a built extension needs, without loading it.

For a library, a wheel, a Hub variant or repository: the oldest libtorch and why, what
is not of the stable ABI or cannot load, the platform, Python, CUDA, the ops that it
calls and defines, how it was linked, and what its metadata says of all that."""

import argparse
import sys

from torch_stable_abi.cli import positive
from torch_stable_abi.files import printable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = ("exit status: 0 no finding of --fail-on's level, 1 one at least, "
                     "2 a file could not be read")
    parser.add_argument("files", nargs="+", metavar="FILE",
                        help="a library, a wheel, a folder with libraries, or a Hub "
                             "repository")
    parser.add_argument("-v", "--verbose", action="store_true",
                        help="every symbol, call and schema")
    parser.add_argument("--format", choices=["text", "json", "github", "sarif"],
                        default="text", help="default: text, for people")
    parser.add_argument("--json", dest="format", action="store_const", const="json",
                        help="the same as --format json")
    parser.add_argument("--fail-on", choices=["note", "warn", "fail"], default="fail",
                        help="the level from which the exit status is 1 (default: "
                             "fail)")
    parser.add_argument("--config", metavar="FILE",
                        help="has accepted findings (default: the pyproject.toml of "
                             "this folder or above it)")
    parser.add_argument("--seconds", type=positive, default=120, metavar="N",
                        help="that a file may take (default: %(default)s)")
    parser.add_argument("--memory", type=positive, default=4096, metavar="MIB",
                        help="that the audit may use (default: %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    from torch_stable_abi.audit import accepted, formats, limits  # need pyelftools
    acceptances = accepted.read_acceptances(arguments.config)
    results = []
    with limits.limited_memory(arguments.memory):
        for given in arguments.files:
            results += limits.audit_file(given, arguments.seconds, arguments.memory)
    accepted.accept(results, acceptances)
    for result in results:
        if result.error:
            print(f"audit: {printable(result.error)}", file=sys.stderr)
    if arguments.format == "text":
        text = formats.as_text(results, arguments.verbose)
    else:
        text = formats.FORMATS[arguments.format](results)
    if text:
        print(text)
    if any(result.error for result in results):
        return 2
    return 1 if any(formats.is_at_least(finding, arguments.fail_on)
                    for result in results for finding in result.findings) else 0
