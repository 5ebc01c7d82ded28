"""The README's two commands on fresh machines, each from a clone of HEAD, and
what they said: a row a machine, in docs/results/machines.json.

    fresh.py [MACHINE...] [--torch-wheel FILE] [--json FILE]

Needs root and debootstrap for `debian` and `user`; 3 GB in the temporary
folder. Settings of apt, pip and certificates are taken from this machine.
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = "ca-certificates,git,g++,python3,python3-venv"
SETTINGS = ("/etc/apt/apt.conf.d", "/etc/apt/sources.list.d",
            "/etc/apt/sources.list", "/etc/pip.conf", "/etc/resolv.conf",
            "/etc/hosts", "/etc/ssl/certs", "/usr/share/ca-certificates")


def clone(folder: Path) -> Path:
    subprocess.run(["git", "clone", "-q", ROOT, folder], check=True)
    return folder


class Machine:
    """Where commands run: this machine, with an environment, or a root."""

    def __init__(self, scratch: Path, root: Path | None = None,
                 user: str = "", **environment: str):
        self.root, self.user = root, user
        home = scratch / "home" if root is None else Path("/home/" + user)
        (home if root is None else root / str(home)[1:]).mkdir(
            parents=True, exist_ok=True)
        keep = [name for name in os.environ if re.fullmatch(
            "PATH|LANG|.*_PROXY|.*_proxy|PIP_.*|SSL_.*|.*_CA_.*", name)]
        self.environment = {**{k: os.environ[k] for k in keep},
                            "HOME": str(home), **environment}

    def run(self, folder: str | Path, *command) -> tuple[int, float, str]:
        words = list(map(str, command))
        if self.root is not None:
            line = f"cd {folder} && exec {' '.join(words)}"
            words = ["chroot", self.root, *(
                ["runuser", "-u", self.user, "--"] if self.user else []),
                "sh", "-c", line]
        start = time.monotonic()
        done = subprocess.run(
            words, cwd=folder if self.root is None else None, text=True,
            env=self.environment, stdin=subprocess.DEVNULL, errors="replace",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, time.monotonic() - start, done.stdout


def debian_root(scratch: Path, user: str = "") -> Machine:
    root = scratch / "root"
    packages = PACKAGES + (",cmake,ninja-build,doctest-dev,libbenchmark-dev"
                           if user else "")
    subprocess.run(["debootstrap", "--variant=minbase",
                    f"--include={packages}", "bookworm", root], check=True,
                   stdout=subprocess.DEVNULL)
    for setting in map(Path, SETTINGS):
        target = root / str(setting)[1:]
        if setting.is_dir():
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(setting, target, symlinks=True,
                            ignore_dangling_symlinks=True)
        elif setting.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(setting, target)
    for folder in os.environ.get("PIP_FIND_LINKS", "").split():
        if Path(folder).is_dir():
            shutil.copytree(folder, root / folder[1:], dirs_exist_ok=True)
    if user:
        subprocess.run(["chroot", root, "useradd", "-m", user], check=True)
    clone(root / "workbook")
    if user:
        subprocess.run(["chroot", root, "chown", "-R", user, "/workbook"],
                       check=True)
    subprocess.run(["mount", "--bind", "/dev", root / "dev"], check=True)
    subprocess.run(["mount", "-t", "proc", "proc", root / "proc"], check=True)
    return Machine(scratch, root, user)


def unmount(root: Path) -> None:
    for folder in ("dev", "proc"):
        subprocess.run(["umount", root / folder], stderr=subprocess.DEVNULL)


def environment_of(scratch: Path, *packages: str) -> Path:
    """A virtual environment with these packages; its bin folder."""
    subprocess.run([sys.executable, "-m", "venv", scratch / "venv"], check=True)
    subprocess.run([scratch / "venv/bin/pip", "install", "-q", *packages],
                   check=True)
    return scratch / "venv/bin"


def path_with(folder: Path) -> dict:
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def machine(name: str, scratch: Path, torch_wheel: str) -> Machine:
    if name == "debian":
        return debian_root(scratch)
    if name == "user":
        return debian_root(scratch, "learner")
    if name == "clang":
        return Machine(scratch, CC="clang", CXX="clang++")
    if name.startswith("cmake-"):
        version = {"cmake-oldest": "cmake==3.22.*", "cmake-newest": "cmake"}
        return Machine(scratch, **path_with(
            environment_of(scratch, version[name])))
    if name == "torch-wheel":  # one with CUDA, and no toolkit
        bin = environment_of(scratch, torch_wheel)
        return Machine(scratch, VIRTUAL_ENV=str(bin.parent), **path_with(bin))
    if name == "libtorch":  # a folder without Python around it
        folder = scratch / "libtorch"
        source = Path(os.environ["TORCH_ROOT"])
        for part in ("include", "lib"):
            shutil.copytree(source / part, folder / part)
        for libraries in source.parent.glob("torch.libs"):
            shutil.copytree(libraries, scratch / libraries.name)
        return Machine(scratch, TORCH_ROOT=str(folder))
    raise SystemExit(f"no machine {name}; there are: {' '.join(MACHINES)}")


MACHINES = {
    "debian": f"Debian 12 by debootstrap: {PACKAGES.replace(',', ', ')}",
    "user": "the same with CMake and Ninja, as a user without root",
    "torch-wheel": "an active environment with a CUDA wheel, no toolkit",
    "libtorch": "TORCH_ROOT names an unpacked libtorch",
    "clang": "CXX=clang++",
    "cmake-oldest": "CMake 3.22, the oldest that the presets take",
    "cmake-newest": "the newest CMake of PyPI",
}


def prove(name: str, torch_wheel: str) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        here = machine(name, scratch, torch_wheel)
        try:
            there = "/workbook" if here.root else clone(scratch / "workbook")
            row = {"machine": name, "what": MACHINES[name], "commands": []}
            for command in (["./workbook"], ["./workbook", "test"]):
                status, seconds, text = here.run(there, *command)
                last = text.strip().splitlines()[-1:] or [""]
                row["commands"].append({
                    "command": " ".join(command), "status": status,
                    "seconds": round(seconds), "last_line": last[0]})
                print(f"{name}: {' '.join(command)}: {status}, "
                      f"{seconds:.0f} s, {last[0]}", flush=True)
                if status != 0:
                    print(text[-3000:])
                    break
            return row
        finally:
            if here.root:
                unmount(here.root)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("machines", nargs="*", default=list(MACHINES))
    parser.add_argument("--torch-wheel", default="torch==2.12.1")
    parser.add_argument("--json", default=ROOT / "docs/results/machines.json")
    arguments = parser.parse_args()
    rows = [prove(name, arguments.torch_wheel) for name in arguments.machines]
    Path(arguments.json).write_text(json.dumps({
        "date": time.strftime("%Y-%m-%d"), "cores": os.cpu_count(),
        "kernel": platform.release(), "machines": rows}, indent=1) + "\n")
    return any(c["status"] for row in rows for c in row["commands"])


if __name__ == "__main__":
    sys.exit(main())
