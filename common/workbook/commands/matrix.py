"""matrix: every solution, or a library of yours, on every libtorch since 2.10.

    ./workbook matrix                           the workbook's own solutions
    ./workbook matrix LIBRARY                   load it, and list its ops
    ./workbook matrix LIBRARY -- build/my_test  and run your test on each version
    ./workbook matrix WHEEL --python -- python -m pytest tests

LIBRARY is a file, a wheel, or the folder of a CMakeLists.txt. A solution is built
once and runs on each version; and it is compiled with the headers of each."""

import argparse
import datetime
import functools
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from workbook.building import build_root, compiler, library_of
from workbook.libtorch import extension, gates, record, runtimes
from workbook.libtorch.versions import OLDEST, in_order, listed, numbers
from workbook.project import BUILD, ROOT, CannotRun
from workbook.project import run as run_program
from workbook.sheets import chapters

LIMIT = 300  # seconds that one test may take

# Loads a library as Python does, and tells what the loader says.
LOAD = """
import ctypes, sys
try:
    ctypes.CDLL(sys.argv[1])
except OSError as error:
    print(error); sys.exit(1)
"""
# The same, then calls an op that its bad schema should have defined.
CALL_BAD = LOAD + """
torch = ctypes.CDLL("libtorch_cpu.so")
stack = (ctypes.c_uint64 * 1)()
print("defined" if torch.torch_call_dispatcher(
    b"gate::bad", b"", stack, ctypes.c_uint64(2 << 56 | 10 << 48)) == 0
    else "missing")
"""


@functools.cache
def stand_in() -> Path:
    """The folder of an empty libtorch_cuda.so. A CUDA wheel's libtorch.so asks
    for one, and what is kept of the wheel has none."""
    library = BUILD / "matrix/lib/libtorch_cuda.so"
    library.parent.mkdir(parents=True, exist_ok=True)
    run_program(["cc", "-shared", "-nostdlib", "-x", "c", "/dev/null",
                 "-o", library])
    return library.parent


def with_libtorch(version: str, command: list) -> subprocess.CompletedProcess:
    """Runs a program on a version; LD_LIBRARY_PATH chooses it."""
    folders = f"{runtimes.root(version) / 'lib'}:{stand_in()}"
    try:
        return run_program(command, timeout=LIMIT, env={
            **os.environ, "LD_LIBRARY_PATH": folders})
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, f"no end in {LIMIT} s")


def build(chapter, version: str) -> Path | str:
    """The library of a solution built with the headers of a version, or what
    the compiler said. A warning is an error. Without optimisation, for speed:
    what a version changes shows all the same."""
    if version == runtimes.installed():
        return library_of(BUILD / "release/solutions" / chapter.name) or \
            "no library was built"
    folder = BUILD / "matrix" / version / chapter.name
    probe = ROOT / f"tests/{chapter.number}_probe.cpp"
    done = run_program([
        "cmake", "-G", "Ninja", "-S", chapter.solution, "-B", folder,
        f"-DTORCH_ROOT:PATH={runtimes.root(version)}",
        "-DCMAKE_CXX_FLAGS=-Werror", "-DCMAKE_CXX_FLAGS_RELEASE=-O0",
        "-DACTIVATION_CUDA=OFF",
        *([f"-DCMAKE_PROJECT_INCLUDE={ROOT}/common/cmake/probe.cmake",
           f"-DWORKBOOK_PROBE={probe}"] if probe.exists() else [])],
        env={**os.environ, "CXX": compiler()})
    if done.returncode == 0:
        done = run_program(["ninja", "-C", folder])
    library = library_of(folder)
    if done.returncode == 0 and library:
        return library
    errors = re.findall(r"error: .*", done.stdout)
    return errors[0] if errors else done.stdout[-500:]


def own_library(library: Path) -> Path:
    """The solution's own, where `library` is the probe that was built beside."""
    if library.name != "libprobe.so":
        return library
    return next(p for p in sorted(library.parent.glob("*.so")) if p != library)


@functools.cache
def needs_libtorch(library: Path) -> bool:
    return "libtorch" in run_program(["readelf", "-d", own_library(library)]).stdout


def test(chapter, library: Path, version: str) -> str:
    """"pass", or what went wrong."""
    done = with_libtorch(version, [
        BUILD / f"release/tests/{chapter.name}_test", f"--library={library}"])
    if done.returncode == 0:
        return "pass"
    lines = [s for s in done.stdout.splitlines()
             if re.search(r"ERROR:|error:|symbol", s)
             and not s.startswith("DESCRIPTION")]
    return f"status {done.returncode}: {(lines or ['no output'])[0]}"


def load(library: Path, version: str) -> str:
    """"loads", or the loader's message."""
    done = with_libtorch(version, [sys.executable, "-c", LOAD, library])
    return "loads" if done.returncode == 0 else \
        done.stdout.strip().replace(f"{library.parent}/", "")


def bad_schema(version: str) -> str:
    """What becomes of a schema that does not parse: "silent" if the library
    loads and merely lacks the op, else what is thrown at load."""
    folder = runtimes.root(version)
    library = BUILD / f"matrix/bad_schema_{version}.so"
    text = gates.compile(gates.BAD_SCHEMA, folder, "2.10", "-shared", "-fPIC",
                         "-o", library, f"-L{folder}/lib", "-ltorch_cpu")
    if text:
        raise CannotRun(f"the library with a bad schema: {text}")
    done = with_libtorch(version, [sys.executable, "-c", CALL_BAD, library])
    if done.stdout.strip().endswith("missing"):
        return "silent"
    thrown = re.search(r"what\(\): (.*)", done.stdout)
    if not thrown:
        return f"status {done.returncode}"
    return thrown[1].strip()[:200].replace(f"{folder}/", "")


class Matrix:
    def __init__(self, versions):
        self.counts = {True: 0, False: 0}
        self.missing = []
        with ThreadPoolExecutor(4) as pool:
            wanted = [v for v, whole in zip(
                versions, pool.map(runtimes.whole, versions)) if not whole]
        if wanted:
            print(f"Fetching torch {', '.join(wanted)}: 0.5 to 0.9 GB each, of "
                  f"which 0.43 are kept in\n{runtimes.CACHE}")
        for version in wanted:
            try:
                runtimes.fetch(version)
            except CannotRun as error:
                print(f"  {error}")
                self.missing.append(version)
        here = [v for v in versions if v not in self.missing]
        self.old = [v for v in here if numbers(v) < OLDEST]
        self.runs = [v for v in here if v not in self.old]
        mine = runtimes.installed()
        self.headers = [mine, *(v for v in self.runs if v != mine)]
        self.chapters = [
            c for c in chapters() if c.solution.is_dir() and
            (ROOT / f"tests/{c.name}_test.cpp").exists()]
        self.result: dict = {
            "schema": 1, "what": "matrix",
            "date": datetime.date.today().isoformat(),
            "built_once_with": mine, "versions": self.runs}

    def count(self, good: bool, text: str = "") -> None:
        self.counts[good] += 1
        if not good:
            print(f"  FAILED: {text}")

    def all(self, pool) -> dict:
        build_root("release", [name for c in self.chapters
                               for name in (f"{c.name}_test", c.name)])
        stand_in()
        pairs = [(c, v) for c in self.chapters for v in self.headers]
        libraries = dict(zip(pairs, pool.map(lambda p: build(*p), pairs)))
        runs = [(c, v, on) for c, v in pairs
                for on in self.runs_of(v, libraries[c, v])]
        texts = dict(zip(runs, pool.map(
            lambda r: test(r[0], libraries[r[:2]], r[2]), runs)))
        self.result["builds"] = [
            self.row(c, v, libraries[c, v], texts) for c, v in pairs]
        self.result["builds"] += self.newest_targets(libraries, pool)
        self.result["refused"] = self.refused(libraries, pool)
        self.result["bad_schema"] = dict(zip(
            self.runs, pool.map(bad_schema, self.runs)))
        for version, text in self.result["bad_schema"].items():
            silent = numbers(version) < (2, 13)
            self.count((text == "silent") == silent,
                       f"a bad schema with headers {version}: {text}")
        roots = {gates.minor(v): runtimes.root(v) for v in self.headers}
        found = pool.map(lambda g: gates.wrong(g, roots), gates.GATES)
        self.result["gates"] = []
        for gate, text in zip(gates.GATES, found):
            self.count(not text, f"{gate['api']}: {text}")
            self.result["gates"].append(
                {k: v for k, v in gate.items() if k != "code"})
        return self.result

    def runs_of(self, version, library) -> list[str]:
        """The versions that one build is run on."""
        if not isinstance(library, Path):
            return []
        if not needs_libtorch(library):
            return self.runs[-1:]
        if version == runtimes.installed():
            return self.runs
        # Other headers: the oldest, its own, the newest.
        return [v for v in self.runs
                if v in (self.runs[0], version, self.runs[-1])]

    def row(self, chapter, version, library, texts):
        """One build on every libtorch."""
        row = {"chapter": chapter.number, "title": chapter.title,
               "headers": version, "target": "2.10"}
        if not isinstance(library, Path):
            self.count(False, f"{chapter.number} with headers {version}: "
                              f"{library}")
            return {**row, "error": library}
        row["needs_libtorch"] = needs_libtorch(library)
        row["runs"] = {on: text for (c, v, on), text in texts.items()
                       if (c, v) == (chapter, version)}
        for on, text in row["runs"].items():
            self.count(text == "pass", f"{chapter.number} built with {version}, "
                                       f"on {on}: {text}")
        return row

    def newest_targets(self, libraries, pool):
        """Chapter 06's second library targets its own headers. Older libtorch
        need not refuse it, but newer must load it."""
        rows = []
        for (chapter, version), library in libraries.items():
            if chapter.number != "06" or not isinstance(library, Path):
                continue
            newest = library.with_name("libversion_gating_newest.so")
            texts = pool.map(load, [newest] * len(self.runs), self.runs)
            row = {"chapter": "06", "title": chapter.title, "headers": version,
                   "target": ".".join(version.split(".")[:2]),
                   "needs_libtorch": True, "runs": dict(zip(self.runs, texts))}
            for on, text in row["runs"].items():
                enough = numbers(on) >= numbers(version)
                self.count(text == "loads" if enough else
                           text == "loads" or "undefined symbol" in text,
                           f"target {row['target']} on {on}: {text}")
            rows.append(row)
        return rows

    def refused(self, libraries, pool):
        """What a libtorch that is too old says of what an author ships: the
        library itself, not the test's probe, which may need less."""
        tried = [(c, v) for c in self.chapters for v in self.old
                 if isinstance(libraries[c, self.headers[0]], Path)]
        texts = pool.map(
            lambda t: load(own_library(libraries[t[0], self.headers[0]]), t[1]),
            tried)
        rows = []
        for (chapter, version), text in zip(tried, texts):
            needs = needs_libtorch(libraries[chapter, self.headers[0]])
            self.count("undefined symbol" in text if needs else text == "loads",
                       f"{chapter.number} on {version}: {text}")
            if needs:
                rows.append({"chapter": chapter.number, "torch": version,
                             "message": text})
        return rows


def cell(row: dict, version: str) -> str:
    """pass, loads, refused, FAILED; "" where it was not run."""
    text = row.get("runs", {}).get(version, "")
    if text in ("", "pass", "loads"):
        return text
    return "refused" if "undefined symbol" in text else "FAILED"


def show(result: dict) -> None:
    if not result["versions"]:  # only some that are too old
        result["builds"] = []
    else:
        print(f"\n   {'headers':<9}{'target':<7}" +
              "".join(f"{v:>9}" for v in result["versions"]))
    chapter = ""
    for row in result["builds"]:
        if row["chapter"] != chapter:
            chapter = row["chapter"]
            print(f"{chapter} {row['title']}")
        cells = "".join(f"{cell(row, v):>9}" for v in result["versions"])
        note = " does not compile" if "error" in row else \
            "" if row["needs_libtorch"] else " (needs no libtorch)"
        print(f"   {row['headers']:<9}{row['target']:<7}{cells.rstrip()}{note}")
    for row in result["refused"]:
        print(f"{row['chapter']} on {row['torch']}: {row['message'][:110]}")
    for version, text in result["bad_schema"].items():
        print(f"A bad schema with headers {version}: " +
              (text if text == "silent" else "refused"))


TAKES_COMMAND = True  # after --


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "exit status: 0 all as it should be, 1 not, 2 could not run"
    parser.add_argument("words", nargs="*", metavar="LIBRARY | VERSION",
                        help=f"of torch; default: {' '.join(listed())}")
    parser.add_argument("--python", action="store_true",
                        help="run the command beside each version's torch for "
                             "Python, which is installed if need be")
    parser.add_argument("--json", metavar="FILE", help="write the result there")
    parser.add_argument("--record", action="store_true",
                        help="write docs/results, for the pages' tables")


def of_library(given: list[str], arguments: argparse.Namespace) -> int:
    if len(given) > 1:
        raise CannotRun(f"one library at a time, or a version such as 2.10.0: "
                        f"{' '.join(given)}")
    result = extension.matrix(given[0], arguments.versions, arguments.command,
                              arguments.python)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(result, indent=1) + "\n")
    bad = [v for v, row in result["versions"].items() if not row["good"]]
    print(f"{len(result['versions']) - len(bad)} of {len(result['versions'])} "
          "versions" + (f"; not {', '.join(bad)}" if bad else ""))
    return 1 if bad else 0


def run(arguments: argparse.Namespace) -> int:
    arguments.versions = [w for w in arguments.words
                          if re.fullmatch(r"2\.\d+\.\d+", w)]
    given = [w for w in arguments.words if w not in arguments.versions]
    if given and not Path(given[0]).exists():
        raise CannotRun(f"{given[0]} is no library, and no version such as 2.10.0")
    if given:
        return of_library(given, arguments)
    if arguments.command or arguments.python:
        raise CannotRun("a command is run for a library: ./workbook matrix "
                        "LIBRARY -- COMMAND")
    if arguments.record and arguments.versions:
        raise CannotRun("--record is of every version, so without VERSION")
    start = time.monotonic()
    matrix = Matrix(arguments.versions or
                    in_order(*listed(), runtimes.installed()))
    if arguments.record and matrix.missing:
        raise CannotRun(f"{', '.join(matrix.missing)} could not be fetched; "
                        "--record is of every version")
    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        result = matrix.all(pool)
    show(result)
    if arguments.record:
        record.record(result)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(result, indent=1) + "\n")
    if matrix.missing:
        print(f"NOT RUN: {', '.join(matrix.missing)} could not be fetched")
    print(f"{matrix.counts[True]} passed, "
          f"{matrix.counts[False] + len(matrix.missing)} failed "
          f"({time.monotonic() - start:.0f} s)")
    return 1 if matrix.counts[False] else 2 if matrix.missing else 0
