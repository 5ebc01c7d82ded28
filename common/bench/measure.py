"""bench: a solution (or yours), its floor and its peers, in one run."""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

from workspace import (BUILD, ROOT, CannotRun, Chapter, build_root, chapters,
                       find_chapter, install, library_of, locked, run,
                       torch_root)


def bench(chapter: Chapter, quick: bool = False, yours: bool = False,
          json_file: str | None = None) -> dict | None:
    """Builds what is measured, runs the benchmark and gives its JSON, with the
    printed table as "table". None if the chapter has no benchmark."""
    script = ROOT / f"tests/{chapter.name}_bench.py"
    if script.exists():
        install("requirements-hub.txt")
    elif not script.with_suffix(".cpp").exists():
        return None
    build_root("release", [f"{chapter.name}_bench", chapter.name])
    build = BUILD / "release" / "solutions" / chapter.name
    if yours:
        build = _build_yours(chapter)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "result.json"
        program = [BUILD / f"release/tests/{chapter.name}_bench"]
        if script.exists():  # then that is the floor's library
            program = [sys.executable, script, f"--floor={program[0]}.so"]
        done = run([*program, f"--library={library_of(build)}",
                    f"--json={file}",
                    *(["--quick"] if quick else [])])
        if done.returncode != 0 or not file.exists():
            raise CannotRun(f"the benchmark of {chapter.number} failed "
                            f"(status {done.returncode}):\n{done.stdout}")
        result = json.loads(file.read_text())
        if json_file:
            shutil.copy(file, json_file)
    result["table"] = done.stdout
    return result


def _build_yours(chapter: Chapter) -> Path:
    if not chapter.mine.exists():
        raise CannotRun(f"there is no my/{chapter.name} yet: "
                        f"./workbook check {chapter.number} opens it")
    build = BUILD / "release" / f"my-{chapter.name}"
    with locked(build):
        for command in (
                ["cmake", "-G", "Ninja", "-S", chapter.mine, "-B", build,
                 "-DCMAKE_BUILD_TYPE=Release", f"-DTORCH_ROOT={torch_root()}"],
                ["cmake", "--build", build]):
            done = run(command)
            if done.returncode != 0:
                raise CannotRun(f"my/{chapter.name} does not build; run "
                                f"./workbook check {chapter.number}\n"
                                f"{done.stdout[-1500:]}")
    return build


def sentence(result: dict | None) -> str:
    """The last group in two lines: subject and peers, as ratios to the floor."""
    if result is None:
        return "nothing: it has no benchmark"
    group = result["groups"][-1]
    times = {m["name"]: m["ratio"] for m in group["members"]
             if m["role"] != "floor"}
    peers = ", ".join(f"{name} {ratio:.1f}" for name, ratio in times.items()
                      if name != "solution")
    what, rate = "moving the same bytes", \
        f", {group['floor_gb_per_s']:.0f} GB/s"
    if not group["bytes"]:
        floor = next(m for m in group["members"] if m["role"] == "floor")
        what, rate = floor["name"], ""
    return (f"{times['solution']:.1f} x the time of {what} ({peers})\n"
            f"           {group['dtype']} {group['shape']}, "
            f"{group['threads']} threads{rate}")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./workbook bench",
        description="Measure a solution against its floor and peers.")
    parser.add_argument("chapter", nargs="?", metavar="NN", help="default: all")
    parser.add_argument("--yours", action="store_true",
                        help="measure my/NN_name instead of the solution")
    parser.add_argument("--quick", action="store_true",
                        help="seconds, not a minute")
    parser.add_argument("--json", metavar="FILE", help="write the result there")
    arguments = parser.parse_args()
    for chapter in [find_chapter(arguments.chapter.zfill(2))] \
            if arguments.chapter else chapters():
        result = bench(chapter, arguments.quick, arguments.yours,
                       arguments.json)
        if result is None:
            print(f"{chapter.number} {chapter.title}: has no benchmark" if
                  chapter.number != "07" else "07 is measured on a GPU only: "
                  "common/cuda/measure.sh")
        else:
            print(result["table"].replace("  solution ", "  yours    ")
                  if arguments.yours else result["table"], end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
