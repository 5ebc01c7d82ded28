"""Started by ./workbook, which sets up what is missing."""

import os
import signal
import sys


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


sys.exit(main())
