"""Drafts schemas and registrations, from PYBIND11_MODULE, m.def(name, &f) and
RegisterOperators().op(name, &f). A person decides the marks: whether a tensor is
written to is in the kernel."""

import re
from dataclasses import dataclass

from tree_sitter import Node

from torch_stable_abi.port.syntax import Source, above, field, join_name, walk
from torch_stable_abi.port.types import OPTIONAL, TENSOR, TENSORS, read_type

# C++ without const, & and spaces; the type in a schema.
_PLAIN = (
    (r"bool", "bool"),
    (r"double|float", "float"),
    (r"u?int(8|16|32|64)?(_t)?|long(long)?|short|size_t|unsigned(int)?", "int"),
    (r"(c10|at|torch)::SymInt", "SymInt"),
    (r"(std::)?string(_view)?|(c10|std)::string_view|(const)?char\*", "str"),
    (r"(c10|at|torch)::ScalarType|torch::Dtype", "ScalarType"),
    (r"(c10|at|torch)::Device", "Device"))
_CROSSING = {"float": "double", "int": "int64_t"}  # of these, what TORCH_BOX reads
_READ_AS = {"long": "on Windows and macOS it is another type than long",
            "longlong": "on Linux it is another type than long long"}
_OTHER_BITS = "TORCH_BOX takes what stands there too, and reads other bits"


@dataclass(frozen=True)
class Draft:
    name: str
    schema: str
    function: str
    marks: tuple[str, ...]  # what a person must decide


def draft_registrations(sources: list[Source]) -> list[Draft]:
    """Return a draft for each function that one of these exports."""
    functions: dict[str, tuple[Source, Node, Node]] = {}
    bodies: dict[str, tuple[Source, Node]] = {}
    for source in sources:
        for node in walk(source.root):
            if node.type in ("function_definition", "declaration"):
                for one in walk(node):
                    if one.type == "function_declarator":
                        name = field(one, "declarator")
                        if name is not None:
                            known = join_name(source, name).rpartition("::")[2]
                            functions.setdefault(known, (source, node, one))
                            if body := field(node, "body"):
                                bodies.setdefault(known, (source, body))
                        break
                    if one.type == "compound_statement":
                        break
    found = []
    for source in sources:
        for node in walk(source.root):
            if node.type == "call_expression":
                if draft := _draft_call(source, node, functions):
                    known = draft.function.rpartition("::")[2]
                    found.append(_add_doubts(draft, *bodies[known])
                                 if known in bodies else draft)
    return found


def draft_functions(sources: list[Source]) -> list[Draft]:
    """Return a draft for each function that another file can call, that takes a tensor
    and returns one or writes to one, and whose types schemas have. This is for sources
    that export nothing."""
    found: dict[str, Draft] = {}
    for source in sources:
        for node in walk(source.root):
            body = field(node, "body") if node.type == "function_definition" else None
            declarator = next((one for one in walk(node) if
                               one.type == "function_declarator"), None)
            if body is None or declarator is None or not _is_public(source, node):
                continue
            name = field(declarator, "declarator")
            function = "::".join([*_spaces_around(source, node), join_name(
                source, name) if name is not None else ""])
            short = function.rpartition("::")[2]
            draft = _add_doubts(_draft_schema(
                short, function, (source, node, declarator), []), source, body)
            arguments, _, returns = draft.schema.rpartition(" -> ")
            writes = "!" in arguments or any(": Tensor(a!)" in mark
                                             for mark in draft.marks)
            if short and "???" not in draft.schema and "Tensor" in arguments and (
                    "Tensor" in returns or writes and returns == "()"):
                found.setdefault(short, draft)
    return list(found.values())


def _is_public(source: Source, function: Node) -> bool:
    """Return whether other files see a function of a namespace or of none."""
    around = list(above(function))
    return not any(
        one.type in ("class_specifier", "struct_specifier", "template_declaration",
                     "function_definition") or
        one.type == "namespace_definition" and field(one, "name") is None
        for one in around) and not any(
            one.type == "storage_class_specifier" and source.text_of(one) == "static"
            for one in function.children)


def _spaces_around(source: Source, node: Node) -> list[str]:
    names = [field(one, "name") for one in above(node)
             if one.type == "namespace_definition"]
    return [source.text_of(name) for name in reversed(names) if name is not None]


def _add_doubts(draft: Draft, source: Source, body: Node) -> Draft:
    """Add the tensors that the schema does not mark, and that the function may write
    to: by a method such as add_, or by a pointer to what is not const."""
    tensors = re.findall(r"Tensor\?? (\w+)", draft.schema)
    written: dict[str, None] = {}
    doubtful: dict[str, None] = {}
    for node in walk(body):
        function = field(node, "function") if node.type == "call_expression" else None
        receiver = function and field(function, "argument")
        name = receiver and source.text_of(receiver)
        method = function and field(function, "field")
        if name is None or name not in tensors or method is None:
            continue
        called = join_name(source, method)
        if re.fullmatch(r"\w*[a-z]_", called) and called != "requires_grad_":
            written[name] = None
        elif re.fullmatch(r"(mutable_)?data_ptr|(packed_)?accessor\w*", called) and \
                not _is_kept_to_read(source, node):
            doubtful[name] = None
    marks = [f"{name} is written to: Tensor(a!)" for name in written]
    doubts = [name for name in doubtful if name not in written]
    if doubts:
        marks.append(f"{', '.join(doubts)}: through a pointer that may write; "
                     "Tensor(a!) if the kernel does, else const_data_ptr")
    return Draft(draft.name, draft.schema, draft.function, (*draft.marks, *marks))


def _is_kept_to_read(source: Source, call: Node) -> bool:
    """Return whether what a call returns becomes a pointer to const."""
    value = call.parent
    declaration = value.parent if value else None
    if value is None or value.type != "init_declarator" or declaration is None:
        return False
    declarator = field(value, "declarator")
    return declarator is not None and declarator.type == "pointer_declarator" and any(
        one.type == "type_qualifier" and source.text_of(one) == "const"
        for one in declaration.children)


def _draft_call(source: Source, node: Node,
                functions: dict[str, tuple[Source, Node, Node]]) -> Draft | None:
    function, arguments = field(node, "function"), field(node, "arguments")
    if function is None or arguments is None or function.type != "field_expression":
        return None
    text = source.text_of(function)
    if not text.endswith(".def") and not (
            "RegisterOperators" in text and text.endswith(".op")):
        return None
    given = [c for c in arguments.named_children if c.type != "comment"]
    if len(given) < 2 or given[0].type != "string_literal" or \
            "(" in source.text_of(given[0]):
        return None
    name = source.text_of(given[0]).strip('"').rpartition("::")[2]
    target = join_name(source, field(given[1], "argument") or given[1])
    if not target:
        return Draft(name, f"{name}(...) -> ...", "", ("what it calls was not found",))
    known = functions.get(target.rpartition("::")[2])
    if known is None:
        return Draft(name, f"{name}(...) -> ...", target,
                     (f"the declaration of {target} was not found",))
    texts = [source.text_of(one) for one in given[2:]]
    keywords = re.findall(r'py(?:bind11)?::arg\("(\w+)"\)\s*(?:=\s*([^,]+))?',
                          ", ".join(texts))
    draft = _draft_schema(name, target, known, keywords)
    if any("gil_scoped_release" in text for text in texts):
        draft = Draft(draft.name, draft.schema, draft.function, (
            *draft.marks, "the GIL: torch.ops releases it itself"))
    return draft


def _draft_schema(name: str, function: str, known: tuple[Source, Node, Node],
                  keywords: list[tuple[str, str]]) -> Draft:
    source, node, declarator = known
    parameters = field(declarator, "parameters")
    marks, parts, letter = [], [], iter("abcdefghijklmnopqrstuvwxyz")
    for i, one in enumerate(c for c in (parameters.named_children if parameters else [])
                            if c.type.endswith("parameter_declaration")):
        text = source.text_of(one)
        type = field(one, "type")
        place = field(one, "declarator")
        called = next((source.text_of(c) for c in (walk(place) if place else [])
                       if c.type == "identifier"), f"arg{i}")
        default = field(one, "default_value")
        value = source.text_of(default) if default else ""
        if i < len(keywords):
            called, value = keywords[i][0], keywords[i][1].strip() or value
        written = "&" in text and not re.match(r"\s*const\b|.*\bconst\s*&", text)
        schema, mark = _schema_type(source.text_of(type) if type else "", written,
                                    letter)
        if mark:
            marks.append(f"{called}: {mark}")
        plain = re.sub(r"\bconst\b|[&\s]", "", source.text_of(type) if type else "")
        if plain != (wide := _CROSSING.get(schema, plain)):
            why = _READ_AS.get(plain, _OTHER_BITS)
            marks.append(f"{called}: make it {wide}; {why}")
        parts.append(f"{schema} {called}" + (f"={_value(value)}" if value else ""))
    result = field(node, "type")
    returns, mark = _returns(source.text_of(result) if result else "void")
    if mark:
        marks.append(mark)
    return Draft(name, f"{name}({', '.join(parts)}) -> {returns}", function,
                 tuple(marks))


def _schema_type(text: str, written: bool, letter) -> tuple[str, str]:
    """Return the type in a schema, and what a person must look at."""
    kind = read_type(text, bare=True)
    plain = re.sub(r"\bconst\b|[&\s]", "", text)
    if kind in (TENSOR, OPTIONAL):
        mark = f"({next(letter)}!)" if written else ""
        doubt = "is it written to? The kernel says" if written else ""
        return f"Tensor{mark}" + ("?" if kind == OPTIONAL else ""), doubt
    if kind == TENSORS:
        return "Tensor[]", ""
    for shape, name in _PLAIN:
        if re.fullmatch(shape, plain):
            return name, ""
        if re.fullmatch(rf"(\w+::)?optional<({shape})>", plain):
            return f"{name}?", ""
        if re.fullmatch(rf"(std::)?vector<({shape})>|(\w+::)?ArrayRef<({shape})>",
                        plain):
            return f"{name}[]", ""
    if plain.endswith("IntArrayRef"):
        return "int[]", ""
    return "???", f"{text} has no type in a schema that is known here"


def _returns(text: str) -> tuple[str, str]:
    plain = re.sub(r"\b(const|static|inline)\b|[&\s]", "", text)
    if plain in ("void", ""):
        return "()", ""
    if match := re.fullmatch(r"std::(?:tuple|pair)<(.*)>", plain):
        types = [_schema_type(part, False, iter(""))[0]
                 for part in re.split(r",(?![^<]*>)", match[1])]
        return f"({', '.join(types)})", ""
    kind, mark = _schema_type(plain, False, iter(""))
    if kind == "Tensor[]" and "vector" in plain:
        return kind, "returns a list: of a fixed length, (Tensor, Tensor) is better"
    return kind, mark


def _value(text: str) -> str:
    return {"true": "True", "false": "False", "nullptr": "None"}.get(
        text, "None" if "nullopt" in text or text in ("{}", "py::none()") else
        text.removesuffix("f") if re.fullmatch(r"-?[\d.]+(e-?\d+)?f", text) else text)
