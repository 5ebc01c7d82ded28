"""Started by ./workbook, which sets up what is missing."""

import signal
import sys


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until a command is imported
    from workbook import cli
    return cli.main(sys.argv[1:])


sys.exit(main())
