"""Puts registrations of the stable ABI into a ported source, in the place of those that
it had, and the marks `// TODO(wrap): ...` where a person must decide."""

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from tree_sitter import Node

from torch_stable_abi.port import includes, syntax
from torch_stable_abi.port.drafts import Draft
from torch_stable_abi.port.naming import NONE, UNKNOWN, YOURS, Finding
from torch_stable_abi.port.report import LEFT, Ported, describe
from torch_stable_abi.port.syntax import Source, walk

TODO = "TODO(wrap):"
_OPENING = re.compile(r"(STABLE_)?TORCH_LIBRARY(_FRAGMENT)?|PYBIND11_MODULE")
_REGISTERING = re.compile(r"(STABLE_)?TORCH_LIBRARY_IMPL")
_SAID = {YOURS: "port leaves this to you",
         NONE: "the stable ABI has no counterpart of this",
         UNKNOWN: "port does not know this"}
# Where a comment of its own line would end the text, or not be one.
_WHOLE = ("comment", "raw_string_literal", "string_literal", "preproc_def",
          "preproc_function_def", "preproc_call", "preproc_include")


@dataclass(frozen=True)
class Op:
    """An op of the project: its schema, and what a person must decide of it."""
    name: str
    schema: str
    marks: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()  # those that its kernel is registered for

    def is_known(self) -> bool:
        return "???" not in self.schema and "..." not in self.schema


@dataclass(frozen=True)
class Edit:
    begin: int  # bytes
    end: int
    text: str


class Registrar:
    """Registers what the sources of a project export. `space` is the namespace of the
    ops, `find_keys` gives the dispatch keys of a function that a place registers."""

    def __init__(self, space: str, drafts: list[Draft],
                 find_keys: Callable[[str, str], tuple[str, ...]]) -> None:
        self.space = space
        self.expand = "_EXPAND" if space.isupper() else ""  # it is a macro
        self.drafts = {(one.name, one.function): one for one in drafts}
        self.find_keys = find_keys
        self.ops: dict[str, Op] = {}
        self.registered: dict[str, set[str]] = {}  # keys, by TORCH_LIBRARY_IMPL

    def list_ops(self) -> list[Op]:
        return [replace(op, keys=(*op.keys, *sorted(self.registered.get(op.name, ()))))
                for op in self.ops.values()]

    def register(self, place: str, one: Ported) -> str:
        """Return the text of a ported source with its registrations, and with a mark at
        each line that a person decides."""
        source = Source(one.new.encode(errors="surrogateescape"), one.path)
        edits = []
        for node in find_blocks(source.root, source):
            if name := _macro_name(source, node):
                if _REGISTERING.fullmatch(name):
                    edits += self._rename(source, node)
                    continue
                parts = self._convert(source, place, node)
            else:
                parts = self._convert_registry(source, place, node)
            edits.append(Edit(node.start_byte, node.end_byte, "\n".join(parts)))
        edits += _remove_pybind(source, edits)
        edits.append(_include(source, [
            *(self._headers() if any("CHECKED_BOX" in edit.text for edit in edits)
              else []), *_standard_includes(one)]))
        return apply(source, edits + mark_findings(source, one, edits))

    def append(self, place: str, text: str, drafts: list[Draft]) -> str:
        """Return the text with registrations of drafts behind it."""
        lines: dict[str, list[str]] = {"": [
            f"// {TODO} these functions take tensors and nothing registered them: take "
            "away what is no op, here and in the schemas."]}
        for draft in drafts:
            self._add(lines, draft.name, draft, draft.function, place)
        source = Source(text.encode(errors="surrogateescape"))
        return apply(source, [
            _include(source, self._headers()),
            Edit(len(source.text), len(source.text),
                 "\n" + "\n".join(self._blocks(lines)) + "\n")])

    def _headers(self) -> list[str]:
        return ['#include "checked_box.h"',
                *['#include "registration.h"'] * bool(self.expand)]

    def _convert(self, source: Source, place: str, node: Node) -> list[str]:
        """Return what takes the place of PYBIND11_MODULE or TORCH_LIBRARY."""
        body = syntax.field(node, "body")
        lines: dict[str, list[str]] = {}
        kept: list[str] = []
        for statement in body.named_children if body else []:
            calls = [one for one in walk(statement) if _is_definition(source, one)]
            text = source.text_of(statement)
            is_class = re.search(r"\b(class_|enum_)\s*<", text)
            read = [not is_class and self._read(source, place, one, lines)
                    for one in calls]
            if not all(read) or not calls and (
                    statement.type != "comment" and ".doc()" not in text):
                kept += _keep(text)
            elif statement.type.startswith("preproc_"):
                condition = text.splitlines()[0]
                kept.append(f"// {TODO} {condition} stood around the registration of "
                            "these ops.")
        return [*kept, *self._blocks(lines)]

    def _convert_registry(self, source: Source, place: str, node: Node) -> list[str]:
        lines: dict[str, list[str]] = {}
        calls = [one for one in walk(node) if _is_definition(source, one)]
        read = [self._read(source, place, one, lines) for one in calls]
        text = source.text_of(node)
        bare = re.search(r"RegisterOperators\s*\(\s*\)", text)
        kept = [] if bare and all(read) else _keep(text)
        return [*kept, *self._blocks(lines)]

    def _read(self, source: Source, place: str, call: Node,
              lines: dict[str, list[str]]) -> bool:
        """Read m.def(...), and add the registration of its kernel, if it has one.
        Return whether a person is left with nothing of it."""
        arguments = syntax.field(call, "arguments")
        given = [one for one in arguments.named_children if one.type != "comment"] \
            if arguments else []
        text = _string_of(source, given[0]) if given else ""
        function = _function_of(source, given[1]) if len(given) > 1 else ""
        name = text.partition("(")[0].rpartition("::")[2].strip()
        if not re.fullmatch(r"\w+(\.\w+)?", name):
            return False
        if "(" in text:
            schema = name + text[text.index("("):]
            self._add(lines, name, Draft(name, schema, function, ()), function, place)
            return len(given) < 2 or bool(function)
        draft = self.drafts.get((name, function))
        if draft is None or not function:
            return False
        self._add(lines, name, draft, function, place)
        return True

    def _add(self, lines: dict[str, list[str]], name: str, draft: Draft,
             function: str, place: str) -> None:
        keys = self.find_keys(function, place) if function else ()
        op = Op(name, draft.schema, draft.marks, keys)
        before = self.ops.setdefault(name, op)
        if before is not op and before.schema == op.schema and before.keys:
            return  # it is registered already
        if before.schema != op.schema:
            lines.setdefault("", []).append(
                f"// {TODO} {name} is defined twice, with other types: give this one, "
                f"of the function {function}, another name.")
            return
        box = f'm.impl("{name}", CHECKED_BOX(&{function}));'
        for key in keys:
            if op.is_known():
                lines.setdefault(key, []).append(f"  {box}")
        if keys and not op.is_known():
            lines.setdefault("", []).append(
                f"// {TODO} when {name} has a schema, add to "
                f"STABLE_TORCH_LIBRARY_IMPL: {box}")

    def _blocks(self, lines: dict[str, list[str]]) -> list[str]:
        found = list(lines.get("", []))
        for key in (key for key in lines if key):
            found += [f"STABLE_TORCH_LIBRARY_IMPL{self.expand}({self.space}, {key}, "
                      "m) {", *dict.fromkeys(lines[key]), "}"]
        return found

    def _rename(self, source: Source, node: Node) -> list[Edit]:
        """Put the project's namespace into a TORCH_LIBRARY_IMPL."""
        declarator = syntax.field(node, "declarator")
        parameters = declarator and syntax.field(declarator, "parameters")
        macro = declarator and syntax.field(declarator, "declarator")
        if not parameters or not parameters.named_children or macro is None:
            return []
        space, *rest = parameters.named_children
        boxes = [one for one in walk(node) if one.type == "identifier" and
                 source.text_of(one) == "TORCH_BOX"]
        for one in walk(node):
            if rest and one.type == "string_literal":
                self.registered.setdefault(_string_of(source, one).rpartition("::")[2],
                                           set()).add(source.text_of(rest[0]))
        return [Edit(space.start_byte, space.end_byte, self.space),
                Edit(macro.end_byte, macro.end_byte, self.expand),
                *(Edit(one.start_byte, one.end_byte, "CHECKED_BOX") for one in boxes)]


def _keep(text: str) -> list[str]:
    """Return code as a comment: a person writes what it does."""
    return [f"// {TODO} write this for the stable ABI:",
            *(f"//   {line}".rstrip(" \\") for line in text.splitlines())]


def find_blocks(root: Node, source: Source) -> list[Node]:
    """Return the nodes that register ops: PYBIND11_MODULE(...) {...} and its kind, and
    declarations by RegisterOperators."""
    found: list[Node] = []
    for node in walk(root):
        if found and node.start_byte < found[-1].end_byte:
            continue
        if node.type == "function_definition" and _macro_name(source, node) or \
                node.type in ("declaration", "expression_statement") and \
                re.search(r"RegisterOperators\s*\(", source.text_of(node)):
            found.append(node)
    return found


def _macro_name(source: Source, node: Node) -> str:
    declarator = syntax.field(node, "declarator")
    name = declarator and syntax.field(declarator, "declarator")
    text = source.text_of(name) if name is not None else ""
    return text if _OPENING.fullmatch(text) or _REGISTERING.fullmatch(text) else ""


def _is_definition(source: Source, node: Node) -> bool:
    """Say whether this is m.def(...), or .op(...) of a RegisterOperators."""
    if node.type != "call_expression":
        return False
    function = syntax.field(node, "function")
    name = syntax.field(function, "field") if function is not None and \
        function.type == "field_expression" else None
    return name is not None and source.text_of(name) in ("def", "op")


def _string_of(source: Source, node: Node) -> str:
    """Return the text of a literal, or of several that stand side by side."""
    if node.type not in ("string_literal", "concatenated_string", "raw_string_literal"):
        return ""
    parts = []
    for one in walk(node):
        text = source.text_of(one)
        if one.type in ("string_content", "escape_sequence"):
            parts.append(text)
        elif one.type == "raw_string_content":
            parts.append(" ".join(text.split()).replace('"', '\\"'))
    return "".join(parts)


def _function_of(source: Source, node: Node) -> str:
    """Return the function that is registered, of &f, f and TORCH_BOX(&f)."""
    if node.type == "call_expression":
        arguments = syntax.field(node, "arguments")
        if arguments is None or len(arguments.named_children) != 1:
            return ""
        node = arguments.named_children[0]
    return syntax.join_name(source, syntax.field(node, "argument") or node)


def _remove_pybind(source: Source, blocks: list[Edit]) -> list[Edit]:
    """Take the headers of pybind11 away, if nothing but the blocks needed them."""
    found = [node for node in source.root.named_children
             if node.type in ("preproc_include", "namespace_alias_definition") and
             "pybind11" in source.text_of(node)]
    edits = [Edit(node.start_byte, node.end_byte + (
        source.text[node.end_byte:node.end_byte + 1] == b"\n"
        and node.type != "preproc_include"), "") for node in found]
    rest = apply(source, [*blocks, *edits])
    rest = re.sub(r"//[^\n]*", "", rest)
    return [] if re.search(r"\b(py|pybind11)::", rest) else edits


def _include(source: Source, lines: list[str]) -> Edit:
    """Put lines before the first code of a source, behind #pragma once."""
    at = next((node.start_byte for node in source.root.named_children
               if node.type != "comment" and
               not source.text_of(node).startswith("#pragma")), 0)
    return Edit(at, at, "".join(f"{line}\n" for line in lines))


def _standard_includes(one: Ported) -> list[str]:
    """Return the headers of C++ that a source lacks: an old header that another file
    included had brought them."""
    return [line for line in includes.needed_by(one.new, one.path.name)
            if not line.startswith("#include <torch/") and not re.search(
                rf"(?m)^\s*#\s*include\s*{re.escape(line[9:])}", one.new)]


# --- marks ------------------------------------------------------------------------


def mark_findings(source: Source, one: Ported, edits: list[Edit]) -> list[Edit]:
    """Return comments for what port leaves, each above its line. Findings in a block
    that is replaced have been dealt with."""
    old = Source(one.old.encode(errors="surrogateescape"), one.path)
    blocks = [(node.start_point[0] + 1, node.end_point[0] + 1)
              for node in find_blocks(old.root, old)]
    removed = [source.text[edit.begin:edit.end].decode(errors="replace").strip()
               for edit in edits if not edit.text]
    by_line: dict[int, list[Finding]] = {}
    for finding in one.findings:
        if finding.kind in LEFT and finding.code not in removed and not any(
                first <= finding.line <= last for first, last in blocks):
            by_line.setdefault(finding.line, []).append(finding)
    lines = map_lines(one.old.split("\n"), one.new.split("\n"))
    whole = [(node.start_point[0], node.end_point[0]) for node in walk(source.root)
             if node.type in _WHOLE and node.end_point[1] > 0]
    source_lines = source.text.split(b"\n")
    starts = [0]
    for text in source_lines:
        starts.append(starts[-1] + len(text) + 1)
    snippets: set[str] = set()
    found = []
    for number, findings in sorted(by_line.items()):
        line = find_line(one.new.split("\n"), lines[number - 1], findings[0].code)
        at = starts[_line_for_comment(whole, source_lines, line)]
        if not any(edit.begin < at < edit.end for edit in edits):
            found.append(Edit(at, at, "".join(
                f"{said}\n" for said in _describe(findings, snippets))))
    return found


def _describe(findings: list[Finding], snippets: set[str]) -> list[str]:
    lines = []
    for i, finding in enumerate(findings):
        said = f"{TODO} {_SAID[finding.kind]}: {finding.code}"
        lines.append(f"// {said}" if i == 0 else f"//   and {finding.code}")
        lines += [f"//   {text[9:]}".rstrip(" \\")
                  for text in describe(finding, snippets)[1:]]
    return lines


def map_lines(old: list[str], new: list[str]) -> list[int]:
    """Return, for each old line, the new one that it has become; both from 0 on."""
    found = [0] * len(old)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for _, i, end, j, stop in matcher.get_opcodes():
        for k in range(i, end):
            found[k] = min(j + k - i, max(j, stop - 1), len(new) - 1)
    return found


def find_line(lines: list[str], near: int, code: str) -> int:
    """Return the line near by which has most of the words of some code."""
    words = set(re.findall(r"\w+", code))
    around = range(max(0, near - 4), min(len(lines), near + 5))
    return min(around, default=near, key=lambda n: (
        -len(words & set(re.findall(r"\w+", lines[n]))), abs(n - near)))


def _line_for_comment(whole: list[tuple[int, int]], lines: list[bytes], line: int
                      ) -> int:
    """Return the line above which a comment may stand: not inside of a macro, of a
    string or of a comment, whose lines `whole` has."""
    for first, last in whole:
        if first < line <= last:
            return first
    while line > 0 and lines[line - 1].rstrip().endswith(b"\\"):
        line -= 1
    return line


def apply(source: Source, edits: list[Edit]) -> str:
    """Return the text with the edits. Of two at one place the first one comes first."""
    text, at, parts = source.text, 0, []
    for edit in sorted(edits, key=lambda one: (one.begin, one.end)):
        parts += [text[at:edit.begin], edit.text.encode(errors="surrogateescape")]
        at = max(at, edit.end)
    return b"".join([*parts, text[at:]]).decode(errors="surrogateescape")
