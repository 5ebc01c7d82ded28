"""Installing the sets of requirements/ beside the tool."""

import os
import shutil
import sysconfig
from pathlib import Path

from base.project import ROOT
from torch_stable_abi.libtorch.installed import torch_root
from torch_stable_abi.programs import PIP, CannotRun, run_shown

REQUIREMENTS = ROOT / "requirements"
# What `matrix --python` installs as well, and so is part of the tools' package.
OF_PACKAGE = ROOT / "common/abi/torch_stable_abi/requirements"


def see_torch() -> None:
    """Let this Python import torch."""
    pth = Path(sysconfig.get_path("purelib"), "torch_of_workbook.pth")
    if not (torch_root() / "__init__.py").is_file():
        raise CannotRun(f"{torch_root()} is libtorch alone; this needs torch "
                        "for Python: unset TORCH_ROOT")
    if not pth.exists() or pth.read_text() != f"{torch_root().parent}\n":
        pth.write_text(f"{torch_root().parent}\n")


def lock_files() -> dict[str, Path]:
    """Return each set's lock, by its name."""
    return {path.stem: path for folder in (REQUIREMENTS, OF_PACKAGE)
            for path in sorted(folder.glob("*.txt"))}


def install(name: str) -> None:
    """Install the set requirements/NAME.txt beside the tool, once."""
    wanted = REQUIREMENTS / f"{name}.txt"
    done = Path(sysconfig.get_path("purelib"), f"requirements-{wanted.name}.done")
    if not done.exists() or done.read_bytes() != wanted.read_bytes():
        title = wanted.relative_to(ROOT)
        try:
            run_shown(f"Installing {title}", [
                *PIP, "install", "-q", "--require-hashes", "-r", wanted])
        except CannotRun as error:
            raise CannotRun(f"{title} could not be installed (a network?)\n"
                            f"{error}") from None
        shutil.copy(wanted, done)


def install_with_torch(name: str) -> None:
    """Install a set, and let this Python import torch: tests in Python need both."""
    see_torch()
    install(name)


def expect_no_numpy() -> None:
    """Let processes of Python to come be silent where there is no NumPy: torch says so
    at its first use, and needs none here."""
    os.environ.setdefault("PYTHONWARNINGS", "ignore:Failed to initialize NumPy")
