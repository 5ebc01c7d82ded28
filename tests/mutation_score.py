"""How many wrong versions of a solution its tests catch.

    mutation_score.py [--sample N] [--seed N] [NN ...]

universalmutator changes one line at a time. Of each chapter's changes, in an
order drawn by the seed, those count that compile and change the object code, up
to N. Each is tested as the solution is: optimised, every case; what passes that,
under the sanitizers, the leak check and the limit of time. Whatever was caught
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
import re
import resource
import shutil
import subprocess
import sys
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "common/tool"))
import verdict  # noqa: E402
from workspace import (BUILD, CannotRun, build_root, chapters,  # noqa: E402
                       library_of, precompile, precompiled_header, run, source_files, torch_root,
                       torch_version)

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib

RESULT = ROOT / "docs/results/mutation.json"
HERE = BUILD / "mutation"
WANTED = ROOT / "tests/requirements-mutation.txt"
EXPLAINED = ROOT / "tests/survivors.toml"
SECONDS = verdict.CASE_SECONDS = 40  # other work may slow this machine down
# Not changed: break and continue where there is no loop; a number within a name; <, >, & and * without spaces around them,
# which are brackets of templates, references and pointers.
GENERATE = """
import contextlib, io, json, os, re, sys
from universalmutator.mutator import mutants_regexp
source = open(sys.argv[1]).readlines()
with contextlib.redirect_stdout(io.StringIO()):
    found = mutants_regexp(
        source, ["universal.rules", "c_like.rules", "cpp.rules"],
        ignorePatterns=[r"^\\s*(//|#)"], ignoreStringOnly=True)
def in_loop(at):
    indent = len(source[at]) - len(source[at].lstrip())
    for line in reversed(source[:at]):
        if line.strip() and len(line) - len(line.lstrip()) < indent:
            indent = len(line) - len(line.lstrip())
            if re.match(r" *(for|while|switch) ", line):
                return True
    return False
def no_operator(line, text, rule):
    at = len(os.path.commonprefix([line, text]))
    if "\\\\d" in rule:
        return any(m.start() < at < m.end() + 1
                   for m in re.finditer(r"[A-Za-z_]\\w*", line))
    marks = re.finditer(r"[<>&*]+", line)
    return len(rule) < 16 and any(
        m.start() <= at <= m.end() and line[m.start() - 1] + line[m.end()] != "  "
        for m in marks)
print(json.dumps([[n, text] for n, text, _, (rule, _) in found
                  if not no_operator(source[n - 1], text, rule.pattern) and
                  (not re.search("(break|continue);\\n$", text) or
                   text.startswith(source[n - 1].rstrip()) and
                   source[n - 1].endswith(";\\n") and in_loop(n - 1))]))
"""


def generate(chapter) -> list[dict]:
    """Every change of the chapter's C++. A file that an earlier chapter has to
    the byte is judged there."""
    python = HERE / "venv/bin/python"
    if not python.exists():
        venv.create(HERE / "venv", with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "-r", WANTED],
                       check=True)
    earlier = {(p.name, p.read_bytes()) for c in chapters()
               if c.number < chapter.number for p in source_files(c.solution)}
    mutants = []
    for path in source_files(chapter.solution):
        if path.suffix not in (".h", ".cpp") or \
                (path.name, path.read_bytes()) in earlier:
            continue
        lines = path.read_text().splitlines()
        done = subprocess.run([python, "-c", GENERATE, path], text=True,
                              check=True, stdout=subprocess.PIPE)
        for line, text in json.loads(done.stdout):
            old, new = lines[line - 1].strip(), text.strip()
            if "//" not in new:  # the lines below keep their numbers
                new = " ".join(new.split("\n"))
            mutants.append({
                "file": str(path.relative_to(chapter.solution)), "line": line,
                "old": old, "new": re.sub(r"\s+", " ", new)
                if "//" not in new else new})
    return mutants


class Bench:
    """A place where one mutant at a time is built and tested."""

    def __init__(self, chapter, number: int):
        self.chapter, self.changed = chapter, None
        self.folder = HERE / str(number) / chapter.name
        self.build = HERE / f"{chapter.name}-{number}"
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(chapter.solution, self.folder,
                        copy_function=shutil.copyfile)  # so all is newer
        pch = precompiled_header(self.folder)
        probe = ROOT / f"tests/{chapter.number}_probe.cpp"
        done = run(["cmake", "-G", "Ninja", "-S", self.folder, "-B", self.build,
                    "-DCMAKE_BUILD_TYPE=Release",
                    "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -g0 "
                    f"{'' if chapter.number in ('01', '08') else f'-include {pch}'}",
                    "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
                    "-DACTIVATION_CUDA=OFF", f"-DTORCH_ROOT={torch_root()}",
                    *([f"-DWORKBOOK_PROBE={probe}", "-DCMAKE_PROJECT_INCLUDE="
                       f"{ROOT}/common/cmake/probe.cmake"]
                      if probe.exists() else [])])
        if chapter.number not in ("01", "08"):  # their files have options of their own
            precompile(self.build, pch)
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
            name = self.changed
            shutil.copyfile(self.chapter.solution / name, self.folder / name)
        self.changed = mutant["file"]
        lines = (self.folder / self.changed).read_text().split("\n")
        lines[mutant["line"] - 1] = mutant["new"]
        (self.folder / self.changed).write_text("\n".join(lines))
        if not self.compiles():
            return "invalid"
        changed = [name for name, digest in self.hashes().items()
                   if self.objects[name] != digest]
        if not changed:
            return "equal"
        if all(name.endswith(".cu.o") for name in changed):
            return "device"  # would have to be run on a GPU
        return self.caught() or "survived"

    def caught(self) -> str | None:
        test = BUILD / f"release/tests/{self.chapter.name}_test"
        try:
            done = subprocess.run(
                [test, f"--library={library_of(self.build)}", f"--timeout={SECONDS}"],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, timeout=10 * SECONDS, preexec_fn=limit)
        except subprocess.TimeoutExpired:
            return "timeout"
        if done.returncode:
            return {1: "test", 3: "load", 124: "timeout"}.get(
                done.returncode, "crash")
        found = verdict.check(self.chapter, self.folder)["class"]
        return None if found == "pass" else found


def limit() -> None:
    """No more memory than a test needs."""
    resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))


def judge_all(chapter, mutants: list, wanted: int, jobs: int) -> list[str]:
    """Verdicts in the order of mutants, until so many of them count."""
    digest = hashlib.sha256(b"".join(
        p.read_bytes() for p in source_files(chapter.solution))).hexdigest()
    memory = HERE / f"{chapter.name}-{digest[:16]}.json"
    known = json.loads(memory.read_text()) if memory.exists() else {}
    free, verdicts = queue.SimpleQueue(), []
    for number in range(jobs):
        free.put(Bench(chapter, number))

    def judge(mutant):
        key = f"{mutant['file']}:{mutant['line']}: {mutant['new']}"
        if known.get(key, "survived") == "survived":
            bench = free.get()
            known[key] = bench.judge(mutant)
            free.put(bench)
            if known[key] == "survived":
                print("{file}:{line}\n  - {old}\n  + {new}".format(**mutant))
        return known[key]

    with ThreadPoolExecutor(jobs) as pool:
        for begin in range(0, len(mutants), 4 * jobs):
            verdicts += pool.map(judge, mutants[begin:begin + 4 * jobs])
            memory.write_text(json.dumps(known))
            counted = [v not in ("invalid", "equal", "device")
                       for v in verdicts]
            print(f"  {len(verdicts)} tried, {sum(counted)} count, "
                  f"{verdicts.count('survived')} survived", flush=True)
            if sum(counted) >= wanted:
                last = [i for i, c in enumerate(counted) if c][wanted - 1]
                return verdicts[:last + 1]
    return verdicts


def score(chapter, arguments) -> dict:
    print(f"{chapter.number} {chapter.title}", flush=True)
    mutants = sorted(generate(chapter),
                     key=lambda m: (m["file"], m["line"], m["new"]))
    random.Random(f"{arguments.seed} {chapter.name}").shuffle(mutants)
    build_root("release", [f"{chapter.name}_test"])
    verdict.test_executable(chapter)
    verdicts = judge_all(chapter, mutants, arguments.sample, arguments.jobs)
    return {"generated": len(mutants), "tried": len(verdicts),
            **{kind: verdicts.count(kind) for kind in sorted(set(verdicts))},
            "survivors": [m for m, found in zip(mutants, verdicts)
                          if found == "survived"]}


def with_reasons(chapter: str, survivors: list) -> list:
    """What is known of each: that it changes a text only, or why no test can
    tell it from the solution."""
    def without_text(line):
        return re.sub(r'"(\\.|[^"\\])*"', '""', line)

    known = {(e["file"], e["old"], e["new"]): e["why"]
             for e in tomllib.loads(EXPLAINED.read_text())["survivor"]}
    for m in survivors:
        m.pop("why", None)
        key = (f"{chapter}/{m['file']}", m["old"], m["new"])
        m["of"] = "text" if without_text(m["old"]) == \
            without_text(m["new"]) else "code"
        m.update({"why": known[key]} if key in known else {})
    return survivors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("chapters", nargs="*", metavar="NN")
    parser.add_argument("--sample", type=int, default=40, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    parser.add_argument("--jobs", type=int, default=2, metavar="N")
    arguments = parser.parse_args()
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    rows = result.setdefault("chapters", {})
    for chapter in chapters():
        if arguments.chapters and chapter.number not in arguments.chapters:
            continue
        row = score(chapter, arguments)
        if RESULT.exists():
            rows = json.loads(RESULT.read_text())["chapters"]
        rows[chapter.name] = row
        for name, row in rows.items():
            with_reasons(name, row["survivors"])
        result.update({
            "date": str(datetime.date.today()), "seed": arguments.seed,
            "sample": arguments.sample, "tool": WANTED.read_text().strip(),
            "libtorch": torch_version(), "machine": platform.machine(),
            "compiler": run(["c++", "--version"]).stdout.splitlines()[0],
            "chapters": dict(sorted(rows.items()))})
        RESULT.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
