"""Libtorch of other versions, from PyPI's wheels: what it takes to compile
against one and to run on it, without the wheel's Python and CUDA parts.

A version is in the cache whole or not at all. Its files are checked against the
wheel's own list of SHA-256 sums when they are unpacked and at each use.
"""

import base64
import csv
import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from torch_stable_abi.files import CACHE, locked, read_json
from torch_stable_abi.libtorch.installed import torch_root, torch_version
from torch_stable_abi.libtorch.versions import numbers
from torch_stable_abi.programs import PIP, CannotRun

HERE = platform.machine()
NEEDED_GB = 1.6  # the largest wheel, and what is unpacked of it

# For pip: a constraint of the machine is about its environments, not about a
# version that is asked for by its number and goes into a folder of its own.
ANY_VERSION = {"PIP_CONSTRAINT": os.devnull}

SCHEMAS = "torchgen/packaged/ATen/native/native_functions.yaml"

_KEEP = re.compile(
    r"torch/lib/lib(torch_cpu|c10|torch|torch_global_deps|shm)\.so|"
    r"torch/lib/lib(gomp|gfortran|arm_compute|nvpl)[^/]*\.so[^/]*|torch\.libs/.*|"
    r"torch/include/torch/(csrc/stable|headeronly|csrc/inductor/aoti_torch)/.*|"
    r"nvidia/.*/lib(cudart|cupti)\.so\.\d+|" + re.escape(SCHEMAS))


def installed() -> str:
    """Return the version of TORCH_ROOT, without what stands after a plus."""
    return ".".join(map(str, numbers(torch_version())))


def root(version: str, machine: str = HERE) -> Path:
    """Return the folder with include/ and lib/ of this version, as TORCH_ROOT names
    one."""
    if (version, machine) == (installed(), HERE):
        return torch_root()
    return _folder(version, machine) / "torch"


def _folder(version: str, machine: str) -> Path:
    return CACHE / (version if machine == HERE else f"{machine}-{version}")


def whole(version: str, machine: str = HERE) -> bool:
    """Return whether it is here, each file as the wheel's list has it."""
    folder = _folder(version, machine)
    if (version, machine) == (installed(), HERE):
        return True
    sums = read_json(folder / "sums.json")
    return bool(sums) and not _wrong_files(folder, sums)


def fetch(version: str, machine: str = HERE) -> None:
    """Raise CannotRun if that fails, and then leaves nothing of it behind."""
    folder = _folder(version, machine)
    try:
        with locked(CACHE):
            if whole(version, machine):  # another process has done it meanwhile
                return
            shutil.rmtree(folder, ignore_errors=True)
            for left in CACHE.glob(".partial-*"):  # by a process that was killed
                shutil.rmtree(left)
            partial = CACHE / f".partial-{folder.name}"
            try:
                _fetch(version, machine, partial)
                partial.rename(folder)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise CannotRun(f"torch {version} could not be kept in {CACHE}: "
                        f"{error.strerror or error}. Mend that, or set "
                        "XDG_CACHE_HOME to another disk.") from error


def _fetch(version: str, machine: str, partial: Path) -> None:
    free = shutil.disk_usage(CACHE).free / 1e9
    if free < NEEDED_GB:
        raise CannotRun(f"torch {version} needs {NEEDED_GB} GB for a moment in "
                        f"{CACHE}, where {free:.1f} GB are free. Make room, or "
                        "set XDG_CACHE_HOME to another disk.")
    sums = _unpack(_download(f"torch=={version}", machine, partial), partial)
    metadata = sums.pop("METADATA")
    # libtorch_cpu of a CUDA wheel wants two small libraries of CUDA.
    wanted = re.findall(r"^Requires-Dist: (nvidia-cuda-(?:runtime|cupti)\S*?"
                        r"==[\d.]+)", metadata, re.M)
    toolkit = re.search(r"^Requires-Dist: cuda-toolkit\S*?==(\d+\.\d+)", metadata,
                        re.M)
    if toolkit:
        wanted = [f"nvidia-cuda-{part}=={toolkit[1]}.*"
                  for part in ("runtime", "cupti")]
    for requirement in wanted:
        sums.update(_unpack(_download(requirement, machine, partial), partial))
        sums.pop("METADATA")
    wrong = _wrong_files(partial, sums)
    if wrong:
        raise CannotRun(f"torch {version}: {wrong[0]} differs from the wheel's "
                        "own sum; run this again.")
    shutil.rmtree(partial / "wheels")
    (partial / "sums.json").write_text(json.dumps(sums))  # last: it is whole


def _download(requirement: str, machine: str, partial: Path) -> Path:
    """Fetch one wheel by pip, and show how much has come."""
    wheels = partial / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    command = [*PIP, "download", "--no-deps", "--no-cache-dir", "-q", "-d", wheels,
               "--only-binary=:all:", "--python-version", "3.12"]
    for tag in ("manylinux2014", *(f"manylinux_2_{n}" for n in range(17, 29))):
        command += ["--platform", f"{tag}_{machine}"]
    process = subprocess.Popen(
        list(map(str, [*command, requirement])), text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **ANY_VERSION, "TMPDIR": str(wheels)})
    assert process.stdout
    pipe, lines = process.stdout, list[str]()
    reader = threading.Thread(
        target=lambda: lines.extend(pipe), daemon=True)
    reader.start()
    start = time.monotonic()
    try:
        while process.poll() is None:
            time.sleep(0.2)
            _progress(f"fetching {requirement}: {_size(wheels) / 1e6:.0f} MB, "
                      f"{time.monotonic() - start:.0f} s")
    except BaseException:
        process.kill()
        process.wait()
        raise
    reader.join()
    found = list(wheels.glob("*.whl"))
    if process.returncode != 0 or not found:
        reason = [s.strip() for s in lines if "ERROR" in s] or lines[-1:] or ["-"]
        raise CannotRun(f"{requirement} could not be fetched (a network? a full "
                        f"disk?): {reason[-1][:300]}")
    _say(f"fetched {requirement}, {found[0].stat().st_size / 1e6:.0f} MB")
    return found[0]


def _unpack(wheel: Path, folder: Path) -> dict:
    """Unpack what is needed and remove the wheel. Return {file: [sum, size]}
    from the wheel's list, and its METADATA."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        info = {Path(n).name: n for n in names if ".dist-info/" in n}
        record = csv.reader(io.StringIO(archive.read(info["RECORD"]).decode()))
        sums = {row[0]: [row[1], int(row[2])] for row in record
                if _KEEP.fullmatch(row[0])}
        metadata = archive.read(info["METADATA"]).decode()
        for name in sums:
            _progress(f"unpacking {name}")
            archive.extract(name, folder)
    wheel.unlink()
    return {**sums, "METADATA": metadata}


def _wrong_files(folder: Path, sums: dict) -> list[str]:
    """Return the files that are not as the wheel's list has them, and the libraries
    that no wheel brought: the loader would take them before the system's."""
    foreign = [str(path.relative_to(folder)) for top in ("torch", "nvidia")
               for path in (folder / top).rglob("*.so*")
               if str(path.relative_to(folder)) not in sums]

    def good(name):
        expected, size = sums[name]
        path = folder / name
        if not path.is_file() or path.stat().st_size != size:
            return False
        digest = hashlib.sha256()
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        text = base64.urlsafe_b64encode(digest.digest()).decode().rstrip("=")
        return expected == f"sha256={text}"
    with ThreadPoolExecutor(4) as pool:
        return foreign + \
            [name for name, ok in zip(sums, pool.map(good, sums)) if not ok]


def _size(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):  # passes over what has gone
        for name in names:
            try:
                total += os.stat(os.path.join(place, name)).st_size
            except FileNotFoundError:
                pass  # moved meanwhile
    return total


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text[:78]}", end="", file=sys.stderr, flush=True)


def _say(text: str) -> None:
    _progress("")
    print(("\r" if sys.stderr.isatty() else "") + text, file=sys.stderr)
