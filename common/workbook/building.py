"""How an implementation, and the root project, are configured and built."""

import contextlib
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from workbook import nvcc
from workbook.installed import torch_root
from workbook.project import (
    BUILD,
    MINE,
    ROOT,
    CannotRun,
    locked,
    read_json,
    run,
    run_shown,
    write_json,
)
from workbook.sheets import Chapter, open_chapter

os.environ["PATH"] += os.pathsep + str(nvcc.BIN)  # if it has been fetched


@functools.cache
def compiler() -> str:
    """Of learner builds: CXX; else clang++, which compiles faster, if it has
    the sanitizers and what names the lines in their reports; else c++."""
    clang = shutil.which("clang++")
    if os.environ.get("CXX") or not (clang and shutil.which("llvm-symbolizer")):
        return os.environ.get("CXX") or "c++"
    seen = BUILD / "clang.json"
    found = {"path": clang, "time": os.stat(clang).st_mtime}
    if read_json(seen) != found:
        with tempfile.NamedTemporaryFile("w", suffix=".cpp") as source:
            source.write("#include <optional>\nint main() {}\n")
            source.flush()
            if run([clang, "-fsanitize=address,undefined", source.name,
                    "-o", "/dev/null"]).returncode != 0:
                return "c++"
        write_json(seen, found)
    return clang


def build_root(preset: str, targets: list[str]) -> None:
    """Builds targets of the root project: tests, benchmarks, solutions."""
    folder = BUILD / preset
    cxx = compiler() if preset == "learn" else os.environ.get("CXX", "c++")
    with locked(folder):
        if not is_configured(folder, cxx):
            with configuring(folder, cxx) as environment:
                run_shown("Configuring", [
                    "cmake", "--preset", preset,
                    f"-DTORCH_ROOT={torch_root()}"], cwd=ROOT, env=environment)
        run_shown(f"Building ({preset})", ["ninja", "-C", folder, *targets])


def _stamp_text(cxx: str) -> str:
    """Names all that a build folder is configured for: this checkout, this torch as it
    was installed, and this compiler. pip gives headers the dates of their wheel, so
    ninja does not see that a precompiled header is of others."""
    headers = torch_root() / "include/torch/headeronly/version.h"
    return f"{ROOT}\n{torch_root()}\n{headers.stat().st_ctime_ns}\n{cxx}\n"


def is_configured(build: Path, cxx: str) -> bool:
    stamp = build / "configured_for.txt"
    return stamp.exists() and stamp.read_text() == _stamp_text(cxx)


@contextlib.contextmanager
def configuring(build: Path, cxx: str) -> Iterator[dict[str, str]]:
    """Lets the caller run CMake in `build`, in the environment that is yielded.
    CMake keeps a folder's compiler and place for ever, so what it left is removed
    first, and ninja's record of what is built with it. The stamp is removed before
    anything else and written last, once CMake has succeeded."""
    for name in ("configured_for.txt", "build.ninja", "CMakeCache.txt",
                 ".ninja_log", ".ninja_deps"):
        (build / name).unlink(missing_ok=True)
    shutil.rmtree(build / "CMakeFiles", ignore_errors=True)
    yield {**os.environ, "CXX": cxx}
    if (build / "build.ninja").exists():
        (build / "configured_for.txt").write_text(_stamp_text(cxx))


def implementation_build(folder: Path) -> Path:
    """The build folder of an implementation: my-01_..., or by its place."""
    folder = folder.resolve()
    if folder.parent == MINE:
        return BUILD / "learn" / f"my-{folder.name}"
    return BUILD / "learn" / by_place(folder)


def by_place(folder: Path) -> str:
    """Its name, and what tells it from another folder of that name, also in a copy
    of this checkout."""
    place = f"{folder.resolve()} of {ROOT}"
    digest = hashlib.sha256(place.encode()).hexdigest()[:8]
    return f"{folder.name}-{digest}"


def configure(chapter: Chapter, folder: Path,
              build: Path) -> subprocess.CompletedProcess | None:
    """Configures an implementation as a project of its own, if need be."""
    python = chapter.steps_in_python.exists()  # its product is the build as it is
    cxx = os.environ.get("CXX", "c++") if python else compiler()
    if is_configured(build, cxx):
        return None
    words: list = ["cmake", "-G", "Ninja", "-S", folder, "-B", build,
                   f"-DTORCH_ROOT:PATH={torch_root()}"]
    if python:
        words += ["-DACTIVATION_CUDA=OFF", f"-DPython_EXECUTABLE={sys.executable}",
                  "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG",  # half the time of -O3
                  f"-DCMAKE_PROJECT_INCLUDE={ROOT}/common/cmake/package.cmake"]
    else:
        edited = ";".join(sorted({step.file for step in chapter.steps}))
        words += ["-DCMAKE_BUILD_TYPE=Debug", "-DWORKBOOK_PCH=ON",
                  f"-DWORKBOOK_EDITED={edited}",
                  f"-DCMAKE_PROJECT_INCLUDE={ROOT}/common/cmake/learn.cmake"]
    probe = ROOT / f"tests/{chapter.number}_probe.cpp"
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
    """The learner's, as their users build it: without sanitizers."""
    open_chapter(chapter)
    build = builds / f"my-{chapter.name}"
    words: list = ["cmake", "-G", "Ninja", "-S", chapter.mine, "-B", build,
                   f"-DCMAKE_BUILD_TYPE={type}", f"-DTORCH_ROOT={torch_root()}"]
    included = "debug.cmake" if type == "Debug" else "probe.cmake"
    words += [f"-DCMAKE_PROJECT_INCLUDE={ROOT}/common/cmake/{included}"]
    probe = ROOT / f"tests/{chapter.number}_probe.cpp"
    if probe.exists():
        words += [f"-DWORKBOOK_PROBE={probe}"]
    cxx = os.environ.get("CXX", "c++")
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


def library_of(build: Path) -> Path | None:
    """The shared library that an implementation's build has made."""
    probe = build / "libprobe.so"
    if probe.exists():
        return probe
    found = sorted(build.glob("*.so")) or sorted(build.glob("torch*/*.so"))
    return found[0] if found else None
