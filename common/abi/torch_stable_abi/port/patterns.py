"""Patterns of the migration table. One is C++ with holes:

    $x, $y     an expression that is a tensor
    $v, $m     a variable that is a tensor; one that is not const
    $int       a number as it is written
    $num       one that may have a point
    $list      values in braces
    $text      a string
    $word      a name
    $dtype     the name of a dtype, or what x.scalar_type() returns
    $stream    a variable that is a stream
    $other     any other word: one expression
    $$rest     what is left of the arguments, maybe nothing

A name in at:: stands for the same name in torch:: and c10:: as well, and [[a|b]] for
either. In a rewriting $`a` is the text of $a, for a string."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field as new_field

from tree_sitter import Node

from torch_stable_abi.port import types
from torch_stable_abi.port.syntax import NAMES, Source, field, join_name, walk
from torch_stable_abi.port.types import Types

TENSOR_HOLES = ("x", "y", "v", "m")
_DTYPE = re.compile(
    r"(?:(?:at|torch|c10)::)?k(?:Byte|Char|Short|Int|Long|Half|Float|Double|Bool|BFloat16|"
    r"Complex\w+|(?:UInt|Int|U|I|Float|F)\d\w*)|[\w.]+\.(?:scalar_type|dtype)\(\)")
_HOLE = re.compile(r"\$\$?[a-z]\w*")
_NAMES = (*NAMES, "qualified_identifier", "template_type", "template_function")


def expand(pattern: str) -> Iterator[str]:
    """Yield the pattern once for each of its alternatives."""
    found = re.search(r"\[\[(.*?)\]\]", pattern)
    if not found:
        yield pattern
        return
    for one in found[1].split("|"):
        yield from expand(pattern[:found.start()] + one + pattern[found.end():])


def normalize(name: str) -> str:
    """Return a name of at::, torch:: or c10:: as at::. Names that are stable already
    stay, and so do names of other namespaces."""
    name = name.removeprefix("::")
    space, _, rest = name.partition("::")
    if space in ("torch", "c10", "at") and rest and \
            not re.match(r"(stable|headeronly)(::|$)", rest):
        return f"at::{rest}"
    return name


@dataclass
class Match:
    """Holds what the holes of a pattern have matched."""
    holes: dict[str, Node] = new_field(default_factory=dict)
    rest: dict[str, list[Node]] = new_field(default_factory=dict)
    pointees: set[str] = new_field(default_factory=set)  # optionals used by ->
    unknown: list[str] = new_field(default_factory=list)  # holes of unknown type


class Pattern:
    """One pattern, and the text that replaces what it matches; None if a person must
    write that. What then differs is in the row, unless the pattern has its own."""

    def __init__(self, row: dict, pattern: str, rewrite: str | None,
                 differs: str | None = None) -> None:
        self.row = row
        self.differs = row.get("differs", "") if differs is None else differs
        self.text = pattern
        self.rewrite = rewrite
        self.is_name = bool(re.fullmatch(r"[\w:]+", pattern))
        if self.is_name:
            self.key = normalize(pattern)
            return
        code = f"void f() {{ {pattern.removesuffix(';')}; }}"
        self.source = Source(code.encode())
        block = self.source.root.named_children[0].child_by_field_name("body")
        assert block is not None and not self.source.root.has_error, pattern
        node = block.named_children[0]
        if node.type == "expression_statement" and not pattern.endswith(";"):
            node = node.named_children[0]
        self.node = node
        self.key = key_of(self.source, node)

    def match(self, source: Source, node: Node, known: Types | None) -> Match | None:
        match = Match()
        return match if self._match(self.node, source, node, known, match) else None

    def _match(self, mine: Node, source: Source, node: Node, known: Types | None,
               match: Match) -> bool:
        text = self.source.text_of(mine)
        if _HOLE.fullmatch(text) and not text.startswith("$$"):
            return _fill(text[1:], source, node, known, match)
        if mine.type in _NAMES and node.type in _NAMES and "$" not in text and \
                not any(c.type == "template_argument_list" for c in mine.children):
            name = join_name(source, node)
            wanted = normalize(join_name(self.source, mine))
            return bool(name) and (normalize(name) == wanted or source.opens_space and
                                   f"at::{name}" == wanted)
        if node.type == "parenthesized_expression" and mine.type != node.type and \
                len(node.named_children) == 1:
            node = node.named_children[0]
        if mine.type != node.type and \
                {mine.type, node.type} != {"argument_list", "initializer_list"}:
            return self._match_inlined(mine, source, node, known, match)
        if mine.type == "field_expression":
            return self._match_method(mine, source, node, known, match)
        if mine.type == "argument_list":
            return self._match_list(mine, source, node, known, match)
        if not mine.children:
            return text == source.text_of(node)
        theirs, ours = _children(node), _children(mine)
        if len(theirs) > len(ours):  # const guard(...)
            theirs = [c for c in theirs if c.type != "type_qualifier"]
        return len(ours) == len(theirs) and all(
            self._match(a, source, b, known, match) for a, b in zip(ours, theirs))

    def _match_inlined(self, mine: Node, source: Source, node: Node,
                       known: Types | None, match: Match) -> bool:
        """Match options that have a name: what they are made of, if nothing in that may
        have changed since."""
        if node.type != "identifier" or known is None:
            return False
        variable = known.find(node)
        value = variable.value
        if variable.kind != types.OPTIONS or value is None:
            return False
        if value.type in ("argument_list", "initializer_list"):
            return False
        if any(known.may_change(n, value, node) if n.type == "identifier" else
               n.type == "subscript_expression" or _has_effect(source, n)
               for n in (node, *walk(value))):
            return False
        return self._match(mine, source, value, known, match)

    def _match_method(self, mine: Node, source: Source, node: Node,
                      known: Types | None, match: Match) -> bool:
        ours, theirs = field(mine, "field"), field(node, "field")
        if ours is None or theirs is None:
            return False
        if ours.type == theirs.type == "template_method":
            if not self._match(ours, source, theirs, known, match):
                return False
        elif ours.type != theirs.type or \
                self.source.text_of(ours) != source.text_of(theirs):
            return False
        mine_receiver, receiver = field(mine, "argument"), field(node, "argument")
        if mine_receiver is None or receiver is None:
            return False
        if any(c.type == "->" for c in node.children):
            hole = self.source.text_of(mine_receiver).removeprefix("$")
            if hole not in TENSOR_HOLES or known is None:
                return False
            kind = known.kind_of(receiver)
            if kind != types.OPTIONAL:
                return False
            match.pointees.add(hole)
            match.holes[hole] = receiver
            return True
        return self._match(mine_receiver, source, receiver, known, match)

    def _match_list(self, mine: Node, source: Source, node: Node,
                    known: Types | None, match: Match) -> bool:
        ours = mine.named_children
        theirs = [c for c in node.named_children if c.type != "comment"]
        for i, one in enumerate(ours):
            text = self.source.text_of(one)
            if text.startswith("$$"):
                match.rest[text[2:]] = theirs[i:]
                return True
            if i >= len(theirs) or not self._match(one, source, theirs[i], known,
                                                   match):
                return False
        return len(ours) == len(theirs)


def _children(node: Node) -> list[Node]:
    return [c for c in node.children if c.type not in ("comment", "line_continuation")]


def _fill(hole: str, source: Source, node: Node, known: Types | None,
          match: Match) -> bool:
    """Put the node into a hole, if it may lie there."""
    if hole in match.holes:  # the same twice, if it does nothing
        return source.text_of(match.holes[hole]) == source.text_of(node) and \
            not any(_has_effect(source, one) for one in walk(node))
    if hole == "v" and node.type != "identifier":
        return False
    if hole in ("a", "b", "c") and known and known.kind_of(node) == types.TENSOR:
        return False  # a number is wanted
    if hole == "d" and (node.type == "string_literal" or known and
                        node.type == "identifier" and
                        known.find(node).of_class == "optional"):
        return False
    if hole in TENSOR_HOLES:
        kind = known.kind_of(node) if known else types.UNKNOWN
        if kind is types.UNKNOWN:
            match.unknown.append(hole)
        elif kind != types.TENSOR or hole == "m" and known and \
                not known.is_mutable(node):
            return False
    fits = {"int": lambda: re.fullmatch(r"-?\d+", source.text_of(node)),
            "num": lambda: re.fullmatch(r"-?\d{1,15}(\.\d*)?f?", source.text_of(node)),
            "list": lambda: node.type == "initializer_list",
            "dtype": lambda: _DTYPE.fullmatch(source.text_of(node)),
            "text": lambda: node.type.endswith(("string_literal", "ed_string")) or
            source.text_of(node).startswith("TORCH_SELECTIVE_NAME"),
            "word": lambda: join_name(source, node),
            "stream": lambda: known and known.kind_of(node) == types.STREAM}
    if hole in fits and not fits[hole]():
        return False
    match.holes[hole] = node
    return True


def _has_effect(source: Source, node: Node) -> bool:
    """Return whether a node changes a variable, or calls a function, which may do so. A
    method, or a function of at::, is taken to change nothing."""
    function = field(node, "function") if node.type == "call_expression" else None
    return node.type in ("update_expression", "assignment_expression") or \
        function is not None and function.type != "field_expression" and \
        not normalize(join_name(source, function)).startswith("at::")


def key_of(source: Source, node: Node) -> str:
    """Return what is cheap to compare first: the name of the function or method that is
    called, or the kind of node."""
    if node.type == "call_expression":
        function = field(node, "function")
        if function is not None and function.type == "field_expression":
            name = field(function, "field")
            return "." + (join_name(source, name) if name else "")
        if function is not None:
            return normalize(join_name(source, function)) + "("
    return node.type
