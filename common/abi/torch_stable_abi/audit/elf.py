"""A shared library as its ELF file has it."""

import io
import re
import struct
import subprocess
from dataclasses import dataclass, field

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

from torch_stable_abi.libtorch import surface
from torch_stable_abi.programs import CannotRun

LOCAL, WEAK, UNIQUE = 0, 2, 10
EXECUTABLE_STACK, TEXT_RELOCATIONS = range(2)
FOREIGN = {b"MZ": "a library of Windows", b"\xcf\xfa\xed\xfe": "one of macOS",
           b"\xca\xfe\xba\xbe": "one of macOS", b"!<ar": "a static library",
           b"vers": "a pointer of Git LFS"}


@dataclass
class Library:
    name: str
    machine: str = ""
    needed: list[str] = field(default_factory=list)
    rpath: list[str] = field(default_factory=list)
    imports: dict[str, bool] = field(default_factory=dict)  # whether it is weak
    exports: dict[str, int] = field(default_factory=dict)  # its binding
    inner: list[str] = field(default_factory=list)  # what registers ops
    versions: dict[str, set[str]] = field(default_factory=dict)
    strings: set[str] = field(default_factory=set)
    flags: set[int] = field(default_factory=set)
    cuda: list[str] = field(default_factory=list)
    debug: bool = False
    stripped: bool = True  # of the names that only a debugger needs

    @property
    def shims(self) -> dict[str, bool]:
        """The functions of libtorch's C shim that it takes, and whether each is
        weak."""
        return {n: weak for n, weak in self.imports.items()
                if surface.is_shim(n)}


def refuse_foreign(name: str, data: bytes) -> None:
    """Refuses what does not begin as an ELF file does."""
    if data[:4] != b"\x7fELF":
        what = next((what for magic, what in FOREIGN.items()
                     if data.startswith(magic)), "no ELF file")
        raise CannotRun(f"{name} is {what}; an audit is of Linux's .so")


def read(name: str, data: bytes) -> Library:
    refuse_foreign(name, data)
    try:
        return _read(name, data)
    except (ELFError, struct.error, ValueError, KeyError, AttributeError,
            AssertionError, TypeError, UnicodeError, OverflowError) as error:
        raise CannotRun(f"{name} is damaged, or was cut off: "
                        f"{str(error) or type(error).__name__}") from None


def _read(name: str, data: bytes) -> Library:
    elf = ELFFile(io.BytesIO(data))
    if elf.elfclass != 64 or not elf.little_endian:
        raise CannotRun(f"{name} is for a {elf.get_machine_arch()} of "
                        f"{elf.elfclass} bits; torch has none")
    if elf["e_type"] != "ET_DYN":
        raise CannotRun(f"{name} is no shared library but {elf['e_type']}")
    ends = [s["sh_offset"] + s["sh_size"] for s in elf.iter_sections()
            if s["sh_type"] != "SHT_NOBITS"]
    if elf["e_shoff"] > len(data) or max(ends, default=0) > len(data):
        raise ValueError(f"{len(data)} bytes of {max(ends, default=0)}")
    library = Library(name, elf.get_machine_arch())
    library.flags.add(EXECUTABLE_STACK)  # without a word, the old default
    for segment in elf.iter_segments("PT_GNU_STACK"):
        if not segment["p_flags"] & 1:
            library.flags.discard(EXECUTABLE_STACK)
    for section in elf.iter_sections():
        if isinstance(section, DynamicSection):
            _dynamic(library, section)
        elif isinstance(section, GNUVerNeedSection):
            for needed, entries in section.iter_versions():
                library.versions.setdefault(needed.name, set()).update(
                    entry.name for entry in entries)
        elif section.name == ".dynsym":
            _symbols(library, section.data(),
                     elf.get_section(section["sh_link"]).data())
        elif section.name == ".strtab":
            library.stripped = False
            library.inner = [name.decode() for name in section.data().split(b"\0")
                             if b"STABLE_TORCH_LIBRARY" in name]
        elif section.name == ".nv_fatbin":
            library.cuda = architectures(section.data())
        elif section.name.startswith(".debug_info"):
            library.debug = True
        elif section["sh_type"] == "SHT_PROGBITS" and \
                section["sh_flags"] & 7 in (2, 3):  # in memory, no code
            text = section.data()
            library.strings |= {m[0].decode() for m in re.finditer(
                rb"[\x20-\x7e\n]{3,}", text) if text[m.end():m.end() + 1] == b"\0"}
    return library


def _dynamic(library: Library, section: DynamicSection) -> None:
    for tag in section.iter_tags():
        kind, value = tag.entry.d_tag, tag.entry.d_val
        if kind == "DT_NEEDED":
            library.needed.append(tag.needed)
        elif kind in ("DT_RPATH", "DT_RUNPATH"):
            text = tag.rpath if kind == "DT_RPATH" else tag.runpath
            library.rpath += [p for p in text.split(":") if p]
        elif kind == "DT_TEXTREL" or kind == "DT_FLAGS" and value & 4:
            library.flags.add(TEXT_RELOCATIONS)


def _symbols(library: Library, table: bytes, names: bytes) -> None:
    # By hand: pyelftools takes 0.2 ms for each, and there may be 100,000.
    for at, info, other, index, *_ in struct.iter_unpack("<IBBHQQ", table):
        name = names[at:names.index(b"\0", at)].decode()
        bind, visibility = info >> 4, other & 3
        if not name or bind == LOCAL:
            continue
        if index == 0:
            library.imports[name] = bind == WEAK
        elif visibility in (0, 3):  # default, protected
            library.exports[name] = bind


def architectures(fatbin: bytes) -> list[str]:
    """["sm_90a", "compute_120"]: those that CUDA code was compiled for. The
    format is not documented: checked with the output of nvcc 13.0."""
    found, start = set(), 0
    while (start := fatbin.find(b"\x50\xed\x55\xba", start)) >= 0:
        _, _, header, size = struct.unpack_from("<IHHQ", fatbin, start)
        at, end = start + header, min(start + header + size, len(fatbin) - 48)
        while at < end:
            kind, _, header, size = struct.unpack_from("<HHIQ", fatbin, at)
            number, = struct.unpack_from("<I", fatbin, at + 28)
            flags, = struct.unpack_from("<Q", fatbin, at + 40)
            suffix = "a" if flags & 0x100000 else "f" if flags & 0x200000 else ""
            found.add((number, suffix, "compute" if kind == 1 else "sm"))
            if header + size == 0:
                break
            at += header + size
        start = max(at, start + 16)
    return [f"{kind}_{number}{suffix}" for number, suffix, kind in sorted(found)]


def demangle(names: list[str]) -> list[str]:
    """Return the names as C++ writes them, by c++filt, which comes with every
    compiler."""
    try:
        return subprocess.run(["c++filt"], input="\n".join(names), text=True,
                              capture_output=True, check=True).stdout.split("\n")
    except FileNotFoundError:
        raise CannotRun("c++filt is missing: sudo apt-get install binutils") \
            from None
