"""Lists the sources that are named, and reads them and what they include by quotes."""

from pathlib import Path

from torch_stable_abi.files import refuse_special, refuse_utf_16
from torch_stable_abi.port.syntax import SOURCES, Source
from torch_stable_abi.port.types import Types
from torch_stable_abi.programs import CannotRun

LARGEST = 5_000_000  # bytes


def list_sources(given: list[str]) -> list[Path]:
    """Return the files that are named, and those in the folders that are."""
    found: list[Path] = []
    for name in given:
        path = Path(name)
        refuse_special(path)
        if path.is_dir():
            found += sorted(p for p in path.rglob("*") if p.is_file() and
                            not any(part.startswith(".") or part == "build"
                                    for part in p.relative_to(path).parts))
        elif path.is_file():
            found.append(path)
        else:
            raise CannotRun(f"there is no file {name}")
    return list(dict.fromkeys(found))


def is_source(path: Path) -> bool:
    return path.suffix in SOURCES


class Reader:
    """Reads sources, and the types that they declare, once each."""

    def __init__(self, roots: list[Path]) -> None:
        self.roots = roots
        self.known: dict[Path, tuple[Source, Types]] = {}

    def read(self, path: Path) -> tuple[Source, Types]:
        path = path.resolve()
        if path not in self.known:
            if path.stat().st_size > LARGEST:
                raise CannotRun(f"{path} has more than {LARGEST} bytes: leave it out")
            refuse_utf_16(path)
            source = Source(path.read_bytes(), path)
            self.known[path] = source, Types(source, [])  # for circles of includes
            included = [self.read(other) for other in self._includes(source)]
            if any(other.uses_space for other, _ in included):
                source.uses_space = source.opens_space = True
            for other, _ in included:
                source.add_names(other)
            self.known[path] = source, Types(source, [types for _, types in included])
        return self.known[path]

    def _includes(self, source: Source) -> list[Path]:
        found = []
        for node in source.root.named_children:
            if node.type == "preproc_include":
                name = source.text_of(node).partition("include")[2].strip()
                if not name.startswith('"'):
                    continue
                for folder in (source.path.parent, *self.roots):
                    path = folder / name.strip('"').split('"')[0]
                    if path.is_file() and is_source(path) and \
                            path.stat().st_size <= LARGEST:
                        found.append(path)
                        break
        return found
