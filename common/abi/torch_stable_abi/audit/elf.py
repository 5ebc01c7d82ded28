"""A shared library as its ELF file has it."""

import contextlib
import ctypes
import io
import mmap
import re
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerDefSection, GNUVerNeedSection
from elftools.elf.sections import NoteSection, Section

from torch_stable_abi.audit import code
from torch_stable_abi.files import find_machine
from torch_stable_abi.libtorch import surface
from torch_stable_abi.programs import CannotRun

LOCAL, WEAK, UNIQUE = 0, 2, 10
EXECUTABLE_STACK, TEXT_RELOCATIONS, STATIC_TLS, NO_DLOPEN, PROGRAM = range(5)
# Bits of DT_FLAGS_1, by elf.h.
FLAGS_1 = {0x40: NO_DLOPEN, 0x8000000: PROGRAM}
FOREIGN = {b"MZ": "a library of Windows", b"\xcf\xfa\xed\xfe": "one of macOS",
           b"\xca\xfe\xba\xbe": "one of macOS", b"!<ar": "a static library",
           b"vers": "a pointer of Git LFS"}
STRING = re.compile(rb"[\x20-\x7e\n]{2,}")
LONGEST_STRING = 2**14  # a schema is shorter; PTX is longer
# The levels of x86-64 that a library may say that it needs, a bit each.
X86_64_LEVELS = ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4")


class Foreign(CannotRun):
    """A library of another system."""


@dataclass
class Library:
    name: str
    machine: str = ""  # as a wheel calls it, if one does
    soname: str = ""
    needed: list[str] = field(default_factory=list)
    rpath: list[str] = field(default_factory=list)
    has_runpath: bool = False  # rpath is DT_RUNPATH's, which what it needs does not use
    imports: dict[str, bool] = field(default_factory=dict)  # whether it is weak
    versioned: set[str] = field(default_factory=set)  # imports, whose library is named
    exports: dict[str, int] = field(default_factory=dict)  # its binding
    inner: list[str] = field(default_factory=list)  # some of its symbols, also local
    calls: list[code.Call] = field(default_factory=list)  # that register ops
    versions: dict[str, set[str]] = field(default_factory=dict)  # that it needs of each
    called: set[str] = field(default_factory=set)  # exports that it calls by a stub
    defines: set[str] = field(default_factory=set)  # versions that it has itself
    thread_local: int = 0  # bytes
    strings: set[str] = field(default_factory=set)
    flags: set[int] = field(default_factory=set)
    cuda: list[str] = field(default_factory=list)
    instructions: str = ""  # the level of x86-64 that it says it needs
    debug: bool = False
    stripped: bool = True  # of the names that only a debugger needs

    @property
    def file(self) -> str:
        return self.name.rsplit("/", 1)[-1]

    @property
    def shims(self) -> dict[str, bool]:
        """Return the functions of libtorch's C shim that it takes, and whether each
        is weak."""
        return {n: weak for n, weak in self.imports.items()
                if surface.is_shim(n)}


def refuse_foreign(name: str, data: bytes) -> None:
    """Refuse what does not begin as an ELF file does."""
    if data[:4] != b"\x7fELF":
        text = bytes(data[:60]).decode(errors="replace").strip().partition("\n")[0]
        what = next((what for magic, what in FOREIGN.items()
                     if data.startswith(magic)), f"no ELF file but text, {text!r}"
                    if text.isprintable() and text else "no ELF file")
        kind = Foreign if what.endswith(("Windows", "macOS")) else CannotRun
        raise kind(f"{name} is {what}; an audit is of Linux's .so")


def read_file(name: str, path: Path) -> Library:
    """Read a library. Its file is mapped, so that a large one takes little memory, and
    as long as an error's frames have parts of it."""
    with open(path, "rb") as file:
        refuse_foreign(name, file.read(60))
        return read(name, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def read(name: str, data: bytes | mmap.mmap) -> Library:
    refuse_foreign(name, data[:60])
    try:
        return _read(name, data)
    except (ELFError, struct.error, ValueError, KeyError, AttributeError,
            AssertionError, TypeError, UnicodeError, OverflowError, IndexError,
            RecursionError, OSError) as error:
        raise CannotRun(f"{name} is damaged, or was cut off: "
                        f"{str(error) or type(error).__name__}") from None


def _read(name: str, data: bytes | mmap.mmap) -> Library:
    elf = ELFFile(data if isinstance(data, mmap.mmap) else io.BytesIO(data))
    if elf.elfclass != 64 or not elf.little_endian:
        raise CannotRun(f"{name} is for a {elf.get_machine_arch()} of "
                        f"{elf.elfclass} bits; torch has none")
    if elf.get_machine_arch() == "<unknown>":
        raise CannotRun(f"{name} is for a machine that is not known, "
                        f"{elf['e_machine']}")
    if data[7] not in (0, 3):  # the System V ABI, GNU's
        raise CannotRun(f"{name} says that it is for another system (its byte 7 is "
                        f"{data[7]}): the loader refuses it")
    if elf["e_type"] != "ET_DYN":
        raise CannotRun(f"{name} is no shared library but {elf['e_type']}")
    if elf.num_sections() == 0:
        raise CannotRun(f"{name} has no section headers, which an audit reads: audit "
                        "it before it is stripped of them")
    dynamic = elf.get_section_by_name(".dynamic")
    if dynamic is None or dynamic["sh_type"] == "SHT_NOBITS":
        raise CannotRun(f"{name} is no library that can be loaded: " + (
            "it has the debug information of one alone" if dynamic else
            "it has no dynamic section"))
    ends = [s["sh_offset"] + s["sh_size"] for s in elf.iter_sections()
            if s["sh_type"] != "SHT_NOBITS"]
    if elf["e_shoff"] > len(data) or max(ends, default=0) > len(data):
        raise ValueError(f"{len(data)} bytes of {max(ends, default=0)}")
    library = Library(name, find_machine(data[:20]) or elf.get_machine_arch())
    library.flags.add(EXECUTABLE_STACK)  # without a word, the old default
    for segment in elf.iter_segments("PT_GNU_STACK"):
        if not segment["p_flags"] & 1:
            library.flags.discard(EXECUTABLE_STACK)
    for segment in elf.iter_segments("PT_TLS"):
        library.thread_local += segment["p_memsz"]
    versions: dict[int, str] = {}  # an index of .gnu.version: the library that has it
    for section in elf.iter_sections():
        if isinstance(section, GNUVerNeedSection):
            for needed, entries in section.iter_versions():
                for entry in entries:
                    library.versions.setdefault(needed.name, set()).add(entry.name)
                    versions[entry["vna_other"]] = needed.name
        elif isinstance(section, GNUVerDefSection):
            library.defines |= {name.name for _, names in section.iter_versions()
                                for name in names}
    indices = elf.get_section_by_name(".gnu.version")
    for section in elf.iter_sections():
        if section.name == ".dynsym":
            _read_symbols(library, section.data(),
                          elf.get_section(section["sh_link"]).data(),
                          indices.data() if indices else b"", versions)
        else:
            _read_section(library, section, data)
    library.called = {name for _, name in code.read_slots(elf, ".rela.plt")
                      if name in library.exports}
    if any(n in code.FUNCTIONS for n in library.imports):
        library.calls = code.read_calls(elf, data)
    return library


def _read_section(library: Library, section: Section,
                  data: bytes | mmap.mmap) -> None:
    if isinstance(section, DynamicSection):
        _read_dynamic(library, section)
    elif section.name == ".symtab":
        library.stripped = False
        names = section.elffile.get_section(section["sh_link"]).data()
        ours = {m.start(): m[0].decode() for m in re.finditer(
            rb"(?<=\0)(?:[^\0]*STABLE_TORCH_LIBRARY[^\0]*|PyInit_[^\0]*|set_fast_math)"
            rb"(?=\0)", names)}
        library.inner = [ours[at] for at, *_ in struct.iter_unpack(
            "<IBBHQQ", section.data()) if at in ours]
    elif section.name == ".nv_fatbin":
        library.cuda = find_architectures(
            data, section["sh_offset"], section["sh_offset"] + section["sh_size"])
    elif isinstance(section, NoteSection) and section.name == ".note.gnu.property":
        library.instructions = _read_instructions(section.data())
    elif section.name.startswith(".debug_info"):
        library.debug = True
    elif section["sh_type"] == "SHT_PROGBITS" and \
            section["sh_flags"] & 7 in (2, 3):  # in memory, no code
        start = section["sh_offset"]
        end = min(start + section["sh_size"], len(data))
        library.strings |= {m[0].decode() for m in STRING.finditer(data, start, end)
                            if m.end() < end and data[m.end()] == 0
                            and m.end() - m.start() < LONGEST_STRING}


def _read_dynamic(library: Library, section: DynamicSection) -> None:
    for tag in section.iter_tags():
        kind, value = tag.entry.d_tag, tag.entry.d_val
        if kind == "DT_NEEDED":
            library.needed.append(tag.needed)
        elif kind == "DT_SONAME":
            library.soname = tag.soname
        elif kind in ("DT_RPATH", "DT_RUNPATH"):
            if kind == "DT_RUNPATH":  # the loader then ignores DT_RPATH
                library.has_runpath, library.rpath = True, tag.runpath.split(":")
            elif not library.has_runpath:
                library.rpath = tag.rpath.split(":")
        elif kind == "DT_FLAGS_1":
            library.flags |= {flag for bit, flag in FLAGS_1.items() if value & bit}
        elif kind == "DT_TEXTREL" or kind == "DT_FLAGS":
            if kind == "DT_TEXTREL" or value & 4:
                library.flags.add(TEXT_RELOCATIONS)
            if kind == "DT_FLAGS" and value & 16:
                library.flags.add(STATIC_TLS)


def _read_symbols(library: Library, table: bytes, names: bytes, indices: bytes,
                  versions: dict[int, str]) -> None:
    # By hand: pyelftools takes 0.2 ms for each, and there may be 100,000.
    for i, (at, info, other, section, *_) in enumerate(
            struct.iter_unpack("<IBBHQQ", table)):
        name = names[at:names.index(b"\0", at)].decode()
        bind, visibility = info >> 4, other & 3
        if not name or bind == LOCAL:
            continue
        if section == 0:
            library.imports[name] = bind == WEAK
            version, = struct.unpack_from("<H", indices, 2 * i) if indices else (0,)
            if version & 0x7fff in versions:
                library.versioned.add(name)
        elif visibility in (0, 3):  # default, protected
            library.exports[name] = bind


def _read_instructions(note: bytes) -> str:
    """Return the highest level of x86-64 that GNU_PROPERTY_X86_ISA_1_NEEDED asks for
    (x86-64 psABI, "Program property"), or an empty text."""
    found = re.search(rb"\x02\x80\x00\xc0\x04\x00\x00\x00(.{4})", note, re.S)
    needed = int.from_bytes(found[1], "little") if found else 0
    return next((name for bit, name in reversed(list(enumerate(X86_64_LEVELS)))
                 if needed & 1 << bit), "")


def find_architectures(data: bytes | mmap.mmap, start: int, stop: int) -> list[str]:
    """Return ["sm_90a", "compute_120"]: those that CUDA code was compiled for. The
    format is not documented: checked with the output of nvcc 13.0."""
    found = set()
    while (start := data.find(b"\x50\xed\x55\xba", start, stop)) >= 0:
        _, _, header, size = struct.unpack_from("<IHHQ", data, start)
        at, end = start + header, min(start + header + size, stop - 48)
        while at < end:
            kind, _, header, size = struct.unpack_from("<HHIQ", data, at)
            number, = struct.unpack_from("<I", data, at + 28)
            flags, = struct.unpack_from("<Q", data, at + 40)
            suffix = "a" if flags & 0x100000 else "f" if flags & 0x200000 else ""
            found.add((number, suffix, "compute" if kind == 1 else "sm"))
            if header + size == 0:
                break
            at += header + size
        start = max(at, start + 16)
    return [f"{kind}_{number}{suffix}" for number, suffix, kind in sorted(found)]


def demangle(names: list[str]) -> list[str]:
    """Return the names as C++ writes them: by libstdc++, else by c++filt; where neither
    is, as they are."""
    with contextlib.suppress(OSError, AttributeError):
        function = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
        function.restype = ctypes.c_void_p
        return list(_demangle(names, function))
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        return subprocess.run(["c++filt"], input="\n".join(names), text=True,
                              capture_output=True, check=True).stdout.split("\n")
    return names


def _demangle(names: list[str], function) -> Iterator[str]:
    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]
    status = ctypes.c_int()
    for name in names:
        text = function(name.encode(), None, None, ctypes.byref(status))
        yield ctypes.string_at(text).decode(errors="replace") if text else name
        free(text)
