"""Reads sources as trees, with tree-sitter's grammar of CUDA, which C++ is a part of.
It needs no headers, so that a source that is half ported, or of a machine with a GPU,
is read as well. Positions are bytes."""

import re
from collections.abc import Iterator
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
                        r"(ATen|c10|torch|caffe2)/")
SOURCES = (".cpp", ".cc", ".cxx", ".cu", ".cuh", ".h", ".hpp", ".inl")
NAMES = ("identifier", "type_identifier", "namespace_identifier", "field_identifier")


# What the grammar takes for a type: a macro of the user's before a declaration, and an
# attribute of CUDA.
_MASKED = re.compile(
    rb"(?m)^[ \t]*[A-Z][A-Z0-9_]{2,}(?=\s+(?:const +)?[a-zA-Z_][\w:<>, ]*[&*\s]\s*\w+"
    rb"\s*\()|__align__\s*\([^()]*\)")


def mask(text: bytes) -> bytes:
    """Return a text of the same length without words that mislead the parser."""
    return _MASKED.sub(lambda found: re.sub(rb"\S", b" ", found[0]), text)


class Source:
    """A text and its tree. If the parser has to read another text, `parsed`, that one
    is as long."""

    def __init__(self, text: bytes, path: Path = Path("source.cu"),
                 first_line: int = 1, parsed: bytes | None = None) -> None:
        self.text = text
        self.path = path
        self.first_line = first_line
        # Whether names of at:: may stand bare.
        self.opens_space = bool(re.search(
            rb"using\s+namespace\s+(at|torch|c10)\s*;|namespace\s+(at|torch)\s*\{",
            text))
        self.root = _PARSER.parse(mask(text) if parsed is None else parsed).root_node

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
    """Return "at::cuda::CUDAGuard" of a name as it is qualified, without template
    arguments; "" if the node is none."""
    if node.type in NAMES or node.type == "primitive_type":
        return source.text_of(node)
    if node.type in ("template_type", "template_function", "template_method"):
        name = field(node, "name")
        return join_name(source, name) if name else ""
    if node.type == "qualified_identifier":
        scope, name = field(node, "scope"), field(node, "name")
        if not name:
            return ""
        inner = join_name(source, name)
        if scope is None:  # ::at::Tensor
            return inner
        outer = join_name(source, scope)
        return f"{outer}::{inner}" if outer and inner else ""
    return ""
