"""Drafts schemas and registrations, from PYBIND11_MODULE, m.def(name, &f) and
RegisterOperators().op(name, &f). A person decides the marks: whether a tensor is
written to is in the kernel."""

import re
from collections.abc import Iterator
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
# "x"_a, py::arg("x") and py::arg_v("x", 3), with .noconvert() and the like, and = 3.
_KEYWORD = re.compile(
    r'(?:(?:\w+::)*arg(?:_v)?\(\s*"(\w+)"\s*(?:,\s*(.+?)\s*(?:,\s*"[^"]*")?\s*)?\)|'
    r'"(\w+)"_a)(?:\s*\.\w+\([^()]*\))*\s*(?:=\s*(.+))?', re.S)
_LIST = re.compile(r"(?:std::vector<[\w:]+>)?\s*(?:\(\s*\)|\{\s*(.*?)\s*\})", re.S)
_READ_AS = {"long": "on Windows and macOS it is another type than long",
            "longlong": "on Linux it is another type than long long"}
_OTHER_BITS = "TORCH_BOX takes what stands there too, and reads other bits"


@dataclass(frozen=True)
class Draft:
    name: str
    schema: str
    function: str
    marks: tuple[str, ...]  # what a person must decide


@dataclass(frozen=True)
class Function:
    """A function of one of the sources, by its name with all spaces around it."""
    name: str
    source: Source
    node: Node  # the definition, or the declaration
    declarator: Node

    @property
    def body(self) -> Node | None:
        return field(self.node, "body")


class Functions:
    """The functions of all sources."""

    def __init__(self, sources: list[Source]) -> None:
        self.known: dict[str, list[Function]] = {}  # by the last part of their names
        for source in sources:
            for node in walk(source.root):
                if node.type in ("function_definition", "declaration"):
                    declarator = _find_declarator(node)
                    name = field(declarator, "declarator") if declarator else None
                    if declarator is not None and name is not None:
                        whole = "::".join([*_spaces_around(source, node),
                                           join_name(source, name)])
                        self.known.setdefault(whole.rpartition("::")[2], []).append(
                            Function(whole, source, node, declarator))

    def find(self, name: str) -> list[Function]:
        """Return the functions that a name may mean, those with a body first, each
        once."""
        fitting = [one for one in self.known.get(name.rpartition("::")[2], [])
                   if f"::{one.name}".endswith(f"::{name}")]
        fitting.sort(key=lambda one: one.body is None)
        return list({(one.name, _types_of(one)): one
                     for one in reversed(fitting)}.values())[::-1]


def _find_declarator(node: Node) -> Node | None:
    for one in walk(node):
        if one.type == "function_declarator":
            return one
        if one.type == "compound_statement":
            return None
    return None


def _types_of(function: Function) -> tuple[str, ...]:
    """Return the types of the parameters, without spaces."""
    parameters = field(function.declarator, "parameters")
    types = (field(one, "type") for one in
             (parameters.named_children if parameters else []))
    return tuple("".join(function.source.text_of(type).split())
                 for type in types if type is not None)


def draft_registrations(sources: list[Source]) -> list[Draft]:
    """Return a draft for each function that one of these exports."""
    functions = Functions(sources)
    found = []
    for source in sources:
        for node in walk(source.root):
            if node.type == "call_expression":
                if draft := _draft_call(source, node, functions):
                    found.append(draft)
    return found


def draft_functions(sources: list[Source]) -> list[Draft]:
    """Return a draft for each function that another file can call, that takes a tensor
    and returns one or writes to one, and whose types schemas have. This is for sources
    that export nothing."""
    functions = Functions(sources)
    found: dict[str, Draft] = {}
    for short, known in functions.known.items():
        for function in known:
            if function.body is None or not _is_public(function.source, function.node):
                continue
            draft = _add_doubts(_draft_schema(short, function.name, function, []),
                                function, functions)
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


def _add_doubts(draft: Draft, function: Function, functions: Functions) -> Draft:
    """Add the tensors that the schema does not mark, and that the function may write
    to: by a method such as add_, or by a pointer to what is not const."""
    tensors = re.findall(r"Tensor\?? (\w+)", draft.schema)
    written, doubtful = _find_writes(function, set(tensors), functions)
    marks = [f"{name} is written to: Tensor(a!)" for name in tensors if name in written]
    doubts = [name for name in tensors if name in doubtful - written]
    if doubts:
        marks.append(f"{', '.join(doubts)}: through a pointer that may write; "
                     "Tensor(a!) if the kernel does, else const_data_ptr")
    if draft.schema.endswith("-> ()") and not marks and "!" not in draft.schema:
        marks.append("returns nothing, and marks nothing: which tensor is written to?")
    return Draft(draft.name, draft.schema, draft.function, (*draft.marks, *marks))


def _find_writes(function: Function, tensors: set[str], functions: Functions,
                 depth: int = 3) -> tuple[set[str], set[str]]:
    """Return which of these parameters a function writes to, and which it may write
    to, also by handing them to a function of these sources."""
    written: set[str] = set()
    doubtful: set[str] = set()
    source = function.source
    others: dict[str, str] = {}  # {another name of a tensor: the parameter}
    for node in walk(function.body) if function.body else ():
        if node.type in ("init_declarator", "assignment_expression"):
            left = field(node, "declarator") or field(node, "left")
            value = field(node, "value") or field(node, "right")
            text = source.text_of(value) if value is not None else ""
            same = re.fullmatch(r"\*?(\w+)(\.value(_or)?\(.*\))?", text, re.S)
            if left is not None and same and same[1] in tensors:
                others[source.text_of(left).lstrip("& ")] = same[1]
        called = field(node, "function") if node.type == "call_expression" else None
        if called is None:
            continue
        receiver, method = field(called, "argument"), field(called, "field")
        if receiver is None or method is None:
            for mine, theirs in _find_handed_on(source, node, tensors, functions) \
                    if depth else ():
                there = _find_writes(theirs[0], {theirs[1]}, functions, depth - 1)
                written |= {mine} if there[0] else set()
                doubtful |= {mine} if there[1] else set()
            continue
        name, called_as = source.text_of(receiver), join_name(source, method)
        name = others.get(name, name)
        if name not in tensors:
            continue
        if re.fullmatch(r"\w*[a-z]_", called_as) and called_as != "requires_grad_":
            written.add(name)
        elif re.fullmatch(r"(mutable_)?data_ptr|(packed_)?accessor\w*", called_as) and \
                not _is_kept_to_read(source, node):
            doubtful.add(name)
    return written, doubtful


def _find_handed_on(source: Source, call: Node, tensors: set[str], functions: Functions
                    ) -> Iterator[tuple[str, tuple[Function, str]]]:
    """Yield the tensors that a call hands to a function of these sources, each with
    that function and the name of its parameter."""
    called, arguments = field(call, "function"), field(call, "arguments")
    name = join_name(source, called) if called is not None else ""
    given = [one for one in (arguments.named_children if arguments else [])
             if one.type != "comment"]
    for function in functions.find(name) if name else ():
        parameters = _parameters_of(function)
        if function.body is not None:
            for one, parameter in zip(given, parameters):
                if source.text_of(one) in tensors:
                    yield source.text_of(one), (function, parameter)


def _parameters_of(function: Function) -> list[str]:
    """Return the names of the parameters; "" of one without a name."""
    parameters = field(function.declarator, "parameters")
    return [next((function.source.text_of(c) for c in walk(
        field(one, "declarator") or one) if c.type == "identifier"), "")
        for one in (parameters.named_children if parameters else [])
        if one.type.endswith("parameter_declaration")]


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


def _draft_call(source: Source, node: Node, functions: Functions) -> Draft | None:
    function, arguments = field(node, "function"), field(node, "arguments")
    if function is None or arguments is None or function.type != "field_expression":
        return None
    text = source.text_of(function)
    if not text.endswith(".def") and not (
            "RegisterOperators" in text and text.endswith(".op")):
        return None
    if "class_<" in text:  # of a class, whose methods become no ops
        return None
    given = [c for c in arguments.named_children if c.type != "comment"]
    if len(given) < 2 or given[0].type != "string_literal" or \
            "(" in source.text_of(given[0]):
        return None
    name = source.text_of(given[0]).strip('"').rpartition("::")[2]
    target = join_name(source, field(given[1], "argument") or given[1])
    if not target:
        return Draft(name, f"{name}(...) -> ...", "", ("what it calls was not found",))
    known = functions.find(target)
    own = [one for one in known if one.source is source]
    if len(known) != 1 and len(own) != 1:
        why = f"{len(known)} functions have the name {target}: which one is it?" \
            if known else f"the declaration of {target} was not found"
        return Draft(name, f"{name}(...) -> ...", target, (why,))
    chosen = known[0] if len(known) == 1 else own[0]
    texts = [source.text_of(one) for one in given[2:]]
    draft = _draft_schema(name, target, chosen, _read_keywords(texts))
    if chosen.body is not None:
        draft = _add_doubts(draft, chosen, functions)
    if any("gil_scoped_release" in text for text in texts):
        draft = Draft(draft.name, draft.schema, draft.function, (
            *draft.marks, "the GIL: torch.ops releases it itself"))
    return draft


def _read_keywords(texts: list[str]) -> list[tuple[str, str]]:
    """Return the names and defaults, "" if there is none, of pybind's arguments;
    ("*", "") stands where those by keyword alone begin."""
    found = []
    for text in texts:
        if keyword := _KEYWORD.fullmatch(text):
            name, of_arg_v, literal, default = keyword.groups()
            found.append((name or literal, (of_arg_v or default or "").strip()))
        elif re.fullmatch(r"(?:\w+::)*kw_only\(\)", text):
            found.append(("*", ""))
    return found


def _draft_schema(name: str, target: str, function: Function,
                  keywords: list[tuple[str, str]]) -> Draft:
    source, node = function.source, function.node
    parameters = field(function.declarator, "parameters")
    marks, parts, letter = [], [], iter("abcdefghijklmnopqrstuvwxyz")
    by_keyword = keywords.index(("*", "")) if ("*", "") in keywords else -1
    keywords = [one for one in keywords if one[0] != "*"]
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
        if mark or (mark := _widen(source.text_of(type) if type else "")):
            marks.append(f"{called}: {mark}")
        literal = _value(value, schema) if value else ""
        if literal == "???":
            marks.append(f"{called}: its default is {value}; a schema has a literal")
        parts += ["*"] * (i == by_keyword) + [
            f"{schema} {called}" + (f"={literal}" if literal else "")]
    result = field(node, "type")
    returned = source.text_of(result) if result else "void"
    returns, mark = _returns(returned)
    if mark:
        marks.append(mark)
    if mark := _widen(returned) or _box(returned, function):
        marks.append(f"what it returns: {mark}")
    return Draft(name, f"{name}({', '.join(parts)}) -> {returns}", target,
                 tuple(marks))


def _box(returned: str, function: Function) -> str:
    """Return what must become of a type that TORCH_BOX does not return, or ""."""
    around = function.declarator.parent
    if around is not None and around.type == "reference_declarator":
        return f"TORCH_BOX takes no reference: make it {returned}"
    return "make it std::tuple; TORCH_BOX takes no std::pair" \
        if re.match(r"std::pair\s*<", returned) else ""


def _widen(text: str) -> str:
    """Return what must become of a type of numbers, alone, optional, or in a list or a
    tuple, so that TORCH_BOX passes it as the schema's int or float; "" of others."""
    plain = re.sub(r"\b(const|static|inline)\b|[&\s]", "", text)
    wide, whys = plain, []
    for narrow in re.findall(r"(?<![\w:])[a-z]\w*(?![\w:<])", plain):
        schema = next((name for shape, name in _PLAIN
                       if re.fullmatch(shape, narrow)), "")
        if narrow != _CROSSING.get(schema, narrow):
            wide = re.sub(rf"(?<![\w:]){narrow}(?![\w:<])", _CROSSING[schema], wide)
            whys.append(_READ_AS.get(narrow, _OTHER_BITS))
    return f"make it {wide}; {whys[0]}" if whys else ""


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


def _value(text: str, schema: str) -> str:
    """Return the default of a type as its schema has it, "???" if it is no literal."""
    if schema.endswith("]") and (listed := _LIST.fullmatch(text)):
        return f"[{listed[1] or ''}]"
    if "nullopt" in text or text in ("nullptr", "{}", "py::none()", "pybind11::none()"):
        return "None"
    if re.fullmatch(r"-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?[fFlLuU]*", text):
        return text.rstrip("fFlLuU")
    return {"true": "True", "false": "False"}.get(
        text, text if text.startswith('"') else "???")
