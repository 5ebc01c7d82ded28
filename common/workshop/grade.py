"""grade: ./workbook check over many people's solutions, as a table and JSON. A
submission is a folder of chapters (01_headeronly_types, ...), such as a
learner's my/, or one chapter. One that hangs, crashes or eats memory costs only
itself."""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from workspace import ROOT, CannotRun, chapters


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
        who = given.resolve()
        who = who.parent.name if who.name in names else who.name
        found += [(who, names[p.resolve().name], p) for p in mine]
    return found


def family(pid: int) -> list[int]:
    """A process and all that it has started, in whatever session."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents.setdefault(int(stat.read_text().rsplit(")", 1)[1].split()[1]),
                               []).append(int(stat.parent.name))
        except OSError:
            pass  # it has ended
    found = [pid]
    for one in found:
        found += parents.get(one, [])
    return found


def memory_mib(pids: list[int]) -> int:
    total = 0
    for pid in pids:
        try:
            rss = re.search(r"VmRSS:\s+(\d+)",
                            Path(f"/proc/{pid}/status").read_text())
            total += int(rss[1]) if rss else 0
        except OSError:
            pass
    return total // 1024


def check(number: str, folder: Path, seconds: int, mib: int) -> dict:
    """The verdict, or one of the classes "out of time", "out of memory",
    "could not run"."""
    process = subprocess.Popen(
        [sys.executable, ROOT / "common/tool", "check", number, "--impl", folder,
         "--json"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, errors="replace")
    start, ended = time.monotonic(), ""
    while not ended:
        try:
            out, errors = process.communicate(timeout=0.2)
            break
        except subprocess.TimeoutExpired:
            pids = family(process.pid)
            if time.monotonic() - start > seconds:
                ended = "out of time"
            elif memory_mib(pids) > mib:
                ended = "out of memory"
            if ended:
                for pid in reversed(pids):
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                process.communicate()
    took = round(time.monotonic() - start, 1)
    if ended:
        return {"class": ended, "steps": {}, "message": [], "took": took}
    try:
        return {**json.loads(out), "took": took}
    except json.JSONDecodeError:
        return {"class": "could not run", "steps": {}, "took": took,
                "message": errors.strip().splitlines()[:3]}


def main() -> int:
    parser = argparse.ArgumentParser(prog="./workbook grade",
                                     description=__doc__)
    parser.add_argument("folders", nargs="+", metavar="DIR")
    parser.add_argument("--seconds", type=int, default=120, metavar="N",
                        help="that a chapter may take (default %(default)s)")
    parser.add_argument("--memory", type=int, default=4096, metavar="MIB",
                        help="that it may use (default %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="write all of it there")
    arguments = parser.parse_args()
    rows = []
    work = submissions(arguments.folders)
    print(f"{'who':<20} {'':<2}  {'steps':<7} {'s':>5}  verdict")
    for who, number, folder in work:
        verdict = check(number, folder, arguments.seconds, arguments.memory)
        rows.append({"who": who, "folder": str(folder), "chapter": number,
                     **{k: v for k, v in verdict.items() if k != "chapter"}})
        steps = verdict["steps"].values()
        done = sum(state == "pass" for state in steps)
        text = verdict["class"] + "".join(
            f" {verdict[k]}" for k in ("step",) if verdict.get(k))
        text += f": {verdict['message'][0]}" if verdict["message"] else ""
        print(f"{who[:20]:<20} {number}  {f'{done}/{len(steps)}':<7} "
              f"{verdict['took']:>5.1f}  {text}"[:80], flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if all(r["class"] == "pass" for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
