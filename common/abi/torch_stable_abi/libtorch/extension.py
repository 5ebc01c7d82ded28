"""Somebody's extension on each libtorch: loaded, its ops listed, and its owner's
tests run."""

import contextlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from torch_stable_abi.files import CACHE, DAMAGED_ZIP, MACHINES, find_machine
from torch_stable_abi.libtorch import loading, runtimes, surface
from torch_stable_abi.libtorch.installed import torch_root
from torch_stable_abi.libtorch.versions import in_order, supported
from torch_stable_abi.limited import run_limited
from torch_stable_abi.programs import (
    PIP,
    CannotRun,
    environment_of_user,
    name_signal,
    run_shown,
)
from torch_stable_abi.programs import run as run_program
from torch_stable_abi.projects import by_place, find_library

LOADING = loading.__file__
REQUIREMENTS = Path(__file__).parents[1] / "requirements"
CPU = "https://download.pytorch.org/whl/cpu"
# What only a GPU needs; the libtorch of the matrix are without.
GPU = re.compile(r"(lib(?:torch_cuda|torch_python|c10_cuda|cu|nv)[\w.+-]*): cannot "
                 r"open shared object")
GPU_SYMBOL = re.compile(r"undefined symbol: (?:\w*_cuda_\w+|cu[A-Z]\w+|cuda[A-Z]\w+"
                        r"|nv\w+)")
# In place of such a library. What was compiled by nvcc calls these when loaded.
STUB = """
static void* nothing;
void** __cudaRegisterFatBinary(void* code) { return &nothing; }
void __cudaRegisterFatBinaryEnd(void** code) {}
void __cudaUnregisterFatBinary(void** code) {}
void __cudaRegisterFunction() {}
void __cudaRegisterVar() {}
"""
# What says in an output why a program failed: its first line, and the next one behind
# a colon. libtorch's parser begins with an empty line.
LAST_WORDS = re.compile(  # as loading.py prints them
    r"(?<=libtorch said: )\n?.+(?:(?<=:)\n.+)?")
REASON = re.compile(
    r".*(?:undefined symbol|cannot open shared object|invalid ELF).*"
    r"|(?<=Exception in aoti_torch: )\n?.+(?:(?<=:)\n.+)?|(?<=what\(\):  ).+"
    r"|.*\b\w*(?:Error|Exception)\b: .+|.*(?:error:|Failed).*", re.M)
# How Python code registers an op, or a kernel of one.
IN_PYTHON = re.compile(r"\b(?:register_kernel|impl|define)\(")
FAULTS = {  # of what loads
    "silent": "no op was registered. Did the linker drop the object file that does it?",
    "without_kernel": "no kernel that computes, so that a call may throw",
    "without_schema": "kernels without a schema (name the library that has it too)"}


@dataclass
class Limits:
    """The seconds that loading a library, and the owner's command, may take on each
    version."""
    load: float = 60
    test: float = 1200


@dataclass
class Result:
    """What came of one library on one version."""
    ops: list[str] | None = None
    kernels: dict[str, list[str]] = field(default_factory=dict)  # the keys of each op
    undefined: list[str] = field(default_factory=list)  # kernels without a schema
    refused: str = ""  # the loader's message
    without: list[str] = field(default_factory=list)  # what only a GPU needs


@dataclass
class Subject:
    """The libraries that are tried together: those that a user names, or those of a
    wheel or of a folder."""
    libraries: list[Path] = field(default_factory=list)
    wheel: Path | None = None
    in_python: str = ""  # the text of its Python files that register ops or kernels
    named: bool = False  # each library, by the user: so each registers something
    unfit: list[str] = field(default_factory=list)  # why others cannot be tried


def is_package(given: str) -> bool:
    """Return whether it is a wheel, or a folder such as a Hub variant."""
    path = Path(given)
    return path.suffix == ".whl" and path.is_file() or \
        path.is_dir() and not (path / "CMakeLists.txt").exists()


def group(given: list[str]) -> list[list[str]]:
    """Return what is tried together: all libraries, and each package by itself."""
    together = [name for name in given if not is_package(name)]
    return [[name] for name in given if is_package(name)] + \
        ([together] if together else [])


def find_subject(given: list[str], folder: Path) -> Subject:
    """Return the libraries to look at: files as they are, what the CMakeLists.txt of a
    folder builds, and all libraries of a wheel, which is unpacked into `folder`, or of
    a folder without one."""
    if is_package(given[0]):
        return find_package(Path(given[0]).resolve(), folder)
    subject = Subject(named=True)
    for name in given:
        try:
            library = find_library(name)
            refuse_foreign(library)
            subject.libraries.append(library)
        except CannotRun as error:
            subject.unfit.append(str(error))
    if not subject.libraries:
        raise CannotRun("\n".join(subject.unfit))
    return subject


def find_package(path: Path, folder: Path) -> Subject:
    subject = Subject(wheel=path if path.is_file() else None)
    if path.is_file():
        try:
            with zipfile.ZipFile(path) as wheel:
                wheel.extractall(folder)
        except DAMAGED_ZIP as error:
            raise CannotRun(f"{path.name} is damaged, or was cut off: {error}") \
                from None
    place = folder if subject.wheel else path
    subject.libraries = sorted(p for p in place.rglob("*.so") if takes_of_libtorch(p))
    if not subject.libraries:
        raise CannotRun(f"{path.name} holds no library that uses libtorch")
    for library in subject.libraries:
        refuse_foreign(library)
    texts = [p.read_text(errors="replace") for p in place.rglob("*.py") if p.is_file()]
    subject.in_python = "\n".join(filter(IN_PYTHON.search, texts))
    return subject


def refuse_foreign(library: Path) -> None:
    """Refuse what is no shared library of this kind of machine."""
    with open(library, "rb") as file:
        head = file.read(20)
    here = platform.machine()
    name = find_machine(head) or "another machine"
    if head[:4] != b"\x7fELF":
        raise CannotRun(f"{library} is no ELF file, as a shared library is")
    if here in MACHINES.values() and name != here:
        raise CannotRun(f"{library.name} is for {name}, and this machine is {here}: "
                        "run this on one of that kind")


def takes_of_libtorch(library: Path) -> bool:
    return re.search(r"NEEDED.*\[lib(torch|c10)", run_program(
        ["readelf", "-dW", library]).stdout) is not None


def find_shims(library: Path) -> list[str]:
    """Return the functions of the C shim that a library needs, but those for a GPU."""
    names = re.findall(r"GLOBAL +DEFAULT +UND +(\w+)", run_program(
        ["readelf", "--dyn-syms", "-W", library]).stdout)
    return [n for n in names
            if surface.is_shim(n) and not re.search(r"_cuda(_|$)", n)]


def find_libtorch(version: str) -> Path:
    return runtimes.root(version) / "lib/libtorch_cpu.so"


def make_environment(version: str, stubs: Path | None = None) -> dict[str, str]:
    folder = runtimes.root(version)
    paths = [str(folder / "lib"), *([str(stubs)] if stubs else []),
             *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return {**os.environ, "TORCH_ROOT": str(folder),
            "LD_LIBRARY_PATH": os.pathsep.join(paths)}


def load(library: Path, version: str, stubs: Path, limits: Limits) -> Result:
    """Load a library on a version, and find its ops."""
    result = Result()
    said = ask([LOADING], library, version, stubs, limits.load, result.without)
    result.ops, result.kernels = said.get("ops"), said.get("kernels", {})
    result.undefined = said.get("undefined", [])
    result.refused = said.get("refused", "").replace(f"{library.parent}/", "")
    return result


def ask(script: list, library: Path, version: str, stubs: Path, seconds: float,
        without: list[str], lazy: Callable[[], list[str]] | None = None) -> dict:
    """Run a script that loads a library on a version, and return what it prints as
    JSON. Where a function for a GPU is missing, a stand-in takes its place, and its
    name is added to `without`. If a function of CUDA is missing, the script runs again
    with the words that `lazy` returns: they tell it to look functions up when they are
    called."""
    said: dict = {}
    words = list[str]()
    for _ in range(20):
        try:
            done = run_limited(
                [sys.executable, script[0], find_libtorch(version), library,
                 *script[1:], *words], seconds, f"{version}: loading {library.name}",
                make_environment(version, stubs))
        except subprocess.TimeoutExpired:
            return {"refused": f"no end of loading it in {seconds:g} s"}
        said = read_answer(done)
        refused = said.get("refused", "")
        if missing := GPU.search(refused):
            if missing[1].encode() in library.read_bytes():  # else libtorch needs it
                without.append(missing[1])
            compile_stub(stubs / missing[1], find_libtorch(version))
        elif GPU_SYMBOL.search(refused) and not words:
            without.append("functions of CUDA")
            words = lazy() if lazy else ["aoti_torch_abi_version", *find_shims(library)]
        else:
            break
    return said


def read_answer(done: subprocess.CompletedProcess) -> dict:
    """Return what loading.py has printed, among what the library has; else why it did
    not come so far."""
    for line in reversed(done.stdout.splitlines() if done.returncode == 0 else []):
        with contextlib.suppress(ValueError):
            said = json.loads(line)
            if isinstance(said, dict) and said.keys() & {"ops", "refused", "calls"}:
                return said
    return {"refused": describe_failure(done, "audit reads its keys and schemas")}


def describe_failure(done: subprocess.CompletedProcess, cure: str) -> str:
    """Return the line that says why a process failed, and how it ended: "no dim 4 (the
    process was ended by SIGABRT; ...)". The cure is for what a signal has ended."""
    how = f"the process ended with status {done.returncode}" if done.returncode >= 0 \
        else f"the process was ended by {name_signal(-done.returncode)}; {cure}"
    reason = find_reason(done.stdout)
    return f"{reason} ({how})" if reason else how


def find_reason(output: str) -> str:
    """Return libtorch's last words, else the first part of an output that gives a
    reason, else the last line."""
    found = LAST_WORDS.search(output) or REASON.search(output)
    return found[0].strip().replace("\n", " ") if found else \
        output.strip().rpartition("\n")[2].strip()


def compile_stub(path: Path, libtorch: Path) -> None:
    """Compile a library that stands in for one of CUDA's. Those of PyTorch bring
    libtorch_cpu, and so does what stands in for them."""
    brings = ["-Wl,--no-as-needed", str(libtorch)] if "torch" in path.name else []
    done = subprocess.run(["cc", "-shared", "-fPIC", "-w", "-xc", "-", "-o", path,
                           "-xnone", *brings],
                          input=STUB, text=True, capture_output=True)
    if done.returncode:
        raise CannotRun(f"{path.name} could not be stood in for: {done.stderr}")


# --- the owner's command -------------------------------------------------------


def python_folder(version: str) -> Path:
    """Return the folder of the environment with that torch. The installed torch has one
    for each place, since two checkouts may have it twice."""
    mine = version == runtimes.installed()
    return CACHE / (by_place(torch_root()) if mine else version) / "python"


def prepare_python(version: str, wheel: Path | None) -> Path:
    """Return the bin/ of a virtual environment with this version of torch, pytest and,
    if one is given, the wheel."""
    mine = version == runtimes.installed()
    folder = python_folder(version)
    done = folder / "ready"
    pip = [folder / "bin/python", *PIP[1:], "install", "-q"]
    if not done.exists() or done.read_text() != str(folder):  # it was copied
        venv.create(folder, with_pip=True, clear=True)
        if mine:
            site, = folder.glob("lib/python*/site-packages")
            (site / "torch.pth").write_text(f"{torch_root().parent}\n")
        else:
            install_torch(version, pip)
        run_shown("Installing pytest", [
            *pip, "--require-hashes", "-r", REQUIREMENTS / "pytest.txt"])
        done.write_text(str(folder))
    if wheel:
        run_shown(f"Installing {wheel.name} beside torch {version}",
                  [*pip, "--force-reinstall", "--no-deps", wheel])
        run_shown("Installing what its tests need", [*pip, f"{wheel}[test]"])
    return folder / "bin"


def install_torch(version: str, pip: list) -> None:
    """Install the torch for CPU, with the locked set that it needs; else that of PyPI,
    which itself says the versions of CUDA's libraries."""
    any_version = {**os.environ, **runtimes.ANY_VERSION}
    run_shown("Installing what torch needs", [
        *pip, "--require-hashes", "-r", REQUIREMENTS / "torch-cpu.txt"])
    if run_program([*pip, "--index-url", CPU, "--retries", "0", "--timeout", "5",
                    f"torch=={version}"], env=any_version).returncode:
        run_shown(f"Installing torch {version} with CUDA's libraries",
                  [*pip, f"torch=={version}"], env=any_version)


def run_command(command: list[str], version: str, stubs: Path, bin: Path | None,
                limits: Limits) -> dict:
    """Run the command. Return whether it passed, the end of what it printed, and why it
    failed."""
    env = {**environment_of_user(), **make_environment(version, stubs)}
    if bin:  # this torch has its own libraries
        env = {**os.environ, "PATH": f"{bin}:{os.environ['PATH']}",
               "VIRTUAL_ENV": str(bin.parent)}
        env.pop("PYTHONPATH", None)
    if not shutil.which(command[0], path=env.get("PATH")):
        raise CannotRun(f"{command[0]} cannot be run: chmod +x it, or name its "
                        "interpreter first" if Path(command[0]).exists() else
                        f"there is no program {command[0]}")
    try:
        done = run_limited(command, limits.test, f"{version}: {command[0]}", env)
    except subprocess.TimeoutExpired:
        return {"passed": False, "output": "",
                "failed": f"no end in {limits.test:g} s"}
    return {"passed": done.returncode == 0,
            "output": "\n".join(done.stdout.splitlines()[-15:]),
            "failed": describe_failure(done, "trace shows in which op")
            if done.returncode else ""}


def fetch(versions: list[str], with_python: bool) -> None:
    missing = [v for v in versions if not runtimes.whole(v)]
    if missing:
        print(f"Fetching torch {', '.join(missing)}: 0.5 to 0.9 GB each, of which "
              f"0.46 are kept in\n{runtimes.CACHE}")
    for version in missing:
        runtimes.fetch(version)
    missing = [v for v in versions if v != runtimes.installed() and
               not (CACHE / v / "python/ready").exists()]
    if with_python and missing:
        print(f"Installing torch {', '.join(missing)} for Python, into the same "
              "folder: 0.2 GB each to\nfetch and 1 GB to keep, if "
              "download.pytorch.org answers; else 3 and 6 GB")


def matrix(given: list[str], versions: list[str], command: list[str],
           with_python: bool, limits: Limits) -> dict:
    """Return what came of a wheel, a folder, or of libraries that are tried together
    on each version, and print it."""
    versions = versions or in_order(*supported(), runtimes.installed())
    result: dict = {"library": " ".join(Path(name).name for name in given),
                    "versions": {}}
    with tempfile.TemporaryDirectory() as folder:
        subject = find_subject(given, Path(folder, "wheel"))
        if subject.unfit:
            result["error"] = "\n".join(subject.unfit)
        fetch(versions, with_python)
        for version in versions:
            stubs = Path(folder, version)
            stubs.mkdir()
            results = {name: load(path, version, stubs, limits)
                       for name, path in name_apart(subject.libraries).items()}
            row: dict = {"libraries": {n: vars(one) for n, one in results.items()},
                         **judge(results, subject)}
            if command:
                bin = prepare_python(version, subject.wheel) if with_python else None
                row |= run_command(command, version, stubs, bin, limits)
            row["good"] = row.get("passed", True) and not any(
                one.refused for one in results.values()) and not any(
                row[fault] for fault in FAULTS)
            result["versions"][version] = row
            show(version, row)
    list_ops(result)
    return result


def name_apart(libraries: list[Path]) -> dict[str, Path]:
    """Return {name: library}; two of one name have their folder's before it."""
    names = [path.name for path in libraries]
    return {name if names.count(name) == 1 else "/".join(path.parts[-2:]): path
            for name, path in zip(names, libraries)}


def judge(results: dict[str, Result], subject: Subject) -> dict[str, list[str]]:
    """Return the libraries and ops that have each of FAULTS, what nobody here can
    judge, and the libraries that exclude each other. What a library lacks another may
    have, or the Python of the package."""
    loaded = {name: one for name, one in results.items() if not one.refused}
    ops = {op for one in loaded.values() for op in one.ops or []}
    computing = {op for one in loaded.values() for op, keys in one.kernels.items()
                 if any(map(surface.computes, keys))}
    undefined = {op for one in loaded.values() for op in one.undefined} - ops
    silent = [name for name, one in loaded.items() if not (one.ops or one.kernels)]
    mine = {op.partition("::")[0] for op in ops}
    foreign = {op for op in undefined if mine and op.partition("::")[0] not in mine}
    twice = find_twice(loaded) if subject.named else {}
    python = {op for op in ops - computing | undefined
              if is_word(op, subject.in_python)}
    return {"silent": silent if subject.named or len(silent) == len(loaded) else [],
            "without_kernel": sorted(ops - computing - python),
            "without_schema": sorted(undefined - foreign - python),
            "twice": list(twice), "ops_twice": sorted({*chain(*twice.values())}),
            "in_python": sorted(python), "foreign": sorted(foreign - python)}


def find_twice(loaded: dict[str, Result]) -> dict[str, list[str]]:
    """Return {library: those of its ops that another one defines too}."""
    counts = Counter(op for one in loaded.values() for op in one.ops or [])
    ops = {name: [op for op in one.ops or [] if counts[op] > 1]
           for name, one in loaded.items()}
    return {name: twice for name, twice in ops.items() if twice}


def is_word(op: str, text: str) -> bool:
    """Return whether a text has an op's name, without namespace and overload."""
    name = op.partition("::")[2].partition(".")[0]
    return re.search(rf"(?<![A-Za-z0-9]){re.escape(name)}\b", text) is not None


def show(version: str, row: dict) -> None:
    for name, one in row["libraries"].items():
        text = f"refused: {one['refused']}" if one["refused"] else \
            f"loads, {len(one['ops'])} op{'s' * (len(one['ops']) != 1)}"
        if others := one["kernels"].keys() - set(one["ops"] or []):
            text += f", kernels for {len(others)} of others"
        if one["without"] and not one["refused"]:
            text += f" (without {', '.join(one['without'])})"
        print(f"{version:<8}{name}: {text}")
    for fault, text in FAULTS.items():
        if names := row[fault]:
            text += "" if names == list(row["libraries"]) else f": {shorten(names)}"
            print(f"{'':<8}FAILED: {text}")
    if row["in_python"]:
        print(f"{'':<8}left to the package's Python: {shorten(row['in_python'])}")
    if row["twice"]:
        print(f"{'':<8}a process can load one of these, which define the same op: "
              f"{shorten(row['twice'])} ({shorten(row['ops_twice'])})")
    if row["foreign"]:
        print(f"{'':<8}left to who defines these ops: {shorten(row['foreign'])}")
    if row.get("passed"):
        last = row["output"].rpartition("\n")[2]
        print(f"{'':<8}the command passed: {last}")
    elif "passed" in row:
        print(f"{'':<8}the command FAILED: {row['failed']}")
        print("".join(f"{'':<10}{s}\n" for s in row["output"].splitlines()), end="")


def shorten(names: list[str]) -> str:
    return ", ".join(names[:4]) + (" ..." if names[4:] else "")


def list_ops(result: dict) -> None:
    """Print each op once, with its versions if it is not on all."""
    on: dict[str, list[str]] = {}
    ran = [v for v, row in result["versions"].items()
           if not any(r["refused"] for r in row["libraries"].values())]
    for version in ran:
        libraries = result["versions"][version]["libraries"].values()
        for op in sorted({op for one in libraries for op in one["ops"] or []}):
            on.setdefault(op, []).append(version)
    for op, versions in on.items():
        print(f"  {op}" + (f": on {', '.join(versions)} alone"
                           if versions != ran else ""))
