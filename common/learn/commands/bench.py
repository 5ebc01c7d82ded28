"""bench: measure a solution, or yours, against its floor and its peers."""

import argparse
import datetime
import json
import os
import sys
import tempfile
from pathlib import Path

from base import stamp
from base.building import build_plain, build_root
from base.project import BUILD, ROOT
from base.requirements import install_with_torch
from base.sheets import Chapter, chapters, find_chapter
from learn import ratios
from torch_stable_abi.files import refuse_unwritable
from torch_stable_abi.programs import CannotRun
from torch_stable_abi.programs import run as run_program
from torch_stable_abi.projects import library_of


def bench(chapter: Chapter, quick: bool = False, yours: bool = False,
          json_file: str | None = None, limits: bool = False,
          peer: str | None = None, groups: slice = slice(None)) -> dict | None:
    """Build what is measured, run the benchmark and return its JSON, with the
    printed table as "table". None if the chapter has no benchmark. That of 08
    measures all its groups always."""
    script = chapter.tests / "bench.py"
    if script.exists():
        install_with_torch("hub")
    elif not script.with_suffix(".cpp").exists():
        return None
    build_root("release", [f"{chapter.name}_bench", chapter.name])
    build = BUILD / "release" / "solutions" / chapter.name
    if yours:
        build = build_plain(chapter, BUILD / "release", "Release")
    floor = BUILD / f"release/tests/{chapter.name}_bench"
    program: list = [floor]
    if script.exists():  # then that is the floor's library
        program = [sys.executable, script, f"--floor={floor}.so"]
    program += [f"--library={library_of(build)}", *(["--quick"] * quick)]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "result.json"
        if script.exists():
            _run([*program, f"--json={file}", *(["--limits"] * limits),
                  *([f"--peer={peer}"] if peer else [])])
            result = json.loads(file.read_text())
        else:
            result = _measure(chapter, program, quick, file, groups)
    if json_file:
        Path(json_file).write_text(ratios.text(result))
    result["table"] = ratios.heading(result) + "".join(
        map(ratios.table, result["groups"]))
    return result


def _measure(chapter: Chapter, program: list, quick: bool, file: Path,
             wanted: slice) -> dict:
    """Run a process for each group, since Google Benchmark interleaves all that it
    runs, and a group's ratios are of repetitions that are near one another."""
    groups: list[dict] = []
    measured: dict = {}
    names = ratios.group_names(_run([*program, "--benchmark_list_tests"]))
    for name in names[wanted]:
        _run([*program, f"--benchmark_filter=^{name}/",
              "--benchmark_enable_random_interleaving=true",
              f"--benchmark_repetitions={8 if quick else 48}",
              f"--benchmark_out={file}", "--benchmark_out_format=json"])
        measured = json.loads(file.read_text())
        found = ratios.groups(measured)
        if not found:
            print(f"{name}: not counted; is valgrind installed?")
        groups += found
    return {"schema": 1, "chapter": chapter.name,
            "date": datetime.date.today().isoformat(), "quick": quick,
            "hardware": stamp.machine(),
            "software": {**ratios.software(measured), "os": stamp.system()},
            "groups": groups}


def _run(command: list) -> str:
    path = [ROOT / "common", ROOT / "solutions/08_hub_packaging/tests"]
    done = run_program(command, env={
        **os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))})
    if done.returncode != 0:
        last = "\n".join(done.stdout.splitlines()[-3:])
        raise CannotRun(
            f"the benchmark failed (status {done.returncode}):\n{last}")
    return done.stdout


def sentence(result: dict | None) -> str:
    """Return the last group in two lines: subject and peers, as ratios to the floor."""
    if result is None:
        return "nothing: it has no benchmark"
    group = result["groups"][-1]
    subjects, peers = ([m for m in group["members"] if m["role"] == role]
                       for role in ("subject", "peer"))
    others = ", ".join(f"{m['name']} {m['ratio']:.1f}"
                       for m in [*subjects[1:], *peers])
    rate = f", {group['floor_gb_per_s']:.0f} GB/s" if group["bytes"] else ""
    return (f"{subjects[0]['ratio']:.1f} x the time of {ratios.floor_of(group)}" +
            (f" ({others})" if others else "") + "\n"
            f"           {group['dtype']} {group['shape']}, "
            f"{group['threads']} threads{rate}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("chapter", nargs="?", metavar="NN", help="default: all")
    parser.add_argument("--yours", action="store_true",
                        help="measure my/NN_name instead of the solution")
    parser.add_argument("--quick", action="store_true",
                        help="a minute at most")
    parser.add_argument("--limits", action="store_true",
                        help="08: every size, from one element to 1.6 GB")
    parser.add_argument("--peer", metavar="LIBRARY",
                        help="08: beside kernels-community's kernels, which "
                             "tests/hub_checkouts.py builds")
    parser.add_argument("--json", metavar="FILE", help="write the result there")


def run(arguments: argparse.Namespace) -> int:
    if arguments.json and not arguments.chapter:
        raise CannotRun("--json is for one chapter: ./workbook bench NN --json FILE")
    if arguments.json:
        refuse_unwritable(Path(arguments.json), "--json")
    wanted = [find_chapter(arguments.chapter.zfill(2))] if arguments.chapter \
        else chapters()
    if (arguments.limits or arguments.peer) and [c.number for c in wanted] != ["08"]:
        raise CannotRun("--limits and --peer are of chapter 08: ./workbook bench 08")
    for chapter in wanted:
        if not arguments.quick:
            print(f"{chapter.number}: this takes up to some minutes; --quick is "
                  "rougher, and takes one at most", file=sys.stderr)
        if not arguments.yours:
            print("It measures the solution; --yours measures your copy.",
                  file=sys.stderr)
        result = bench(chapter, arguments.quick, arguments.yours,
                       arguments.json, arguments.limits, arguments.peer)
        if result is None:
            print(f"{chapter.number} {chapter.title}: has no benchmark" if
                  chapter.number != "07" else "07 is measured on a GPU only: "
                  "tests/gpu/measure.py")
        else:
            print(result["table"].replace("  solution ", "  yours    ")
                  if arguments.yours else result["table"], end="")
    return 0
