"""Ports files: reads them, rewrites them, and writes the results."""

import sys
from pathlib import Path

from torch_stable_abi.files import write_file
from torch_stable_abi.port import builds
from torch_stable_abi.port.drafts import Draft, draft_registrations
from torch_stable_abi.port.naming import UNKNOWN, Finding
from torch_stable_abi.port.report import Ported
from torch_stable_abi.port.rewriting import Rewriter
from torch_stable_abi.port.sources import Reader, is_source, list_sources
from torch_stable_abi.programs import CannotRun

DEEPEST = 8_000  # calls: some hundred levels of a source


def port(given: list[str]) -> tuple[list[Ported], list[Draft]]:
    """Return the files with what becomes of them, and drafts of registrations."""
    folders = [Path(name).resolve() for name in given if Path(name).is_dir()]
    reader = Reader(folders)
    files, sources = [], []
    sys.setrecursionlimit(DEEPEST)
    for path in list_sources(given):
        if is_source(path):
            try:
                source, known = reader.read(path)
                rewriter = Rewriter(source, known)
                new = rewriter.rewrite()
            except RecursionError:
                files.append(_unread(path, "its code is nested too deep"))
                continue
            except CannotRun as error:
                if path in map(Path, given):  # not one file of a folder
                    raise
                files.append(_unread(path, str(error)))
                continue
            sources.append(source)
            files.append(Ported(path, _decode(source.text), new, rewriter.findings,
                                rewriter.methods))
        elif builds.is_build(path, _folder_of(path, given)) and \
                (found := builds.read_build(path)):
            text = path.read_text(errors="replace")
            files.append(Ported(path, text, text, found))
    return files, draft_registrations(sources)


def _unread(path: Path, why: str) -> Ported:
    """Return a source as it is, with a finding that says why."""
    text = _decode(path.read_bytes())
    return Ported(path, text, text, [Finding(1, UNKNOWN, path.name, None, why)])


def _decode(text: bytes) -> str:
    return text.decode(errors="surrogateescape")


def _folder_of(path: Path, given: list[str]) -> Path:
    """Return the folder that was named and has the file, or else the file's own."""
    return next((Path(name) for name in given
                 if Path(name).is_dir() and path.is_relative_to(name)), path.parent)


def write_copies(files: list[Ported], given: list[str], folder: Path) -> None:
    """Write the files below `folder`, each at its place in the folder named; none, if
    one is there already."""
    copies: dict[Path, str] = {}
    for one in files:
        if one.old != one.new:
            path = folder / one.path.relative_to(_folder_of(one.path, given))
            if path in copies:
                raise CannotRun(f"{path} would be that of two files: name one folder "
                                "that has both")
            if path.exists():
                raise CannotRun(f"{path} exists: --to writes over nothing")
            copies[path] = one.new
    for path, text in copies.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, text)
