"""The library that is loaded before the program, built at its first use."""

import os
from pathlib import Path

from workbook.building import configuring, is_configured
from workbook.installed import torch_root
from workbook.project import BUILD, ROOT, locked, run_shown
from workbook.trace import wrapping

SOURCES = ROOT / "common/trace"


def library() -> Path:
    folder = BUILD / "trace"
    built = folder / "libworkbook_trace.so"
    cxx = os.environ.get("CXX", "c++")
    with locked(folder):
        sources = [*SOURCES.iterdir(), *(ROOT / "common/testing").glob("slots.*"),
                   Path(wrapping.__file__)]
        if is_configured(folder, cxx) and built.exists() and \
                max(s.stat().st_mtime for s in sources) < built.stat().st_mtime:
            return built
        if not is_configured(folder, cxx):
            with configuring(folder, cxx) as environment:
                run_shown("Configuring the tracer", [
                    "cmake", "-G", "Ninja", "-S", SOURCES, "-B", folder,
                    f"-DTORCH_ROOT:PATH={torch_root()}",
                    f"-DWRAPPED:PATH={folder}"], env=environment)
        wrapping.write(torch_root() / "include", folder / "wrapped.inc")
        run_shown("Building the tracer", ["ninja", "-C", folder])
        built.touch()
    return built
