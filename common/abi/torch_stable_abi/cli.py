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

from torch_stable_abi.programs import CannotRun, sentence

COMMANDS = ("audit", "matrix", "schemas", "trace")


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
    rest: list[str] = []
    if "--" in words and getattr(module, "TAKES_COMMAND", False):
        words, rest = words[:words.index("--")], words[words.index("--") + 1:]
    read = parser.parse_args if "--" in words else parser.parse_intermixed_args
    arguments = read(words)
    arguments.command = rest
    return arguments


def run_to_status(program: str, run: Callable[[], int],
                  root: Path = Path("/nowhere")) -> int:
    """Return what `run` returns. What stops it is said in one sentence, in which files
    are named from `root`, and has a status of its own."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # in order with stderr
    try:
        status = run()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is said
        return status
    except CannotRun as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print(f"\n{program}: stopped; nothing is lost", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader has gone, as in list | head -1
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or exit flushes again
        return 141
    except OSError as error:
        print(f"{program}: {sentence(error, root)}", file=sys.stderr)
        return 2
    except MemoryError:
        print(f"{program}: there is not enough memory: end some programs, or raise the "
              "limit of ulimit -v", file=sys.stderr)
        return 2


def main() -> int:
    """Run torch-stable-abi."""
    parser = argparse.ArgumentParser(
        prog="torch-stable-abi", formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(
            f"  {name:<9} {describe(_module(name))}" for name in COMMANDS))
    parser.add_argument("name", choices=COMMANDS, metavar="COMMAND")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="...")
    given = parser.parse_args()
    module = _module(given.name)
    arguments = parse(module, f"torch-stable-abi {given.name}", given.words)
    return run_to_status("torch-stable-abi", lambda: module.run(arguments))


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"torch_stable_abi.commands.{name}")
