"""How many wrong versions of a solution its tests catch.

    mutation_score.py [--sample N] [--seed N] [NN ...]

universalmutator changes one line at a time. Of each chapter's changes, in an
order drawn by the seed, those count that compile and change the object code, up
to N. Each is tested as the solution is: optimised, every case; what passes that,
under the sanitizers, the leak check and the limit of time; for 08, at each
instruction set, under fire, and by its own tests. Whatever was caught
is remembered in build/mutation: a second run judges what has survived. Writes
docs/results/mutation.json.
"""

import argparse
import datetime
import hashlib
import json
import os
import platform
import queue
import random
import resource
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "common/tool"), str(ROOT / "tests/meta"),
                str(ROOT / "tests")]
import test_fire as fire  # noqa: E402
import verdict  # noqa: E402
import workspace  # noqa: E402
from mutation_changes import HERE, WANTED, changes_of, reasons  # noqa: E402
from workspace import BUILD, CannotRun, chapters, run, source_files  # noqa: E402

RESULT = ROOT / "docs/results/mutation.json"
SECONDS = verdict.CASE_SECONDS = 40  # other work may slow this machine down
NOT_COUNTED = ("invalid", "equal", "device")
os.environ.setdefault("CUDAARCHS", "90-real")


class Bench:
    """A place where one mutant at a time is built and tested."""

    def __init__(self, chapter, number: int):
        self.chapter, self.changed = chapter, None
        self.folder = HERE / str(number) / chapter.name
        self.package = chapter.number == "08"
        self.build = self.folder / "build" if self.package else \
            HERE / f"{chapter.name}-{number}"
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(chapter.solution, self.folder,
                        copy_function=shutil.copyfile)  # so all is newer
        pch = workspace.precompiled_header(self.folder)
        # Not where a file has options of its own.
        use = chapter.number not in ("01", "08")
        probe = ROOT / f"tests/{chapter.number}_probe.cpp"
        include = ROOT / "common/cmake/probe.cmake"
        done = run([
            "cmake", "-G", "Ninja", "-S", self.folder, "-B", self.build,
            f"-DTORCH_ROOT={workspace.torch_root()}", "-DACTIVATION_CUDA=OFF",
            "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
            f"-DCMAKE_CXX_FLAGS_RELEASE=-O2 -g0 {f'-include {pch}' * use}",
            *([f"-DWORKBOOK_PROBE={probe}", f"-DCMAKE_PROJECT_INCLUDE={include}"]
              if probe.exists() else [])])
        if use and done.returncode == 0:
            workspace.precompile(self.build, pch)
        if done.returncode or not self.compiles():
            raise CannotRun(f"{self.folder} does not build\n{done.stdout}")
        self.objects = self.hashes()
        found = self.caught()
        if found:
            raise CannotRun(f"solution {chapter.number} itself: {found}")

    def compiles(self) -> bool:
        return run(["ninja", "-j1", "-C", self.build]).returncode == 0

    def hashes(self) -> dict:
        return {p.name: hashlib.sha256(p.read_bytes()).hexdigest()
                for p in self.build.rglob("*.o")}

    def judge(self, mutant: dict) -> str:
        """What came of it: "invalid", "equal", what caught it, "survived"."""
        if self.changed:
            shutil.copyfile(self.chapter.solution / self.changed,
                            self.folder / self.changed)
        self.changed = mutant["file"]
        lines = (self.folder / self.changed).read_text().split("\n")
        lines[mutant["line"] - 1] = mutant["new"]
        (self.folder / self.changed).write_text("\n".join(lines))
        if not self.compiles():
            return "invalid"
        changed = [name for name, digest in self.hashes().items()
                   if self.objects[name] != digest]
        if all(name.endswith(".cu.o") for name in changed):
            return "device" if changed else "equal"  # a GPU would have to run it
        return self.caught() or "survived"

    def caught(self) -> str | None:
        test = [BUILD / f"release/tests/{self.chapter.name}_test",
                f"--library={workspace.library_of(self.build)}",
                f"--timeout={SECONDS}"]
        if not self.package:
            found = caught_by(test)
            if not found:
                found = verdict.check(self.chapter, self.folder)["class"]
            return None if found == "pass" else found
        under_fire = [HERE / "fire", *fire.in_folder("08", self.build),
                      "random", 20_000]
        for command in (test, under_fire):
            for level in ("v4", "v3", "baseline"):
                found = caught_by(command, ACTIVATION_CPU_LEVEL=level)
                if found:
                    return found
        return caught_by([sys.executable, "-m", "pytest", "-q", "-x", "-p",
                          "no:cacheprovider", self.folder / "tests"])


def caught_by(command: list, **environment: str) -> str | None:
    limit = resource.RLIMIT_AS, (16 << 30, 16 << 30)
    try:
        done = subprocess.run(
            list(map(str, command)), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            timeout=10 * SECONDS, env={
                **os.environ, "LD_LIBRARY_PATH":
                f"{workspace.torch_root()}/lib", **environment},
            preexec_fn=lambda: resource.setrlimit(*limit))
    except subprocess.TimeoutExpired:
        return "timeout"
    if done.returncode:
        return {1: "test", 3: "load", 124: "timeout"}.get(
            done.returncode, "crash")
    return None


def score(chapter, arguments) -> dict:
    print(f"{chapter.number} {chapter.title}", flush=True)
    changes = changes_of(chapter)
    random.Random(f"{arguments.seed} {chapter.name}").shuffle(changes)
    digest = hashlib.sha256(b"".join(
        p.read_bytes() for p in source_files(chapter.solution))).hexdigest()
    memory = HERE / f"{chapter.name}-{digest[:16]}.json"
    known = json.loads(memory.read_text()) if memory.exists() else {}
    workspace.build_root("release", [f"{chapter.name}_test"])
    verdict.test_executable(chapter)
    if chapter.number == "08":
        fire.compile("fire", HERE)
    free, tried = queue.SimpleQueue(), []
    for number in range(arguments.jobs):
        free.put(Bench(chapter, number))

    def judge(change):
        key = f"{change['file']}:{change['line']}: {change['new']}"
        if known.get(key, "survived") == "survived":
            bench = free.get()
            known[key] = bench.judge(change)
            free.put(bench)
        return {**change, "found": known[key]}

    with ThreadPoolExecutor(arguments.jobs) as pool:
        for begin in range(0, len(changes), 4 * arguments.jobs):
            tried += pool.map(judge, changes[begin:begin + 4 * arguments.jobs])
            memory.write_text(json.dumps(known))
            count = [i for i, t in enumerate(tried, 1)
                     if t["found"] not in NOT_COUNTED]
            survivors = [t for t in tried if t["found"] == "survived"]
            print(f"  {len(tried)} tried, {len(count)} count, "
                  f"{len(survivors)} survived", flush=True)
            if len(count) >= arguments.sample:
                tried = tried[:count[arguments.sample - 1]]
                break
    found = [t["found"] for t in tried]
    return {"generated": len(changes), "tried": len(tried),
            **{kind: found.count(kind) for kind in sorted(set(found))},
            "survivors": [reasons(chapter, t) for t in tried
                          if t.pop("found") == "survived"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("chapters", nargs="*", metavar="NN")
    for name, default in (("--sample", 30), ("--seed", 1), ("--jobs", 2)):
        parser.add_argument(name, type=int, default=default, metavar="N")
    arguments = parser.parse_args()
    for chapter in chapters():
        if arguments.chapters and chapter.number not in arguments.chapters:
            continue
        row = score(chapter, arguments)
        rows = json.loads(RESULT.read_text())["chapters"] \
            if RESULT.exists() else {}
        row.update(seed=arguments.seed, date=str(datetime.date.today()))
        RESULT.write_text(json.dumps({
            "tool": WANTED.read_text().strip(), "machine": platform.machine(),
            "libtorch": workspace.torch_version(),
            "compiler": run(["c++", "--version"]).stdout.splitlines()[0],
            "chapters": dict(sorted({**rows, chapter.name: row}.items()))},
            indent=1) + "\n")


if __name__ == "__main__":
    main()
