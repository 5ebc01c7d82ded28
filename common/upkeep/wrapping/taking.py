"""Takes sources in: says where each lies in the project, and refuses what cannot be
taken. Nothing is written here."""

from pathlib import Path

from torch_stable_abi.port.sources import LARGEST, is_source, list_sources
from torch_stable_abi.port.syntax import SOURCES
from torch_stable_abi.programs import CannotRun

FOLDER = "csrc"  # of the project, where the sources come to


def take(given: list[str], target: Path, core: set[str]) -> dict[str, Path]:
    """Return {place in the project: source}. `core` has the names of the project's own
    headers."""
    taken: dict[str, Path] = {}
    for name in given:
        root = Path(name)
        files = [path for path in list_sources([name]) if is_source(path)]
        if not files:
            raise CannotRun(f"{root} has no C++ or CUDA source" if root.is_dir() else
                            f"{root} is no C++ or CUDA source: these end in "
                            f"{', '.join(SOURCES[:-1])} or {SOURCES[-1]}")
        if root.is_dir() and target.resolve().is_relative_to(root.resolve()):
            raise CannotRun(f"{target} would lie in {root}, whose sources it takes in: "
                            f"name another folder for the project")
        for path in files:
            place = path.relative_to(root) if root.is_dir() else Path(path.name)
            other = taken.setdefault(f"{FOLDER}/{place}", path)
            if other.resolve() != path.resolve():
                raise CannotRun(f"two sources would be {FOLDER}/{place}: {other} and "
                                f"{path}; rename one, or name a folder that has both")
    for path in taken.values():
        _refuse(path, core)
    return taken


def _refuse(path: Path, core: set[str]) -> None:
    """Refuse a source that cannot be read, or has the name of a file of ours."""
    if path.name in core:
        raise CannotRun(f"{path} has the name of a header in core/, and an #include "
                        "would find only one of them: rename it")
    if path.stat().st_size > LARGEST:
        raise CannotRun(f"{path} is larger than {LARGEST} bytes")
    try:
        text = path.read_bytes()
    except OSError as error:
        raise CannotRun(f"{path} cannot be read: {error.strerror}") from None
    try:
        odd = text.index(b"\0") if b"\0" in text else -1
        text.decode()
    except UnicodeDecodeError as error:
        odd = error.start
    if odd >= 0:
        line = text[:odd].count(b"\n") + 1
        raise CannotRun(f"{path} is no text in UTF-8: see its line {line}")
