"""Rewrites a source by the migration table, and says of each line what it did and what
is left to a person."""

import re
from collections.abc import Iterator

from tree_sitter import Node

from torch_stable_abi.port import includes
from torch_stable_abi.port.naming import (
    DONE,
    MACRO,
    SLOWER,
    UNKNOWN,
    YOURS,
    Finding,
    Namer,
)
from torch_stable_abi.port.patterns import Match, Pattern
from torch_stable_abi.port.syntax import (
    NAMES,
    OLD_HEADER,
    Source,
    above,
    field,
    is_error,
    join_name,
    walk,
)
from torch_stable_abi.port.table import headers_of_names
from torch_stable_abi.port.types import Types

# No stable header defines this pointer to a const type: only the loader would notice.
_POINTER_TO_CONST = re.compile(
    r"\bmutable_data_ptr<\s*const\s+((?:[^<>]|<[^<>]*>)+)>")
# Wrappers that call an op by its name, where the old code had none or a faster one,
# and there is another way. docs/cost.md has by how much.
_BY_NAME = {
    r"torch::stable::(empty|empty_like|new_empty)\(":
        "A call by name makes this tensor. aoti_torch_empty_strided makes one without.",
    r"torch::stable::contiguous\(":
        "It calls an op even if the tensor is contiguous: ask is_contiguous() first."}
_INCLUDES = "\1includes\1\n"  # where new ones go
_NAME_NODES = ("qualified_identifier", "identifier", "type_identifier", "template_type",
               "template_function", "namespace_identifier")
_HELPERS = {"current_cuda_stream": """
static inline cudaStream_t current_cuda_stream(int32_t device = -1) {
  if (device == -1) {
    device = torch::stable::accelerator::getCurrentDeviceIndex();
  }
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device, &stream));
  return static_cast<cudaStream_t>(stream);
}
""", "opmath_type": """
template <class T>
using opmath_type = std::conditional_t<
    std::is_same_v<T, torch::headeronly::Half> ||
        std::is_same_v<T, torch::headeronly::BFloat16>,
    float,
    T>;
""", "divup": """
static inline int64_t divup(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
""", "ceil_div": """
template <class T>
static inline C10_HOST_DEVICE T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}
"""}
_OWN_NAME = "something of yours has this name: write out what PyTorch's does"
# PyTorch's includes and what follows them: a helper stands behind, in the same #if.
_INCLUDES_OF_TORCH = r"(?m)^\s*#\s*include\s*<torch/[^\n]*\n(?:\s*#\s*include[^\n]*\n)*"
_GUARDED = "\n#ifndef PORTED_{0}\n#define PORTED_{0}{1}#endif\n"
_SPEAKS_OF_TORCH = re.compile(
    r"\b(at|c10|torch)::\w+|\bTensor\b|\b(TORCH|AT|C10)_\w+|"
    r"(\.|->)[a-z]\w*(?=\s*[<(])")


class Rewriter(Namer):
    """Rewrites one source, and keeps in `findings` what is to be said."""

    def __init__(self, source: Source, known: Types,
                 findings: list[Finding] | None = None, names_alone: bool = False
                 ) -> None:
        """Rewrite names alone where the parser does not know the code."""
        super().__init__(source, known, [] if findings is None else findings)
        self.removed = 0
        self.in_error = names_alone

    def rewrite(self) -> str:
        root, size = self.source.root, len(self.source.text)
        self._name_unread()
        text = self._raw(0, root.start_byte) + self._emit(root) + \
            self._raw(root.end_byte, size)
        # One that changes nowhere may lose the includes that an old header brought.
        same = text == self._raw(0, size) and not self.known.brings_old_headers
        return text if same else self._finish(text)

    def _name_unread(self) -> None:
        for begin, end in self.source.unread:
            if found := _SPEAKS_OF_TORCH.search(self._raw(begin, end)):
                line = self.source.text.count(b"\n", 0, begin) + \
                    self._raw(begin, end).count("\n", 0, found.start())
                self.findings.append(Finding(
                    line + self.source.first_line, UNKNOWN, found[0],
                    advice="a branch of an #if that splits a statement: the parser is "
                           "given the first one alone"))

    # --- what is written ----------------------------------------------------------

    def _emit(self, node: Node) -> str:
        if node.type in ("comment", "string_literal", "raw_string_literal",
                         "char_literal", "system_lib_string"):
            return self.source.text_of(node)
        if node.type == "preproc_include":
            return self._emit_include(node)
        if node.type in ("preproc_def", "preproc_function_def"):
            return self._emit_macro(node)
        if node.type in ("preproc_if", "preproc_elif"):
            self._look_at_condition(node)
        if node.type == "declaration":
            self._look_at_borrowing(node)
        if node.type == "parameter_declaration":
            self._look_at_parameter(node)
        if node.type == "namespace_alias_definition":
            self._look_at_alias(node)
        if node.type == "using_declaration" and not self._emit_using(node):
            return ""
        if node.type == "preproc_call" and \
                re.search(r"\b(at|c10|torch)::", self.source.text_of(node)):
            self._name(node, YOURS, "a line of the preprocessor is not rewritten")
        if is_error(node) and not self.in_error:
            if _SPEAKS_OF_TORCH.search(self.source.text_of(node)):
                self._name(node, UNKNOWN, "the parser does not know this code; names "
                           "in it are rewritten, nothing else")
            self.in_error = True
            text = self._emit_children(node) if node.type == "ERROR" else \
                self.source.text_of(node)
            self.in_error = False
            return text
        if node.type in _NAME_NODES and not self._is_part_of_name(node):
            return self.source.text_of(node) if _is_declared_here(node) else \
                self._emit_name(node)
        if not self.in_error and node.is_named:
            text = self._emit_code(node)
            return f"{{ {text} }}" if text.startswith("STD_TORCH_CHECK") and \
                node.type == "expression_statement" and _has_else(node) else text
        return self._emit_children(node)

    def _emit_code(self, node: Node) -> str:
        if node.type == "call_expression":
            self._look_at_returned(node)
        matches = [(pattern, match) for pattern in
                   self.table.find_patterns(self.source, node)
                   if (match := pattern.match(self.source, node, self.known))]
        if matches:  # the first that is sure and says what to write
            pattern, match = min(matches, key=lambda one: (
                bool(one[1].unknown), one[0].rewrite is None))
            return self._apply(pattern, match, node)
        self._look_for_methods(node)
        return self._emit_children(node)

    def _emit_children(self, node: Node) -> str:
        if not node.children:
            return self.source.text_of(node)
        parts, at = [], node.start_byte
        for child in node.children:
            parts.append(self._raw(at, child.start_byte))
            parts.append(self._emit(child))
            at = child.end_byte
        parts.append(self._raw(at, node.end_byte))
        return "".join(parts)

    def _apply(self, pattern: Pattern, match: Match, node: Node) -> str:
        if match.unknown:
            receiver = match.holes[match.unknown[0]]
            self._name(node, UNKNOWN, f"is {self.source.text_of(receiver)} a tensor? "
                       "Its declaration was not found", pattern.row)
            return self._emit_children(node)
        if pattern.rewrite is None:
            if not self._has_schema(node):
                self._leave(node, pattern.row)
            return self._emit_children(node)
        if self._is_own(pattern.rewrite):
            self._name(node, YOURS, _OWN_NAME, pattern.row)
            return self._emit_children(node)
        if re.match(r"torch::stable::\w+_\(", pattern.rewrite) and \
                _is_returned_by_reference(self.source, node):
            self._name(node, YOURS, "the stable function returns a tensor and no "
                       "reference: call it, then return the tensor", pattern.row)
            return self._emit_children(node)
        if twice := _evaluated_twice(pattern.rewrite, match):
            self._name(node, YOURS, f"{self.source.text_of(twice)} would be evaluated "
                       "twice: give it a name before", pattern.row)
            return self._emit_children(node)
        self._tell_done(node, pattern)
        for wrapper, advice in _BY_NAME.items():
            if re.search(wrapper, pattern.rewrite):
                self._name(node, SLOWER, advice, pattern.row)
        if pattern.rewrite.startswith("STD_TORCH_CHECK"):
            self._look_at_message(match)
        return self._fill(pattern.rewrite, match)

    def _fill(self, rewrite: str, match: Match) -> str:
        def replace(found: re.Match) -> str:
            quoted, name, after = found["quoted"], found["name"], found["after"] or ""
            if quoted:
                text = " ".join(self.source.text_of(match.holes[quoted]).split())
                return text.replace("\\", "\\\\").replace('"', '\\"')
            if name in match.rest:
                return ", ".join(map(self._emit, match.rest[name])) + after
            text = self._emit(match.holes[name])
            if name in match.pointees:
                return f"{text}->" if after == "." else f"*{text}{after}"
            return text + after
        for name, nodes in match.rest.items():
            if not nodes:  # the comma before it goes as well
                rewrite = re.sub(rf",\s*\$\${name}\b", "", rewrite)
        text = re.sub(r"\$\$?(?P<name>[a-z]\w*)(?P<after>\.?)|\$`(?P<quoted>\w+)`",
                      replace, rewrite)
        return _POINTER_TO_CONST.sub(r"const_data_ptr<\1>", text)

    def _emit_name(self, node: Node) -> str:
        name = join_name(self.source, node)
        pattern, length = self._find_name(node, name)
        more = name.count("::") + 1 - len(list(_parts_of_name(node)))  # than stand here
        bare = name in self.source.used.values() and "::" not in \
            self.source.text_of(node).partition("<")[0]
        if bare and (pattern is None or pattern.rewrite is None or pattern.rewrite.
                     endswith(f"::{name.rpartition('::')[2]}")):
            return self._emit_children(node)  # the using line brings it, or is named
        length = max(length - max(more, 0), 1)
        if name.endswith("::optional") and "string_view" in self.source.text_of(node):
            self._name(node, YOURS, "", self.table.rows["an optional string argument"])
        if pattern is None:
            self._look_at_name(node, name)
            return self._emit_children(node)
        end = _end_of_part(node, length)
        if pattern.rewrite is None:
            self._leave(node, pattern.row)
            return self._raw(node.start_byte, end) + self._emit_tail(node, end)
        if self._is_own(pattern.rewrite):
            self._name(node, YOURS, _OWN_NAME, pattern.row)
            return self._raw(node.start_byte, end) + self._emit_tail(node, end)
        text = pattern.rewrite
        if "$1" in text:
            text, end = self._fill_template(text, node)
            if not text:
                self._leave(node, pattern.row)
                return self._emit_children(node)
        self._tell_done(node, pattern)
        if name == "TORCH_LIBRARY_IMPL":
            self._look_at_key(node)
        return text + self._emit_tail(node, end)

    def _fill_template(self, rewrite: str, node: Node) -> tuple[str, int]:
        """Return a template of other parameters, with the arguments that stand here in
        its holes: $1, and $3|DEFAULT where a third one may be missing; and where the
        template ends. "" if there are no arguments, as in a using line."""
        found = next((c for c in walk(node)
                      if c.type == "template_argument_list"), None)
        if found is None:
            return "", 0
        given = [self._emit(c) for c in found.named_children if c.type != "comment"]
        defaults = re.findall(r"\$\d(?:\|([\w:]+))?", rewrite)
        if not defaults.count("") <= len(given) <= len(defaults):
            return "", 0
        filled = iter(given + defaults[len(given):])
        return re.sub(r"\$\d(\|[\w:]+)?", lambda _: next(filled),
                      rewrite), found.end_byte

    def _find_name(self, node: Node, name: str) -> tuple[Pattern | None, int]:
        """Return the pattern of a name, or of the longest space or class that it is in;
        and how many parts of the name that is. Where a space is opened, a bare name is
        of it if it looks like a type, a constant or a function."""
        if "::" not in name and self.source.opens_space and (
                re.match(r"k?[A-Z]", name) or node.parent is not None and
                node.parent.type == "call_expression") and \
                (found := self.table.find_name(f"at::{name}")):
            return found, 1
        parts = name.split("::")
        for length in range(len(parts), 0, -1):
            if found := self.table.find_name("::".join(parts[:length])):
                return found, length
        return None, 0

    def _emit_tail(self, node: Node, begin: int) -> str:
        """Return what stands in a name from `begin` on, with its template arguments
        rewritten."""
        text = ""
        for one in _template_arguments(node):
            if one.start_byte >= begin:
                text += self._raw(begin, one.start_byte) + self._emit(one)
                begin = one.end_byte
        return text + self._raw(begin, node.end_byte)

    def _is_part_of_name(self, node: Node) -> bool:
        parent = node.parent
        if parent is None:
            return False
        if parent.type in ("template_type", "template_function"):
            return field(parent, "name") == node
        return parent.type in ("qualified_identifier", "field_expression",
                               "namespace_definition", "template_method")

    def _emit_include(self, node: Node) -> str:
        path = self.source.text_of(node).partition("include")[2].strip().strip('<>"')
        path = path.split()[0].strip('<>"') if path else ""
        if path.startswith("pybind11/"):
            self._leave(node, self.table.rows["pybind11"])
        if not OLD_HEADER.match(path):
            return self.source.text_of(node)
        self.removed += 1
        self.findings.append(Finding(self.source.line_of(node), DONE, f"<{path}>"))
        return _INCLUDES

    def _emit_using(self, node: Node) -> bool:
        """Return whether a using line stays: not one of a name that is written out
        wherever it stands. Name one of a whole space of the old API's."""
        text = self.source.text_of(node)
        if re.match(r"using\s+namespace\s+(::)?(at|torch|c10)\b"
                    r"(?!::(stable|headeronly))", text):
            self._name(node, YOURS, "names of it that are left stand bare: take this "
                       "out with the last one")
            return True
        name = join_name(self.source, node.named_children[-1]) \
            if node.named_children else ""
        pattern = self.table.find_name(name) if "::" in name else None
        if pattern is None or pattern.rewrite is None or pattern.rewrite.endswith(
                f"::{name.rpartition('::')[2]}"):
            return True
        self._tell_done(node, pattern)
        return False

    def _emit_macro(self, node: Node) -> str:
        """Rewrite a macro's body by itself: its parameters are of unknown type."""
        value = field(node, "value")
        if value is None:
            return self.source.text_of(node)
        body = self._raw(value.start_byte, value.end_byte)
        head, tail = b"void f() { ", b";}"
        inner = Source(head + body.encode(errors="surrogateescape") + tail,
                       self.source.path, value.start_point[0] + self.source.first_line,
                       head + _plain(body).encode(errors="surrogateescape") + tail)
        inner.opens_space = self.source.opens_space
        inner.add_names(self.source)
        rewriter = Rewriter(inner, Types(inner, [self.known]), self.findings,
                            inner.root.has_error)
        written = rewriter._emit(inner.root)[len(head):-len(tail)]
        if inner.root.has_error and _mentions_old_names(written):
            self._name(node, UNKNOWN, "the body of a macro that does not stand by "
                       "itself")
        if "\\\n" not in body:
            written = " ".join(line.strip() for line in written.split("\n"))
        else:
            written = "\n".join(
                f"{line.rstrip()} \\" if i < written.count("\n") and "\\" not in line
                else line for i, line in enumerate(written.split("\n")))
        if written.replace("\\", "").split() == body.replace("\\", "").split():
            written = body
        return self._raw(node.start_byte, value.start_byte) + written + \
            self._raw(value.end_byte, node.end_byte)

    def _is_own(self, rewrite: str) -> bool:
        """Return whether a helper that is written here has the name of something of the
        user's."""
        name = next((one for one in _HELPERS if re.search(rf"(?<![:\w]){one}\b",
                                                          rewrite)), "")
        return bool(name) and name not in self.known.helpers and (
            name in self.known.functions or name in self.known.macros or
            name in self.known.aliases)

    def _finish(self, text: str) -> str:
        helpers = "".join(
            _GUARDED.format(name.upper(), helper)  # another file may bring it too
            for name, helper in _HELPERS.items()
            if re.search(rf"(?<!:)\b{name}\b", text) and name not in self.known.helpers
            and not self._is_own(name))
        name = self.source.path.name
        text = includes.place(text + helpers, _INCLUDES,
                              self.removed > 0 or self.known.brings_old_headers, name)
        if helpers:
            text = text.removesuffix(helpers)
            places = includes.find_outermost(text, _INCLUDES_OF_TORCH) or \
                includes.find_outermost(text, r"(?m)^\s*#\s*include[^\n]*\n")
            at = places[-1][1] if places else 0
            text = text[:at] + helpers + text[at:]
        return text


def _evaluated_twice(rewrite: str, match: Match) -> Node | None:
    """Return what stands twice in a rewriting and may have an effect each time. ATen's
    checks evaluate twice as well."""
    if rewrite.startswith("STD_TORCH_CHECK"):
        return None
    for name, node in match.holes.items():
        if len(re.findall(rf"\${name}\b", rewrite)) > 1 and any(
                n.type in ("call_expression", "update_expression",
                           "assignment_expression") for n in walk(node)):
            return node
    return None


def _is_declared_here(node: Node) -> bool:
    """Return whether a name is that of a type or a template parameter that is declared
    here, and no use of another."""
    parent = node.parent
    return parent is not None and (
        parent.type in ("class_specifier", "struct_specifier", "enum_specifier",
                        "union_specifier") and field(parent, "name") == node and
        node.type == "type_identifier" or
        parent.type in ("type_parameter_declaration",
                        "optional_type_parameter_declaration") and
        parent.named_children[0] == node)


def _is_returned_by_reference(source: Source, node: Node) -> bool:
    """Return whether a function returns this, and says that it returns a reference."""
    if node.parent is None or node.parent.type != "return_statement":
        return False
    whole = next((one for one in above(node) if one.type in (
        "function_definition", "lambda_expression")), None)
    declarator = field(whole, "declarator") if whole is not None and \
        whole.type == "function_definition" else None
    return declarator is not None and declarator.type == "reference_declarator"


def _parts_of_name(node: Node) -> Iterator[Node]:
    """Yield the words of a qualified name, without those of template arguments."""
    if node.type in NAMES:
        yield node
    elif node.type != "template_argument_list":
        for child in node.children:
            yield from _parts_of_name(child)


def _end_of_part(node: Node, length: int) -> int:
    return list(_parts_of_name(node))[length - 1].end_byte


def _template_arguments(node: Node) -> Iterator[Node]:
    """Yield the lists of template arguments in a name, from left to right."""
    if node.type == "template_argument_list":
        yield node
    else:
        for child in node.children:
            yield from _template_arguments(child)


def _has_else(node: Node) -> bool:
    """Return whether an else follows this statement: a macro that is an if takes it."""
    return node.parent is not None and node.parent.type == "if_statement" and \
        field(node.parent, "alternative") is not None and \
        field(node.parent, "consequence") == node


def _plain(body: str) -> str:
    """Return a macro's body as code that a parser reads, of the same length: without
    the ends of lines that go on, #name as a string, a##b as one name."""
    body = body.replace("\\\n", " \n").replace("##", "__")
    return re.sub(r"#(\s*\w+)", lambda m: '"' + "a" * (len(m[1]) - 1) + '"', body)


def _mentions_old_names(code: str) -> bool:
    return bool(re.search(r"\b(at|c10)::|\btorch::(?!stable|headeronly)", code) or any(
        m[0] not in headers_of_names() for m in MACRO.finditer(code)))
