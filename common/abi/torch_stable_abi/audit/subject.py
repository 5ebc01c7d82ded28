"""The subject of an audit: a library, a wheel, or a folder such as a Hub variant."""

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.message import Message
from email.parser import Parser
from pathlib import Path

from torch_stable_abi.audit import elf
from torch_stable_abi.files import DAMAGED_ZIP, describe_special, refuse_special
from torch_stable_abi.programs import CannotRun

LIBRARY = re.compile(r".*\.(so(\.\d+)*|pyd|dylib|dll)", re.S)
MOST_BYTES = 2**34  # unpacked, of a wheel or a folder: more is an error or an attack
MOST_FILES = 10**5
# The name of a Hub variant's folder, and of one that is meant to be.
VARIANT = re.compile(
    r"(?:torch-stable-abi(?P<torch>\d\d+)|(?:torch|tvm-ffi)\d+(?:-cxx(?:11|98))?)-"
    r"(?P<backend>[a-z]+\d*)-(?P<machine>\w+)-(?P<system>linux)|"
    r"(?:torch|tvm-ffi)\d+-[a-z]+\d*-\w+-\w+|"
    r"torch-[a-z]+|torch-universal")
LIKE_VARIANT = re.compile(r"(torch|tvm-ffi)[\w.-]*-(x86_64|aarch64)[\w.-]*")


@dataclass
class Wheel:
    """A wheel, as its name and its .dist-info describe it."""
    tags: list[tuple[str, str, str]]
    name: str
    version: str
    folders: list[str] = field(default_factory=list)  # that end in .dist-info
    metadata: Message = field(default_factory=Message)
    about: Message = field(default_factory=Message)  # its file WHEEL
    record: dict[str, str] | None = None  # {file: hash}, as RECORD has them
    unread: list[str] = field(default_factory=list)  # what is no UTF-8


@dataclass
class Subject:
    name: str
    libraries: list[elf.Library] = field(default_factory=list)
    beside: set[str] = field(default_factory=set)  # files in the folder of a library
    foreign: list[str] = field(default_factory=list)  # what is for another system
    damaged: list[str] = field(default_factory=list)  # why, of each that cannot be read
    namespaces: set[str] = field(default_factory=set)  # after torch.ops. in .py
    python: dict[str, str] = field(default_factory=dict)  # {file: text}
    sums: dict[str, bytes] = field(default_factory=dict)  # {file: its SHA-256}
    wheel: Wheel | None = None
    variant: str = ""  # the name of a Hub variant's folder
    metadata: object = None  # what its metadata.json holds; an error's text, if none

    @property
    def tags(self) -> list[tuple[str, str, str]]:
        return self.wheel.tags if self.wheel else []

    @property
    def algorithm(self) -> str:
        """Return the one of the digest in metadata.json, of which the loader takes
        two."""
        digest = self.metadata.get("digest") if isinstance(self.metadata, dict) else 0
        said = digest.get("algorithm") if isinstance(digest, dict) else 0
        return "sha512" if said == "sha512" else "sha256"

    @property
    def id(self) -> str:
        """Return the id that metadata.json gives the package, or ""."""
        found = self.metadata.get("id") if isinstance(self.metadata, dict) else ""
        return found if isinstance(found, str) else ""


def find_subjects(given: str) -> Iterator[Subject | CannotRun]:
    """Yield the subject that a path names: a library, a wheel, a folder of libraries;
    or one for each variant of a Hub repository or its build folder. In place of one
    that cannot be read, yield the error."""
    path = Path(given)
    for folder in _find_variants(path) or [path]:
        try:
            yield open_subject(folder, given if folder == path else str(folder))
        except CannotRun as error:
            yield error


def _find_variants(path: Path) -> list[Path]:
    """Return the variants in a repository, or in its build folder."""
    for folder in (path / "build", path):
        with contextlib.suppress(OSError):
            found = [] if _is_variant(path) else sorted(
                p for p in folder.iterdir() if p.is_dir() and _is_variant(p))
            if found:
                return found
    return []


def _is_variant(folder: Path) -> bool:
    with contextlib.suppress(PermissionError):
        if (folder / "metadata.json").exists():
            return True
    return LIKE_VARIANT.fullmatch(folder.name) is not None


def open_subject(path: Path, given: str) -> Subject:
    if path.is_dir():
        return _open_folder(path)
    if not path.exists():
        raise CannotRun(f"there is no file {given}")
    refuse_special(path, given)
    if path.suffix == ".whl":
        return _open_wheel(path)
    with contextlib.suppress(OSError):  # a folder that cannot be listed
        beside = {p.name for p in path.parent.iterdir()}
        return Subject(path.name, [elf.read_file(path.name, path)], beside=beside)
    return Subject(path.name, [elf.read_file(path.name, path)])


def _add_file(subject: Subject, name: str, path: Path) -> None:
    """Add a file of a wheel or a folder, which lies at `path`."""
    if LIBRARY.fullmatch(name):
        try:
            subject.libraries.append(elf.read_file(name, path))
        except elf.Foreign as error:
            subject.foreign.append(str(error))
        except CannotRun as error:
            subject.damaged.append(str(error))
    elif name.endswith(".py") and path.stat().st_size < 2**22:
        text = path.read_bytes().decode("utf-8-sig", errors="replace")
        subject.python[name] = text
        subject.namespaces |= set(re.findall(
            r"\btorch\.ops\.(?!load_library|loaded_libraries|import_module)"
            r"([A-Za-z_]\w*)", text))
    with open(path, "rb") as file:
        subject.sums[name] = _sum(file.read, subject.algorithm)


def _sum(read: Callable[[int], bytes], algorithm: str = "sha256") -> bytes:
    digest = hashlib.new(algorithm)
    while block := read(2**20):
        digest.update(block)
    return digest.digest()


def _open_folder(path: Path) -> Subject:
    os.scandir(path).close()  # one that cannot be read is named, and not a file in it
    subject = Subject(path.resolve().name)
    if _is_variant(path):
        subject.variant = subject.name
        subject.metadata = _read_metadata(path / "metadata.json")
    files = [p for p in sorted(path.rglob("*"))
             if "__pycache__" not in p.parts and p.suffix != ".pyc"]
    if len(files) > MOST_FILES:
        raise CannotRun(f"{path} holds more than {MOST_FILES} files: name a library, a "
                        "wheel, or the folder of a variant")
    for file in files:
        if describe_special(file) or not file.is_file() or \
                file.is_symlink() and not subject.variant:
            continue
        name = str(file.relative_to(path))
        _add_file(subject, name, file)
    if not (subject.libraries or subject.foreign or subject.damaged or subject.variant):
        wheels = next((file for file in files if file.suffix == ".whl"), None)
        raise CannotRun(f"{path} holds no library: no file that ends in .so" + (
            f"; name its wheels, as by {wheels.parent}/*.whl" if wheels else ""))
    subject.foreign += [f"{file.relative_to(path)} is a wheel: name it, to audit it"
                        for file in files if file.suffix == ".whl"]
    return subject


FIELDS = ("id", "name", "version", "license", "python-depends", "backend", "type",
          "digest")


def _read_metadata(path: Path) -> object:
    def refuse_twins(pairs: list) -> dict:  # of fields that the loader reads
        names = [name for name, _ in pairs]
        if twin := next((n for n in names if names.count(n) > 1 and n in FIELDS), ""):
            raise ValueError(f"{twin} stands in it twice")
        return dict(pairs)
    try:
        refuse_special(path)
        text = path.read_bytes().decode()
        if text.startswith("\ufeff"):
            raise ValueError("it begins with a byte order mark")
        return json.loads(text, object_pairs_hook=refuse_twins)
    except FileNotFoundError:
        return "there is no metadata.json"
    except (ValueError, RecursionError) as error:
        return f"metadata.json is no JSON: {error}"


def _open_wheel(path: Path) -> Subject:
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename
    try:
        name, version, _, _ = parse_wheel_filename(path.name)
    except InvalidWheelFilename:
        raise CannotRun(f"{path.name} is no name of a wheel: expected "
                        "NAME-VERSION[-BUILD]-PYTHON-ABI-PLATFORM.whl, where BUILD "
                        "begins with a digit") from None
    python, abi, platform = path.stem.split("-")[-3:]
    wheel = Wheel([(p, a, f) for p in python.split(".") for a in abi.split(".")
                   for f in platform.split(".")], str(name), str(version))
    subject = Subject(path.name, wheel=wheel)
    try:
        with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory() as folder:
            entries = [e for e in archive.infolist() if not e.is_dir()]
            if any(e.flag_bits & 1 for e in entries):
                raise CannotRun(f"{path.name} has encrypted files: pip refuses it")
            if sum(e.file_size for e in entries) > MOST_BYTES or \
                    len(entries) > MOST_FILES:
                raise CannotRun(f"{path.name} is refused: unpacked it has more than "
                                f"{MOST_FILES} files or {MOST_BYTES >> 30} GiB")
            for entry in sorted(entries, key=lambda e: e.filename):
                _add_entry(subject, wheel, archive, entry, Path(folder, "file"))
    except (*DAMAGED_ZIP, OSError, struct.error) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise  # of the disk; EINVAL is of an offset below 0
        raise CannotRun(f"{path.name} is damaged, or was cut off: {error}") \
            from None
    return subject


def _add_entry(subject: Subject, wheel: Wheel, archive: zipfile.ZipFile,
               entry: zipfile.ZipInfo, path: Path) -> None:
    """Add a file of a wheel. It is unpacked to `path`, since a library is mapped."""
    name = entry.filename
    if LIBRARY.fullmatch(name) or name.endswith(".py"):
        with archive.open(entry) as source, open(path, "wb") as file:
            shutil.copyfileobj(source, file, 2**20)
        _add_file(subject, name, path)
        return
    with archive.open(entry) as source:
        if not (found := re.fullmatch(r"([^/]+\.dist-info)/(\w+)", name)):
            subject.sums[name] = _sum(source.read)
            return
        data = source.read(2**24)
    subject.sums[name] = hashlib.sha256(data).digest()
    wheel.folders = sorted({*wheel.folders, found[1]})
    text = data.decode(errors="replace")
    try:
        data.decode()
    except UnicodeDecodeError:
        wheel.unread.append(found[2])
    if found[2] == "METADATA":
        wheel.metadata = Parser().parsestr(text)
    elif found[2] == "WHEEL":
        wheel.about = Parser().parsestr(text)
    elif found[2] == "RECORD":
        wheel.record = dict(_read_record(text))


def _read_record(text: str) -> Iterator[tuple[str, str]]:
    import csv
    with contextlib.suppress(csv.Error):
        for row in csv.reader(text.splitlines()):
            if row:
                yield row[0], row[1] if len(row) > 1 else ""
