"""trace: what passes the boundary of a program's stable-ABI libraries, drawn.

    ./workbook trace -- python my_script.py            every call and kernel
    ./workbook trace --op 'my_ops::*' -- build/my_test those of these ops
    ./workbook trace --summary -- python my_script.py  what is wrong, and no more

No library is built anew. Each call by name and each boxed kernel is shown with its
schema and its slots; and at the end, what leaked, was released twice, was handed
over unowned or does not fit its schema."""

import argparse
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from torch_stable_abi.files import refuse_unwritable
from torch_stable_abi.libtorch.versions import listed, numbers
from torch_stable_abi.programs import CannotRun, environment_of_user, name_signal
from torch_stable_abi.trace import library

TAKES_COMMAND = True  # after --
# What the program's processes share: counts, and what runs.
STATUS = struct.Struct("5I200s")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = ("exit status: the program's, if it is not 0; else 1 if an error "
                     "was found, 0 if none was, 2 could not run")
    parser.usage = "./workbook trace [--op PATTERN] [--summary] [--output FILE] -- " \
                   "COMMAND..."
    parser.add_argument("--op", metavar="PATTERN",
                        help="draw only ops such as 'my_ops::*'; all are checked")
    parser.add_argument("--summary", action="store_true",
                        help="draw only what is wrong")
    parser.add_argument("--output", metavar="FILE",
                        help="write there instead of to stderr")


def environment(arguments: argparse.Namespace, status: Path) -> dict[str, str]:
    result = {k: v for k, v in environment_of_user().items()
              if not k.startswith("WORKBOOK_TRACE_")}
    preloaded = status.with_name("trace.so")  # LD_PRELOAD ends a name at a space
    preloaded.symlink_to(library.library())
    if re.search(r"[ :]", str(preloaded)):
        raise CannotRun(f"the folder for temporary files, {status.parent}, has a space "
                        "or a colon in its name: set TMPDIR to another")
    result["LD_PRELOAD"] = " ".join(filter(None, (
        str(preloaded), os.environ.get("LD_PRELOAD"))))
    result["WORKBOOK_TRACE_STATUS"] = str(status)
    result["WORKBOOK_TRACE_NEWEST"] = str(numbers(listed()[-1])[1])
    if arguments.op:
        result["WORKBOOK_TRACE_OP"] = arguments.op
    if arguments.summary:
        result["WORKBOOK_TRACE_SUMMARY"] = "1"
    if arguments.output:
        Path(arguments.output).write_text("")
        result["WORKBOOK_TRACE_OUTPUT"] = str(Path(arguments.output).resolve())
    return result


def run(arguments: argparse.Namespace) -> int:
    command = arguments.command
    if not command:
        raise CannotRun("name a program: ./workbook trace -- python my_script.py")
    program = shutil.which(command[0])
    if program is None:
        raise CannotRun(f"there is no program {command[0]}" if not
                        Path(command[0]).exists() else f"{command[0]} is no program "
                        f"that can be run: chmod +x it, or name its interpreter first")
    if arguments.output:
        refuse_unwritable(Path(arguments.output), "--output")
    with tempfile.TemporaryDirectory(prefix="trace-") as folder:
        status = Path(folder, "status")
        status.write_bytes(bytes(STATUS.size))
        process = subprocess.Popen([program, *command[1:]],
                                   env=environment(arguments, status))
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is the program's
        ended = process.wait()
        used, errors, _, _, summaries, running = STATUS.unpack(status.read_bytes())
    how = f"{command[0]} ended with status {ended}" if ended >= 0 else \
        f"{command[0]} was ended by {name_signal(-ended)}"
    op = running.split(b"\0")[0].decode(errors="replace")
    if not used:
        print(f"workbook: {how}, and nothing passed the boundary: it loaded no "
              "library that uses\n  libtorch's C shim (or is linked statically, or "
              "set-user-ID: then nothing can be seen)", file=sys.stderr)
        return ended if ended > 0 else 128 - ended if ended else 2
    if not summaries:
        print(f"workbook: {how}" + (f" in {op}" if op else "") +
              ", so there is no summary of what leaked", file=sys.stderr)
    return ended if ended > 0 else 128 - ended if ended else 1 if errors else 0
