"""Names what a rewriting cannot do, and what then differs or is slower: what is said of
each line."""

import re
from dataclasses import dataclass
from functools import cache

from tree_sitter import Node

from torch_stable_abi.libtorch.aten import is_callable, schemas_of
from torch_stable_abi.migration import OPS
from torch_stable_abi.port import types
from torch_stable_abi.port.patterns import Match, Pattern, normalize
from torch_stable_abi.port.syntax import Source, above, field, join_name, walk
from torch_stable_abi.port.table import headers_of_names, read_table, stable_methods
from torch_stable_abi.port.types import Types
from torch_stable_abi.schemas import calling
from torch_stable_abi.schemas.schema import find_fault, read, types_that_cannot_cross

DONE, DIFFERS, SLOWER, YOURS, NONE, UNKNOWN = (
    "done", "differs", "slower", "yours", "no counterpart", "unknown")
MACRO = re.compile(r"(TORCH|AT|C10|PYBIND11|THP|CUDA_KERNEL|RECORD)_[A-Z0-9_]+")
# Methods of a tensor that other types have too: of an unknown type they say nothing.
_COMMON = set("""
size data max min at get set reset clone to begin end clear contains view copy_
fill swap find index type name item div mul add sub sin cos all any sort t
select record_stream alias split equal round count""".split())
# Methods of the lists that an ArrayRef becomes.
_OF_ARRAYS = set("""
begin end cbegin cend rbegin rend empty data size front back slice vec at""".split())
_ARRAY = re.compile(r"(Sym)?(Int)?ArrayRef")
_OF_VECTORS = set("""
assign at back begin capacity cbegin cend clear crbegin crend data emplace emplace_back
empty end erase front insert max_size pop_back push_back rbegin rend reserve resize
shrink_to_fit size swap""".split())
# A macro or a function of the old headers' that has no prefix of theirs.
_BARE_MACRO = re.compile(
    r"(LOG|VLOG|D?CHECK|DLOG)(_(IF|EQ|NE|LT|LE|GT|GE|NOTNULL|EVERY_N|FIRST_N|EVERY_MS))?|"
    r"TH(Assert\w*|Error|ArgCheck|C_\w+|C(uda)?[A-Z][a-z]\w*)|CAFFE_\w+|"
    r"CUDA_KERNEL_LOOP\w*|GET_BLOCKS|WARP_(SHFL(_DOWN|_UP|_XOR)?|BALLOT|SYNC)|"
    r"(END_)?HANDLE_TH_ERRORS\w*|(DECLARE|DEFINE|REGISTER(_[A-Z0-9]+)?)_DISPATCH")
# Functions of C and CUDA for numbers, which are ops too.
_OF_NUMBERS = set("""
min max abs exp exp2 log log2 log10 sqrt rsqrt pow sin cos tan tanh floor ceil round
trunc erf fmod ldexp isnan isinf""".split())
# Functions of c10, which C++ finds by their arguments.
_OF_C10 = set("""
DeviceTypeName typeMetaToScalarType scalarTypeToTypeMeta promoteTypes canCast
toRealValueType toComplexType""".split())
_OF_COMPLEX = [f"std::{name}" for name in (
    "conj", "arg", "norm", "proj", "polar", "real", "imag")]
# Methods of a tensor or a stream that are no ops, and that other classes hardly have.
_OF_TENSORS = set("""
stream options itemsize nbytes toType unsafeGetTensorImpl is_quantized is_sparse key_set
requires_grad packed_accessor""".split())
_OF_GUARDS = ("set_device", "reset_device", "original_device", "current_device")
# Methods of a tensor whose results a check prints in ATen, and none prints here.
_NOT_PRINTED = {
    "device": "a stable Device does not print: its index() does",
    "dtype": "print its scalar_type()",
    "layout": "a Layout does not print: static_cast<int>(x.layout()) does"}


@dataclass(frozen=True)
class Finding:
    line: int
    kind: str
    code: str  # the construct, in one line
    row: dict | None = None
    advice: str = ""


class Namer:
    """Looks at the nodes of one source, and keeps in `findings` what is to be said."""

    def __init__(self, source: Source, known: Types, findings: list[Finding]) -> None:
        self.source = source
        self.known = known
        self.table = read_table()
        self.findings = findings
        self.methods: set[str] = set()  # of a stable tensor, which the code calls

    def _raw(self, begin: int, end: int) -> str:
        return self.source.text[begin:end].decode(errors="surrogateescape")

    def _leave(self, node: Node, row: dict) -> None:
        self._name(node, YOURS if "stable" in row else NONE, "", row)

    def _name(self, node: Node, kind: str, advice: str,
              row: dict | None = None) -> None:
        code = " ".join(self.source.text_of(node).split())
        code = code if len(code) <= 60 else code[:57] + "..."
        self.findings.append(
            Finding(self.source.line_of(node), kind, code, row, advice))

    def _tell_done(self, node: Node, pattern: Pattern) -> None:
        self._name(node, DONE, "", pattern.row)
        if pattern.differs:
            self._name(node, DIFFERS, pattern.differs, pattern.row)

    def _look_at_name(self, node: Node, name: str) -> None:
        """Name what is of the old API and has no row."""
        short = normalize(name)
        call = node.parent if node.parent is not None and \
            node.parent.type == "call_expression" else None
        if self.source.opens_space and schemas_of(name) and \
                name not in self.known.functions and call is not None and not (
                    name in _OF_NUMBERS and not self._is_of_tensors(call)):
            short = f"at::{name}"
        if self._is_found_by_argument(name, call):
            found = self.table.find_name(f"at::{name}")
            self._name(call or node, YOURS, describe_op(
                name, *self.known.describe_arguments(_arguments_of(call))) or
                f"found by its argument: at::{name}", found.row if found else None)
        elif short.startswith("at::"):
            if {name, name.rpartition("::")[0]} & headers_of_names().keys():
                return  # such as c10::irange, or a value of at::Tag
            op = short.rpartition("::")[2]
            call = next((one for one in above(node) if one.type == "call_expression"),
                        None)
            base = op.removesuffix("_out")
            self._name(node, YOURS, describe_op(
                op, *self.known.describe_arguments(_arguments_of(call))) or (
                f"aten::{base}.out by name: `schemas --print aten::{base}.out` shows "
                "the call" if base != op and schemas_of(base) else
                "no row of the table knows it"))
        elif MACRO.fullmatch(name) and name not in headers_of_names() and \
                name not in self.known.macros and name != "TORCH_EXTENSION_NAME" and \
                not self._is_said(node, name):
            self._name(node, YOURS, "no row of the table knows this macro")
        elif name.startswith("c10d::"):
            self._name(node, YOURS, "C++ of libtorch that no stable header has; an op, "
                       "as _c10d_functional::wait_tensor, is called by name")
        elif re.match(r"(py|pybind11)::(?!module_?$)", name) and \
                _is_beside_tensors(self.source, node):
            self._name(node, YOURS, "", self.table.rows["pybind11"])
        elif name == "Tensor" and node.type == "type_identifier" and \
                node.parent is not None and node.parent.type != "template_type" and \
                not self.known.bare and self.known.is_unknown_type(name) and \
                not re.search(rb"\b(cute|cutlass)\b", self.source.text):
            self._name(node, UNKNOWN, "is it at::Tensor? No header that was found says "
                       "so: name the folder of the one that does as well")
        elif name == "atomicAdd" and self.known.brings_atomics:
            self._name(node, YOURS, "of a Half or a BFloat16 it was PyTorch's",
                       self.table.rows["atomics"])
        elif name in _OF_COMPLEX and re.search(
                rb"(?i)(?<!std::)complex", self.source.text):
            self._name(node, UNKNOWN, f"is it of a c10::complex? The header-only one "
                       f"has no {name}: compute it from real() and imag()")
        elif _BARE_MACRO.fullmatch(name) and name not in self.known.macros and \
                name not in self.known.functions and not self._is_said(node, name):
            self._name(node, YOURS, "it came with a header of PyTorch's that is gone: "
                       "write your own")

    def _is_of_tensors(self, call: Node) -> bool:
        """Return whether an argument of a call is a tensor, or a variable that may be
        one."""
        return any(self.known.kind_of(one) == types.TENSOR or
                   one.type == "identifier" and self.known.kind_of(one) is types.UNKNOWN
                   for one in _arguments_of(call))

    def _is_found_by_argument(self, name: str, call: Node | None) -> bool:
        """Return whether a bare function is PyTorch's, since C++ looks for it where the
        type of an argument is from."""
        if "::" in name or self.source.opens_space or call is None or \
                name in self.known.functions or name in self.known.macros:
            return False
        found = self.table.find_name(f"at::{name}")
        if name not in _OF_C10 and not schemas_of(name) and (
                found is None or (found.rewrite or "").endswith(f"::{name}")):
            return False  # none, or the new one is found as well
        return any(self.known.kind_of(one) == types.TENSOR or re.search(
            r"\.(scalar_type|dtype|device|options|type)\(\)$", self.source.text_of(one))
            for one in _arguments_of(call))

    def _is_said(self, node: Node, name: str) -> bool:
        """Return whether a row has named the call that begins with this name."""
        line = self.source.line_of(node)
        return any(one.row and one.line == line and one.code.startswith(f"{name}(")
                   for one in self.findings)

    def _look_at_message(self, match: Match) -> None:
        for node in [*match.rest.get("r", ()), *filter(None, [match.holes.get("b")])]:
            self._look_at_printed(node)

    def _look_at_printed(self, node: Node) -> None:
        """Name what a check or a stream would print, and cannot any more."""
        function = field(node, "function")
        name = function and field(function, "field")
        method = self.source.text_of(name) if name is not None else ""
        if method in ("sizes", "strides"):
            self._name(node, YOURS, "", self.table.rows["sizes in a message"])
        elif method in _NOT_PRINTED:
            self._name(node, YOURS, _NOT_PRINTED[method])
        elif self.known.kind_of(node) == types.TENSOR:
            self._name(node, YOURS, "a stable tensor does not print")
        elif _ARRAY.fullmatch(self.known.class_of(node)):
            self._name(node, YOURS, "", self.table.rows["sizes in a message"])

    def _look_for_methods(self, node: Node) -> None:
        """Name the methods and operators of tensors that no row has taken."""
        if node.type == "call_expression":
            function = field(node, "function")
            if function is not None and function.type == "field_expression":
                self._look_at_method(node, function)
        elif node.type in ("binary_expression", "subscript_expression",
                           "assignment_expression", "unary_expression"):
            self._look_at_operator(node)

    def _look_at_method(self, node: Node, function: Node) -> None:
        name = field(function, "field")
        method = join_name(self.source, name) if name else ""
        kind = self.known.kind_of(field(function, "argument"))
        if kind == types.OPTIONAL and any(c.type == "->" for c in function.children):
            kind = types.TENSOR
        schemas = schemas_of(method)
        if method == "def":
            self._look_at_schema(node)
        elif method == "impl":
            self._look_at_kernel(node)
        elif method == "attr" and node.parent is not None and \
                node.parent.type == "assignment_expression":
            self._name(node.parent, YOURS, "no op: write it into the Python file")
        elif kind == types.STREAM:
            self._name(node, YOURS, "of a stream nothing is left but the cudaStream_t: "
                       "call CUDA's own functions")
        elif method in _OF_GUARDS and self.known.class_of(
                field(function, "argument")).endswith("Guard"):
            self._name(node, YOURS, "a stable DeviceGuard has set_index() alone")
        elif kind == types.TENSOR and method in stable_methods():
            if method == "element_size" and _is_used_signed(node):
                self.findings.append(Finding(
                    self.source.line_of(node), DIFFERS, self.source.text_of(node),
                    self.table.rows["element size"]))
            self.methods.add(f"torch::stable::Tensor::{method}")
            if _is_in_loop(node):
                self._name(node, SLOWER, "A C function is called each time: ask before "
                           "the loop.", self.table.rows["sizes and strides"])
        elif kind == types.TENSOR:
            receiver, arguments = field(function, "argument"), field(node, "arguments")
            self._name(node, YOURS, describe_op(method, *self.known.describe_arguments(
                [*filter(None, [receiver]),
                 *(arguments.named_children if arguments else [])])) or
                       f"a stable tensor has no {method}()")
        elif kind == types.OPTIONS:
            pass  # with what it is for
        elif lacks := self._find_class_without(method, field(function, "argument"),
                                               kind):
            self._name(node, YOURS, f"a {lacks} has no {method}()")
        elif (kind is types.UNKNOWN or self.known.is_unread(
                field(function, "argument"))) and method not in _COMMON and (
                method in _OF_TENSORS or any("(Tensor" in one for one in schemas)) and \
                method not in stable_methods() and method not in self.known.functions:
            self._name(node, UNKNOWN, "is this a method of a "
                       f"{'CUDAStream' if method == 'stream' else 'tensor'}? The type "
                       "was not found")

    def _find_class_without(self, method: str, receiver: Node | None,
                            kind: types.Kind) -> str:
        """Return the class of a list that was an ArrayRef, if it lacks a method."""
        own = self.known.class_of(receiver)
        if kind == types.TENSORS:
            return "" if own == "List" or method in _OF_VECTORS else "std::vector"
        return "HeaderOnlyArrayRef" if _ARRAY.fullmatch(own) and \
            method not in _OF_ARRAYS else ""

    def _has_schema(self, node: Node) -> bool:
        """Return whether this is m.def of a whole schema and something more. A function
        is named; tags may stay."""
        arguments = field(node, "arguments")
        given = arguments.named_children if arguments else []
        if len(given) != 2 or "->" not in self.source.text_of(given[0]) or \
                not self.source.text_of(node).partition("(")[0].endswith("def"):
            return False
        if given[1].type != "initializer_list":
            self._name(node, YOURS, "def takes no kernel here: m.impl of the name in a "
                       "block for CompositeImplicitAutograd, which def meant, or for "
                       "each device")
        self._look_at_schema(node)
        return True

    def _look_at_schema(self, node: Node) -> None:
        """Name what m.def says of types that have no form in a slot."""
        arguments = field(node, "arguments")
        first = arguments.named_children[0] if arguments and \
            arguments.named_children else None
        if first is None or first.type not in ("string_literal", "concatenated_string"):
            return
        text = "".join(re.findall(r'"([^"]*)"', self.source.text_of(first)))
        stuck = types_that_cannot_cross(text) if not find_fault(text) else []
        if stuck:
            self._name(first, YOURS, f"{stuck[0]} has no form in a slot: a call with "
                       "such a value fails. Pass what it is made of, or keep the op "
                       "unstable")

    def _look_at_kernel(self, node: Node) -> None:
        """Name m.impl of what is no function and no box."""
        arguments = field(node, "arguments")
        given = arguments.named_children if arguments else []
        if len(given) == 2 and given[0].type == "string_literal" and \
                given[1].type in ("lambda_expression", "cast_expression",
                                  "call_expression") and not re.search(
                    r"BOX|Fallthrough|TORCH_FN", self.source.text_of(given[1])):
            self._name(node, YOURS, "TORCH_BOX wants a function by its name: give the "
                       "lambda or the overload one")

    def _look_at_returned(self, node: Node) -> None:
        """Name m.impl of a function that returns what TORCH_BOX does not take."""
        called = re.match(r"\w+(\.|->)impl\s*\([^,]*,\s*(?:\w+\()?&?\s*(?:\w+::)*(\w+)"
                          r"\s*\)", self.source.text_of(node))
        returned = self.known.returns.get(called[2], "") if called else ""
        wanted = returned.rstrip("&").removeprefix("const ") if returned.endswith("&") \
            else returned.replace("pair", "tuple", 1) \
            if re.match(r"std::pair\s*<", returned) else ""
        if wanted:
            self._name(node, YOURS, f"TORCH_BOX takes no function that returns "
                       f"{returned}: return {wanted}")

    def _look_at_key(self, node: Node) -> None:
        """Name a block of kernels for a key that PyTorch's own code is for."""
        text = self._raw(node.start_byte, node.start_byte + 200)
        found = re.match(r"\w+\(\s*\w+\s*,\s*(\w+)", text)
        if found and (key := re.match(r"Autograd|Autocast|ADInplaceOrView", found[1])):
            said = "register_autocast" if key[0] == "Autocast" else "register_autograd"
            self._name(node, YOURS, f"a kernel for {found[1]} cannot do here what it "
                       f"did: torch.library.{said} in Python, and no kernel for this "
                       "key")

    def _look_at_parameter(self, node: Node) -> None:
        """Name an array among the parameters of what may be a kernel: TORCH_BOX reads
        the bytes of the list's handle for it."""
        type = field(node, "type")
        text = self.source.text_of(type) if type else ""
        whole = next((one for one in above(node) if one.type == "function_definition"),
                     None)
        if re.match(r"(::)?std::array\s*<\s*(bool|int64_t|double)\b", text) and \
                whole is not None and "Tensor" in self.source.text_of(whole):
            self._name(node, YOURS, "a bool[2] of a schema is no std::array here: if "
                       "this is a kernel, take a std::vector, and check its size")

    def _look_at_alias(self, node: Node) -> None:
        target = node.named_children[-1]
        name = normalize(self.source.text_of(target) + "::x")
        if name.startswith("at::"):
            self._name(node, YOURS, "what is left of the names behind it is named at "
                       "its line: take this out with the last one")

    def _is_view(self, node: Node) -> bool:
        """Return whether a node is x[i], x[i][j] or x.select(0, i) of a tensor x."""
        if node.type == "call_expression":
            return self.known.kind_of(node) == types.TENSOR
        tensor = field(node, "argument") \
            if node.type == "subscript_expression" else None
        return tensor is not None and (
            self.known.kind_of(tensor) == types.TENSOR or self._is_view(tensor))

    def _look_at_operator(self, node: Node) -> None:
        operands = [field(node, name) for name in ("left", "right", "argument")]
        left, right = operands[:2]
        if any(c.type == "<<" for c in node.children) and right is not None and \
                self.known.kind_of(left) != types.TENSOR:
            self._look_at_printed(right)
            return
        if node.type == "assignment_expression":
            operator, left = field(node, "operator"), operands[0]
            if operator is None:
                return
            if self.source.text_of(operator) == "=":
                if left is not None and self._is_view(left):
                    self._name(node, YOURS, "ATen copies into the tensor on the left. "
                               "Here it does nothing: torch::stable::copy_ of a "
                               "variable that holds the view")
                return
            operands = operands[:1]
        if node.type == "subscript_expression" and \
                self.known.kind_of(operands[2]) == types.TENSOR:
            self._name(node, YOURS, "a row of a tensor: torch::stable::select(x, 0, i)")
        elif any(one is not None and self.known.kind_of(one) == types.TENSOR
                 for one in operands):
            self._name(node, YOURS, "an operator of tensors: call the op by name, or "
                       "write the loop (integers: PyTorch's subtract refuses them)")

    def _look_at_borrowing(self, node: Node) -> None:
        """Name an ArrayRef that is made of a number or a list: both end with the
        declaration, and the array reads memory that is another's."""
        type = field(node, "type")
        if type is None or not re.search(r"ArrayRef(<.*>)?$",
                                         self.source.text_of(type), re.S):
            return
        for one in node.named_children:
            value = field(one, "value") if one.type == "init_declarator" else None
            if value is not None and _ends_with_declaration(value):
                self._name(one, YOURS, "it borrows from what ends with this line: keep "
                           "the numbers in a std::vector or an array")

    def _look_at_condition(self, node: Node) -> None:
        condition = field(node, "condition")
        if condition and "TORCH_VERSION_M" in self.source.text_of(condition):
            self._name(condition, YOURS, "code for several versions: one branch is "
                       "enough now")


def _is_used_signed(node: Node) -> bool:
    """Return whether a number stands in a difference or a comparison, or gives `auto`
    its type."""
    parent = node.parent
    operator = field(parent, "operator") if parent is not None and \
        parent.type == "binary_expression" else None
    return operator is not None and operator.type in ("-", "<", ">", "<=", ">=") or \
        parent is not None and parent.type == "init_declarator" and \
        parent.parent is not None and \
        re.match(rb"(const\s+)?auto\b", parent.parent.text or b"") is not None


def _arguments_of(call: Node | None) -> list[Node]:
    arguments = field(call, "arguments") if call is not None else None
    return arguments.named_children if arguments is not None else []


def _is_beside_tensors(source: Source, node: Node) -> bool:
    """Return whether a node is in a function that speaks of tensors, and that is no
    PYBIND11_MODULE."""
    whole = [source.text_of(one) for one in above(node)
             if one.type == "function_definition"]
    return bool(whole) and not whole[-1].startswith("PYBIND11_MODULE") and \
        bool(re.search(r"\b(at|torch)::\w|\bTensor\b", whole[-1]))


def _is_in_loop(node: Node) -> bool:
    """Tell whether the node is evaluated once for each round of a loop."""
    while node.parent is not None and node.parent.type not in (
            "function_definition", "lambda_expression"):
        once = {"for_statement": "initializer", "for_range_loop": "right",
                "while_statement": "", "do_statement": ""}.get(node.parent.type)
        if once is not None and node != field(node.parent, once or "none"):
            return True
        node = node.parent
    return False


@cache
def _rows_of_ops() -> dict[str, dict]:
    """Return {"exp": the row of x.exp()} of the table of ops."""
    found: dict[str, dict] = {}
    for row in OPS:
        name = re.search(r"(?:at::|\w\.)(\w+)\(", row["unstable"])
        if name:
            found.setdefault(name[1], row)
    return found


def describe_op(name: str, given: int = 0, second: types.Kind = None) -> str:
    """Return what to write for a call of an op with so many arguments: the table's
    lines, or else the schema and the call by name; "" if there is no such op."""
    row = _rows_of_ops().get(name)
    fitting = types.find_overloads(name, given, second)
    if row and (not fitting or _is_alike(row["unstable"], given, second)):
        return f"{row['unstable']} is, by by_name.h:\n{row['stable'].strip()}"
    said = ""
    for schema in filter(is_callable, (*fitting, *schemas_of(name))):
        op, _, overload = schema[:schema.index("(")].partition(".")
        lines = calling.write(f"aten::{op}", overload, *read(schema))
        said = said or "\n".join([f"aten::{schema}:", *lines])
        if not lines[0].startswith("no call"):
            by = "by slots" if lines[0].startswith("StableIValue") else "by by_name.h"
            return "\n".join([f"aten::{schema}, {by}:", *lines])
    return said


def _is_alike(example: str, given: int, second: types.Kind) -> bool:
    """Return whether a row's example, such as x.max(-1), has so many arguments, x among
    them, of which the second is of such a kind."""
    source = Source(f"void f() {{ {example}; }}".encode())
    call = next(n for n in walk(source.root) if n.type == "call_expression" and
                source.text_of(n).endswith(")") and "std::get" not in
                source.text_of(field(n, "function") or n))
    function, arguments = field(call, "function"), field(call, "arguments")
    words = [source.text_of(n) for n in arguments.named_children] if arguments else []
    if function is not None and function.type == "field_expression":
        words.insert(0, source.text_of(field(function, "argument") or function))
    is_tensor = len(words) > 1 and bool(re.fullmatch(r"[a-z]\w*", words[1])) and \
        words[1] not in ("n", "true", "false")
    return not given or len(words) == given and (
        second in (types.UNKNOWN, types.OPTIONAL) or len(words) < 2 or
        is_tensor == (second == types.TENSOR))


def _ends_with_declaration(value: Node) -> bool:
    """Return whether an initializer is one or more numbers, or a vector made there."""
    if value.type == "argument_list":  # T x(1); but T x(pointer, size) borrows well
        given = value.named_children
        return len(given) == 1 and _ends_with_declaration(given[0])
    if value.type == "initializer_list":  # not T x{sizes}
        given = value.named_children
        return len(given) != 1 or given[0].type not in (
            "identifier", "field_expression") and (
            given[0].type != "call_expression" or _ends_with_declaration(given[0]))
    if value.type == "call_expression":
        function = field(value, "function")
        return function is not None and (function.text or b"").endswith(b".vec")
    return value.type in ("number_literal", "binary_expression", "unary_expression",
                          "compound_literal_expression")
