"""The command line: each command is a module in commands/ of one of the rooms, with
add_arguments(parser) and run(arguments), which returns the exit status."""

import argparse
import importlib
import importlib.util
import signal
from types import ModuleType

from base.project import BUILD, ROOT
from torch_stable_abi import programs
from torch_stable_abi.cli import describe, parse, run_to_status
from torch_stable_abi.files import refuse_odd_folder
from torch_stable_abi.libtorch.installed import torch_root
from torch_stable_abi.programs import CannotRun

COMMANDS = {
    "learn": ["check", "hint", "diff", "mistakes", "give", "reset", "debug", "py",
              "demo", "list", "tour"],
    "build your own": ["new", "port", "compare", "schemas", "audit", "matrix",
                       "trace"],
    "teach": ["archive", "grade"],
    "look after the workbook": [
        "test", "bench", "docs", "carry", "doctor", "nvcc"],
}

ROOMS = ("learn", "upkeep", "torch_stable_abi")
WITHOUT_TORCH = ("audit", "port")  # run by ./workbook in environments of their own

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


def list_names() -> list[str]:
    return [name for group in COMMANDS.values() for name in group]


def find_command(name: str) -> ModuleType:
    room = next(room for room in ROOMS
                if importlib.util.find_spec(f"{room}.commands.{name}"))
    return importlib.import_module(f"{room}.commands.{name}")


def write_manual() -> str:
    lines = [MANUAL]
    for group, members in COMMANDS.items():
        lines.append(f"{group}:")
        lines += [f"  {name:<9} {describe(find_command(name))}" for name in members]
    return "\n".join(lines) + "\n" + EPILOG


def parse_words(words: list[str]) -> tuple[ModuleType, argparse.Namespace]:
    """Return the command's module and its arguments; without words, that of start."""
    module = find_command(words[0] if words else "start")
    return module, parse(module, " ".join(["./workbook", *words[:1]]), words[1:])


def main(words: list[str]) -> int:
    programs.hint = "./workbook doctor shows what this machine lacks"
    return run_to_status("workbook", lambda: run(words), ROOT)


def run(words: list[str]) -> int:
    if words and words[0] in ("-h", "--help", "help"):
        print(write_manual())
        return 0
    if words and words[0] not in list_names():
        raise CannotRun(f"there is no command {words[0][:40] or chr(39) * 2}; "
                        "./workbook --help lists them")
    module, arguments = parse_words(words)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    if not words or words[0] not in WITHOUT_TORCH:
        torch_root()
        refuse_odd_folder(BUILD)
        BUILD.mkdir(exist_ok=True)
    return module.run(arguments)
