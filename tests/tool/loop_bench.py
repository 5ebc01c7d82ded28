#!/usr/bin/env python3
"""Measures how long a learner waits for a verdict: watch mode on a terminal, in a copy
of the checkout, texts saved one after another.

    PYTHONPATH=common:tests tests/tool/loop_bench.py [NN ...] [--json FILE]

Ten texts a chapter, three right and seven wrong: those of mistakes.toml that have a
text, each in the starter that is done up to its step. Before each
the step is undone, so that it is the one the learner is at; each text of its file
was never there before. `verdict` is from the save to what is wrong with this step,
or that it passes, `cpu` what the processors did until then; `all` is to the end of
the check, with the other steps. Other work (`load`) makes all but `cpu` longer.
`yardstick` is what the compiler takes for a file that includes <regex> alone: it says
how fast this machine is. With chapters named, FILE keeps what it has of the others on
this machine.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import psutil

import conftest  # noqa: F401  (it sets TORCH_ROOT)
from base import processes, stamp
from base.building import compiler
from base.hunks import starter_with
from base.sheets import Chapter, chapters
from learn.ratios import text as as_text
from support import copy_checkout, ended, terminal, until
from torch_stable_abi.files import read_toml

END = "q quit"  # of the keys, after all is said


def texts(chapter: Chapter) -> list[tuple[str, str, dict[str, str]]]:
    """Return ten texts to save, each with its step and its kind."""
    wrong = [m for m in read_toml(chapter.tests / "mistakes.toml")["mistake"]
             if "kind" in m]
    found = []
    kinds: dict[str, list] = {}
    for mistake in wrong:  # of each kind in turn
        files = starter_with(chapter, mistake["step"])
        old = files.get(mistake["file"], "")
        if old.count(mistake["old"]) == 1:
            files[mistake["file"]] = old.replace(mistake["old"], mistake["new"])
            kinds.setdefault(mistake["kind"], []).append(
                (mistake["step"], mistake["kind"], files))
    while len(found) < 7 and any(kinds.values()):
        found += [group.pop(0) for group in kinds.values() if group]
    steps = [chapter.steps[i].id for i in (0, len(chapter.steps) // 2, -1)]
    right = [(id, "pass", starter_with(chapter, id)) for id in steps]
    return sorted(right + found[:7], key=lambda text: text[0])


def measure(checkout: Path, chapter: Chapter) -> dict:
    folder = checkout / "my" / chapter.name
    child = terminal(checkout, NO_COLOR="1")
    while child.expect([rf"Edit my/{chapter.name}/", "Edit my/"]):
        child.send("n")
    time.sleep(1)

    def used() -> float:
        """Seconds of all processors, of the tool and what it has started."""
        total = 0.0
        for process in processes.family(child.pid):
            with contextlib.suppress(psutil.NoSuchProcess):
                total += sum(process.cpu_times()[:4])
        return total

    def save(files: dict[str, str]) -> dict[str, float]:
        for name, text in files.items():
            path = folder / name
            if not path.exists() or path.read_text() != text:
                path.write_text(text)
        start, cpu = time.monotonic(), used()
        until(child, "checking", 60)
        child.expect([r"(\n|\x1b\[K)(Edit my/|\d\d\.\d .*: pass)"], timeout=300)
        verdict, cpu = time.monotonic() - start, used() - cpu
        until(child, END, 300)
        return {"verdict": round(verdict, 2), "cpu": round(cpu, 2),
                "all": round(time.monotonic() - start, 2)}

    def marked(files: dict[str, str], step: str, n: int) -> dict[str, str]:
        """Return the file of this step is another than it ever was."""
        edited = chapter.step(step).file
        mark = {".py": "#", ".in": "#", ".txt": "#"}.get(Path(edited).suffix, "//")
        return {**files, edited: f"{files[edited]}{mark} save {n}\n"}

    first = save(marked(starter_with(chapter, ""), chapter.steps[0].id, 0))
    time.sleep(5)
    rows = []
    for n, (step, kind, files) in enumerate(texts(chapter), 1):
        before = max((s.id for s in chapter.steps if s.id < step), default="")
        save(marked(starter_with(chapter, before), step, -n))
        time.sleep(5)  # somebody edits
        rows.append({"step": step, "kind": kind, **save(marked(files, step, n))})
        print("  {step} {kind:<9} {verdict:5.2f} s, of processors {cpu:5.2f}; "
              "all {all:5.2f}".format(**rows[-1]), flush=True)
    child.send("q")
    ended(child)
    seconds = sorted(row["verdict"] for row in rows)
    found = {"chapter": chapter.number, "first": round(first["verdict"], 1),
             "median": round(statistics.median(seconds), 2),
             "p90": seconds[int(0.9 * (len(seconds) - 1) + 0.5)],
             "cpu": round(statistics.median(r["cpu"] for r in rows), 2),
             "all": round(statistics.median(r["all"] for r in rows), 2),
             "load": os.getloadavg()[0], "texts": rows}
    print("{chapter}: first {first} s; median {median} s, p90 {p90} s, of "
          "processors {cpu} s; all steps {all} s; load {load}".format(**found),
          flush=True)
    return found


def measure_yardstick() -> float:
    """Return the median of the seconds that the compiler takes for <regex>."""
    seconds = []
    for _ in range(5):
        start = time.monotonic()
        subprocess.run([compiler(), "-xc++", "-fsyntax-only", "-"], check=True,
                       input=b"#include <regex>\n")
        seconds.append(time.monotonic() - start)
    return round(statistics.median(seconds), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("chapters", nargs="*", metavar="NN")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    result = {**stamp.hardware(), "system": stamp.system(),
              "compiler": Path(compiler()).name, "yardstick": measure_yardstick(),
              "chapters": []}
    with tempfile.TemporaryDirectory() as folder:
        checkout = copy_checkout(Path(folder) / "workbook")
        (checkout / "my").mkdir()  # so no solution is measured first
        for chapter in chapters():
            if not arguments.chapters or chapter.number in arguments.chapters:
                result["chapters"].append(measure(checkout, chapter))
    if arguments.json:
        if arguments.chapters and arguments.json.exists():
            result["chapters"] = joined(
                json.loads(arguments.json.read_text()), result)
        arguments.json.write_text(as_text(result))


def joined(before: dict, now: dict) -> list[dict]:
    """Return the chapters of both, if one machine measured them; the newer counts."""
    if {**before, "yardstick": 0, "chapters": []} != \
            {**now, "yardstick": 0, "chapters": []}:
        return now["chapters"]
    rows = {row["chapter"]: row for row in [*before["chapters"], *now["chapters"]]}
    return [rows[number] for number in sorted(rows)]


if __name__ == "__main__":
    main()
