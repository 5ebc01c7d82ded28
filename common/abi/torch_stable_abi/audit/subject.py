"""The subject of an audit: a library, a wheel, or a folder such as a Hub variant."""

import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from email.parser import Parser
from pathlib import Path

from torch_stable_abi.audit import elf
from torch_stable_abi.files import DAMAGED_ZIP, read_json, refuse_special
from torch_stable_abi.programs import CannotRun

LIBRARY = re.compile(r".*\.(so(\.\d+)*|pyd|dylib|dll)", re.S)
VARIANT = re.compile(r"torch-stable-abi(\d)(\d+)-(\w+)-(\w+)-(\w+)")


@dataclass
class Subject:
    name: str
    libraries: list[elf.Library] = field(default_factory=list)
    tags: list[tuple[str, str, str]] = field(default_factory=list)  # of a wheel
    requires: list[str] = field(default_factory=list)  # as "torch>=2.10"
    variant: str = ""  # the name of a Hub variant's folder
    id: str = ""  # and what its metadata.json calls the package
    namespaces: set[str] = field(default_factory=set)  # after torch.ops. in .py


def open_(given: str) -> Subject:
    path = Path(given)
    if path.is_dir():
        return _folder(path)
    if not path.exists():
        raise CannotRun(f"there is no file {given}")
    refuse_special(path, given)
    if path.suffix == ".whl":
        return _wheel(path)
    with open(path, "rb") as file:  # what is no library may be too large to be read
        elf.refuse_foreign(path.name, file.read(4))
    return Subject(path.name, [elf.read(path.name, path.read_bytes())])


def _fill(subject: Subject, names: list[str],
          read: Callable[[str], bytes]) -> Subject:
    for name in sorted(names):
        if LIBRARY.fullmatch(name):
            subject.libraries.append(elf.read(name, read(name)))
        elif name.endswith(".py"):
            subject.namespaces |= set(re.findall(
                r"\btorch\.ops\.(?!load_library|loaded_libraries|import_module)"
                r"([a-z_]\w*)", read(name).decode(errors="replace")))
    if not subject.libraries:
        raise CannotRun(f"{subject.name} holds no library: no file that ends in .so")
    return subject


def _folder(path: Path) -> Subject:
    subject = Subject(path.name or str(path))
    if (path / "metadata.json").exists() or VARIANT.fullmatch(path.name):
        subject.variant = path.name
        subject.id = read_json(path / "metadata.json").get("id", "")
    return _fill(subject, [
        str(p.relative_to(path)) for p in path.rglob("*")
        if p.is_file() and not p.is_symlink()], lambda n: (path / n).read_bytes())


def _wheel(path: Path) -> Subject:
    parts = path.stem.split("-")
    if len(parts) not in (5, 6):
        raise CannotRun(f"{path.name} is no name of a wheel: expected "
                        "NAME-VERSION-PYTHON-ABI-PLATFORM.whl")
    python, abi, platform = parts[-3:]
    subject = Subject(path.name, tags=[
        (p, a, f) for p in python.split(".") for a in abi.split(".")
        for f in platform.split(".")])
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            for name in names:
                if re.fullmatch(r"[^/]+\.dist-info/METADATA", name):
                    text = archive.read(name).decode(errors="replace")
                    subject.requires = Parser().parsestr(text).get_all(
                        "Requires-Dist", [])
            return _fill(subject, names, archive.read)
    except DAMAGED_ZIP as error:
        raise CannotRun(f"{path.name} is damaged, or was cut off: {error}") \
            from None
