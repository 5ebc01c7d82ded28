"""Started by ./workbook, which sets up what is missing."""

import os
import shutil
import signal
import sys
from pathlib import Path


def mend_streams() -> None:
    """Open what cron or an editor has closed, and print on any terminal: a character
    that its encoding lacks becomes a question mark."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until a command is imported
    mend_streams()
    import cli
    return cli.main(sys.argv[1:])


def begin_without_bytecode() -> None:
    """Begin anew. On a full disk Python writes a part of a module's bytecode, takes it
    for whole the next time, and finds it too short."""
    for cache in [*Path(__file__).parent.rglob("__pycache__")]:
        shutil.rmtree(cache, ignore_errors=True)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    os.execv(sys.executable, sys.orig_argv)


# It is started with -B, so that there is no bytecode of this file.
sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
try:
    sys.exit(main())
except EOFError as error:
    of_bytecode = ("marshal data too short", "EOF read where object expected")
    if str(error) not in of_bytecode or sys.dont_write_bytecode:
        raise
    begin_without_bytecode()
