"""Configuring and building an implementation, and the root project."""

import contextlib
import functools
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from base import nvcc
from base.project import BUILD, MINE, ROOT
from base.sheets import Chapter, open_chapter
from torch_stable_abi.files import locked, place, read_json, readable, write_json
from torch_stable_abi.libtorch.installed import torch_root
from torch_stable_abi.programs import CannotRun, run, run_shown
from torch_stable_abi.projects import by_place

FLAGS = ("CFLAGS", "CXXFLAGS", "LDFLAGS")
CMAKE_CANNOT_BEAR = '";#\\|:\t\n'  # in the name of a folder

os.environ["PATH"] = os.pathsep.join([  # that of nvcc if it has been fetched
    os.environ.get("PATH") or os.defpath, str(nvcc.BIN)])


@functools.cache
def compiler() -> str:
    """Return that of learner builds: CXX; else clang++, which compiles faster, if it
    has the sanitizers and what names the lines in their reports; else c++."""
    clang = shutil.which("clang++")
    if os.environ.get("CXX") or not (clang and shutil.which("llvm-symbolizer")):
        return chosen_compiler()
    return clang if builds_cpp(clang, "-fsanitize=address,undefined") else "c++"


@functools.cache
def chosen_compiler() -> str:
    """Return CXX, which must be able to build a program of C++, or c++."""
    cxx = os.environ.get("CXX") or "c++"
    if not os.environ.get("CXX") and shutil.which(cxx) is None:
        raise CannotRun("there is no compiler of C++: sudo apt-get install -y g++")
    try:
        words = shlex.split(cxx)
    except ValueError as error:
        raise CannotRun(f"CXX={cxx}: {error}; unset CXX, or mend its quotes") from None
    if not words or shutil.which(words[0]) is None:
        raise CannotRun(f"CXX={cxx}: there is no such program; unset CXX, or set it to "
                        "a compiler of C++, such as g++ or clang++")
    if cxx != "c++" and not builds_cpp(*words):
        raise CannotRun(f"CXX={cxx} links no program of C++; unset CXX, or set it to "
                        "g++ or clang++ (gcc and clang are for C)")
    return cxx


def builds_cpp(*command: str) -> bool:
    """Return whether a compiler builds a program that uses the C++ library."""
    return not _error_in_hello(*command)


def _error_in_hello(*command: str) -> str:
    """Return what a compiler says of a program that uses the C++ library, or "" if it
    builds one. One that did is remembered, as long as its file is the same."""
    path = shutil.which(command[0]) or ""
    seen, title = BUILD / "compilers.json", shlex.join(command)
    known, time = read_json(seen), os.stat(path).st_mtime
    if known.get(title) != [path, time]:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "hello.cpp")
            source.write_text("#include <iostream>\n#include <optional>\n"
                              "int main() { std::cout << 1; }\n")
            done = run([*command, source, "-o", f"{folder}/hello"])
            if done.returncode != 0:
                return done.stdout or f"{title} failed"
        with contextlib.suppress(OSError):  # a full disk: the build says it
            write_json(seen, {**known, title: [path, time]})
    return ""


def told_by_environment() -> str:
    """Return what the environment tells CMake, the compiler and the linker, or ""."""
    return ", ".join(f"{name}={value}" for name, value in os.environ.items()
                     if name in (*FLAGS, "LD_PRELOAD") or
                     re.fullmatch(r"CMAKE_\w+(?<!_LAUNCHER)", name))


def blame_environment(text: str, what: str = "CMake stops") -> None:
    """Refuse what the environment tells CMake and the compiler, if anything: they have
    said this text, and failed."""
    if told := told_by_environment():
        why = re.search(r".*(?:error: |cannot find |Could not find ).*", text)
        raise CannotRun(f"{what}, and your environment tells it or the compiler "
                        f"what to do: unset {told}" +
                        (f"\n{why[0].strip()}" if why else ""))


@contextlib.contextmanager
def blaming_environment(what: str) -> Iterator[None]:
    """Name what the environment tells a program of the caller's that fails."""
    try:
        yield
    except CannotRun as error:
        blame_environment(str(error), what)
        raise


def _try_flags(cxx: str) -> None:
    """Refuse flags of the environment with which this compiler builds nothing."""
    try:
        flags = [word for name in ("CXXFLAGS", "LDFLAGS")
                 for word in shlex.split(os.environ.get(name, ""))]
    except ValueError as error:
        blame_environment(f"error: {error}")
        raise
    if flags and (said := _error_in_hello(*shlex.split(cxx), *flags)):
        blame_environment(said)


def build_root(preset: str, targets: list[str]) -> None:
    """Build targets of the root project: tests, benchmarks, solutions."""
    folder = BUILD / preset
    cxx = compiler() if preset == "learn" else chosen_compiler()
    refuse_future([*ROOT.glob("CMake*"), *ROOT.glob("common/cmake/*"),
                   *ROOT.glob("*/*/CMakeLists.txt")])
    with locked(folder):
        if not is_configured(folder, cxx):
            with configuring(folder, cxx) as environment:
                with blaming_environment("CMake stops"):
                    run_shown("Configuring", [
                        "cmake", "--preset", preset,
                        f"-DTORCH_ROOT={torch_root()}"], cwd=ROOT, env=environment)
        with blaming_environment("a build fails"):
            run_shown(f"Building ({preset})", ["ninja", "-C", folder, *targets])


def _stamp_text(build: Path, cxx: str) -> str:
    """Name all that a build folder is configured for: its place, this torch as it was
    installed, this compiler and its flags, which CMake keeps. pip gives headers the
    dates of their wheel, so ninja does not see that a precompiled header is of
    others."""
    headers = torch_root() / "include/torch/headeronly/version.h"
    flags = "".join(f"{name}={os.environ[name]}\n" for name in FLAGS
                    if os.environ.get(name))
    return f"{build}\n{torch_root()}\n{headers.stat().st_ctime_ns}\n{cxx}\n{flags}"


def refuse_future(files: Iterable[Path]) -> None:
    """Refuse a file of CMake's that is dated in the future: ninja would run CMake again
    and again."""
    now = time.time()
    for file in files:
        with contextlib.suppress(OSError):
            if (at := file.stat().st_mtime) > now + 60:
                date = time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
                folder = ROOT if file.is_relative_to(ROOT) else file.parent
                raise CannotRun(
                    f"{place(file)} is dated {date}, in the future: set the clock, or\n"
                    f"find {shlex.quote(str(folder))} -newermt now -exec touch {{}} +")


def is_configured(build: Path, cxx: str) -> bool:
    stamp = build / "configured_for.txt"
    return stamp.exists() and (build / "build.ninja").exists() and \
        stamp.read_text() == _stamp_text(build, cxx)


@contextlib.contextmanager
def configuring(build: Path, cxx: str) -> Iterator[dict[str, str]]:
    """Let the caller run CMake in `build`, in the environment that is yielded.
    CMake keeps a folder's compiler and place for ever, so what it left is removed
    first, and ninja's record of what is built with it. The stamp is removed before
    anything else and written last, once CMake has succeeded. Flags that the compiler
    refuses remove nothing."""
    _try_flags(cxx)
    for program, package in (("cmake", "cmake"), ("ninja", "ninja-build")):
        if shutil.which(program) is None:
            raise CannotRun(f"there is no {program} on the PATH: sudo apt-get install "
                            f"-y {package}")
    for name in ("configured_for.txt", "build.ninja", "CMakeCache.txt",
                 ".ninja_log", ".ninja_deps"):
        (build / name).unlink(missing_ok=True)
    for name in ("CMakeFiles", "solutions", "tests"):  # these two: projects in it
        shutil.rmtree(build / name, ignore_errors=True)
    yield {**os.environ, "CXX": cxx}
    if (build / "build.ninja").exists():
        (build / "configured_for.txt").write_text(_stamp_text(build, cxx))


def implementation_build(folder: Path) -> Path:
    """Return the build folder of an implementation: my-01_..., or by its place."""
    folder = folder.resolve()
    if folder.parent == MINE:
        return BUILD / "learn" / f"my-{folder.name}"
    return BUILD / "learn" / by_place(folder)


def refuse_odd_name(folder: Path) -> None:
    name = str(folder.resolve())
    if odd := sorted(set(name) & set(CMAKE_CANNOT_BEAR)):
        raise CannotRun(f"CMake cannot bear the name of the folder {str(folder)!r}: "
                        f"move it to one without {' '.join(odd)!r}")
    if readable(name) != name:
        raise CannotRun("CMake cannot bear the name of the folder "
                        f"'{readable(str(folder))}', which is no UTF-8: rename it")


def _defines_target(chapter: Chapter, folder: Path) -> bool:
    """Tell whether a file of the learner's sets the target by itself. What is
    precompiled was so without it."""
    files = {folder / step.file for step in chapter.steps}
    return any(re.search(rb"^\s*#\s*define\s+TORCH_TARGET_VERSION\b",
                         path.read_bytes(), re.M)
               for path in files if path.is_file())


def configure(chapter: Chapter, folder: Path,
              build: Path) -> subprocess.CompletedProcess | None:
    """Configure an implementation as a project of its own, if need be."""
    refuse_odd_name(folder)
    refuse_future([folder / "CMakeLists.txt", *ROOT.glob("common/cmake/*")])
    python = chapter.steps_in_python.exists()  # its product is the build as it is
    cxx = chosen_compiler() if python else compiler()
    precompiled = "OFF" if _defines_target(chapter, folder) else "ON"
    if is_configured(build, cxx) and (python or f"WORKBOOK_PCH:BOOL={precompiled}\n" in
                                      (build / "CMakeCache.txt").read_text()):
        return None
    words: list = ["cmake", "-G", "Ninja", "-S", folder, "-B", build,
                   f"-DTORCH_ROOT:PATH={torch_root()}"]
    if python:
        words += ["-DACTIVATION_CUDA=OFF", f"-DPython_EXECUTABLE={sys.executable}",
                  "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG",  # half the time of -O3
                  f"-DCMAKE_PROJECT_INCLUDE={ROOT}/common/cmake/package.cmake"]
    else:
        edited = ";".join(sorted({step.file for step in chapter.steps}))
        words += ["-DCMAKE_BUILD_TYPE=Debug", f"-DWORKBOOK_PCH={precompiled}",
                  f"-DWORKBOOK_EDITED={edited}",
                  f"-DCMAKE_PROJECT_INCLUDE={ROOT}/common/cmake/learn.cmake"]
    probe = chapter.tests / "probe.cpp"
    if probe.exists():
        words += [f"-DWORKBOOK_PROBE={probe}"]
    with configuring(build, cxx) as environment:
        for language in ("C", "CXX", "CUDA"):  # no text is saved twice: no ccache
            environment.pop(f"CMAKE_{language}_COMPILER_LAUNCHER", None)
        done = run(words, env=environment, title="Configuring")
    if done.returncode == 0 and folder.parent == MINE:  # for editors
        link = folder / "compile_commands.json"
        if link.is_symlink():
            link.unlink()
        if not python and not link.exists():  # a file there is the learner's own
            link.symlink_to(build / link.name)
    return done


def build_plain(chapter: Chapter, builds: Path, type: str) -> Path:
    """Build the learner's extension as their users build it: without sanitizers."""
    open_chapter(chapter)
    build = builds / f"my-{chapter.name}"
    words: list = ["cmake", "-G", "Ninja", "-S", chapter.mine, "-B", build,
                   f"-DCMAKE_BUILD_TYPE={type}", f"-DTORCH_ROOT={torch_root()}"]
    included = "debug.cmake" if type == "Debug" else "probe.cmake"
    words += [f"-DCMAKE_PROJECT_INCLUDE={ROOT}/common/cmake/{included}"]
    probe = chapter.tests / "probe.cpp"
    if probe.exists():
        words += [f"-DWORKBOOK_PROBE={probe}"]
    cxx = chosen_compiler()
    title = f"my/{chapter.name} without sanitizers"
    with locked(build):
        try:
            if not is_configured(build, cxx):
                with configuring(build, cxx) as environment:
                    run_shown(f"Configuring {title}", words, env=environment)
            run_shown(f"Building {title}", ["ninja", "-C", build])
        except CannotRun as error:
            raise CannotRun(f"my/{chapter.name} does not build; ./workbook "
                            f"check {chapter.number} says more\n{error}") from None
    return build
