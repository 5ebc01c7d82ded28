"""port: rewrite sources of the unstable API for the stable ABI.

Reads C++ and CUDA sources, setup.py, CMakeLists.txt and the Python layer, or folders of
them. It says what it would rewrite, what of that compiles and behaves differently, and
what is left to you, with the lines to write. Nothing is written without --apply or
--to. It needs tree-sitter, which the extra [port] of the package brings, and neither
torch nor a compiler. It leaves alone what it does not know."""

import argparse
import difflib
import os
import sys
from pathlib import Path

from torch_stable_abi.cli import positive
from torch_stable_abi.files import write_file
from torch_stable_abi.programs import CannotRun, run_git


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = ("exit status: 0 it was read, 1 more than --check allows is left, "
                     "2 something could not be read or written")
    parser.add_argument("sources", nargs="+", metavar="SOURCE",
                        help="a file, or a folder")
    parser.add_argument("--diff", action="store_true",
                        help="print the changes as a patch, and no report")
    written = parser.add_mutually_exclusive_group()
    written.add_argument("--apply", action="store_true",
                         help="write the files, if git has them and they are unchanged")
    written.add_argument("--to", metavar="FOLDER",
                         help="write the ported files there")
    parser.add_argument("--check", type=count, metavar="N",
                        help="fail if more than N places are left: in CI, lower it as "
                             "the port goes on")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.add_argument("-v", "--verbose", action="store_true",
                        help="list the done lines too")


def count(text: str) -> int:
    return 0 if text == "0" else positive(text)


def run(arguments: argparse.Namespace) -> int:
    try:
        from torch_stable_abi.port import porting, report
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("tree_sitter"):
            raise
        raise CannotRun(f"port needs {error.name}: "
                        "pip install 'torch-stable-abi[port]'") from None
    files, drafts = porting.port(arguments.sources)
    if not files:
        raise CannotRun("none of these is a C++ or CUDA source, a Python file or "
                        "CMakeLists.txt")
    if arguments.diff:
        for one in files:
            sys.stdout.writelines(difflib.unified_diff(
                one.old.splitlines(True), one.new.splitlines(True),
                f"a/{str(one.path).lstrip('/')}", f"b/{str(one.path).lstrip('/')}"))
    elif arguments.format == "json":
        print(report.as_json(files, drafts))
    else:
        print(report.as_text(files, drafts, arguments.verbose))
    if arguments.apply:
        refuse_unsaved([one.path for one in files if one.old != one.new])
        for one in files:
            if one.old != one.new:
                write_file(one.path.resolve(), one.new)  # a link stays one
    elif arguments.to:
        porting.write_copies(files, arguments.sources, Path(arguments.to))
    left = sum(one.count(*report.LEFT) for one in files)
    return 1 if arguments.check is not None and left > arguments.check else 0


def refuse_unsaved(paths: list[Path]) -> None:
    """Refuse files that git could not bring back."""
    for folder in {path.parent for path in paths}:
        names = [path.name for path in paths if path.parent == folder]
        done = run_git(folder, "status", "--porcelain", "-z", "--ignored", "--", *names)
        tracked = run_git(folder, "ls-files", "-z", "--", *names)
        unknown = set(names) - set(os.fsdecode(tracked.stdout).split("\0"))
        if done.returncode or done.stdout or unknown:
            name = (os.fsdecode(done.stdout).split("\0")[0][3:] if done.stdout else
                    min(unknown) if unknown else names[0])
            raise CannotRun(
                f"{folder / Path(name).name} is not in git, or has changes: --apply "
                "writes only what git can bring back. Commit it, or name a folder by "
                "--to")
