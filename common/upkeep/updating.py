"""The core/ of a project that `new` has made, and how it follows the template's."""

import difflib
import hashlib
from pathlib import Path

from torch_stable_abi.files import read_json, write_file, write_json
from torch_stable_abi.programs import CannotRun

RECORD = ".core.json"  # in the project: what its core/ was, file by file


def list_core(files: dict[str, str]) -> dict[str, str]:
    """Return those of {path: text} that any op needs."""
    return {path: text for path, text in files.items() if "core" in Path(path).parts}


def find_version(core: dict[str, str]) -> str:
    """Return the version of a core/, which is that of its contents."""
    return _hash("".join(path + core[path] for path in sorted(core)))[:8]


def write_record(folder: Path, origin: dict, core: dict[str, str]) -> None:
    """Write which template a project is from, and what its core/ is without edits."""
    write_json(folder / RECORD, {
        "schema": 1, **origin, "version": find_version(core),
        "files": {path: _hash(core[path]) for path in sorted(core)}})


def read_record(folder: Path) -> dict:
    if not (folder / RECORD).exists():
        raise CannotRun(f"{folder} has no {RECORD}: ./workbook new writes it, for a "
                        "template with a folder core/")
    record = read_json(folder / RECORD)
    kinds = {"template": str, "name": str, "bare": bool, "version": str, "files": dict}
    wrong = [key for key, kind in kinds.items()
             if not isinstance(record.get(key), kind)]
    if wrong:
        raise CannotRun(f"{folder / RECORD} is damaged: it has no {wrong[0]} as "
                        "./workbook new writes it")
    return record


def update(folder: Path, record: dict, core: dict[str, str]) -> list[str]:
    """Bring the core/ of a project to that of its template, but for files that were
    edited. Return what was done, and the changes that are left."""
    said = []
    for path, text in core.items():
        file, before = folder / path, record["files"].get(path)
        there = file.read_text(errors="replace") if file.exists() else None
        if before == _hash(text) or there == text:
            continue  # nothing has changed since
        if there is None and before is not None:
            said.append(f"{path} has changed, and you have deleted it: left")
        elif there is None or _hash(there) == before:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_file(file, text)
            said.append(f"{path} is {'new' if there is None else 'updated'}")
        else:
            said.append(f"{path} has changed, and you have edited it: left. From "
                        "yours to the template's:")
            said += difflib.unified_diff(there.splitlines(), text.splitlines(),
                                         path, path, lineterm="")
    return said + [f"{path} is in core/ no more: left"
                   for path in record["files"].keys() - core.keys()]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
