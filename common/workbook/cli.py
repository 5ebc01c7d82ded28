"""The command line: each command is a module of workbook.commands, with
add_arguments(parser) and run(arguments), which gives the exit status."""

import argparse
import importlib
import io
import os
import signal
import sys
from types import ModuleType

from workbook.installed import torch_root
from workbook.project import BUILD, CannotRun, sentence

COMMANDS = {
    "learn": ["check", "hint", "diff", "reset", "debug", "py", "demo",
              "list", "tour"],
    "build your own": ["new", "schemas", "audit", "trace"],
    "teach": ["archive", "grade"],
    "look after the workbook": [
        "test", "matrix", "bench", "docs", "doctor", "nvcc"],
}

MANUAL = """\
The LibTorch Stable ABI Workbook.

Without a command: sets up what is missing, shows that the first solution works
here, and opens your next step. On a terminal it then watches: each save gets a
verdict, and single keys do the rest.
"""

EPILOG = """
Your copies of the starters are in my/, which is yours: nothing there is ever
written over, and reset keeps what was there in my/.backup.

  TORCH_ROOT   a torch folder or an unpacked libtorch, to use that one
  NO_COLOR     no colour on a terminal either

Exit status: 0 passed, 1 failed, 2 could not run (the text says what is missing
and the line that cures it). COMMAND --help says more of a command."""

def names() -> list[str]:
    return [name for group in COMMANDS.values() for name in group]


def command(name: str) -> ModuleType:
    return importlib.import_module(f"workbook.commands.{name}")


def describe(module: ModuleType) -> str:
    """The first sentence of its docstring, which begins with its name."""
    text = (module.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    return text.partition(": ")[2].rstrip(".")


def manual() -> str:
    lines = [MANUAL]
    for group, members in COMMANDS.items():
        lines.append(f"{group}:")
        lines += [f"  {name:<9} {describe(command(name))}" for name in members]
    return "\n".join(lines) + "\n" + EPILOG


def parse(words: list[str]) -> tuple[ModuleType, argparse.Namespace]:
    if words and words[0] in ("-h", "--help", "help"):
        print(manual())
        raise SystemExit(0)
    if words and words[0] not in names():
        print(f"workbook: there is no command {words[0]}; ./workbook --help "
              "lists them", file=sys.stderr)
        raise SystemExit(2)
    module = command(words[0] if words else "start")
    parser = argparse.ArgumentParser(
        prog=" ".join(["./workbook", *words[:1]]),
        description=(module.__doc__ or "").partition(": ")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter)
    module.add_arguments(parser)
    own, rest = words[1:], list[str]()
    if "--" in own and getattr(module, "TAKES_COMMAND", False):
        own, rest = own[:own.index("--")], own[own.index("--") + 1:]
    arguments = parser.parse_intermixed_args(own)
    arguments.command = rest
    return module, arguments


def main(words: list[str]) -> int:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # in order with stderr
    try:
        module, arguments = parse(words)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        torch_root()
        BUILD.mkdir(exist_ok=True)
        status = module.run(arguments)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is said
        return status
    except CannotRun as error:
        print(f"workbook: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print("\nworkbook: stopped; nothing is lost", file=sys.stderr)
        return 130
    except BrokenPipeError:  # ./workbook list | head -1
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or exit flushes again
        return 141
    except OSError as error:
        print(f"workbook: {sentence(error)}", file=sys.stderr)
        return 2
