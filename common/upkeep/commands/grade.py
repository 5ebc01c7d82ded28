"""grade: check many people's solutions, as a table and JSON.

A submission is a folder of chapters (01_headeronly_types, ...), such as a
learner's my/, or one chapter. One that hangs, crashes or eats memory costs only
itself."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

from base.project import ROOT
from base.sheets import chapters
from learn import work
from learn.checking.verdict import PASS
from torch_stable_abi import supervising
from torch_stable_abi.cli import positive
from torch_stable_abi.files import printable, readable, refuse_unwritable, write_file
from torch_stable_abi.programs import CannotRun, name_signal


def find_submissions(folders: list[str]) -> list[tuple[str, str, Path]]:
    """Return (who, number of the chapter, folder) of each implementation. The number is
    "" for an entry that holds no chapter, and for a folder that lies beside chapters
    and has a name like theirs."""
    names = {c.name: c.number for c in chapters()}
    found = []
    for given in map(Path, folders):
        place = Path(os.path.realpath(given))
        if place.name in names:
            mine = [given]
        else:
            mine = [given / name for name in names if os.path.isdir(given / name)]
        who = place.parent.name if place.name in names else \
            place.name if mine else given.name or place.name
        found += [(who, names[p.name if p.name in names else place.name], p)
                  for p in mine] or [(who, "", given)]
        if mine and place.name not in names:
            found += [(who, "", p) for p in called_like_chapters(given)
                      if p.name not in names]
    of: dict[str, set[Path]] = {}  # where each name is found
    for who, _, folder in found:
        of.setdefault(who, set()).add(folder.parent)
    return [(who if len(of[who]) == 1 else str(folder.parent), number, folder)
            for who, number, folder in found]


def called_like_chapters(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("[0-9][0-9]_*") if os.path.isdir(path))


def say_why_none(folder: Path) -> str:
    """Return why no chapter was found there, and where there are some."""
    example = f"folder such as {chapters()[0].name}"
    if not os.path.isdir(folder):
        return "is no folder" if os.path.lexists(folder) else "is not there"
    if not os.access(folder, os.R_OK | os.X_OK):
        return "cannot be read"
    for level in ("*", "*/*"):
        holding = sorted({path.parent for chapter in chapters()
                          for path in folder.glob(f"{level}/{chapter.name}")})
        if holding:
            there = holding[0] if len(holding) == 1 else folder / level
            return f"has no chapter itself: grade {readable(str(there))}"
    if odd := called_like_chapters(folder):
        return f"has no {example}: {readable(odd[0].name)} is the name of no chapter"
    if any(folder.glob("*.cpp")):
        return f"has sources itself, which should lie in a {example}"
    return f"has no {example}"


def check(number: str, folder: Path, seconds: int, mib: int) -> dict:
    """Return the verdict, or one of the kinds "no chapter", "out of time", "out of
    memory", "could not run". What the check has started is ended with it, daemons
    too."""
    from base import processes
    if not number:
        return {"kind": "no chapter", "steps": {}, "took": 0.0,
                "message": [f"{readable(str(folder))} {say_why_none(folder)}"]}
    start, ended = time.monotonic(), ""
    with tempfile.TemporaryFile("w+", errors="replace") as out, \
            tempfile.TemporaryFile("w+", errors="replace") as errors:
        process = subprocess.Popen(
            [sys.executable, "-B", ROOT / "common", "check", number, f"--impl={folder}",
             "--json"], stdin=subprocess.DEVNULL, stdout=out, stderr=errors)
        try:
            while process.poll() is None and not ended:
                time.sleep(0.1)
                if time.monotonic() - start > seconds:
                    ended = "out of time"
                elif processes.memory_mib(processes.family(os.getpid())[1:]) > mib:
                    ended = "out of memory"
        finally:
            supervising.end_descendants()
        took = round(time.monotonic() - start, 1)
        out.seek(0)
        errors.seek(0)
        said, told = out.read(), errors.read().strip()
        told = told.replace(str(folder), printable(readable(str(folder))))
        why = (told.partition("workbook: ")[2] or told).splitlines()
    if ended:
        return {"kind": ended, "steps": {}, "message": [], "took": took}
    # Whoever can write to the check's output may have ended it too.
    ended_by = process.returncode
    if ended_by not in (0, 1):
        said = ""
    if ended_by < 0:
        why = [f"the check was ended by {name_signal(-ended_by)}"]
    try:
        verdict = json.loads(said)
        if (verdict["kind"] == PASS) != (ended_by == 0):
            raise ValueError
        return {"kind": verdict["kind"], "steps": verdict["steps"],
                "message": verdict["message"], **verdict, "took": took,
                "given": sorted(work.find_given(folder))}
    except (ValueError, TypeError, KeyError):
        return {"kind": "could not run", "steps": {}, "took": took,
                "message": why[:3] or ["it printed no verdict"]}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folders", nargs="+", metavar="DIR")
    parser.add_argument("--seconds", type=positive, default=120, metavar="N",
                        help="that a chapter may take (default %(default)s)")
    parser.add_argument("--memory", type=positive, default=4096, metavar="MIB",
                        help="that it may use (default %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="write all of it there")


def run(arguments: argparse.Namespace) -> int:
    supervising.adopt_orphans()
    rows: list[dict] = []
    file = Path(arguments.json) if arguments.json else None
    if file:
        refuse_unwritable(file, "--json")
        refuse_inside(file, arguments.folders)
        if not file.exists():
            write_rows(file, rows)
    grows = file and file.is_file()  # a pipe or a device gets all at the end
    print(f"{'who':<20} {'':<2}  {'steps':<7} {'s':>5}  verdict")
    for who, number, folder in find_submissions(arguments.folders):
        verdict = check(number, folder, arguments.seconds, arguments.memory)
        rows.append({"who": readable(who), "folder": readable(str(folder)),
                     "chapter": number,
                     **{k: v for k, v in verdict.items() if k != "chapter"}})
        if file and grows:
            write_rows(file, rows)
        print(describe(rows[-1]), flush=True)
    if file and not grows:
        file.write_text(as_json(rows))
    return 0 if all(r["kind"] == "pass" for r in rows) else 1


def refuse_inside(file: Path, folders: list[str]) -> None:
    """Refuse a result that would lie in a submission, maybe in place of its source."""
    for folder in folders:
        place = Path(os.path.realpath(file))  # it bears a loop of links
        if place.is_relative_to(os.path.realpath(folder)):
            raise CannotRun(f"--json: {file} lies in {readable(folder)}, which is "
                            "graded: name a file outside of it")


def write_rows(file: Path, rows: list[dict]) -> None:
    """Write all rows in place of what was there, where a link leads."""
    write_file(Path(os.path.realpath(file)), as_json(rows))


def as_json(rows: list[dict]) -> str:
    return json.dumps(rows, indent=1) + "\n"


def describe(row: dict) -> str:
    """Return a line of the table. The names and messages are of others: what would move
    the cursor or colour the terminal is escaped."""
    states = row["steps"].values()
    done = f"{sum(state == 'pass' for state in states)}/{len(states)}"
    text = " ".join(filter(None, [row["kind"], row.get("step")]))
    text += f": {row['message'][0].splitlines()[0]}" if row["message"] else ""
    text += f" (given: {', '.join(row['given'])})" if row.get("given") else ""
    who, text = printable(row["who"]), printable(text)
    if len(who) > 20:  # of a path the end tells more
        who = "..." + who[-17:] if "/" in who else who[:20]
    return textwrap.fill(
        f"{who:<20} {row['chapter']:<2}  {done:<7} {row['took']:>5.1f}  {text}", 80,
        subsequent_indent=" " * 40, break_on_hyphens=False)
