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

    def __init__(self, folders: list[Path]) -> None:
        """Look for what is included in the folders that were named, and beside them."""
        self.folders = folders
        self.roots = [*folders, *(parent for folder in folders
                                  for parent in list(folder.parents)[:3])]
        self.known: dict[Path, tuple[Source, Types]] = {}
        self.names: dict[str, list[Path]] | None = None  # of all in the folders

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
                name = name.strip('"').split('"')[0]
                places = [folder / name for folder in (source.path.parent, *self.roots)
                          if (folder / name).is_file()] or self._find(name)
                if places and is_source(places[0]) and \
                        places[0].stat().st_size <= LARGEST:
                    found.append(places[0])
        return found

    def _find(self, name: str) -> list[Path]:
        """Return the file in the folders whose path ends so, if it is one: an option of
        the compiler says where it is."""
        if self.names is None:
            self.names = {}
            for path in list_sources([str(folder) for folder in self.folders]):
                self.names.setdefault(path.name, []).append(path)
        found = [path for path in self.names.get(name.rpartition("/")[2], ())
                 if f"/{path.as_posix()}".endswith(f"/{name}")]
        return found if len(found) == 1 else []
