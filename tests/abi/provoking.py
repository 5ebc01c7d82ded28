"""Provokes the errors of snippets.toml: builds the code, runs it, and finds what
was said."""

import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import snippets
from base import nvcc
from base.building import compiler
from base.project import ROOT
from support import lacks_inductor
from torch_stable_abi.libtorch import runtimes
from torch_stable_abi.libtorch.installed import is_for_cuda, torch_root
from torch_stable_abi.libtorch.versions import in_order, supported
from torch_stable_abi.programs import CannotRun

ERRORS = snippets.read("error")
TARGET = "2.10"
LIMIT = 120  # seconds that one may take
WIDTH = 300  # characters of a message that are kept
OTHER = {"clang": "clang++", "nvcc": "nvcc"}  # compilers whose words may differ
UNEXPECTED = "NOT AS EXPECTED: "

CALLS = f'#include "{ROOT}/tests/abi/calls.h"\n'
# Loads a library as Python does, without torch for Python.
LOAD = """
import ctypes, sys
try:
    ctypes.CDLL(sys.argv[1])
    print("it loads")
except OSError as error:
    sys.exit(str(error))
"""


def cases(error: dict) -> list[dict]:
    """Return what is provoked of an entry: its own code, that of each of `also`, and
    these again by each compiler whose words stand there. The ids are "id", "id.2" and
    "id nvcc"."""
    found = []
    for number, more in enumerate([error, *error.get("also", [])], start=1):
        case = {key: more[key] for key in more if key != "also"}
        if number > 1:
            keys = ["when"]
            if not {"code", "python", "script"} & more.keys():
                keys += ["code", "target", "flags", "on"]
            case = {key: error[key] for key in keys if key in error} | case
            case["id"] = f"{error['id']}.{number}"
        if "unprovoked" in case:
            continue
        if "text" in case or "lines" in case:
            found.append(case)
        for key, by in OTHER.items():
            if key in case:
                said = case[key]
                found.append({**case, "id": f"{case['id']} {key}", "by": by,
                              "lines": [said] if isinstance(said, str) else said})
    return found


CASES = [case for error in ERRORS for case in cases(error)]


def lacks(case: dict) -> str:
    """"" or why it cannot be provoked here."""
    if case.get("by") == "nvcc" and nvcc.find() is None:
        return "nvcc is not installed: ./workbook nvcc --fetch"
    if case.get("by") == "clang++" and shutil.which("clang++") is None:
        return "clang++ is not installed"
    if "cpu" in case and is_for_cuda():
        return "it needs a PyTorch for the CPU"
    if "inductor" in case and (reason := lacks_inductor()):
        return reason
    try:
        if "packages" in case:
            folder_of(tuple(case["packages"]))
    except CannotRun as reason:
        return str(reason)
    return ""


@functools.cache
def folder_of(packages: tuple[str, ...]) -> tempfile.TemporaryDirectory:
    """Return a folder with packages of Python, without the packages that they need."""
    folder = tempfile.TemporaryDirectory(prefix="errors-packages-")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps",
         "--disable-pip-version-check", "--target", folder.name, *packages],
        text=True, capture_output=True,
        env={**os.environ, **runtimes.ANY_VERSION})
    if done.returncode:
        raise CannotRun(f"pip could not install {' '.join(packages)} (a "
                        f"network?)\n{done.stderr[-300:]}")
    return folder


def versions_of(error: dict) -> list[str]:
    """Return the versions that an error is provoked with: of the headers where it is
    compiled, of the running libtorch where it is loaded or called."""
    here = runtimes.installed()
    if "by" in error:
        return [here]
    if "script" in error or "python" in error or error["when"] == "link":
        return [here]
    if "on" in error:
        return [here if v == "installed" else v for v in error["on"]]
    return in_order(*supported(), here)


def wanted_texts(error: dict, version: str) -> list[list[str]]:
    """Return lists of texts; of each list, one text must appear."""
    if "lines" in error:
        return [[line] for line in error["lines"]]
    text = error["text"]
    if isinstance(text, dict):  # each is "from this version on"
        fitting = [v for v in text if snippets.minor(v) <= snippets.minor(version)]
        text = text[max(fitting, key=snippets.minor)]
    return [[text] if isinstance(text, str) else text]


def run(command: list, folder: Path, **environment) -> tuple[str, int]:
    try:
        done = subprocess.run(
            list(map(str, command)), cwd=folder, text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=LIMIT, env={
                **os.environ, "LC_ALL": "C", "HF_HUB_OFFLINE": "1",
                "DISABLE_TELEMETRY": "1", "PYTHONDONTWRITEBYTECODE": "1",
                "CI": "",  # torch.compile reads it: some warnings become errors
                **environment})
    except subprocess.TimeoutExpired:
        return f"no end in {LIMIT} s", 124
    return done.stdout, done.returncode


def compile_case(error: dict, output: Path, *options, before: str = "") -> str:
    """Return what the compiler said of the code, or ""."""
    libtorch = torch_root() / "lib"
    return snippets.compile(
        before + error["code"], torch_root(), error.get("target", TARGET),
        "-fPIC", "-o", output, *options, *error.get("flags", []),
        *([] if error.get("unlinked") else [
            f"-L{libtorch}", "-ltorch_cpu", f"-Wl,-rpath-link,{libtorch}"]),
        by="" if error["when"] == "link" else compiler())


@functools.cache
def ask_compiler(code: str, root: Path, target: str, by: str, flags: tuple) -> str:
    """"" or what this compiler says of the code, which is in no library."""
    if by != "nvcc":
        return snippets.compile(code, root, target, "-fsyntax-only", *flags, by=by)
    define = ["-DTORCH_TARGET_VERSION=" + snippets.pack_version(target)] \
        if target else []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "yours.cu")
        source.write_text(code)
        text, status = run(
            [nvcc.find(), "-std=c++17", "-w", "-arch=sm_80", "-isystem",
             root / "include", *define, *flags, "-ptx", "-o", os.devnull,
             source.name], source.parent)
    return text if status else ""


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
            text = compile_case(error, program, "-ldl", before=CALLS)
        else:
            self.command = [sys.executable, "-c", error.get("python", LOAD),
                            library]
            if "code" in error:
                text = compile_case(error, library, "-shared")
        if text:
            raise CannotRun(f"{error['id']} does not compile:\n{text}")

    def with_version(self, version: str) -> dict:
        root = runtimes.root(version)
        if self.error["when"] == "compile" and "script" not in self.error:
            return self.said(ask_compiler(
                self.error["code"], root, self.error.get("target", TARGET),
                self.error.get("by", ""), tuple(self.error.get("flags", []))),
                1, version)
        if self.error["when"] == "link":
            return self.said(
                compile_case(self.error, self.folder / "library.so"), 1, version)
        own = "python" in self.error or "script" in self.error
        path = [str(self.folder), str(root.parent)] if own else []
        if "packages" in self.error:
            path.insert(0, folder_of(tuple(self.error["packages"])).name)
        return self.said(*run(
            self.command, self.folder, PYTHON=sys.executable,
            **({"PYTHONPATH": os.pathsep.join(path)} if own else
               {"LD_LIBRARY_PATH": str(root / "lib")})), version)

    def said(self, text: str, status: int, version: str) -> dict:
        """Return the lines with the message, without folders, times, addresses and
        numbers of lines; and the signal that ended it."""
        for path, name in (
                (self.folder, ""), (runtimes.root(version), "torch/"),
                (torch_root(), "torch/"), (ROOT, "")):
            text = text.replace(f"{path}/", name)
        text = text.replace("<stdin>", "yours.cpp")
        text = re.sub(r"\[E\d{4} [\d:.]+ ", "[E… ", text)
        text = re.sub(r"(\.(?:h|cpp)):\d+(:\d+)?", r"\1:…", text)
        text = re.sub(r"(\.(?:h|cpp|cu))\(\d+\)", r"\1(…)", text)
        text = re.sub(r"==\d+==", "==…==", text)
        text = re.sub(r"\b0x[0-9a-f]{9,}", "…", text)
        text = re.sub(r"(API call failed at .*, line )\d+", r"\1…", text)
        text = re.sub(r"(but got )\d{9,}", r"\1…", text)
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
        found = [self.line(lines, any_of)
                 for any_of in wanted_texts(self.error, version)]
        if None in found:
            return UNEXPECTED + " | ".join(lines)[-600:]
        return "\n".join(dict.fromkeys(filter(None, found)))

    def line(self, lines: list[str], any_of: list[str]) -> str | None:
        for expected in any_of:
            if not expected and not lines:
                return ""
            for line in lines if expected else []:
                if expected in line:
                    if len(line) <= WIDTH:
                        return line
                    start = max(0, line.index(expected) - WIDTH // 2)
                    return ("…" if start else "") + \
                        line[start:start + WIDTH] + "…"
        return None


def provoke(errors: list[dict], versions=versions_of) -> dict[str, dict]:
    """{id: {version: what was said}} of these cases."""
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
