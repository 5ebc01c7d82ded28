"""Somebody's extension on each libtorch: loaded, its ops listed, and its owner's
tests run."""

import json
import os
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

from torch_stable_abi.files import CACHE, DAMAGED_ZIP
from torch_stable_abi.libtorch import loading, runtimes, surface
from torch_stable_abi.libtorch.installed import torch_root
from torch_stable_abi.libtorch.versions import in_order, supported
from torch_stable_abi.programs import PIP, CannotRun, environment_of_user, run_shown
from torch_stable_abi.programs import run as run_program
from torch_stable_abi.projects import by_place, find_library

LOADING = loading.__file__
REQUIREMENTS = Path(__file__).parents[1] / "requirements"
LIMIT = 1200  # seconds for the owner's command
LOADING_LIMIT = 60  # for a library
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


@dataclass
class Result:
    """What came of one library on one version."""
    ops: list[str] | None = None
    refused: str = ""  # the loader's message
    without: list[str] = field(default_factory=list)  # what only a GPU needs


def libraries(given: str, folder: Path) -> list[Path]:
    """Return the file itself; those of a wheel; what a folder's CMakeLists.txt
    makes."""
    path = Path(given)
    if path.suffix != ".whl" or not path.is_file():
        return [find_library(given)]
    try:
        with zipfile.ZipFile(path) as wheel:
            wheel.extractall(folder)
    except DAMAGED_ZIP as error:
        raise CannotRun(f"{path.name} is damaged, or was cut off: {error}") \
            from None
    found = sorted(p for p in folder.rglob("*.so") if takes_of_libtorch(p))
    if not found:
        raise CannotRun(f"{path.name} holds no library that uses libtorch")
    return found


def takes_of_libtorch(library: Path) -> bool:
    return re.search(r"NEEDED.*\[lib(torch|c10)", run_program(
        ["readelf", "-dW", library]).stdout) is not None


def shims(library: Path) -> list[str]:
    """Return what it must find in libtorch, but for what only a GPU needs."""
    names = re.findall(r"GLOBAL +DEFAULT +UND +(\w+)", run_program(
        ["readelf", "--dyn-syms", "-W", library]).stdout)
    return [n for n in names
            if surface.is_shim(n) and not re.search(r"_cuda(_|$)", n)]


def environment(version: str, stubs: Path | None = None) -> dict[str, str]:
    folder = runtimes.root(version)
    paths = [str(folder / "lib"), *([str(stubs)] if stubs else [])]
    return {**os.environ, "TORCH_ROOT": str(folder),
            "LD_LIBRARY_PATH": os.pathsep.join(paths)}


def load(library: Path, version: str, stubs: Path) -> Result:
    """Load a library on a version. What only a GPU needs is stood in for, if it is
    missing."""
    result, wanted = Result(), list[str]()
    for _ in range(20):
        try:
            done = subprocess.run(
                [sys.executable, LOADING,
                 runtimes.root(version) / "lib/libtorch_cpu.so", library, *wanted],
                text=True, capture_output=True, errors="replace",
                env=environment(version, stubs), timeout=LOADING_LIMIT)
        except subprocess.TimeoutExpired:
            result.refused = f"no end of loading it in {LOADING_LIMIT} s"
            break
        lines = done.stdout.splitlines()
        said: dict = json.loads(lines[-1]) if lines and done.returncode == 0 else {
            "refused": (done.stderr.strip().splitlines() or [
                f"the process ended with {done.returncode}"])[-1]}
        result.ops = said.get("ops")
        result.refused = said.get("refused", "").replace(f"{library.parent}/", "")
        if missing := GPU.search(result.refused):
            result.without.append(missing[1])
            stub(stubs / missing[1])
        elif GPU_SYMBOL.search(result.refused) and not wanted:
            result.without.append("functions of CUDA")
            wanted = ["aoti_torch_abi_version", *shims(library)]
        else:
            break
    return result


def stub(path: Path) -> None:
    done = subprocess.run(["cc", "-shared", "-fPIC", "-w", "-xc", "-", "-o", path],
                          input=STUB, text=True, capture_output=True)
    if done.returncode:
        raise CannotRun(f"{path.name} could not be stood in for: {done.stderr}")


# --- the owner's command -------------------------------------------------------


def python_folder(version: str) -> Path:
    """Return the folder of the environment with that torch. The installed torch has one
    for each place, since two checkouts may have it twice."""
    mine = version == runtimes.installed()
    return CACHE / (by_place(torch_root()) if mine else version) / "python"


def python(version: str, wheel: Path | None) -> Path:
    """Return the bin/ of an environment with that torch, pytest and the wheel."""
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


def run_command(command: list[str], version: str, stubs: Path,
                bin: Path | None) -> tuple[bool, str]:
    """Return whether it passed, and the last of what it printed."""
    env = {**environment_of_user(), **environment(version, stubs)}
    if bin:  # this torch has its own libraries
        env = {**os.environ, "PATH": f"{bin}:{os.environ['PATH']}",
               "VIRTUAL_ENV": str(bin.parent)}
        env.pop("PYTHONPATH", None)
    try:
        done = run_program(command, env=env, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return False, f"no end in {LIMIT} s"
    except FileNotFoundError:
        raise CannotRun(f"there is no program {command[0]}") from None
    return done.returncode == 0, "\n".join(done.stdout.splitlines()[-15:])


def fetch(versions: list[str], with_python: bool) -> None:
    missing = [v for v in versions if not runtimes.whole(v)]
    if missing:
        print(f"Fetching torch {', '.join(missing)}: 0.5 to 0.9 GB each, of which "
              f"0.43 are kept in\n{runtimes.CACHE}")
    for version in missing:
        runtimes.fetch(version)
    missing = [v for v in versions if v != runtimes.installed() and
               not (CACHE / v / "python/ready").exists()]
    if with_python and missing:
        print(f"Installing torch {', '.join(missing)} for Python, into the same "
              "folder: 0.2 GB each to\nfetch and 1 GB to keep, if "
              "download.pytorch.org answers; else 3 and 6 GB")


def matrix(given: str, versions: list[str], command: list[str],
           with_python: bool) -> dict:
    versions = versions or in_order(*supported(), runtimes.installed())
    result: dict = {"library": Path(given).name, "versions": {}}
    with tempfile.TemporaryDirectory() as folder:
        found = libraries(given, Path(folder, "wheel"))
        fetch(versions, with_python)
        wheel = Path(given).resolve() if given.endswith(".whl") else None
        for version in versions:
            stubs = Path(folder, version)
            stubs.mkdir()
            row: dict = {"libraries": {
                p.name: vars(load(p, version, stubs)) for p in found}}
            if command:
                bin = python(version, wheel) if with_python else None
                row["passed"], row["output"] = run_command(
                    command, version, stubs, bin)
            row["good"] = row.get("passed", True) and not any(
                r["refused"] for r in row["libraries"].values())
            result["versions"][version] = row
            show(version, row)
    list_ops(result)
    return result


def show(version: str, row: dict) -> None:
    for name, one in row["libraries"].items():
        text = f"refused: {one['refused']}" if one["refused"] else \
            f"loads, {len(one['ops'])} ops"
        if one["without"] and not one["refused"]:
            text += f" (without {', '.join(one['without'])})"
        print(f"{version:<8}{name}: {text}")
    if "passed" in row:
        last = row["output"].splitlines()[-1:] or [""]
        print(f"{'':<8}the command {'passed' if row['passed'] else 'FAILED'}: "
              f"{last[0]}")
        if not row["passed"]:
            print("".join(f"{'':<10}{s}\n" for s in row["output"].splitlines()),
                  end="")


def list_ops(result: dict) -> None:
    """Print each op once, with its versions if it is not on all."""
    on: dict[str, list[str]] = {}
    ran = [v for v, row in result["versions"].items()
           if not any(r["refused"] for r in row["libraries"].values())]
    for version in ran:
        for one in result["versions"][version]["libraries"].values():
            for op in one["ops"] or []:
                on.setdefault(op, []).append(version)
    for op, versions in on.items():
        print(f"  {op}" + (f": on {', '.join(versions)} alone"
                           if versions != ran else ""))
