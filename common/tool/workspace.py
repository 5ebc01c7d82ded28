"""Where things are, what the sheets say, and how a project is configured."""

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "common/cuda"), str(ROOT / "common/bench")]
import nvcc  # noqa: E402

os.environ["PATH"] += os.pathsep + str(nvcc.BIN)  # if it has been fetched
BUILD = ROOT / "build"
MINE = ROOT / "my"


class CannotRun(Exception):
    """Something is missing: the text says what, and the line that cures it."""


# --- the sheets --------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    id: str  # "01.3"
    title: str
    minutes: int
    file: str


@dataclass(frozen=True)
class Chapter:
    name: str  # "01_headeronly_types"
    title: str
    minutes: int
    torch: str
    needs: str
    steps: tuple[Step, ...]

    @property
    def number(self) -> str:
        return self.name[:2]

    @property
    def starter(self) -> Path:
        return ROOT / "chapters" / self.name

    @property
    def solution(self) -> Path:
        return ROOT / "solutions" / self.name

    @property
    def python_test(self) -> Path:
        """Where it is, the chapter's steps are tested by pytest."""
        return ROOT / f"tests/python/test_{self.name}.py"

    @property
    def mine(self) -> Path:
        return MINE / self.name

    def step(self, id: str) -> Step:
        for step in self.steps:
            if step.id == id:
                return step
        raise CannotRun(f"chapter {self.number} has no step {id}: it has "
                        f"{self.steps[0].id} to {self.steps[-1].id}")


def read_sheet(folder: Path) -> Chapter:
    """A chapter's sheet is the only source of its title, times and steps."""
    text = (folder / "README.md").read_text()
    title = re.search(r"^# \d\d (.+)$", text, re.M)
    facts = re.search(r"^\| *(\d+) *\| *([\d.]+) *\| *(.+?) *\|$", text, re.M)
    steps = re.findall(
        r"^## (\d\d\.\d) (.+)\n\n\*(\d+) minutes · `([^`]+)`", text, re.M)
    if not (title and facts and steps):
        raise CannotRun(f"{folder}/README.md is not a sheet: it lacks its "
                        "title, its table or its steps")
    return Chapter(
        folder.name, title[1], int(facts[1]), facts[2], facts[3],
        tuple(Step(id, name, int(minutes), file)
              for id, name, minutes, file in steps))


@functools.cache
def chapters() -> tuple[Chapter, ...]:
    return tuple(read_sheet(path.parent)
                 for path in sorted(ROOT.glob("chapters/*/README.md")))


def find_chapter(number: str) -> Chapter:
    for chapter in chapters():
        if number in (chapter.number, chapter.name):
            return chapter
    raise CannotRun(f"there is no chapter {number}: "
                    f"./workbook list shows all of them")


def source_files(folder: Path) -> list[Path]:
    """What an implementation consists of: its files without the sheet."""
    return sorted(
        path for path in folder.rglob("*")
        if path.is_file() and path.relative_to(folder) != Path("README.md")
        and not any(part.startswith((".", "__pycache__"))
                    for part in path.relative_to(folder).parts)
        and not any(part.startswith("build")
                    for part in path.relative_to(folder).parent.parts))


def open_chapter(chapter: Chapter) -> None:
    """Makes the learner's copy. A file that is there is never written over."""
    for path in source_files(chapter.starter):
        copy = chapter.mine / path.relative_to(chapter.starter)
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            part = copy.with_name(copy.name + ".part")  # whole or not at all
            shutil.copy(path, part)
            part.rename(copy)


# --- torch -------------------------------------------------------------------


@functools.cache
def torch_root() -> Path:
    folder = Path(os.environ.get("TORCH_ROOT", ""))
    if not (folder / "include/torch/headeronly/version.h").is_file():
        raise CannotRun("TORCH_ROOT is not set to a torch >= 2.10; "
                        "start the tool by ./workbook")
    return folder


@functools.cache
def torch_version() -> str:
    """Of the headers: "2.13.0", as torch or libtorch itself records it."""
    for file in ("version.py", "../build-version", "include/torch/version.h"):
        path = torch_root() / file
        if path.is_file():
            found = re.search(r"\b(\d+\.\d+\.\d+\S*?)['\"\s]", path.read_text())
            if found:
                return found[1]
    return "of unknown version"


def install(name: str) -> None:
    """Installs a pinned requirements file beside the tool, once, and lets this
    Python see torch. The tests in Python need both."""
    pth = Path(sysconfig.get_path("purelib"), "torch_of_workbook.pth")
    if not (torch_root() / "__init__.py").is_file():
        raise CannotRun(f"{torch_root()} is libtorch alone; this chapter needs "
                        "torch for Python: unset TORCH_ROOT")
    if not pth.exists() or pth.read_text() != f"{torch_root().parent}\n":
        pth.write_text(f"{torch_root().parent}\n")
    wanted, done = ROOT / name, pth.with_name(f"{name}.done")
    if not done.exists() or done.read_bytes() != wanted.read_bytes():
        try:
            run_shown(f"Installing {name}", [
                sys.executable, "-m", "pip", "install", "-q",
                "--disable-pip-version-check", "-r", wanted])
        except CannotRun as error:
            raise CannotRun(f"{name} could not be installed (a network?); it "
                            f"is needed for the Hub's loader\n{error}")
        shutil.copy(wanted, done)


# --- running programs ---------------------------------------------------------


def run(command: list, **options) -> subprocess.CompletedProcess:
    """Runs to the end; output and errors come back as one text."""
    done = subprocess.run(
        [str(word) for word in command], text=True, errors="replace",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, **options)
    if done.returncode != 0:
        look_for_full_disk(done.stdout)
    return done


def look_for_full_disk(text: str) -> None:
    """A linker that writes through memory is ended by SIGBUS."""
    found = re.search(".*No space left on device.*|.*signal 7 .*", text)
    if found or shutil.disk_usage(ROOT).free < 2**20:  # CMake may not say so
        raise CannotRun("the disk is full; free some, a build needs 2 GiB" +
                        (f"\n{found[0].strip()}" if found else ""))


def read_json(path: Path) -> dict:
    """{} if it is not there, or cut off by a full disk or a power failure."""
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}


def write_json(path: Path, data: dict) -> None:
    part = path.with_name(path.name + ".part")  # whole or not at all
    part.write_text(json.dumps(data))
    part.rename(path)


def run_shown(title: str, command: list, **options) -> None:
    """Runs a long step; on a terminal its progress is shown. If it fails, so
    are its last lines."""
    shown = sys.stderr.isatty()
    start = time.monotonic()
    if not shown:
        print(f"{title} ...", file=sys.stderr)
    process = subprocess.Popen(
        [str(word) for word in command], text=True, errors="replace",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, **options)
    lines = []
    try:
        for line in process.stdout:
            lines.append(line)
            if shown:
                seconds = time.monotonic() - start
                text = f"{title} ... {seconds:.0f} s  {line.strip()}"
                print(f"\r\033[K{text[:78]}", end="", file=sys.stderr, flush=True)
    finally:  # after Ctrl-C too, so that it can tidy up
        process.wait()
        if shown:
            print("\r\033[K", end="", file=sys.stderr)
    if process.returncode != 0:
        tail = "".join(lines[-25:])
        look_for_full_disk("".join(lines))
        raise CannotRun(f"{title}: failed\n{tail}"
                        f"The command was: {shlex.join(map(str, command))}\n"
                        "What this machine has: ./workbook doctor")


@contextlib.contextmanager
def locked(folder: Path):
    """One build in a folder at a time; a second one waits."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Waiting for another ./workbook that builds this ...",
                  file=sys.stderr)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


# --- configuring and building ---------------------------------------------------


def build_root(preset: str, targets: list[str]) -> None:
    """Builds targets of the root project: tests, benchmarks, solutions."""
    folder = BUILD / preset
    with locked(folder):
        if not (folder / "build.ninja").exists() or _other_torch(folder):
            run_shown("Configuring", [
                "cmake", "--preset", preset, f"-DTORCH_ROOT={torch_root()}"],
                cwd=ROOT)
        run_shown(f"Building ({preset})", ["ninja", "-C", folder, *targets])


def _other_torch(folder: Path) -> bool:
    cache = folder / "CMakeCache.txt"
    return (not cache.is_file() or
            f"TORCH_ROOT:PATH={torch_root()}\n" not in cache.read_text())


def implementation_build(folder: Path) -> Path:
    """The build folder of an implementation: my-01_..., or by its place."""
    folder = folder.resolve()
    if folder.parent == MINE:
        return BUILD / "learn" / f"my-{folder.name}"
    digest = hashlib.sha256(str(folder).encode()).hexdigest()[:8]
    return BUILD / "learn" / f"{folder.name}-{digest}"


def configure(chapter: Chapter, folder: Path,
              build: Path) -> subprocess.CompletedProcess | None:
    """Configures an implementation as a project of its own, if need be."""
    if (build / "build.ninja").exists() and not _other_torch(build):
        return None
    if chapter.python_test.exists():  # its product is the build as it is
        return run(["cmake", "-G", "Ninja", "-S", folder, "-B", build,
                    "-DACTIVATION_CUDA=OFF", f"-DTORCH_ROOT:PATH={torch_root()}"])
    pch = precompiled_header(folder)
    probe = ROOT / f"tests/{chapter.number}_probe.cpp"
    result = run([
        "cmake", "-G", "Ninja", "-S", folder, "-B", build,
        "-DCMAKE_BUILD_TYPE=Debug",
        f"-DCMAKE_PROJECT_INCLUDE={ROOT}/common/cmake/learn.cmake",
        f"-DTORCH_ROOT:PATH={torch_root()}", f"-DWORKBOOK_PCH={pch}",
        *([f"-DWORKBOOK_PROBE={probe}"] if probe.exists() else [])])
    if result.returncode == 0:
        precompile(build, pch)
    return result


def precompiled_header(folder: Path) -> Path:
    stable = any("torch/csrc/stable" in path.read_text(errors="replace")
                 for path in source_files(folder))
    name = "stable.h" if stable else "headeronly.h"
    copy = BUILD / "learn" / "pch" / name
    copy.parent.mkdir(parents=True, exist_ok=True)
    for source in (ROOT / "common/cmake/pch").glob("*.h"):
        target = copy.parent / source.name
        if not target.exists() or target.read_bytes() != source.read_bytes():
            shutil.copy(source, target)
    return copy


def precompile(build: Path, pch: Path) -> None:
    """Precompiles the header once for each set of flags in use. GCC takes the
    first file of the folder <header>.gch that fits, else the header itself."""
    folder = pch.with_name(pch.name + ".gch")
    folder.mkdir(exist_ok=True)
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        if str(pch) not in words:
            continue
        flags, skip = [], False
        for word in words:
            if skip or word in ("-c", entry["file"]) or str(pch) == word:
                skip = False
            elif word in ("-o", "-include"):
                skip = True
            else:
                flags.append(word)
        key = hashlib.sha256(" ".join(flags + [str(pch.stat().st_mtime_ns)])
                             .encode()).hexdigest()[:16]
        if not (folder / key).exists():
            made = folder / f"{key}.{os.getpid()}"
            try:
                run([*flags, "-x", "c++-header", pch, "-o", made], check=True)
                made.rename(folder / key)
            except subprocess.CalledProcessError:
                pass  # GCC then takes the header itself
            finally:
                made.unlink(missing_ok=True)


def library_of(build: Path) -> Path | None:
    """The shared library that an implementation's build has made."""
    probe = build / "libprobe.so"
    if probe.exists():
        return probe
    found = sorted(build.glob("*.so")) or sorted(build.glob("torch*/*.so"))
    return found[0] if found else None
