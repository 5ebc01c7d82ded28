"""Reads in a library's code which functions of libtorch's C shim it calls to register
ops, and with which strings. Nothing of it is run, and it may be stripped."""

import bisect
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from elftools.elf.elffile import ELFFile

# The functions that the stable headers call to register something, and what for.
FUNCTIONS = {"aoti_torch_library_init_def": "open",
             "aoti_torch_library_init_fragment": "open a fragment",
             "aoti_torch_library_init_impl": "open for kernels",
             "aoti_torch_library_def": "define",
             "torch_library_def_with_tags": "define",
             "torch_library_impl": "implement", "aoti_torch_library_impl": "implement"}
# The headers' own functions around them, where a compiler does not inline them. Their
# .part and .cold clones handle errors.
WRAPPER = re.compile(r"_ZN5torch6stable6detail13StableLibrary(?:3(def)|4(impl)|C[12])E"
                     r"(?!.*\.(part|cold)).*")
REACH = 96  # bytes before a call, in which its arguments are set


@dataclass
class Call:
    """A call that registers something."""
    what: str  # a value of FUNCTIONS
    inside: str  # the symbol of the function that makes it, or ""
    texts: list[str | None] = field(default_factory=list)  # of the first 3 arguments
    text: str | None = None  # the one that was set last
    kernel: str = ""  # the symbol of the function that it passes, or ""


def read_calls(elf: ELFFile, data) -> list[Call]:
    """Return the calls that register something, in the order of the code; [] for a
    machine whose code is not known."""
    reader = {"x64": _X86, "AArch64": _AArch64}.get(elf.get_machine_arch())
    return list(reader(elf, data).find_calls()) if reader else []


class _Code:
    """The code of a library, and what the addresses in it stand for."""

    def __init__(self, elf: ELFFile, data) -> None:
        self.data = data
        sections = [s for s in elf.iter_sections() if s["sh_type"] == "SHT_PROGBITS"
                    and s["sh_flags"] & 2]
        stubs = [s for s in sections if s.name.startswith(".plt")]
        self.places = sorted((s["sh_addr"], s["sh_addr"] + s["sh_size"], s["sh_offset"],
                              bool(s["sh_flags"] & 4)) for s in sections)
        self.code = [(s["sh_addr"], s["sh_offset"], s["sh_size"]) for s in sections
                     if s["sh_flags"] & 4 and s not in stubs]
        symbols = elf.get_section_by_name(".symtab")
        self.functions = dict(_read_functions(symbols, elf)) if symbols else {}
        self.starts = sorted(self.functions)
        self.slots = dict(read_slots(elf))
        self.targets = {at: {"def": "define", "impl": "implement"}[m[1] or m[2]]
                        for at, name in self.functions.items()
                        if (m := WRAPPER.fullmatch(name)) and (m[1] or m[2])}
        self.pointers = {at: FUNCTIONS[name] for at, name in self.slots.items()
                         if name in FUNCTIONS}
        for section in stubs:
            for at, slot in self.find_stubs(section["sh_addr"], section.data()):
                if slot in self.pointers:
                    self.targets[at] = self.pointers[slot]

    def find_calls(self) -> Iterator[Call]:
        for start, offset, size in self.code:
            for call in self.find_in(start, self.data[offset:offset + size]):
                if not WRAPPER.fullmatch(call.inside):
                    yield call

    def make_call(self, what: str, at: int, arguments: list[tuple[int | None, int]]
                  ) -> Call:
        """Return a call from `at`; `arguments` are the numbers of arguments and the
        addresses that they were set to, the last one first. One that stands in a slot
        of the linker is the address of the slot."""
        call = Call(what, self.find_function(at), [None] * 3)
        for number, address in arguments:
            text = self.read_text(address)
            if text is None:
                if number == 2 and not call.kernel:
                    call.kernel = self.functions.get(address) or \
                        self.slots.get(address, "")
            elif call.text is None:
                call.text = text
            if number is not None and text is not None and call.texts[number] is None:
                call.texts[number] = text
        return call

    def find_function(self, at: int) -> str:
        """Return the symbol of the function that an address lies in, or ""."""
        n = bisect.bisect_right(self.starts, at)
        return self.functions[self.starts[n - 1]] if n else ""

    def find_place(self, at: int) -> tuple[int, int, int, bool] | None:
        n = bisect.bisect_right(self.places, (at, 2**64, 0, True))
        return self.places[n - 1] if n and at < self.places[n - 1][1] else None

    def read_text(self, at: int) -> str | None:
        """Return the string at an address, or None if none is there."""
        place = self.find_place(at)
        if place is None or place[3]:
            return None
        start = place[2] + at - place[0]
        end = self.data.find(b"\0", start, place[2] + place[1] - place[0])
        text = bytes(self.data[start:end]) if end > start else b""
        return text.decode() if re.fullmatch(rb"[\x20-\x7e\n\t]+", text) else None

    def find_stubs(self, start: int, code: bytes) -> Iterator[tuple[int, int]]:
        """Yield where a stub of the linker may begin, and the slot it jumps to."""
        raise NotImplementedError

    def find_in(self, start: int, code: bytes) -> Iterator[Call]:
        raise NotImplementedError


class _X86(_Code):
    DIRECT, BY_POINTER = rb"[\xe8\xe9]", rb"\xff[\x15\x25]"  # call, or jmp at the end
    # lea, or mov from a slot of the linker, into a register of eight bytes; mov from
    # one register to another; a call or a jump.
    LOAD = rb"([\x48\x4c])[\x8d\x8b]([\x05\x0d\x15\x1d\x25\x2d\x35\x3d])(.{4})"
    MOVE = rb"([\x48\x49\x4c\x4d]\x89[\xc0-\xff])"
    BEFORE = re.compile(LOAD + b"|" + MOVE + rb"|[\xe8\xe9](.{4})", re.S)
    ARGUMENTS = {7: 0, 6: 1, 2: 2}  # rdi, rsi, rdx
    KEPT = (3, 5, 12, 13, 14, 15)  # registers that a call leaves as they were
    FAR = 4096  # bytes before a call, in which a register that it keeps may be set
    # Stubs of ld, gold, lld and mold jump so many bytes behind where they begin.
    BEGINS = (0, 1, 4, 5, 10)

    def find_stubs(self, start, code):
        for found in re.finditer(rb"\xff\x25(.{4})", code, re.S):
            at = start + found.start()
            for before in self.BEGINS:
                yield at - before, at + 6 + _signed(found[1])

    def find_in(self, start, code):
        calls = [*self.find_jumps(start, code, self.DIRECT, self.targets),
                 *self.find_jumps(start, code, self.BY_POINTER, self.pointers),
                 *self.find_short_jumps(start, code, self.targets)]
        for at, what in sorted(calls):
            yield self.make_call(what, start + at,
                                 self.read_arguments(start, code, at)[::-1])

    def read_arguments(self, start: int, code: bytes, at: int
                       ) -> list[tuple[int | None, int]]:
        loads: list[tuple[int | None, int]] = []
        here = max(at - REACH, 0)
        while found := self.BEFORE.search(code, here, at):
            here = found.end()
            if found[4]:
                rex, _, registers = found[4]
                to, source = (registers & 7) + 8 * (rex & 1), \
                    (registers >> 3 & 7) + 8 * (rex >> 2 & 1)
                if to in self.ARGUMENTS and source in self.KEPT:
                    loads += [(self.ARGUMENTS[to], address) for address in
                              self.find_kept(start, code, found.start(), source)]
                continue
            target = start + here + _signed(found[3] or found[5])
            if found[1]:
                register = (found[2][0] >> 3) + (8 if found[1] == b"\x4c" else 0)
                loads.append((self.ARGUMENTS.get(register), target))
            elif (place := self.find_place(target)) and place[3]:
                loads = []  # what an earlier call was passed is gone
            else:  # the byte is of another instruction
                here = found.start() + 1
        return loads

    def find_kept(self, start: int, code: bytes, at: int, register: int) -> list[int]:
        """Return the address that a register was set to last, if it is found."""
        found = [load for load in re.compile(self.LOAD, re.S).finditer(
            code, max(at - self.FAR, 0), at)
            if (load[2][0] >> 3) + (8 if load[1] == b"\x4c" else 0) == register]
        return [start + found[-1].end() + _signed(found[-1][3])] if found else []

    @staticmethod
    def find_jumps(start: int, code: bytes, opcode: bytes, targets: dict[int, str]
                   ) -> Iterator[tuple[int, str]]:
        """Yield where in the code something jumps to one of the targets, and its
        value. The upper half of a distance is nearly the same between a MiB of code
        and targets that lie together, so that a regular expression finds the few
        jumps that may be right."""
        for group in _group(targets):
            for block in range(0, len(code), 2**20):
                least = group[0] - (start + block + 2**20 + 6)
                most = group[-1] - (start + block)
                halves = b"|".join(re.escape(struct.pack("<H", half & 0xffff))
                                   for half in range(least >> 16, (most >> 16) + 1))
                for found in re.finditer(
                        b"(?=(" + opcode + b")(..(?:" + halves + b")))",
                        code[block:block + 2**20 + 6], re.S):
                    at = block + found.start()
                    target = start + at + len(found[1]) + 4 + _signed(found[2])
                    if target in group:
                        yield at, targets[target]

    @staticmethod
    def find_short_jumps(start: int, code: bytes, targets: dict[int, str]
                         ) -> Iterator[tuple[int, str]]:
        for target, what in targets.items():
            first, last = max(target - start - 130, 0), max(target - start + 128, 0)
            for found in re.finditer(rb"\xeb(.)", code[first:last], re.S):
                at = first + found.start()
                if start + at + 2 + (found[1][0] ^ 0x80) - 0x80 == target:
                    yield at, what


class _AArch64(_Code):
    def find_stubs(self, start, code):
        for at, word, after in self.read_words(start, code):
            if word & 0x9f00001f == 0x90000010 and after & 0xffc003ff == 0xf9400211:
                slot = _page(word, at) + ((after >> 10 & 0xfff) << 3)  # ldr x17, [x16]
                yield from ((at, slot), (at - 4, slot))  # behind bti c

    def find_in(self, start, code):
        begin = 0
        for at, word, _ in self.read_words(start, code):
            if word >> 26 & 0x1f == 5:  # bl, or b
                offset = (word & 0x3ffffff) - ((word & 0x2000000) << 1)
                if what := self.targets.get(at + 4 * offset):
                    yield self.make_call(what, at, self.read_arguments(
                        start, code, max(begin, at - start - REACH), at - start))
                begin = at - start + 4
            elif word & 0xfffffc1f == 0xd63f0000:  # blr
                begin = at - start + 4

    def read_arguments(self, start, code, begin, end):
        registers: dict[int, int] = {}
        found: list[tuple[int | None, int]] = []
        for at, word, _ in self.read_words(start + begin, code[begin:end]):
            to, source = word & 31, word >> 5 & 31
            if word & 0x9f000000 == 0x90000000:  # adrp
                registers[to] = _page(word, at)
            elif word & 0xffc00000 == 0x91000000 and source in registers:  # add
                registers[to] = registers[source] + (word >> 10 & 0xfff)
                found.append((to if to < 3 else None, registers[to]))
            elif word & 0xffc00000 == 0xf9400000 and source in registers:  # ldr
                found.append((to if to < 3 else None,
                              registers[source] + ((word >> 10 & 0xfff) << 3)))
        return found[::-1]

    @staticmethod
    def read_words(start, code) -> Iterator[tuple[int, int, int]]:
        words = memoryview(code)[:len(code) // 4 * 4].cast("I")
        for n, word in enumerate(words):
            yield start + 4 * n, word, words[n + 1] if n + 1 < len(words) else 0


def _group(addresses: Iterable[int]) -> list[list[int]]:
    """Return the addresses in groups, each of which spans less than a MiB."""
    groups: list[list[int]] = []
    for address in sorted(addresses):
        if not groups or address - groups[-1][0] >= 2**20:
            groups.append([])
        groups[-1].append(address)
    return groups


def _page(word: int, at: int) -> int:
    """Return the address of the page that the adrp at `at` computes."""
    pages = (word >> 5 & 0x7ffff) << 2 | word >> 29 & 3
    return (at & ~0xfff) + ((pages - ((pages & 0x100000) << 1)) << 12)


def _signed(four: bytes) -> int:
    return struct.unpack("<i", four)[0]


def _read_functions(symbols, elf: ELFFile) -> Iterator[tuple[int, str]]:
    names = elf.get_section(symbols["sh_link"]).data()
    for at, info, _, section, value, _ in struct.iter_unpack("<IBBHQQ", symbols.data()):
        if info & 15 == 2 and section:
            yield value, names[at:names.index(b"\0", at)].decode()


def read_slots(elf: ELFFile, table_name: str = "") -> Iterator[tuple[int, str]]:
    """Yield the address and the symbol of each slot that the linker fills, by one table
    of relocations or, if no name is given, by all."""
    table = elf.get_section_by_name(".dynsym")
    if table is None:
        return
    data, names = table.data(), elf.get_section(table["sh_link"]).data()
    for section in elf.iter_sections():
        if section["sh_type"] == "SHT_RELA" and table_name in ("", section.name):
            for slot, info, _ in struct.iter_unpack("<QQq", section.data()):
                if number := info >> 32:
                    at, = struct.unpack_from("<I", data, number * 24)
                    yield slot, names[at:names.index(b"\0", at)].decode()
