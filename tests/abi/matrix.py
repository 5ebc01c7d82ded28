"""Every solution on every libtorch since 2.10: each is built once and runs on each
version, and it is compiled with the headers of each."""

import datetime
import functools
import os
import re
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import snippets
from base.building import build_root, compiler
from base.project import BUILD, ROOT
from base.sheets import chapters
from torch_stable_abi.libtorch import runtimes
from torch_stable_abi.libtorch.versions import OLDEST, numbers
from torch_stable_abi.programs import CannotRun
from torch_stable_abi.programs import run as run_program
from torch_stable_abi.projects import library_of

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
    """Return the folder of an empty libtorch_cuda.so. A CUDA wheel's libtorch.so asks
    for one, and what is kept of the wheel has none."""
    library = BUILD / "matrix/lib/libtorch_cuda.so"
    library.parent.mkdir(parents=True, exist_ok=True)
    run_program(["cc", "-shared", "-nostdlib", "-x", "c", "/dev/null",
                 "-o", library])
    return library.parent


def with_libtorch(version: str, command: list) -> subprocess.CompletedProcess:
    """Run a program on a version; LD_LIBRARY_PATH chooses it."""
    folders = f"{runtimes.root(version) / 'lib'}:{stand_in()}"
    try:
        return run_program(command, timeout=LIMIT, env={
            **os.environ, "LD_LIBRARY_PATH": folders})
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, f"no end in {LIMIT} s")


def build_solution(chapter, version: str) -> Path | str:
    """Return the library of a solution built with the headers of a version, or what the
    compiler said. A warning is an error. Without optimisation, for speed: what a
    version changes shows all the same."""
    if version == runtimes.installed():
        return library_of(BUILD / "release/solutions" / chapter.name) or \
            "no library was built"
    folder = BUILD / "matrix" / version / chapter.name
    probe = chapter.tests / "probe.cpp"
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
    """Return the solution's own, where `library` is the probe that was built beside."""
    if library.name != "libprobe.so":
        return library
    return next(p for p in sorted(library.parent.glob("*.so")) if p != library)


@functools.cache
def needs_libtorch(library: Path) -> bool:
    return "libtorch" in run_program(["readelf", "-d", own_library(library)]).stdout


def run_test(name: str, version: str, *arguments: str) -> str:
    """"pass", or what went wrong."""
    done = with_libtorch(version, [BUILD / f"release/tests/{name}_test", *arguments])
    if done.returncode == 0:
        return "pass"
    lines = [s for s in done.stdout.splitlines()
             if re.search(r"ERROR:|error:|symbol", s)
             and not s.startswith("DESCRIPTION")]
    return f"status {done.returncode}: {(lines or ['no output'])[0]}"


def load_library(library: Path, version: str) -> str:
    """Return "loads", or the loader's message."""
    done = with_libtorch(version, [sys.executable, "-I", "-c", LOAD, library])
    return "loads" if done.returncode == 0 else \
        done.stdout.strip().replace(f"{library.parent}/", "")


def bad_schema(version: str) -> str:
    """Return what becomes of a schema that does not parse: "silent" if the library
    loads and merely lacks the op, else what is thrown at load."""
    folder = runtimes.root(version)
    library = BUILD / f"matrix/bad_schema_{version}.so"
    text = snippets.compile(snippets.BAD_SCHEMA, folder, "2.10", "-shared", "-fPIC",
                         "-o", library, f"-L{folder}/lib", "-ltorch_cpu")
    if text:
        raise CannotRun(f"the library with a bad schema: {text}")
    done = with_libtorch(version, [sys.executable, "-I", "-c", CALL_BAD, library])
    if done.stdout.strip().endswith("missing"):
        return "silent"
    thrown = re.search(r"what\(\): (.*)", done.stdout)
    if not thrown:
        return f"status {done.returncode}"
    return thrown[1].strip()[:200].replace(f"{folder}/", "")


class Matrix:
    """Builds and runs everything once; `problems` names what is not as it should be,
    by the chapter's number or by what was tried."""

    def __init__(self, versions):
        self.problems: dict[str, list[str]] = defaultdict(list)
        self.missing: list[str] = []
        with ThreadPoolExecutor(4) as pool:
            wanted = [v for v, whole in zip(
                versions, pool.map(runtimes.whole, versions)) if not whole]
        for version in wanted:
            try:
                runtimes.fetch(version)
            except CannotRun as error:
                self.missing.append(f"{version}: {error}")
                versions = [v for v in versions if v != version]
        self.old = [v for v in versions if numbers(v) < OLDEST]
        self.runs = [v for v in versions if v not in self.old]
        mine = runtimes.installed()
        self.headers = [mine, *(v for v in self.runs if v != mine)]
        self.chapters = [c for c in chapters() if c.solution.is_dir()]
        self.result: dict = {
            "schema": 1, "what": "matrix",
            "date": datetime.date.today().isoformat(),
            "built_once_with": mine, "versions": self.runs}

    def expect(self, good: bool, subject: str, text: str) -> None:
        if not good:
            self.problems[subject].append(text)

    def run(self, pool) -> dict:
        build_root("release", ["libtorch_facts_test", *(
            name for c in self.chapters for name in (f"{c.name}_test", c.name))])
        stand_in()
        pairs = [(c, v) for c in self.chapters for v in self.headers]
        libraries = dict(zip(pairs, pool.map(lambda p: build_solution(*p), pairs)))
        runs = [(c, v, on) for c, v in pairs
                for on in self.runs_of(v, libraries[c, v])]
        texts = dict(zip(runs, pool.map(
            lambda r: run_test(r[0].name, r[2], f"--library={libraries[r[:2]]}"),
            runs)))
        for version, text in zip(self.runs, pool.map(
                lambda v: run_test("libtorch_facts", v), self.runs)):
            self.expect(text == "pass", "facts", f"on {version}: {text}")
        self.result["builds"] = [
            self.row(c, v, libraries[c, v], texts) for c, v in pairs]
        self.result["builds"] += self.newest_targets(libraries, pool)
        self.result["refused"] = self.refused(libraries, pool)
        self.result["bad_schema"] = dict(zip(
            self.runs, pool.map(bad_schema, self.runs)))
        for version, text in self.result["bad_schema"].items():
            silent = numbers(version) < (2, 13)
            self.expect((text == "silent") == silent, "bad schema",
                        f"with headers {version}: {text}")
        return self.result

    def runs_of(self, version, library) -> list[str]:
        """Return the versions that one build is run on."""
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
            self.expect(False, chapter.number, f"with headers {version}: {library}")
            return {**row, "error": library}
        row["needs_libtorch"] = needs_libtorch(library)
        row["runs"] = {on: text for (c, v, on), text in texts.items()
                       if (c, v) == (chapter, version)}
        for on, text in row["runs"].items():
            self.expect(text == "pass", chapter.number,
                        f"built with {version}, on {on}: {text}")
        return row

    def newest_targets(self, libraries, pool):
        """Load chapter 06's second library, which targets its own headers, on each
        version. Older libtorch need not refuse it, but newer must load it."""
        rows = []
        for (chapter, version), library in libraries.items():
            if chapter.number != "06" or not isinstance(library, Path):
                continue
            newest = library.with_name("libversion_gating_newest.so")
            texts = pool.map(load_library, [newest] * len(self.runs), self.runs)
            row = {"chapter": "06", "title": chapter.title, "headers": version,
                   "target": ".".join(version.split(".")[:2]),
                   "needs_libtorch": True, "runs": dict(zip(self.runs, texts))}
            for on, text in row["runs"].items():
                enough = numbers(on) >= numbers(version)
                self.expect(text == "loads" if enough else
                            text == "loads" or "undefined symbol" in text,
                            "06", f"target {row['target']} on {on}: {text}")
            rows.append(row)
        return rows

    def refused(self, libraries, pool):
        """Return what a libtorch that is too old says of what an author ships: the
        library itself, not the test's probe, which may need less."""
        tried = [(c, v) for c in self.chapters for v in self.old
                 if isinstance(libraries[c, self.headers[0]], Path)]
        texts = pool.map(
            lambda t: load_library(own_library(libraries[t[0], self.headers[0]]), t[1]),
            tried)
        rows = []
        for (chapter, version), text in zip(tried, texts):
            needs = needs_libtorch(libraries[chapter, self.headers[0]])
            self.expect("undefined symbol" in text if needs else text == "loads",
                        chapter.number, f"on {version}: {text}")
            if needs:
                rows.append({"chapter": chapter.number, "torch": version,
                             "message": text})
        return rows
