"""trace: what passes the boundary of a program's stable-ABI libraries, drawn.

    ./workbook trace -- python my_script.py            every call and kernel
    ./workbook trace --op 'my_ops::*' -- build/my_test those of these ops
    ./workbook trace --summary -- python my_script.py  what is wrong, and no more
    ./workbook trace --strict --json found.json -- build/my_test    in CI

No library is built anew. Each call by name and each boxed kernel is shown with its
schema and its slots; and at the end, what leaked, was released twice, was handed
over unowned or does not fit its schema."""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from torch_stable_abi.files import refuse_unwritable
from torch_stable_abi.libtorch.versions import listed, numbers
from torch_stable_abi.programs import CannotRun, environment_of_user, name_signal
from torch_stable_abi.trace import library

TAKES_COMMAND = True  # after --
# What the program's processes share: counts, and what runs.
STATUS = struct.Struct("9I200s200s")
WAIT = 5  # seconds, for processes that still run when the program has ended
SCHEMA = 1  # of --json; a key may come, and none changes its meaning


@dataclass(frozen=True)
class Status:
    """Counts of all processes: those that used libtorch's shim, what was found, the
    summaries, those that ran kernels, those of them that gave a summary, and the lines
    that could not be written."""

    used: int
    errors: int
    suspicious: int
    notes: int
    pytorch: int
    summaries: int
    ran_kernels: int
    summarised_kernels: int
    lost: int
    running: str
    untraced: str  # a library that calls libtorch past the tracer
    alive: list[int]  # the processes that the program leaves behind

    @classmethod
    def read(cls, file: Path, alive: list[int]) -> "Status":
        *counts, running, untraced = STATUS.unpack(file.read_bytes())
        texts = [text.split(b"\0")[0].decode(errors="replace")
                 for text in (running, untraced)]
        return cls(*[*counts, *texts, alive])

    @property
    def unseen(self) -> int:
        return self.ran_kernels - self.summarised_kernels


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = ("exit status: the program's, if it is not 0; else 1 if an error "
                     "was found (with --strict, something suspicious as well), 2 if "
                     "nothing was looked at, or not all: a process that ran kernels "
                     "ended without its summary, or still runs; else 0")
    parser.usage = "./workbook trace [--op PATTERN] [--summary] [--strict] " \
                   "[--output FILE] [--json FILE] -- COMMAND..."
    parser.add_argument("--op", metavar="PATTERN",
                        help="draw only ops such as 'my_ops::*'; all are checked")
    parser.add_argument("--summary", action="store_true",
                        help="draw only what is wrong")
    parser.add_argument("--strict", action="store_true",
                        help="end with status 1 for what is suspicious as well")
    parser.add_argument("--output", metavar="FILE",
                        help="write there instead of to stderr")
    parser.add_argument("--json", metavar="FILE",
                        help="write what was found there as well, for programs")


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
    if arguments.json:
        result["WORKBOOK_TRACE_JSON"] = str(status.with_name("events"))
    return result


def merge_events(text: str) -> list[dict]:
    """Return the processes, from the lines that they wrote: a finding at its first
    time, and a summary with all of them at the end, which some do not come to."""
    processes: dict[int, dict] = {}
    for line in text.splitlines():
        event = json.loads(line)
        process = processes.setdefault(event["process"], {
            "process": event["process"], "libtorch": None, "kernels": None,
            "calls": None, "shim_functions": None, "summary": False, "findings": []})
        if "finding" in event:
            process["findings"].append(event["finding"])
        else:
            process.update(event, summary=True)
    return list(processes.values())


def write_json(file: Path, events: Path, command: list[str], status: int) -> None:
    text = events.read_text() if events.exists() else ""
    file.write_text(json.dumps({
        "schema": SCHEMA, "command": command, "status": status,
        "processes": merge_events(text)}, indent=2) + "\n")


def find_processes(status: Path) -> list[int]:
    """Return the processes that use the file with the counts, and have libtorch."""
    found = []
    for file in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            maps = file.read_text(errors="replace")
            if f" {status.resolve()}\n" in maps and "/libtorch_cpu.so\n" in maps:
                found.append(int(file.parent.name))
    return sorted(found)


def wait_for_processes(status: Path) -> list[int]:
    """Wait until the processes that use libtorch have ended, and return those that
    still run after WAIT."""
    until = time.monotonic() + WAIT
    while (alive := find_processes(status)) and time.monotonic() < until:
        time.sleep(0.05)
    return alive


def describe_gaps(how: str, status: Status) -> list[str]:
    """Return what could not be looked at."""
    gaps = []
    if status.untraced:
        gaps.append(f"{status.untraced} calls libtorch past the tracer, as after "
                    "RTLD_DEEPBIND: nothing is known\n  of it")
    if status.alive:
        processes = "process that loaded libtorch still runs" \
            if len(status.alive) == 1 else "processes that loaded libtorch still run"
        which = ", ".join(map(str, status.alive))
        gaps.append(f"{len(status.alive)} {processes} {WAIT} s after the program's end "
                    f"({which}): what is found there\n  from now on is not shown")
    elif not status.used and not status.untraced:
        gaps.append(f"{how}, and nothing passed the boundary: no library that uses "
                    "libtorch's\n  C shim was loaded where the tracer is. It is in no "
                    "program that is linked statically or\n  set-user-ID, or started "
                    "without LD_PRELOAD (env -i, sudo, subprocess with env=)")
    elif not status.summaries:
        gaps.append(how + (f" in {status.running}" if status.running else "") +
                    (", neither by exit nor by _exit (a system call, or exec)"
                     if " was ended by " not in how else "") +
                    ", so there is no summary of what leaked")
    elif status.unseen:
        processes = "process that ran kernels" if status.unseen == 1 else \
            "processes that ran kernels"
        gaps.append(f"{status.unseen} {processes} ended by a signal or exec: there is "
                    "no summary of what leaked there")
    if status.lost:
        gaps.append("not all that was found could be written, as where a process has "
                    "closed its files and\n  may not open them again")
    return gaps


def exit_status(ended: int, status: Status, strict: bool) -> int:
    if ended:
        return ended if ended > 0 else 128 - ended
    if status.errors or strict and status.suspicious:
        return 1
    return 2 if describe_gaps("", status) else 0


def run(arguments: argparse.Namespace) -> int:
    command = arguments.command
    if not command:
        raise CannotRun("name a program: ./workbook trace -- python my_script.py")
    program = shutil.which(command[0])
    if program is None:
        raise CannotRun(f"there is no program {command[0]}" if not
                        Path(command[0]).exists() else f"{command[0]} is no program "
                        f"that can be run: chmod +x it, or name its interpreter first")
    for file, option in (arguments.output, "--output"), (arguments.json, "--json"):
        if file:
            refuse_unwritable(Path(file), option)
    with tempfile.TemporaryDirectory(prefix="trace-") as folder:
        file = Path(folder, "status")
        file.write_bytes(bytes(STATUS.size))
        process = subprocess.Popen([program, *command[1:]],
                                   env=environment(arguments, file))
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is the program's
        ended = process.wait()
        status = Status.read(file, wait_for_processes(file))
        result = exit_status(ended, status, arguments.strict)
        rest = Path(folder, "status.text")  # of who closed the descriptor of stderr
        if rest.exists():
            print(rest.read_text(errors="replace"), end="", file=sys.stderr)
        if arguments.json:
            write_json(Path(arguments.json), Path(folder, "events"), command, result)
    how = f"{command[0]} ended with status {ended}" if ended >= 0 else \
        f"{command[0]} was ended by {name_signal(-ended)}"
    gaps = "".join(f"workbook: {gap}\n" for gap in describe_gaps(how, status))
    print(gaps, end="", file=sys.stderr)
    if arguments.output:
        with open(arguments.output, "a") as output:
            output.write(gaps)
    return result
