"""The workbook on fresh machines, each from a clone of HEAD, and what it said: a
row a machine, in docs/results/machines.json.

    fresh.py [MACHINE...] [--torch-environment FOLDER]

On `debian`, the README's two commands. On the others, what a machine can
change: ./workbook, a check, and a build of every solution. `debian` and `user`
need root and debootstrap, and 3 GB in the temporary folder (TMPDIR); apt, pip
and certificates are set up in them as on this machine.
"""

import argparse
import datetime
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
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

    def run(self, folder: str | Path, *command) -> tuple[int, str]:
        words = list(map(str, command))
        if self.root is not None:
            line = f"cd {folder} && exec {shlex.join(words)}"
            words = ["chroot", self.root, *(
                ["runuser", "-u", self.user, "--"] if self.user else []),
                "sh", "-c", line]
        done = subprocess.run(
            words, cwd=folder if self.root is None else None, text=True,
            env=self.environment, stdin=subprocess.DEVNULL, errors="replace",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout


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


def machine(name: str, scratch: Path, environment: str) -> Machine:
    if name == "debian":
        return debian_root(scratch)
    if name == "user":
        return debian_root(scratch, "learner")
    if name == "torch-wheel":
        bin = Path(environment) / "bin" if environment else \
            environment_of(scratch, "torch")
        return Machine(scratch, VIRTUAL_ENV=str(bin.parent), **path_with(bin))
    torch = {k: os.environ[k] for k in ["TORCH_ROOT"] if k in os.environ}
    if name == "clang":
        return Machine(scratch, CC="clang", CXX="clang++", **torch)
    if name.startswith("cmake-"):
        presets = json.loads((ROOT / "CMakePresets.json").read_text())
        oldest = presets["cmakeMinimumRequired"]
        version = {"cmake-oldest": f"=={oldest['major']}.{oldest['minor']}.*",
                   "cmake-newest": ""}[name]
        return Machine(scratch, **torch, **path_with(
            environment_of(scratch, f"cmake{version}")))
    folder = scratch / "libtorch"  # without Python around it
    if not torch:
        raise SystemExit("libtorch: set TORCH_ROOT to the folder to copy from")
    source = Path(torch["TORCH_ROOT"])
    for part in ("include", "lib"):
        shutil.copytree(source / part, folder / part)
    for libraries in source.parent.glob("torch.libs"):
        shutil.copytree(libraries, scratch / libraries.name)
    return Machine(scratch, TORCH_ROOT=str(folder))


MACHINES = {
    "debian": f"Debian 12 by debootstrap: {PACKAGES.replace(',', ', ')}",
    "user": "the same with CMake, Ninja, doctest and Google Benchmark, as a user "
            "without root",
    "torch-wheel": "an active environment with a CUDA wheel",
    "libtorch": "TORCH_ROOT names an unpacked libtorch",
    "clang": "CXX=clang++",
    "cmake-oldest": "the oldest CMake that the presets take",
    "cmake-newest": "the newest CMake of PyPI",
}
SOLUTIONS = sorted(p.name for p in ROOT.glob("solutions/[0-9][0-9]_*"))
TWO = ["./workbook", "./workbook test"]
SOME = ["./workbook",
        f"./workbook check 01 --impl solutions/{SOLUTIONS[0]}",
        "TORCH_ROOT=$(cat .venv/torch-root) cmake --preset release",
        f"cmake --build --preset release --target {' '.join(SOLUTIONS)}"]
VERSIONS = "cat /etc/os-release; ${CXX:-c++} --version; cmake --version; " \
    "TORCH_ROOT=$(cat .venv/torch-root) .venv/bin/python -c 'import sys; " \
    "sys.path.append(\"common/tool\"); import workspace; " \
    "print(\"torch\", workspace.torch_version())'"


def versions(text: str) -> dict:
    """Of what VERSIONS has printed."""
    found = {what: re.search(pattern, text, re.M) for what, pattern in {
        "system": r'^PRETTY_NAME="(.*)"', "cmake": r"^cmake version (\S+)",
        "compiler": r"^(.*clang version .*|\S+ \(.*\) [\d.]+)$",
        "torch": r"^torch (.*)"}.items()}
    return {what: match[1] for what, match in found.items() if match}


def prove(name: str, environment: str) -> dict:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        scratch = Path(folder)
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT,
                                text=True, capture_output=True).stdout.strip()
        here = machine(name, scratch, environment)
        try:
            there = "/workbook" if here.root else clone(scratch / "workbook")
            row = {"machine": name, "what": MACHINES[name], "passed": True,
                   "date": datetime.date.today().isoformat(),
                   "commit": commit, "commands": []}
            for command in TWO if name == "debian" else SOME:
                status, text = here.run(there, "sh", "-c", command)
                last = text.replace(f"{scratch}/", "").strip() \
                    .splitlines()[-1:] or [""]
                row["commands"].append({"command": command, "status": status,
                                        "last_line": last[0][-200:]})
                print(f"{name}: {command}: {status}, {last[0]}", flush=True)
                if status != 0:
                    row["passed"] = False
                    print(text[-3000:], flush=True)
                    break
            row["versions"] = versions(here.run(there, "sh", "-c", VERSIONS)[1])
            return row
        finally:
            if here.root:
                unmount(here.root)


def keep(file: Path, row: dict) -> None:
    """A machine's row; the others stay as they are."""
    result = json.loads(file.read_text()) if file.exists() else {}
    rows = {r["machine"]: r for r in [*result.get("machines", []), row]}
    file.write_text(json.dumps({
        "command": "python3 tests/machines/fresh.py",
        "hardware": platform.machine(), "kernel": platform.release(),
        "machines": [rows[name] for name in MACHINES if name in rows]},
        indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("machines", nargs="*", metavar="MACHINE",
                        help=f"default: all: {' '.join(MACHINES)}")
    parser.add_argument("--torch-environment", metavar="FOLDER", default="",
                        help="an environment with a CUDA wheel; default: a new "
                             "one, with what pip takes")
    parser.add_argument("--json", type=Path, metavar="FILE",
                        default=ROOT / "docs/results/machines.json")
    arguments = parser.parse_args()
    for name in arguments.machines:
        if name not in MACHINES:
            parser.error(f"no machine {name}; there are: {' '.join(MACHINES)}")
    failed = 0
    for name in arguments.machines or MACHINES:
        row = prove(name, arguments.torch_environment)
        keep(arguments.json, row)
        failed += not row["passed"]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
