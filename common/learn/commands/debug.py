"""debug: gdb at a step's code, in the test that runs it, with all variables."""

import argparse
import os
import re
import shutil
import sys

from base.building import build_plain
from base.project import BUILD, ROOT, read_source
from learn.checking import build_test, place_of_step
from learn.progress import chapter_and_step, step_to_do
from torch_stable_abi.programs import CannotRun
from torch_stable_abi.projects import library_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="?", metavar="NN.k",
                        help="default: the step you are at")


def run(arguments: argparse.Namespace) -> int:
    chapter, step = chapter_and_step(arguments.what)
    step = step or step_to_do(chapter)
    if chapter.steps_in_python.exists():
        raise CannotRun(f"the steps of {chapter.number} are run by Python; "
                        "put breakpoint() where you want to stop")
    gdb = shutil.which("gdb")
    if gdb is None:
        raise CannotRun("gdb is not installed: sudo apt-get install -y gdb")
    build = build_plain(chapter, BUILD / "debug", "Debug")
    file, line = place_of_step(chapter, chapter.mine, step.id)
    line = _in_loop(read_source(file).splitlines(), line)
    say = ["set debuginfod enabled off", "set breakpoint pending on",
           "set confirm off", f"break {file}:{line}", "run", "info args",
           "info locals"]
    words = [gdb, "-q", *(word for text in say for word in ("-ex", text))]
    if not sys.stdin.isatty():
        words.append("-batch")
    print(f"At {os.path.relpath(file, ROOT)}:{line}; n next line, s into a call, "
          "p NAME prints,\nbt how you got here, c goes on, q quits. gdb does not know "
          "the file until your\nlibrary is loaded, and says so.", flush=True)
    os.execve(gdb, [*words, "--args", str(build_test(chapter)),
                    f"--library={library_of(build)}", "--timeout=0",
                    f"--test-case={step.id} *"],
              {**os.environ, "ASAN_OPTIONS": "detect_leaks=0",
               "OMP_NUM_THREADS": "1"})  # bt then ends in the test


def _in_loop(lines: list[str], line: int) -> int:
    """Return where gdb stops. A loop that is met first may be one over nothing: in its
    body there is a value to look at."""
    while line < len(lines) and re.match(r"\s*(#|//|for \()", lines[line - 1]):
        line += 1
    return line
