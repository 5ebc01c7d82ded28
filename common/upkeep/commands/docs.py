"""docs: write what pages show of code and results, and build the book.

It needs Sphinx and a theme, which are fetched from PyPI once; Doxygen, if it is
there, for the page of the C++ API."""

import argparse
import os
import sys
import time
import webbrowser

from base.project import BUILD, ROOT
from base.requirements import install
from torch_stable_abi.programs import CannotRun
from torch_stable_abi.programs import run as run_to_end

SITE = BUILD / "docs/html"
PARTS = [sys.executable, ROOT / "docs/tools/parts.py"]
WITH_TOOL = {**os.environ, "PYTHONPATH": os.pathsep.join(
    [str(ROOT / folder) for folder in ("common", "tests/abi", "tests/gpu")])}


def sphinx(builder: str) -> list:
    # Anew each time: what warned once would be taken for built the next time.
    return [sys.executable, "-m", "sphinx", "-b", builder, "-W", "--keep-going",
            "-n", "-E", "-q", "-c", ROOT / "docs", "-d", BUILD / "docs/doctrees",
            ROOT, BUILD / "docs" / builder]


def succeed(command: list) -> str:
    done = run_to_end(command, cwd=ROOT, env=WITH_TOOL)
    if done.returncode != 0:
        raise CannotRun(f"failed: {' '.join(map(str, command))}\n"
                        f"{done.stdout.strip()}")
    return done.stdout


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--open", action="store_true",
                        help="show it in the browser")
    parser.add_argument("--check", action="store_true",
                        help="only say which pages are not what their sources say")
    parser.add_argument("--links", action="store_true",
                        help="follow the links to other sites too; takes a network")


def run(arguments: argparse.Namespace) -> int:
    if arguments.check:
        done = run_to_end([*PARTS, "--check"], cwd=ROOT, env=WITH_TOOL)
        print(done.stdout + ("./workbook docs writes them anew"
                             if done.returncode else "the pages are up to date"))
        return done.returncode
    install("docs")
    start = time.monotonic()
    print(succeed(PARTS), end="")
    print(succeed(sphinx("html")), end="")
    index = SITE / "index.html"
    print(f"{os.path.relpath(index)} built in {time.monotonic() - start:.0f} s, "
          "no warning, no broken link")
    if arguments.links:
        print(succeed(sphinx("linkcheck")), end="")
        print("and every link to another site leads somewhere")
    if arguments.open:
        webbrowser.open(index.as_uri())
    return 0
