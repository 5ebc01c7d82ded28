"""Keeps the patterns of the migration rows, by what each begins with."""

import re
from collections.abc import Iterator
from functools import cache

from tree_sitter import Node

from torch_stable_abi.libtorch import surface
from torch_stable_abi.migration import ROWS
from torch_stable_abi.port.patterns import Pattern, expand, key_of, normalize
from torch_stable_abi.port.syntax import Source


class Table:
    def __init__(self, rows: list[dict]) -> None:
        self.dispatches: dict = {}
        self.rows = {row["what"]: row for row in rows}
        self.names: dict[str, Pattern] = {}
        self.nodes: dict[str, list[Pattern]] = {}
        for row in rows:
            for pair in row.get("port", []):
                for text in expand(pair[0]):
                    self._add(Pattern(row, text, *(pair[1:] or [None])))
            self.dispatches = row if "dispatch" in row else self.dispatches

    def _add(self, pattern: Pattern) -> None:
        if pattern.is_name:
            self.names[pattern.key] = pattern
        else:
            self.nodes.setdefault(pattern.key, []).append(pattern)

    def find_name(self, name: str) -> Pattern | None:
        return self.names.get(normalize(name))

    def find_patterns(self, source: Source, node: Node) -> Iterator[Pattern]:
        key = key_of(source, node)
        if key.startswith("AT_DISPATCH_") and key not in self.nodes:
            self._add_dispatch(key.removesuffix("("))
        yield from self.nodes.get(key, ())
        if source.opens_space:
            yield from self.nodes.get(f"at::{key}", ())
        if key != node.type:
            yield from self.nodes.get(node.type, ())

    def _add_dispatch(self, name: str) -> None:
        """Add the pattern of AT_DISPATCH_FLOATING_TYPES_AND2 and its kind: a list of
        types, and so many types in front of the other arguments."""
        found = re.fullmatch(r"AT_DISPATCH_(\w+?)(_AND(\d?))?", name)
        types = self.dispatches["dispatch"].get(found[1]) if found else None
        if found is None or types is None:
            return
        own = [f"$t{i}" for i in range(int(found[3] or 1) if found[2] else 0)]
        self._add(Pattern(
            self.dispatches, f"{name}({', '.join([*own, '$a', '$n', '$$body'])})",
            f"THO_DISPATCH_V2($a, $n, AT_WRAP(($$body)), {', '.join([types, *own])})"))


@cache
def read_table() -> Table:
    return Table(ROWS)


@cache
def headers_of_names() -> dict[str, str]:
    """Return {"torch::stable::Tensor": "torch/csrc/stable/tensor.h", ...}: names of the
    stable surface, with the header that a user includes for it."""
    found: dict[str, str] = {}
    for row in surface.names():
        header = row["header"]
        for ending in ("_struct.h", "_inl.h"):
            header = header.replace(ending, ".h")
        found.setdefault(row["name"], header)
    return found


@cache
def stable_methods() -> frozenset[str]:
    """Return the methods that a stable tensor has."""
    return frozenset(name.rpartition("::")[2] for name in headers_of_names()
                     if name.startswith("torch::stable::Tensor::"))
