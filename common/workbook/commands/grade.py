"""grade: check many people's solutions, as a table and JSON.

A submission is a folder of chapters (01_headeronly_types, ...), such as a
learner's my/, or one chapter. One that hangs, crashes or eats memory costs only
itself."""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from workbook.project import ROOT, CannotRun
from workbook.sheets import chapters


def submissions(folders: list[str]) -> list[tuple[str, str, Path]]:
    """(who, number of the chapter, folder) of each implementation."""
    names = {c.name: c.number for c in chapters()}
    found = []
    for given in map(Path, folders):
        if not given.is_dir():
            raise CannotRun(f"{given} is no folder")
        mine = [given] if given.resolve().name in names else sorted(
            p for p in given.iterdir() if p.name in names and p.is_dir())
        if not mine:
            raise CannotRun(f"{given} holds no chapter: a folder named "
                            f"{chapters()[0].name}, say")
        place = given.resolve()
        who = place.parent.name if place.name in names else place.name
        found += [(who, names[p.resolve().name], p) for p in mine]
    return found


def check(number: str, folder: Path, seconds: int, mib: int) -> dict:
    """The verdict, or one of the kinds "out of time", "out of memory",
    "could not run"."""
    from workbook import processes  # needs psutil, which only this does
    process = subprocess.Popen(
        [sys.executable, ROOT / "common", "check", number, "--impl", folder,
         "--json"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, errors="replace")
    start, ended = time.monotonic(), ""
    while not ended:
        try:
            out, errors = process.communicate(timeout=0.2)
            break
        except subprocess.TimeoutExpired:
            family = processes.family(process.pid)
            if time.monotonic() - start > seconds:
                ended = "out of time"
            elif processes.memory_mib(family) > mib:
                ended = "out of memory"
            if ended:
                processes.kill(family)
                process.communicate()
    took = round(time.monotonic() - start, 1)
    if ended:
        return {"kind": ended, "steps": {}, "message": [], "took": took}
    try:
        return {**json.loads(out), "took": took}
    except json.JSONDecodeError:
        return {"kind": "could not run", "steps": {}, "took": took,
                "message": errors.strip().splitlines()[:3]}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folders", nargs="+", metavar="DIR")
    parser.add_argument("--seconds", type=int, default=120, metavar="N",
                        help="that a chapter may take (default %(default)s)")
    parser.add_argument("--memory", type=int, default=4096, metavar="MIB",
                        help="that it may use (default %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="write all of it there")


def run(arguments: argparse.Namespace) -> int:
    rows = []
    work = submissions(arguments.folders)
    print(f"{'who':<20} {'':<2}  {'steps':<7} {'s':>5}  verdict")
    for who, number, folder in work:
        verdict = check(number, folder, arguments.seconds, arguments.memory)
        rows.append({"who": who, "folder": str(folder), "chapter": number,
                     **{k: v for k, v in verdict.items() if k != "chapter"}})
        steps = verdict["steps"].values()
        done = sum(state == "pass" for state in steps)
        text = verdict["kind"] + "".join(
            f" {verdict[k]}" for k in ("step",) if verdict.get(k))
        text += f": {verdict['message'][0]}" if verdict["message"] else ""
        print(f"{who[:20]:<20} {number}  {f'{done}/{len(steps)}':<7} "
              f"{verdict['took']:>5.1f}  {text}"[:80], flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if all(r["kind"] == "pass" for r in rows) else 1

