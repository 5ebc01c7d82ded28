"""Tells which expressions are tensors, by the declarations of a file and of those that
it includes by quotes. What it does not know is unknown; nothing is guessed."""

import re
from dataclasses import dataclass
from functools import cache

from tree_sitter import Node

from torch_stable_abi.libtorch.aten import schemas_of
from torch_stable_abi.port.syntax import (
    OLD_HEADER,
    Source,
    above,
    field,
    join_name,
    walk,
)
from torch_stable_abi.schemas.schema import read

TENSOR, TENSORS, NESTED, OPTIONAL, OPTIONS, TUPLE, STREAM, LISTED, NUMBER, OTHER = (
    "tensor", "tensors", "lists of tensors", "optional tensor", "options",
    "tuple of tensors", "stream", "values in braces", "number", "other")
UNKNOWN = None
Kind = str | None

_SCOPES = ("compound_statement", "function_definition", "lambda_expression",
           "for_range_loop", "for_statement", "if_statement", "translation_unit",
           "namespace_definition", "class_specifier", "struct_specifier",
           "declaration_list", "field_declaration_list", "template_declaration")
_LOOPS = ("for_statement", "for_range_loop", "while_statement", "do_statement")
_TENSOR = r"(?:at|torch|c10)::(?:stable::)?Tensor"
_SHAPES = (
    (TENSOR, rf"{_TENSOR}"),
    (OPTIONAL, rf"(?:\w+::)?optional<{_TENSOR}>"),
    (TENSORS, rf"(?:(?:std|c10|at|torch)::)?(?:vector|array|ArrayRef|List|deque)"
              rf"<{_TENSOR}(?:,\w+)?>|(?:at::|torch::)?(?:TensorList|ITensorListRef)"
              r"|(?:torch::autograd::)?(?:variable_list|tensor_list)"),
    (NESTED, rf"std::vector<std::vector<{_TENSOR}>>"),
    (OPTIONS, r"(?:(?:at|torch|c10)::)?TensorOptions"),
    (STREAM, r"(?:(?:at|c10)::cuda::)?CUDAStream"),
    (TUPLE, rf"std::(?:tuple|pair)<{_TENSOR}(?:,{_TENSOR})*>"))
# Classes that are no tensor, and have methods with a tensor's names.
_KNOWN_CLASSES = frozenset("""
auto bool char double float int long short unsigned void size_t int64_t int32_t vector
array map unordered_map set string string_view optional tuple pair function span deque
list atomic complex valarray bitset variant any queue stack priority_queue multimap
multiset unordered_set thread mutex stringstream ostringstream ostream ArrayRef
IntArrayRef SymIntArrayRef Library Device ScalarType Half BFloat16 TensorAccessor
PackedTensorAccessor PackedTensorAccessor32 PackedTensorAccessor64
GenericPackedTensorAccessor Generator Scalar Storage IValue Stack Dict List""".split())
# Methods of what holds tensors, and what they return.
_OF_HOLDERS = {(OPTIONAL, "value"): TENSOR, (OPTIONAL, "value_or"): TENSOR,
               (TENSORS, "front"): TENSOR, (TENSORS, "back"): TENSOR,
               (TENSORS, "at"): TENSOR, (TENSORS, "get"): TENSOR,
               **dict.fromkeys(((NESTED, name) for name in ("front", "back", "at")),
                               TENSORS)}


def read_type(text: str, bare: bool = False) -> Kind:
    """Return the kind of a declared type, in which Tensor may be `bare` of its
    namespace. `auto` and single capital letters, as of templates, are unknown."""
    text = re.sub(r"\b(const|static|constexpr|inline|extern|typename|mutable)\b|[&\s]"
                  r"|^::", "", text)
    if bare:
        text = re.sub(r"(?<![:\w])Tensor\b", "at::Tensor", text)
    if text.endswith("*"):
        return UNKNOWN if re.search(_TENSOR, text) else OTHER
    for kind, shape in _SHAPES:
        if re.fullmatch(shape, text):
            return kind
    if re.search(rf"<.*{_TENSOR}\b", text):  # holds tensors, in a way not known here
        return UNKNOWN
    if re.fullmatch(r"auto|decltype.*|[A-Z]|\w*_t_?|", text) and \
            not re.fullmatch(r"u?int\d*_t|size_t|ssize_t|scalar_t|index_t", text):
        return UNKNOWN
    return OTHER


@cache
def find_overloads(name: str, given: int, second: Kind = UNKNOWN) -> tuple[str, ...]:
    """Return the schemas of aten::name that take so many arguments, of which the second
    is of such a kind."""
    found = []
    for schema in schemas_of(name):
        arguments, _ = read(schema)
        required = sum(one.default is None for one in arguments)
        if required <= given <= len(arguments) and (
                second is UNKNOWN or len(arguments) < 2 or
                (arguments[1].type == "Tensor") == (second == TENSOR)) and not (
                second == LISTED and "[" not in arguments[1].type or
                second == NUMBER and arguments[1].type.endswith(("[]", "[]?")) and
                not re.search(r"\[\d+\]", arguments[1].text)):
            found.append(schema)
    return tuple(found)


def result_of(name: str, given: int, second: Kind = UNKNOWN) -> Kind:
    """Return what aten::name returns: unknown, if overloads that fit return different
    things."""
    kinds = set()
    for schema in find_overloads(name, given, second):
        types = [one.type for one in read(schema)[1]]
        kinds.add(TENSOR if types == ["Tensor"] else TENSORS if types == ["Tensor[]"]
                  else TUPLE if len(types) > 1 and set(types) == {"Tensor"} else OTHER)
    return kinds.pop() if len(kinds) == 1 else UNKNOWN


def _is_of_definition(parameter: Node) -> bool:
    """Return whether a parameter belongs to a function or lambda whose body is in this
    source."""
    return next((one.type in ("function_definition", "lambda_expression")
                 for one in above(parameter) if one.type in (
                     "function_definition", "lambda_expression", "declaration",
                     "field_declaration", "type_definition", "alias_declaration")),
                False)


def read_class(text: str) -> str:
    """Return the class that a declared type names, or that a pointer of it points to,
    without its namespace; "" if the type is unknown."""
    text = re.sub(r"\b(const|static|struct|class|mutable)\b|[&*\s]", "", text)
    found = re.fullmatch(r"(?:std::)?(?:unique|shared)_ptr<(.*)>", text)
    if found:
        return read_class(found[1].partition(",")[0])
    name = re.sub(r"<.*", "", text, flags=re.S).rpartition("::")[2]
    return "" if read_type(text) is UNKNOWN else name


def _function_around(node: Node) -> int:
    return next((one.id for one in above(node) if one.type == "function_definition"), 0)


@dataclass(frozen=True)
class Variable:
    kind: Kind = UNKNOWN
    value: Node | None = None  # what it is made of
    is_const: bool = False
    of_class: str = ""  # if its type is known
    begin: int = 0  # of its declaration; 0: known everywhere


class Types:
    """The declarations of one source, with those of its includes."""

    def __init__(self, source: Source, included: list["Types"]) -> None:
        self.source = source
        self.bare: bool = source.opens_space or bool(re.search(
            rb"using\s+(namespace\s+)?(at|torch|c10)(::stable)?(::Tensor)?\s*;|"
            rb"namespace\s+at\b", source.text)) or any(one.bare for one in included)
        self.scopes: dict[int, dict[str, Variable]] = {}
        self.functions: dict[str, Kind] = {}
        self.returns: dict[str, str] = {}  # {function: its type}, with "&" if it is so
        self.fields: dict[str, Variable] = {}  # of any class
        self.classes: dict[str, dict[str, Variable]] = {}  # their fields
        self.derived: set[str] = set()  # classes that have a base
        self.declared: set[str] = set()  # classes whose body is known
        # Where a variable of a function may get another value.
        self.assigned: dict[tuple[int, str], list[int]] = {}
        self.aliases: dict[str, Kind] = {}  # types that have another name
        self.other_names: dict[str, str] = {}  # {that name: the class}
        text = source.text.decode(errors="replace")
        self.helpers = {name.lower() for name in re.findall(r"\bPORTED_(\w+)", text)}
        if re.search(r"template\s*<[^>]*\b(typename|class)\s+Tensor\b", text):
            self.aliases["Tensor"] = UNKNOWN
        self.macros = set(re.findall(r"(?m)^\s*#\s*define\s+(\w+)", text))
        self.brings_old_headers: bool = any(map(OLD_HEADER.match, re.findall(
            r"(?m)^\s*#\s*include\s*[<\"]([^>\"]+)", text)))
        self.brings_atomics = bool(re.search(r"(THCAtomics|cuda/Atomic)\.cuh", text))
        for other in included:
            self.brings_atomics |= other.brings_atomics
            self.functions |= other.functions
            self.returns |= other.returns
            self.fields |= other.fields
            self.classes |= other.classes
            self.derived |= other.derived
            self.declared |= other.declared
            self.aliases |= other.aliases
            self.other_names |= other.other_names
            self.macros |= other.macros
            self.helpers |= other.helpers
            self.brings_old_headers |= other.brings_old_headers
        for node in walk(source.root):
            self._read(node)

    def read_type(self, node: Node | None) -> Kind:
        text = self.source.text_of(node) if node else ""
        if text in self.aliases:
            return self.aliases[text]
        return read_type(re.sub(r"(?<![\w:])[A-Za-z_]\w*(::\w+)*", lambda m:
                                self.source.write_out(m[0]), text), self.bare)

    def _read(self, node: Node) -> None:
        if node.type in ("parameter_declaration", "optional_parameter_declaration"):
            if _is_of_definition(node):  # the names of another have no meaning
                self._declare(node)
        elif node.type in ("declaration", "field_declaration"):
            self._declare(node)
        elif node.type in ("alias_declaration", "type_definition"):
            name = field(node, "name") or field(node, "declarator")
            type = field(node, "type")
            if name is not None and type is not None:
                short = self.source.text_of(name)
                self.aliases[short] = self.read_type(type)
                self.other_names[short] = read_class(self.source.text_of(type))
        elif node.type == "function_definition":
            self._declare_function(node, field(node, "declarator"))
        elif node.type == "for_range_loop":
            self._declare_loop(node)
        elif node.type in ("class_specifier", "struct_specifier", "union_specifier"):
            name = field(node, "name")
            if name is not None and field(node, "body") is not None:
                self.declared.add(join_name(self.source, name).rpartition("::")[2])
        elif node.type == "base_class_clause":
            self.derived.add(self._class_around(node))
        elif node.type in ("assignment_expression", "update_expression"):
            self._assign(field(node, "left") or field(node, "argument"))
        elif node.type == "call_expression":
            self._read_call(node)
        elif node.type == "lambda_capture_initializer":
            self._declare_capture(node)

    def _assign(self, node: Node | None) -> None:
        if node is not None:
            self.assigned.setdefault((_function_around(node), self.source.text_of(
                node)), []).append(node.start_byte)

    def _read_call(self, node: Node) -> None:
        """Note the variables that a call may change: those that are its arguments,
        unless the function is known to change none."""
        function, arguments = field(node, "function"), field(node, "arguments")
        if function is None or arguments is None:
            return
        if function.type == "field_expression":
            name = field(function, "field")
            if name is not None and self.source.text_of(name) in ("swap", "reset"):
                self._assign(field(function, "argument"))
            return
        called = join_name(self.source, function)
        if called.startswith(("at::", "torch::", "c10::")) or re.fullmatch(
                r"std::(get|max|min|make_\w+)|[A-Z0-9_]+", called):
            return
        for one in arguments.named_children:
            if one.type == "identifier":
                self._assign(one)

    def _declare_capture(self, node: Node) -> None:
        left, right = field(node, "left"), field(node, "right")
        whole = next((one for one in above(node) if one.type == "lambda_expression"),
                     None)
        if left is not None and whole is not None:
            scope = self.scopes.setdefault(whole.id, {})
            scope[self.source.text_of(left)] = Variable(self.kind_of(right), right)

    def _scope_of(self, node: Node) -> dict[str, Variable]:
        for one in above(node):
            if one.type in _SCOPES:
                return self.scopes.setdefault(one.id, {})
        return self.scopes.setdefault(0, {})

    def _declare(self, node: Node) -> None:
        type = field(node, "type")
        if type is None:
            return
        kind = self.read_type(type)
        for declarator in node.children_by_field_name("declarator"):
            self._declare_one(node, kind, declarator, read_class(
                self.source.text_of(type)))

    def _declare_one(self, node: Node, kind: Kind, declarator: Node,
                     of_class: str) -> None:
        value = None
        if declarator.type == "init_declarator":
            value, inner = field(declarator, "value"), field(declarator, "declarator")
            if inner is None:
                return
            declarator = inner
        if declarator.type == "function_declarator" or \
                declarator.type in ("reference_declarator", "pointer_declarator") and \
                any(c.type == "function_declarator" for c in declarator.children):
            self._declare_function(node, declarator)
            return
        scope = self._scope_of(node)
        if declarator.type == "structured_binding_declarator":
            whole = self.kind_of(value) if value else UNKNOWN
            part = TENSOR if whole in (TUPLE, TENSORS) else UNKNOWN
            for one in declarator.named_children:
                scope[self.source.text_of(one)] = Variable(
                    part, begin=self._begin_of(node))
            return
        layers = []
        while declarator.type in ("reference_declarator", "pointer_declarator",
                                  "array_declarator", "pointer_type_declarator"):
            if declarator.type != "reference_declarator":
                layers.append(declarator.type)
            children = [c for c in declarator.named_children
                        if c.type != "type_qualifier"]
            if not children:
                return
            declarator = children[0]
        if kind is UNKNOWN and value is not None:
            kind = self.kind_of(value)
        if kind == TENSOR and layers == ["pointer_declarator"]:
            kind = OPTIONAL  # is used in the same way: *x and x->
        elif layers:  # what it points to may be a tensor
            kind = OTHER if kind in (OTHER, NUMBER) else UNKNOWN
        name = self.source.text_of(declarator)
        is_const = any(c.type == "type_qualifier" and self.source.text_of(c) == "const"
                       for c in node.children)
        scope[name] = Variable(kind, value, is_const, of_class, self._begin_of(node))
        if node.type == "field_declaration":
            known = self.fields.get(name, scope[name])
            self.fields[name] = scope[name] if known.kind == kind else Variable()
            self.classes.setdefault(self._class_around(node), {})[name] = scope[name]

    def _begin_of(self, declaration: Node) -> int:
        """Return where a local variable begins to be known; 0 of another."""
        local = _function_around(declaration) and declaration.type == "declaration"
        return declaration.start_byte if local else 0

    def _class_around(self, node: Node) -> str:
        """Return the class whose declaration, or whose method, this is in."""
        for one in above(node):
            if one.type in ("struct_specifier", "class_specifier"):
                name = field(one, "name") or one.parent and (
                    field(one.parent, "declarator"))  # typedef struct { ... } name;
                return self.source.text_of(name) if name else ""
            if one.type == "function_definition":
                declarator = field(one, "declarator")
                text = self.source.text_of(declarator) if declarator else ""
                if found := re.match(r"[&*\s]*(?:\w+::)*(\w+)::~?\w+\s*\(", text):
                    return found[1]
        return ""

    def _declare_function(self, node: Node, declarator: Node | None) -> None:
        type = field(node, "type")
        pointer = reference = False
        while declarator is not None and declarator.type != "function_declarator":
            pointer = pointer or declarator.type == "pointer_declarator"
            reference = reference or declarator.type == "reference_declarator"
            declarator = next((c for c in declarator.named_children
                               if c.type.endswith("declarator")), None)
        if type is None or declarator is None:
            return
        name = field(declarator, "declarator")
        if name is not None:
            kind = OTHER if pointer else self.read_type(type)
            last = join_name(self.source, name).rpartition("::")[2]
            known = self.functions.get(last, kind)
            self.functions[last] = kind if known == kind else UNKNOWN
            self.returns[last] = self.source.text_of(type) + "&" * reference

    def _declare_loop(self, node: Node) -> None:
        type, right = field(node, "type"), field(node, "right")
        declarator = field(node, "declarator")
        if type is None or right is None or declarator is None:
            return
        kind = self.read_type(type)
        if kind is UNKNOWN:
            kind = {TENSORS: TENSOR, NESTED: TENSORS}.get(self.kind_of(right) or "")
        names = [c for c in walk(declarator) if c.type == "identifier"]
        scope = self.scopes.setdefault(node.id, {})
        is_const = "const" in self.source.text_of(node).split(":")[0] or \
            self._variable_of(right).is_const
        for name in names:  # of a pair each is unknown
            scope[self.source.text_of(name)] = Variable(
                kind if len(names) == 1 else UNKNOWN, None, is_const)

    def may_change(self, name: Node, begin: Node, end: Node) -> bool:
        """Return whether a variable may get another value between two places of its
        function, or is a member, which any method may change."""
        loop = next((one for one in above(end) if one.type in _LOOPS and not
                     one.start_byte <= begin.start_byte <= one.end_byte), None)
        last = (loop or end).end_byte
        changes = self.assigned.get(
            (_function_around(name), self.source.text_of(name)), [])
        return not self.find(name).is_const and (self._is_field(name) or any(
            begin.end_byte <= at < last for at in changes))

    def _is_field(self, name: Node) -> bool:
        text = self.source.text_of(name)
        around = self._class_around(name)
        return bool(around) and self._find_field(around, text) != Variable() and \
            not any(text in self.scopes.get(one.id, {}) for one in above(name)
                    if one.type not in ("class_specifier", "struct_specifier",
                                        "field_declaration_list"))

    def find(self, name: Node) -> Variable:
        text = self.source.text_of(name)
        around = self._class_around(name)
        member = self._find_field(around, text) if around else Variable()
        for one in above(name):
            scope = self.scopes.get(one.id, {})
            if one.type == "translation_unit" and member != Variable():
                break  # what a base has comes before what is global
            if text in scope and scope[text].begin <= name.start_byte:
                return scope[text]
        return member

    def _find_field(self, of_class: str, name: str) -> Variable:
        """Return a field of a class. It may be of any, if the class is unknown, or if a
        base has the field."""
        if of_class not in self.classes:
            of_class = self.other_names.get(of_class, of_class)
        known = self.classes.get(of_class, {}).get(name)
        if known is None and (not of_class or of_class in self.derived):
            known = self.fields.get(name)
        return known or Variable()

    def _find_member(self, node: Node) -> Variable:
        name, owner = field(node, "field"), field(node, "argument")
        if name is None or owner is None:
            return Variable()
        around = self._class_around(node) if owner.type == "this" else \
            self._variable_of(owner).of_class
        return self._find_field(around, self.source.text_of(name))

    def _variable_of(self, node: Node) -> Variable:
        return self.find(node) if node.type == "identifier" else \
            self._find_member(node) if node.type == "field_expression" else Variable()

    def class_of(self, node: Node | None) -> str:
        return self._variable_of(node).of_class if node is not None else ""

    def is_unknown_type(self, name: str) -> bool:
        """Return whether nothing that was read says what the name of a type means."""
        return name not in {*self.aliases, *self.classes, *self.declared,
                            *self.source.used}

    def is_unread(self, node: Node | None) -> bool:
        """Return whether this is a variable of a class that no source here declares,
        and that is none of the standard library's."""
        if node is None or node.type != "identifier" or self.find(node).kind != OTHER:
            return False
        name = self.find(node).of_class
        return name not in {"", *self.classes, *self.declared, *self.other_names,
                            *_KNOWN_CLASSES}

    def is_mutable(self, node: Node) -> bool:
        """Return whether this is a variable that is not const, or the value of an
        optional that is not."""
        if node.type == "call_expression":
            function = field(node, "function")
            if function is None or function.type != "field_expression" or \
                    not self.source.text_of(function).endswith(".value"):
                return False
            inner = field(function, "argument")
            return inner is not None and self.is_mutable(inner)
        return node.type == "identifier" and self.find(node).kind is not UNKNOWN and \
            not self.find(node).is_const and not self._is_const_here(node)

    def _is_const_here(self, name: Node) -> bool:
        """Return whether a variable is a copy in a lambda that is not mutable, or a
        member in a method that is const."""
        text = self.source.text_of(name)
        word = rf"{re.escape(text)}\s*"
        for one in above(name):
            declarator, captures = field(one, "declarator"), field(one, "captures")
            head = self.source.text_of(declarator) if declarator else ""
            if one.type == "lambda_expression":
                given = self.source.text_of(captures) if captures else ""
                is_copy = re.match(rf"(?!.*&\s*{word}\b).*[\[,]\s*({word}[,=\]]|=)",
                                   given, re.S)
                if text in self.scopes.get(one.id, {}) and \
                        not re.search(rf"[\[,]\s*{word}=", given):
                    return False  # a parameter
                if is_copy and not re.search(r"\)\s*mutable\b", head):
                    return True
            elif one.type == "function_definition" and self._is_field(name):
                return bool(re.search(r"\)\s*const\b", head))
            elif text in self.scopes.get(one.id, {}):
                return False
        return False

    def kind_of(self, node: Node | None) -> Kind:
        if node is None:
            return UNKNOWN
        method = getattr(self, f"_kind_of_{node.type}", None)
        if method:
            return method(node)
        return OTHER if node.type.endswith("literal") or \
            node.type in ("true", "false", "lambda_expression", "sizeof_expression",
                          "nullptr", "null") else UNKNOWN

    def _kind_of_identifier(self, node: Node) -> Kind:
        return self.find(node).kind

    def _kind_of_parenthesized_expression(self, node: Node) -> Kind:
        return self.kind_of(node.named_children[0]) if node.named_children else UNKNOWN

    def _kind_of_conditional_expression(self, node: Node) -> Kind:
        one = self.kind_of(field(node, "consequence"))
        return one if one == self.kind_of(field(node, "alternative")) else UNKNOWN

    def _kind_of_assignment_expression(self, node: Node) -> Kind:
        return self.kind_of(field(node, "left"))

    def _kind_of_binary_expression(self, node: Node) -> Kind:
        kinds = {self.kind_of(field(node, "left")), self.kind_of(field(node, "right"))}
        if TENSOR in kinds:
            return TENSOR
        return OTHER if kinds == {OTHER} else UNKNOWN

    def _kind_of_unary_expression(self, node: Node) -> Kind:
        return self.kind_of(field(node, "argument"))

    def _kind_of_compound_literal_expression(self, node: Node) -> Kind:
        return self._kind_of_cast_expression(node)

    def _kind_of_cast_expression(self, node: Node) -> Kind:
        return self.read_type(field(node, "type"))

    def _kind_of_pointer_expression(self, node: Node) -> Kind:
        kind = self.kind_of(field(node, "argument"))
        return TENSOR if kind == OPTIONAL else OTHER if kind == OTHER else UNKNOWN

    def _kind_of_subscript_expression(self, node: Node) -> Kind:
        kind = self.kind_of(field(node, "argument"))
        return TENSOR if kind in (TENSOR, TENSORS) else \
            TENSORS if kind == NESTED else OTHER if kind == OTHER else UNKNOWN

    def _kind_of_field_expression(self, node: Node) -> Kind:
        return self._find_member(node).kind

    def _kind_of_call_expression(self, node: Node) -> Kind:
        function, arguments = field(node, "function"), field(node, "arguments")
        if function is None or arguments is None:
            return UNKNOWN
        if function.type == "field_expression":
            return self._kind_of_method(function, arguments.named_children)
        name = join_name(self.source, function)
        first = arguments.named_children[0] if arguments.named_children else None
        if name in ("std::move", "std::forward"):
            return self.kind_of(first)
        if name == "std::get":
            return TENSOR if self.kind_of(first) in (TUPLE, TENSORS) else UNKNOWN
        if name.endswith(("::getCurrentCUDAStream", "::getStreamFromPool")):
            return STREAM
        if name.startswith("std::") or name in ("static_cast", "reinterpret_cast"):
            return UNKNOWN if "Tensor" in self.source.text_of(function) else OTHER
        if (made := self.read_type(function)) not in (OTHER, UNKNOWN):
            return made
        space, _, last = name.rpartition("::")
        if space == "torch::stable" and schemas_of(last):  # as `port` has written it
            return result_of(last, *self.describe_arguments(arguments.named_children))
        if space in ("at", "torch", "c10", "at::native"):
            if last in ("from_blob", "tensor"):
                return TENSOR
            return result_of(last, *self.describe_arguments(arguments.named_children))
        return self.functions.get(last, UNKNOWN)

    def describe_arguments(self, arguments: list[Node]) -> tuple[int, Kind]:
        """Return how many there are, and the kind of the second."""
        arguments = [one for one in arguments if one.type != "comment"]
        if len(arguments) < 2:
            return len(arguments), UNKNOWN
        second = {"initializer_list": LISTED, "number_literal": NUMBER}.get(
            arguments[1].type)
        return len(arguments), second or self.kind_of(arguments[1])

    def _kind_of_method(self, function: Node, arguments: list[Node]) -> Kind:
        receiver, name = field(function, "argument"), field(function, "field")
        kind = self.kind_of(receiver)
        method = join_name(self.source, name) if name else ""
        arrow = any(c.type == "->" for c in function.children)
        if kind == OPTIONAL and arrow:
            kind = TENSOR
        if kind == TENSOR:
            if method == "options":
                return OPTIONS
            if not schemas_of(method):
                return OTHER
            return result_of(method, *self.describe_arguments(
                [*filter(None, [receiver]), *arguments]))
        if kind == OPTIONS:
            return OPTIONS
        return _OF_HOLDERS.get((kind or "", method),
                               OTHER if kind == OTHER else UNKNOWN)
