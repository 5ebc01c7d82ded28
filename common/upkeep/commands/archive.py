"""archive: all that machines without a network need, in one file.

The file is a .tar of the workbook and of what it would download: the checkout as
it is, the wheels of this Python and this platform, and the list of Debian
packages. On such a machine:

    tar xf FILE && cd workbook && ./workbook
"""

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from importlib.metadata import PathDistribution
from pathlib import Path

from base.project import ROOT
from base.requirements import REQUIREMENTS, lock_files
from torch_stable_abi.files import readable, refuse_special, refuse_unwritable
from torch_stable_abi.programs import PIP, CannotRun, run_git, run_shown
from torch_stable_abi.programs import run as run_program

PACKAGES = "g++ cmake ninja-build python3-venv doctest-dev libbenchmark-dev mold " \
    "clang llvm libclang-rt-dev"
PARTS = ["torch", "hub", "cuda", "audit", "port"]
CPU = "https://download.pytorch.org/whl/cpu"


def list_files(*options: str) -> list[str]:
    """Return what `git ls-files` lists of the checkout."""
    if shutil.which("git") is None:
        raise CannotRun("git is not installed: sudo apt-get install -y git")
    done = run_git(ROOT, "-c", f"safe.directory={ROOT}", "ls-files", "-z", *options)
    if done.returncode != 0:
        raise CannotRun("an archive is made from a git checkout, and git says: "
                        + done.stderr.decode(errors="replace").strip())
    return [name for name in os.fsdecode(done.stdout).split("\0") if name]


def files_to_pack(more: list[str]) -> list[str]:
    """Return the files that git tracks, and those of `more`. The rest of the checkout
    may be the work of people, their results, or an older archive."""
    tracked, untracked = list_files(), list_files("--others", "--exclude-standard")
    for name in [*tracked, *more]:
        refuse_special(ROOT / name)
    gone = [name for name in tracked if not (ROOT / name).is_file()]
    for name in more:
        if name not in untracked:
            raise CannotRun(f"--with {name}: no file of the checkout that git does "
                            "not track has this name")
    _say_left_out("git does not track them", set(untracked) - set(more),
                  "; --with FILE packs one")
    _say_left_out("they are not here", set(gone), "; git checkout brings them back")
    return [name for name in tracked if name not in gone] + more


def _say_left_out(why: str, names: set[str], cure: str) -> None:
    if names:
        first = ", ".join(map(readable, sorted(names)[:5]))
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        print(f"Left out, since {why}: {first}{more}{cure}", file=sys.stderr)


def fetch_wheels(folder: Path, without: list[str]) -> None:
    pip = [*PIP, "download", "-q", "-d", folder]
    sets = ["tools", *(p for p in PARTS if p not in ("torch", *without))]
    if "torch" not in without:
        sets.append(fetch_torch(pip, folder))
    run_shown("Fetching wheels", [
        *pip, "--require-hashes", *(f"-r{lock_files()[name]}" for name in sets)])


def fetch_torch(pip: list, folder: Path) -> str:
    """Return the name of the set that this torch needs."""
    torch = re.findall(r"^torch==\S+", (REQUIREMENTS / "torch.in").read_text(), re.M)[0]
    print(f"Fetching {torch} for CPU (about 0.2 GB)", file=sys.stderr)
    if run_program([*pip, "--no-deps", "--index-url", CPU, "--retries", "0",
                    "--timeout", "5", torch]).returncode != 0:
        run_shown(f"Fetching {torch}", [*pip, "--no-deps", torch])
    wheel, = folder.glob("torch-*.whl")
    info = f"{'-'.join(wheel.name.split('-')[:2])}.dist-info/"
    needs = PathDistribution(zipfile.Path(wheel, info)).requires or []
    cuda = any(name.startswith(("cuda", "nvidia")) and "extra ==" not in name
               for name in needs)
    return "torch" if cuda else "torch-cpu"


def packages() -> str:
    """Return the Debian packages, with the versions that are installed here."""
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", "# ${Package} ${Version}\n",
         *PACKAGES.split()], text=True, capture_output=True) \
        if Path("/usr/bin/dpkg-query").exists() else None
    return f"sudo apt-get install -y {PACKAGES}\n" + \
        (f"# Where this archive was made:\n{done.stdout}" if done else "")


def made_for() -> str:
    return (f"Python {platform.python_version_tuple()[0]}."
            f"{platform.python_version_tuple()[1]}, "
            f"{sysconfig.get_platform()}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="such as workbook.tar")
    parser.add_argument("--with", dest="more", action="append", default=[],
                        metavar="FILE", help="pack a file that git does not track")
    parser.add_argument("--without", action="append", default=[],
                        choices=PARTS, help="torch (each machine has one, named "
                        "by TORCH_ROOT), hub (chapter 08), cuda (nvcc), audit, port")


def run(arguments: argparse.Namespace) -> int:
    file = Path(arguments.file)
    refuse_unwritable(file, "FILE")
    refuse_special(file, f"FILE: {file}")
    names = files_to_pack(arguments.more)
    part = file.with_name(file.name + ".part")
    try:
        with tempfile.TemporaryDirectory(dir=file.parent) as scratch:
            offline = Path(scratch) / "offline"
            (offline / "wheels").mkdir(parents=True)
            fetch_wheels(offline / "wheels", arguments.without)
            (offline / "packages.txt").write_text(packages())
            (offline / "made_for.txt").write_text(made_for() + "\n")
            count = len(list((offline / "wheels").iterdir()))
            with tarfile.open(part, "w") as tar:
                for name in names:
                    tar.add(ROOT / name, f"workbook/{name}")
                tar.add(offline, "workbook/offline")
        part.rename(file)  # whole or not at all
    finally:
        part.unlink(missing_ok=True)
    print(f"{file}: {len(names)} files, {count} wheels for {made_for()}, "
          f"{file.stat().st_size / 1e6:.0f} MB\n"
          f"On each machine: {packages().splitlines()[0]}\n"
          f"then: tar xf {file.name} && cd workbook && ./workbook")
    return 0

