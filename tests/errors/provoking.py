"""Provokes the errors of errors.toml: builds the code, runs it, and finds what
was said."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from workbook.building import compiler
from workbook.installed import torch_root
from workbook.libtorch import gates, runtimes
from workbook.libtorch.versions import in_order, supported
from workbook.project import ROOT, CannotRun, read_toml

ERRORS = read_toml(Path(__file__).with_name("errors.toml"))["error"]
TARGET = "2.10"
LIMIT = 120  # seconds that one may take
WIDTH = 300  # characters of a message that are kept
UNEXPECTED = "NOT AS EXPECTED: "

CALLS = f'#include "{ROOT}/tests/errors/calls.h"\n'
# Loads a library as Python does, without torch for Python.
LOAD = """
import ctypes, sys
try:
    ctypes.CDLL(sys.argv[1])
    print("it loads")
except OSError as error:
    sys.exit(str(error))
"""


def versions_of(error: dict) -> list[str]:
    """Those that it is provoked with: of the headers where it is compiled, of
    the running libtorch where it is loaded or called."""
    here = runtimes.installed()
    if "script" in error or "python" in error or error["when"] == "link":
        return [here]
    if "on" in error:
        return [here if v == "installed" else v for v in error["on"]]
    return in_order(*supported(), here)


def wanted(error: dict, version: str) -> list[str]:
    """One of these texts must appear."""
    text = error["text"]
    if isinstance(text, dict):  # each is "from this version on"
        fitting = [v for v in text if gates.minor(v) <= gates.minor(version)]
        text = text[max(fitting, key=gates.minor)]
    return [text] if isinstance(text, str) else text


def run(command: list, folder: Path, **environment) -> tuple[str, int]:
    try:
        done = subprocess.run(
            list(map(str, command)), cwd=folder, text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=LIMIT, env={
                **os.environ, "LC_ALL": "C", "HF_HUB_OFFLINE": "1",
                "DISABLE_TELEMETRY": "1", "PYTHONDONTWRITEBYTECODE": "1",
                **environment})
    except subprocess.TimeoutExpired:
        return f"no end in {LIMIT} s", 124
    return done.stdout, done.returncode


def compiled(error: dict, output: Path, *options, before: str = "") -> str:
    """"" or what the compiler said."""
    libtorch = torch_root() / "lib"
    return gates.compile(
        before + error["code"], torch_root(), error.get("target", TARGET),
        "-fPIC", "-o", output, *options, *error.get("flags", []),
        *([] if error.get("unlinked") else [
            f"-L{libtorch}", "-ltorch_cpu", f"-Wl,-rpath-link,{libtorch}"]),
        by="" if error["when"] == "link" else compiler())


class Provoked:
    """An error that is built once, and provoked with one version or more."""

    def __init__(self, error: dict, folder: Path):
        self.error, self.folder = error, folder
        folder.mkdir()
        program, library = folder / "program", folder / "library.so"
        text = ""
        if "script" in error:
            self.command = ["sh", "-ec", error["script"]]
        elif error["when"] in ("compile", "link"):
            self.command = []
        elif error["when"] == "call" and "python" not in error:
            self.command = [program]
            text = compiled(error, program, "-ldl", before=CALLS)
        else:
            self.command = [sys.executable, "-c", error.get("python", LOAD),
                            library]
            if "code" in error:
                text = compiled(error, library, "-shared")
        if text:
            raise CannotRun(f"{error['id']} does not compile:\n{text}")

    def with_version(self, version: str) -> dict:
        root = runtimes.root(version)
        if self.error["when"] == "compile":
            return self.said(gates.compile(
                self.error["code"], root, self.error.get("target", TARGET),
                "-fsyntax-only"), 1, version)
        if self.error["when"] == "link":
            return self.said(
                compiled(self.error, self.folder / "library.so"), 1, version)
        own = "python" in self.error or "script" in self.error
        path = [str(self.folder), str(root.parent)] if own else []
        return self.said(*run(
            self.command, self.folder, PYTHON=sys.executable,
            **({"PYTHONPATH": os.pathsep.join(path)} if own else
               {"LD_LIBRARY_PATH": str(root / "lib")})), version)

    def said(self, text: str, status: int, version: str) -> dict:
        """The line with the message, without folders, times and numbers of
        lines; and the signal that ended it."""
        for path, name in (
                (self.folder, ""), (ROOT, ""), (runtimes.root(version), "torch/"),
                (torch_root(), "torch/")):
            text = text.replace(f"{path}/", name)
        text = text.replace("<stdin>", "yours.cpp")
        text = re.sub(r"\[E\d{4} [\d:.]+ ", "[E… ", text)
        text = re.sub(r"(\.(?:h|cpp)):\d+(:\d+)?", r"\1:…", text)
        lines = [line.strip() for line in text.splitlines()]
        if "python" in self.error:
            lines.reverse()  # a traceback ends with what matters
        result = {"message": self.message(lines, version)}
        if status < 0:
            result["signal"] = signal.Signals(-status).name
        if self.error.get("signal") not in (None, result.get("signal")):
            result["message"] = f"{UNEXPECTED}status {status}: " + \
                " | ".join(lines)[-600:]
        return result

    def message(self, lines: list[str], version: str) -> str:
        for expected in wanted(self.error, version):
            if not expected and not lines:
                return ""
            for line in lines if expected else []:
                if expected in line:
                    if len(line) <= WIDTH:
                        return line
                    start = max(0, line.index(expected) - WIDTH // 2)
                    return ("…" if start else "") + \
                        line[start:start + WIDTH] + "…"
        return UNEXPECTED + " | ".join(lines)[-600:]


def provoke(errors: list[dict], versions=versions_of) -> dict[str, dict]:
    """{id: {version: what was said}}."""
    scratch = Path(tempfile.mkdtemp(prefix="errors-"))
    try:
        with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
            made = list(pool.map(
                lambda e: Provoked(e, scratch / e["id"]), errors))
            tasks = [(p, v) for p in made for v in versions(p.error)]
            texts = pool.map(lambda t: t[0].with_version(t[1]), tasks)
            result: dict[str, dict] = {e["id"]: {} for e in errors}
            for (provoked, version), said in zip(tasks, texts):
                result[provoked.error["id"]][version] = said
        return result
    finally:
        shutil.rmtree(scratch)


def wrong(said: dict[str, dict]) -> list[str]:
    return [f"{id} with {version}: {found['message']}"
            for id, by_version in said.items()
            for version, found in by_version.items()
            if found["message"].startswith(UNEXPECTED)]
