"""Lists all that an extension can ask of each libtorch: the names that its headers
declare, and aten's ops. Both are recorded, so that an audit needs no libtorch;
`./workbook test -- tests/abi/test_matrix.py --record` writes them anew, from the
headers and the native_functions.yaml of each version.

    names.tsv      a public name a line: kind, header, the first headers and the
                   lowest target that have it, and the macro that it needs
    surface.json   ops      {version: those that no version before it has}
                   changed  {op: {version: its schema from there on, or null if
                            it is gone}}
"""

import csv
import functools
import json
import re
from pathlib import Path

from torch_stable_abi.libtorch import headers, runtimes
from torch_stable_abi.libtorch.versions import listed, numbers
from torch_stable_abi.schemas import schema

FILE = Path(__file__).with_name("surface.json")
NAMES = Path(__file__).with_name("names.tsv")
KEYS = Path(__file__).with_name("dispatch_keys.txt")
# The dispatch keys under which a kernel passes the call on, or has no data.
NO_KERNEL = re.compile(
    r"\w*Meta|Python\w*|PreDispatch|Functionalize|Named|Negative|Conjugate|ADInplace"
    r"OrView|(?:Autocast|Autograd|FuncTorch|TESTING_ONLY)\w*")
COLUMNS = ("name", "kind", "header", "headers", "target", "define")


@functools.cache
def read() -> dict:
    return json.loads(FILE.read_text())


@functools.cache
def names() -> list[dict[str, str]]:
    """Return the rows of names.tsv; versions are such as "2.10", and "2.9" stands for
    all before 2.10."""
    with open(NAMES, newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def find_name(name: str) -> dict[str, str] | None:
    """Return the row of a name, which may lack what stands before its last "::"s. Of
    several, that of the oldest headers; None if no version has it."""
    found = [row for row in names() if row["name"] == name
             or row["name"].endswith(f"::{name}")]
    return min(found, key=lambda row: numbers(row["headers"]), default=None)


@functools.cache
def functions() -> dict[str, str]:
    """Return {function of the C shim: the first version with it}."""
    return {row["name"]: row["headers"] for row in names()
            if row["kind"] == "C function"}


@functools.cache
def _ops() -> dict[str, str]:
    """Return {op: the first version with it}."""
    return {name: version for version, names in read()["ops"].items()
            for name in names}


def versions() -> list[str]:
    """Return the versions that were recorded: ["2.9", "2.10", ...]."""
    return list(read()["ops"])


def is_shim(symbol: str) -> bool:
    """Return whether this is a function of the C shim, of a version known or not."""
    return symbol in functions() or \
        re.match(r"(aoti_)?torch_[a-z]", symbol) is not None


@functools.cache
def dispatch_keys() -> frozenset[str]:
    """Return the keys that a registration may name. Each libtorch from 2.9 to 2.15
    takes the same ones; a test asks the installed one."""
    return frozenset(KEYS.read_text().split())


def computes(key: str) -> bool:
    """Return whether a kernel for a dispatch key computes anything."""
    return not NO_KERNEL.fullmatch(key)


def since(function: str) -> str | None:
    """Return the first version with this function of the C shim; None if none has it.
    The oldest version stands for all before it."""
    return functions().get(function)


def lacking(op: str) -> list[str]:
    """Return the versions in which aten has no overload of the op, such as "sort"."""
    return [v for v in versions() if not any(
        _has(name, v) for name in overloads(op))]


@functools.cache
def _by_op() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in _ops():
        found.setdefault(name.partition(".")[0], []).append(name)
    return found


def overloads(op: str) -> list[str]:
    return _by_op().get(op, [])


def changes(overload: str) -> dict[str, str | None]:
    return read()["changed"].get(overload, {})


def _has(overload: str, version: str) -> bool:
    there = numbers(_ops()[overload]) <= numbers(version)
    for since, text in changes(overload).items():
        if numbers(since) <= numbers(version):
            there = text is not None
    return there


def record() -> None:
    """Write names.tsv and surface.json. Wants every version of versions.txt to be
    here."""
    write_names(headers.read_surface(
        {numbers(v)[1]: runtimes.root(v) for v in listed()}))
    result: dict[str, dict] = {"ops": {}, "changed": {}}
    ops, before = set[str](), dict[str, str]()
    for version in listed():
        minor = ".".join(version.split(".")[:2])
        text = (runtimes.root(version).parent / runtimes.SCHEMAS).read_text()
        now = {schema.name_of(line): line for line in
               re.findall(r"^- func: (.*?)\s*$", text, re.M)}
        result["ops"][minor] = sorted(now.keys() - ops)
        ops |= now.keys()
        for name in sorted(before.keys() | now.keys()):
            old, new = before.get(name), now.get(name)
            if old and (new is None or _types(old) != _types(new)) or \
                    new and not old and name in result["changed"]:
                result["changed"].setdefault(name, {})[minor] = new
        before = now
    FILE.write_text("{" + ",\n".join(
        f'"{kind}": {{\n' + ",\n".join(
            f"{json.dumps(key)}: {json.dumps(value)}"
            for key, value in entries.items()) + "}"
        for kind, entries in result.items()) + "}\n")
    for cached in (read, names, functions, _ops, _by_op):
        cached.cache_clear()


def write_names(entries: list[headers.Entry]) -> None:
    with open(NAMES, "w", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([e.name, e.kind, e.header, f"2.{e.headers}",
                          f"2.{e.target}", e.define] for e in entries)


def _types(text: str) -> tuple:
    parsed = schema.parse(text)
    return parsed.arguments, parsed.returns
