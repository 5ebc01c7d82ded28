"""Reads sources as trees, with tree-sitter's grammar of CUDA, which C++ is a part of.
It needs no headers, so that a source that is half ported, or of a machine with a GPU,
is read as well. Positions are bytes."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from torch_stable_abi.programs import CannotRun

try:
    import tree_sitter_cuda
    from tree_sitter import Language, Node, Parser
except ImportError as error:
    raise CannotRun(
        "port needs tree-sitter and its grammar of CUDA:\n"
        "  pip install 'torch-stable-abi[port]'") from error

_PARSER = Parser(Language(tree_sitter_cuda.language()))
# Headers of the unstable API.
OLD_HEADER = re.compile(r"(?!torch/(csrc/stable|headeronly|csrc/inductor/aoti_torch)/)"
                        r"(ATen|c10|torch|caffe2|THC?)/")
UNITS = (".cpp", ".cc", ".cxx", ".c++", ".cu")  # that a compiler is called for
HEADERS = (".h", ".hpp", ".hh", ".hxx", ".cuh", ".inl")
SOURCES = UNITS + HEADERS
NAMES = ("identifier", "type_identifier", "namespace_identifier", "field_identifier")
# What the grammar takes for a type: a macro of the user's before a declaration, and
# attributes of CUDA.
_MASKED = re.compile(
    rb"(?m)^[ \t]*[A-Z][A-Z0-9_]{2,}(?=\s+(?:const +)?[a-zA-Z_][\w:<>, ]*[&*\s]\s*\w+"
    rb"\s*\()|__align__\s*\([^()]*\)|(?<=\])\s*(?:__(?:host|device)__\s*)+(?=[({])")
# Where brackets do not count: comments, texts, and lines of the preprocessor but #if.
_NO_CODE = re.compile(
    rb"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|(?<!\w)'(?:\\.|[^'\\\n])+'|"
    rb"^[ \t]*#[ \t]*(?!if|el|endif)(?:[^\n]*\\\n)*[^\n]*", re.S | re.M)
_IF_LINE = re.compile(
    rb"^[ \t]*#[ \t]*(if|el|endif)(?:[^\n]*\\\n)*[^\n]*\n?", re.M)
_OF_TORCH = r"(?!torch::(?:stable|headeronly)\b)(?:at|torch|c10)"
_ALIAS = re.compile(rf"\bnamespace\s+(\w+)\s*=\s*(?:::)?({_OF_TORCH}(?:::\w+)*)\s*;")
_USED = re.compile(rf"\busing\s+(?:::)?({_OF_TORCH}(?:::\w+)+)\s*;")
Span = tuple[int, int]


def blank(text: bytes) -> bytes:
    return re.sub(rb"\S", b" ", text)


def mask(text: bytes) -> tuple[bytes, list[Span]]:
    """Return a text of the same length without what misleads the parser, and the
    branches of an #if that are not in it."""
    masked = bytearray(_MASKED.sub(lambda found: blank(found[0]), text))
    lines, branches = _find_split_code(bytes(masked))
    for begin, end in lines + branches:
        masked[begin:end] = blank(text[begin:end])
    return bytes(masked), branches


@dataclass
class _Group:
    """The #if, #elif, #else and #endif that belong together."""
    brackets: list[bytes]  # those that are open where it begins
    lines: list[Span]
    splits: bool  # whether a branch of it begins or ends within a statement
    after: list[bytes] | None = None  # what its first branch leaves open


def _find_split_code(text: bytes) -> tuple[list[Span], list[Span]]:
    """Return the lines of each #if that splits a statement, which the grammar does not
    know, and the branches of it but the first."""
    code = _NO_CODE.sub(lambda found: blank(found[0]), text)
    lines, branches = list[Span](), list[Span]()
    groups, brackets, at = list[_Group](), list[bytes](), 0
    for found in _IF_LINE.finditer(code):
        least = _follow(code[at:found.start()], brackets)
        at = found.end()
        for group in groups:
            group.splits |= least < len(group.brackets)
        if found[1] == b"if":
            groups.append(_Group(brackets[:], [found.span()], brackets[-1:] == [b"("]))
            continue
        if not groups:
            continue
        group = groups[-1]
        group.lines.append(found.span())
        group.splits |= len(brackets) != len(group.brackets)
        if group.after is None:
            group.after = brackets
        brackets = group.brackets[:]
        if found[1] == b"endif":
            groups.pop()
            brackets = group.after
            if group.splits:
                lines += group.lines
                branches += [(group.lines[1][1], group.lines[-1][0])] \
                    if len(group.lines) > 2 else []
    return lines, branches


def _follow(code: bytes, brackets: list[bytes]) -> int:
    """Open and close brackets as the code does, and return how few were open."""
    least = len(brackets)
    for bracket in re.findall(rb"[(){}]", code):
        if bracket in b"({":
            brackets.append(bracket)
        elif brackets:
            brackets.pop()
            least = min(least, len(brackets))
    return least


class Source:
    """A text and its tree. If the parser has to read another text, `parsed`, that one
    is as long."""

    def __init__(self, text: bytes, path: Path = Path("source.cu"),
                 first_line: int = 1, parsed: bytes | None = None) -> None:
        self.text = text
        self.path = path
        self.first_line = first_line
        # Whether names of at:: may stand bare, here and in what includes this.
        self.uses_space = bool(re.search(
            rb"using\s+namespace\s+(at|torch|c10)\s*;", text))
        self.opens_space = self.uses_space or bool(re.search(
            rb"namespace\s+(at|torch)\s*\{", text))
        # What a bare name or the first part of one stands for: {"cu": "at::cuda"} by
        # namespace cu = at::cuda, {"kInt": "at::kInt"} by using at::kInt.
        code = text.decode(errors="replace")
        self.spaces = {m[1]: m[2] for m in _ALIAS.finditer(code)}
        self.used = {m[1].rpartition("::")[2]: m[1] for m in _USED.finditer(code)}
        self.unread = list[Span]()  # what the parser is not given
        if parsed is None:
            parsed, self.unread = mask(text)
        self.root = _PARSER.parse(parsed).root_node

    def write_out(self, name: str) -> str:
        """Return the whole of a name of which a part stands for another."""
        first, colons, rest = name.partition("::")
        return self.spaces[first] + colons + rest if colons and first in self.spaces \
            else name if colons else self.used.get(name, name)

    def add_names(self, other: "Source") -> None:
        """Add what names stand for in a source that this one includes, or is part
        of."""
        self.spaces, self.used = other.spaces | self.spaces, other.used | self.used

    def text_of(self, node: Node) -> str:
        return self.text[node.start_byte:node.end_byte].decode(
            errors="surrogateescape")

    def line_of(self, node: Node) -> int:
        return node.start_point[0] + self.first_line


def walk(node: Node) -> Iterator[Node]:
    """Yield the node and all below it, parents first. Trees may be too deep for
    recursion."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += reversed(one.children)


def above(node: Node) -> Iterator[Node]:
    """Yield what the node lies in, from the inside out."""
    parent = node.parent
    while parent is not None:
        yield parent
        parent = parent.parent


def field(node: Node, name: str) -> Node | None:
    return node.child_by_field_name(name)


def is_error(node: Node) -> bool:
    """Return whether the grammar does not know this code. One word is no error: it may
    be a macro of the user's, and changes nothing. In a name, what is missing is one."""
    return node.type == "ERROR" and node.named_child_count > 1 or \
        node.type == "qualified_identifier" and any(c.is_missing for c in node.children)


def join_name(source: Source, node: Node) -> str:
    """Return "at::cuda::CUDAGuard" of a name, written out, without template arguments;
    "" if the node is none."""
    name = _join_parts(source, node)
    return name if node.type == "field_identifier" else source.write_out(name)


def _join_parts(source: Source, node: Node) -> str:
    """Return a name as it is qualified."""
    if node.type in NAMES or node.type == "primitive_type":
        return source.text_of(node)
    if node.type in ("template_type", "template_function", "template_method"):
        name = field(node, "name")
        return _join_parts(source, name) if name else ""
    if node.type == "qualified_identifier":
        scope, name = field(node, "scope"), field(node, "name")
        if not name:
            return ""
        inner = _join_parts(source, name)
        if scope is None:  # ::at::Tensor
            return inner
        outer = _join_parts(source, scope)
        return f"{outer}::{inner}" if outer and inner else ""
    return ""
