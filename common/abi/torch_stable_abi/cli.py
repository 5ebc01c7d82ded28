"""The command line: each command is a module of torch_stable_abi.commands, with
add_arguments(parser) and run(arguments), which returns the exit status."""

import argparse
import importlib
import io
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from torch_stable_abi.files import printable
from torch_stable_abi.programs import CannotRun, sentence, terminate_descendants

COMMANDS = ("audit", "compare", "matrix", "port", "schemas", "trace")
LONGEST = 4096  # characters of an argument: as many as a path may have


def describe(module: ModuleType) -> str:
    """Return the first sentence of a command's docstring, which begins with its
    name."""
    text = (module.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    return text.partition(": ")[2].rstrip(".")


def positive(text: str) -> int:
    """Return an argument that is a whole number above 0; refuse another."""
    if not re.fullmatch(r"\d{1,9}", text) or int(text) == 0:
        raise argparse.ArgumentTypeError(
            f"must be a whole number above 0, got {text[:40]}")
    return int(text)


def parse(module: ModuleType, program: str, words: list[str]) -> argparse.Namespace:
    """Return the arguments of a command. What stands after -- is `command`, if the
    module takes one."""
    parser = argparse.ArgumentParser(
        prog=program, description=(module.__doc__ or "").partition(": ")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter)
    module.add_arguments(parser)
    ours = program.rpartition(" ")[0]
    for part in ("usage", "description", "epilog"):
        text = getattr(parser, part)
        setattr(parser, part, text and text.replace("./workbook", ours))
    for word in words:
        if not word:
            parser.error("an argument is empty: is a variable not set?")
        if len(word) > LONGEST:
            parser.error(f"an argument has {len(word)} characters: "
                         f"{printable(word[:40])}...")
    rest: list[str] = []
    if "--" in words and getattr(module, "TAKES_COMMAND", False):
        words, rest = words[:words.index("--")], words[words.index("--") + 1:]
    read = parser.parse_args if "--" in words else parser.parse_intermixed_args
    arguments = read(words)
    arguments.command = rest
    return arguments


def run_to_status(program: str, run: Callable[[], int],
                  root: Path = Path("/nowhere")) -> int:
    """Call `run` and return its status. If an error stops it, print one sentence, with
    files named relative to `root`, and return the status of that kind of error."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # in order with stderr

    def say(text: str) -> None:
        lines = map(printable, text.split("\n"))
        print(f"{program}:", "\n".join(lines), file=sys.stderr)

    try:
        try:
            status = run()
        finally:  # here, where what cannot be written is told
            sys.stdout.flush()
        _ignore_interrupts()  # all is said
        return status
    except CannotRun as error:
        say(str(error))
        return 2
    except KeyboardInterrupt:
        _ignore_interrupts()
        terminate_descendants()  # of other threads: they hear of no interrupt
        print(f"\n{program}: stopped; nothing is lost", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader has gone, as in list | head -1
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or exit flushes again
        return 141
    except OSError as error:
        say(sentence(error, root))
        if error.filename is None:  # maybe of the output, which exit flushes again
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 2
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "start new thread" not in str(error):
            raise
        say("there is not enough memory: end some programs, or raise the limit of "
            "ulimit -v")
        return 2


def _ignore_interrupts() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def main() -> int:
    """Run torch-stable-abi."""
    return run_to_status("torch-stable-abi", _run)


def _run() -> int:
    parser = argparse.ArgumentParser(
        prog="torch-stable-abi", formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(
            f"  {name:<9} {describe(_module(name))}" for name in COMMANDS))
    parser.add_argument("name", choices=COMMANDS, metavar="COMMAND")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="...")
    name = parser.parse_args(sys.argv[1:2]).name
    module = _module(name)
    # argparse would take a -- that stands first for its own.
    return module.run(parse(module, f"torch-stable-abi {name}", sys.argv[2:]))


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"torch_stable_abi.commands.{name}")
