"""What each libtorch has that an extension can ask for by name: the functions of
the C shim, and aten's ops. surface.json holds it, so that an audit needs no
libtorch; ./workbook matrix --record writes it anew, from the headers and the
native_functions.yaml of each version.

    functions   {version: those that no version before it declares}
    ops         {version: those that no version before it has}
    changed     {op: {version: its schema from there on, or null: it is gone}}
"""

import functools
import json
import re
from pathlib import Path

from workbook.libtorch import runtimes
from workbook.libtorch.versions import listed, numbers
from workbook.schemas import schema

FILE = Path(__file__).with_name("surface.json")
HEADERS = ("stable/c", "inductor/aoti_torch/c", "inductor/aoti_torch/generated")


@functools.cache
def read() -> dict:
    return json.loads(FILE.read_text())


@functools.cache
def first_with(kind: str) -> dict[str, str]:
    """{name: version} of the functions, or of the ops."""
    return {name: version for version, names in read()[kind].items()
            for name in names}


def versions() -> list[str]:
    """["2.9", "2.10", ...]: those that surface.json knows."""
    return list(read()["functions"])


def since(function: str) -> str | None:
    """The first version with this function of the C shim; None if none has it.
    The oldest version stands for all before it."""
    return first_with("functions").get(function)


def lacking(op: str) -> list[str]:
    """The versions in which aten has no overload of the op, such as "sort"."""
    return [v for v in versions() if not any(
        _has(name, v) for name in overloads(op))]


@functools.cache
def _by_op() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in first_with("ops"):
        found.setdefault(name.partition(".")[0], []).append(name)
    return found


def overloads(op: str) -> list[str]:
    return _by_op().get(op, [])


def changes(overload: str) -> dict[str, str | None]:
    return read()["changed"].get(overload, {})


def _has(overload: str, version: str) -> bool:
    there = numbers(first_with("ops")[overload]) <= numbers(version)
    for since, text in changes(overload).items():
        if numbers(since) <= numbers(version):
            there = text is not None
    return there


def record() -> None:
    """Wants every version of versions.txt to be here."""
    result: dict[str, dict] = {"functions": {}, "ops": {}, "changed": {}}
    functions, ops, before = set[str](), set[str](), dict[str, str]()
    for version in listed():
        minor = ".".join(version.split(".")[:2])
        root = runtimes.root(version)
        names = {name for folder in HEADERS
                 for path in (root / "include/torch/csrc" / folder).rglob("*.h")
                 for name in re.findall(r"\b((?:aoti_)?torch_\w+)\s*\(",
                                        path.read_text())}
        result["functions"][minor] = sorted(names - functions)
        functions |= names
        text = (root.parent / runtimes.SCHEMAS).read_text()
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
    read.cache_clear()


def _types(text: str) -> tuple:
    parsed = schema.parse(text)
    return parsed.arguments, parsed.returns
