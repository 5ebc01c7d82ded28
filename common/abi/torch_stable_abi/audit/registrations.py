"""The ops and kernels that a library registers with STABLE_TORCH_LIBRARY."""

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from torch_stable_abi.audit.code import Call
from torch_stable_abi.audit.elf import Library, demangle

# The macros of library.h name a function by the namespace and the dispatch key that
# they got; behind a fragment and a kernel stands a number.
MACRO = re.compile(
    r"STABLE_TORCH_LIBRARY_(?:(FRAGMENT|IMPL)_)?(static_)?init_(\w+)")
MACROS_NAME = re.compile(r"(\d+)(STABLE_TORCH_LIBRARY_\w+)")
KEY = re.compile(r"(\w+?)_([A-Za-z0-9]+)_\d+$")
# A schema, alone in a string.
SCHEMA = re.compile(r"(?:\w+::)?(\w+(?:\.\w+)?)\(([^()]|\([^()]*\))*\) *->.*", re.S)
NAME = re.compile(r"(?:(\w+)::)?(\w+(?:\.\w+)?)")


@dataclass
class Op:
    namespace: str  # "" if it does not show
    schema: str

    @property
    def name(self) -> str:
        """Return its name without a namespace, or all of what is no schema."""
        found = NAME.match(self.schema.strip())
        return found[2] if found else self.schema


@dataclass
class Kernel:
    namespace: str
    key: str
    name: str  # of its op
    function: str  # its symbol, or ""

    @property
    def shape(self) -> tuple[list[str], list[str]] | None:
        """Return the C++ types of the arguments and the returns of the function that
        TORCH_BOX was given; None if it is another one."""
        return _read_shape(self.function)


@dataclass
class Registrations:
    opened: Counter[str] = field(default_factory=Counter)  # by STABLE_TORCH_LIBRARY
    spaces: set[str] = field(default_factory=set)  # that ops are defined in
    targets: set[tuple[str, str]] = field(default_factory=set)  # namespace, key
    macros: set[str] = field(default_factory=set)  # that stand for a namespace
    ops: list[Op] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    misnamed: list[str] = field(default_factory=list)  # what m.impl got as a name
    hidden: int = 0  # ops whose schema is made when the library is loaded
    guessed: bool = False  # whether ops are strings that read as schemas

    @property
    def is_whole(self) -> bool:
        """Return whether all ops and kernels show, each with its namespace."""
        return not (self.hidden or self.guessed or self.macros) and all(
            [op.namespace for op in self.ops] + [k.namespace for k in self.kernels])


def read_registrations(library: Library) -> Registrations:
    """Return what the symbols and the code of a library show. Where its code is not
    known, or calls nothing by itself, a string that reads as a schema is an op."""
    found = Registrations()
    _read_macros(library, found)
    _read_code(library, found)
    if found.hidden or not found.ops:
        there = {op.schema for op in found.ops}
        more = [Op(_only(found.spaces), text) for text in sorted(library.strings)
                if ")" in text and "->" in text and text not in there
                and SCHEMA.fullmatch(text)]
        found.guessed, found.ops = bool(more), found.ops + more
    return found


def _only(names: set[str]) -> str:
    return next(iter(names)) if len(names) == 1 else ""


def _read_macro(symbol: str) -> tuple[str, str, str, bool] | None:
    """Return "DEF", "FRAGMENT" or "IMPL", the namespace, the key, and whether it is the
    object of a block; None for the symbol of something else."""
    found = MACROS_NAME.search(symbol)
    macro = MACRO.fullmatch(found[2][:int(found[1])]) if found else None
    if macro is None:
        return None
    kind, static, rest = macro[1] or "DEF", bool(macro[2]), macro[3]
    if kind == "IMPL":
        key = KEY.fullmatch(rest)
        return (kind, key[1], key[2], static) if key else None
    return kind, rest if kind == "DEF" else re.sub(r"_\d+$", "", rest), "", static


def _read_macros(library: Library, found: Registrations) -> None:
    """Read the symbols of the macros. A name in one is what the author wrote; it is a
    namespace if it is a string of the library too."""
    there = library.strings
    for symbol in [*library.inner, *library.exports]:
        if macro := _read_macro(symbol):
            kind, namespace, key, static = macro
            if namespace not in there:
                found.macros.add(namespace)
            elif kind == "IMPL":
                found.targets.add((namespace, key))
            else:
                found.spaces.add(namespace)
                found.opened[namespace] += kind == "DEF" and static


def _read_code(library: Library, found: Registrations) -> None:
    opened: Counter[str] = Counter()
    for call in library.calls:  # first, for a file without symbols
        if call.what.startswith("open") and (namespace := call.texts[0]):
            if call.what == "open for kernels":
                if call.texts[1]:
                    found.targets.add((namespace, call.texts[1]))
            else:
                found.spaces.add(namespace)
                opened[namespace] += call.what == "open"
    found.opened |= opened
    here, namespace, key = "", "", ""
    for call in _leave_out_copies(library.calls):
        if call.what.startswith("open"):
            here, namespace = call.inside, call.texts[0] or ""
            key = call.texts[1] or "" if call.what == "open for kernels" else ""
            continue
        macro = _read_macro(call.inside)
        if macro:
            own = (macro[1] if macro[1] not in found.macros else "", macro[2])
        elif here and call.inside == here:
            own = (namespace, key)
        else:
            own = (_only(found.spaces | {n for n, _ in found.targets}), "")
        if call.what == "implement":
            given = call.texts[1] or call.text or ""
            if not (name := NAME.fullmatch(given)):
                found.misnamed += [given] if "->" in given else []
            else:
                found.kernels.append(
                    Kernel(name[1] or own[0], own[1], name[2], call.kernel))
        elif (text := call.texts[1] or call.text) and (macro or "(" in text):
            found.ops.append(Op(own[0], text))
        else:
            found.hidden += 1


def _leave_out_copies(calls: list[Call]) -> Iterator[Call]:
    """Yield the calls without those of a block whose macro's function is there too: a
    compiler may keep that function, and inline it where the library is loaded."""
    def read_content(block: list[Call]) -> list:
        return [(c.what, c.texts[1:], c.text, c.kernel) for c in block]

    blocks: list[list[Call]] = []
    for call in calls:
        if not blocks or call.what.startswith("open") or \
                blocks[-1][0].inside != call.inside:
            blocks.append([])
        blocks[-1].append(call)
    kept = [read_content(b) for b in blocks if _read_macro(b[0].inside)]
    for opening, *rest in blocks:
        yield opening
        if not opening.what.startswith("open") or read_content(rest) not in kept:
            yield from rest


def _read_shape(symbol: str) -> tuple[list[str], list[str]] | None:
    """Return the types of the arguments and of the returns that stand in the name of a
    boxer<tuple<Tensor, Tensor> (Tensor const&, double), &(f(...))>::..., or None."""
    if not symbol.startswith("_ZN5torch6stable6detail5boxerI"):
        return None
    text = demangle([symbol])[0].partition("boxer<")[2]
    depths = itertools.accumulate((c in "<(") - (c in ">)") for c in text)
    begin = next((at for at, depth in enumerate(depths)
                  if text[at] == "(" and depth == 1), -1)
    if begin < 0:
        return None
    returns = text[:begin].strip()
    tuple_ = re.fullmatch(r"std::tuple<(.*)>", returns)
    return _split(text[begin + 1:]), _split(tuple_[1]) if tuple_ else \
        [returns] if returns != "void" else []


def _split(text: str) -> list[str]:
    """Return what stands between commas, up to the bracket that ends all of it."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text + ")"):
        if depth == 0 and letter in ",)>":
            parts.append(text[start:at].strip())
            start = at + 1
            if letter != ",":
                break
        depth += (letter in "<(") - (letter in ">)")
    return [part for part in parts if part]
