"""The types of a schema, and how they differ from those of a declared call."""

import itertools
import re
from dataclasses import dataclass

# The words of native_functions.yaml for what libtorch itself calls otherwise.
_MEANS = {"SymInt": "int", "DeviceIndex": "int", "Dimname": "str"}


@dataclass(frozen=True)
class Types:
    """The types of arguments and returns, as a slot sees them: no name, no default, no
    alias, no fixed length; a SymInt is an int."""
    arguments: tuple[str, ...]
    returns: tuple[str, ...]
    names: tuple[str, ...] = ()  # of the arguments, for messages


@dataclass(frozen=True)
class Argument:
    """An argument, or a return, with its name and its default as they are written."""
    type: str
    name: str
    default: str | None = None
    text: str = ""  # all of it


def parse(text: str) -> Types:
    """Return the types of "(Tensor self, int[1]? dim=None, *, Tensor(a!) out) ->
    Tensor(a!)", with anything before the first parenthesis; types may stand alone."""
    arguments, returns = _halves(text[text.index("("):])
    taken = [a for a in _split(arguments) if a != "*"]
    return Types(tuple(_type(a) for a in taken),
                 tuple(_type(r) for r in _split(returns)),
                 tuple(_name(a) for a in taken))


def read(text: str) -> tuple[list[Argument], list[Argument]]:
    """Return the arguments of a schema, and its returns."""
    arguments, returns = _halves(text[text.index("("):])
    return ([_argument(part) for part in _split(arguments) if part != "*"],
            [_argument(part) for part in _split(returns)])


def split_at_star(text: str) -> tuple[list[Argument], list[Argument]]:
    """Return the arguments that a call may give by place, and those by name alone."""
    parts = _split(_halves(text[text.index("("):])[0])
    at = parts.index("*") if "*" in parts else len(parts)
    return [_argument(p) for p in parts[:at]], [_argument(p) for p in parts[at + 1:]]


def find_misfit(text: str, by_place: int, keywords: set[str]) -> str:
    """Return why Python cannot call an op with so many arguments by place and these by
    name, or ""."""
    if find_fault(text) or "..." in text:
        return ""
    first, rest = split_at_star(text)
    if by_place > len(first):
        return f"{by_place} arguments by place, and there are {len(first)}: {text}"
    others = [*first[by_place:], *rest]
    if unknown := sorted(keywords - {a.name for a in others}):
        return f"{unknown[0]}=, which it does not have: {text}"
    lacking = [a.name for a in others if a.default is None and a.name not in keywords]
    return f"no {lacking[0]}: {text}" if lacking else ""


def name_of(text: str) -> str:
    return text[:text.index("(")]


def is_refused_by_compile(text: str) -> bool:
    """Return whether torch.compile refuses a custom op with this schema that has no
    tag torch.Tag.out or inplace; C++ cannot set these tags.
    docs/results/compiled.json has what each version does."""
    arguments, returns = _halves(text[text.index("("):])
    aliased = re.search(r"\(\w+!?\)", returns)
    writes = "!" in arguments
    return bool(aliased or writes and any(
        _type(r) != "Tensor" for r in _split(returns)))


def is_dropped_by_compile(text: str) -> bool:
    """Return whether torch.compile leaves out the calls of an op with this schema: by
    it, the op returns nothing and writes to none of its tensors."""
    arguments, returns = _halves(text[text.index("("):])
    return not returns.strip() and "!" not in arguments and "Tensor" in arguments


# The types that torch/csrc/jit/frontend/schema_type_parser.cpp knows by name.
TYPES = {"Tensor", "int", "SymInt", "float", "bool", "str", "ScalarType", "Layout",
         "MemoryFormat", "Device", "Generator", "Scalar", "complex", "Stream",
         "Storage", "SymFloat", "SymBool", "QScheme", "Quantizer", "Dimname",
         "ConstQuantizerPtr", "DeviceIndex", "Capsule", "Any", "AnyClassType",
         "AnyEnumType", "Dict", "Union", "Future", "Await", "RRef", "NoneType", "None"}
# Those that libtorch refuses to put into a slot; docs/02 has the experiments.
WITHOUT_SLOT = {"Scalar", "complex", "Stream", "Storage", "SymFloat", "SymBool",
                "QScheme", "Any", "Dict", "Future", "RRef", "AnyEnumType"}
# A type, of others in parentheses or with an alias; a name; a default.
_ARGUMENT = re.compile(
    r"(?P<type>((Dict|Union|Future|RRef|Await)\(.*\)|[A-Z_a-z][\w.]*))"
    r"(?P<rest>(\s*(\(\s*(\*|\w+(\s*\|\s*\w+)*)\s*!?(\s*->[\s\w*|]+)?\s*\)"
    r"|\[\d*\]|\?|(?<!\))!))*)"
    r"(\s*(?P<name>[A-Za-z_]\w*))?(\s*=\s*(?P<default>.*))?", re.S)
# Words that torch/csrc/jit/frontend/lexer.h keeps: they name nothing.
_KEPT = set("True False None while else elif and or not return pass break continue "
            "assert raise with del as if def in for global is import class".split())
# Words that stand for a number in a default; for a ScalarType there are more.
_CONSTANTS = {"True", "False", "None", "Mean", "long", "float", "strided",
              "contiguous_format"}
_NAME = re.compile(r"([A-Za-z_]\w*::)?[A-Za-z_]\w*(\s*\.\s*[A-Za-z_]\w*)?")
_NUMBER = re.compile(
    r"(- *)?(0x[\da-fA-F]+|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?j?)")


def find_fault(text: str) -> str:
    """Return why libtorch's parser refuses a schema, or "" if it is not known to.
    Tuples are not judged, and no text in which a string holds a quote."""
    text = re.sub(r"'[^'\\]*'|\"[^\"\\]*\"", "''", text)
    if re.search(r"[\"\\]|(?<!')'(?!')", text):
        return ""
    if "(" not in text:
        return "it is a name alone, without arguments"
    name = name_of(text).strip()
    if not _NAME.fullmatch(name) or name.partition(".")[0].strip() in _KEPT:
        return f"{name!r} is no name of an op"
    if re.search(r"\.\s*(default$|__)", name):
        return f"the overload of {name!r} has a name that libtorch keeps"
    try:
        arguments, _ = _halves(text[text.index("("):])
    except (StopIteration, ValueError):
        return "its parentheses do not match"
    end = text.index("(") + len(arguments) + 2
    if not text[end:].lstrip().startswith("->"):
        return "there is no -> behind its arguments"
    return _find_fault_in_arguments(arguments) or _find_fault_in_returns(
        text[end:].lstrip()[2:])


def _find_fault_in_arguments(arguments: str) -> str:
    parts = _split(arguments)
    if re.search(r",\s*(,|$)|^\s*,", arguments):
        return "a comma has no argument behind it"
    with_default = named = ""
    for part in parts:
        named = named or part == "*"
        if part in ("*", "...") or part.startswith("("):
            continue
        found = _ARGUMENT.fullmatch(part)
        if not found or not found["name"] or found["name"] in _KEPT:
            return f"{part!r} is no type and name"
        if not _is_type(found["type"]):
            return f"{found['type']!r} is no type"
        if found["default"] is None and with_default and not named \
                and not found["rest"].strip().endswith("]"):
            return f"{part!r} has no default, and {with_default!r} before it has one"
        if found["default"] is not None:
            with_default = part
            if not _is_default(found["type"], found["rest"].strip().rstrip("!"),
                               found["default"].strip()):
                return f"{part!r} has no default of its type"
    return ""


def _is_default(type: str, rest: str, value: str) -> bool:
    """Return whether the parser takes a value as a default; it takes a number for a
    bool, and a bool for a number."""
    if not rest.endswith("?"):
        if rest.endswith("]"):
            inner = re.fullmatch(r"\[(.*)\]", value, re.S)
            return not re.search(r",\s*$", inner[1]) and all(
                _is_default(type, "", part) for part in _split(inner[1])) \
                if inner else bool(re.search(r"\[\d+\]$", rest)) and \
                value != "None" and _is_default(type, "", value)
        if type == "Tensor":
            return value == "None"
        if type == "Device":
            return value == "''"
    if type in ("int", "bool", "Scalar") and re.fullmatch(r"-? *\d+", value) and \
            not -2**63 <= int(value.replace(" ", "")) < 2**63:
        return False
    return bool(_NUMBER.fullmatch(value) or value == "''" or value in _CONSTANTS or
                type == "ScalarType" and re.fullmatch(r"[a-z]\w*", value))


def _find_fault_in_returns(returns: str) -> str:
    returns = returns.partition("#")[0].strip()  # a comment
    whole = re.fullmatch(r"\((.*)\)", returns, re.S)
    parts = _split(whole[1]) if whole else [returns]
    if whole and re.search(r",\s*$", whole[1]):
        return "a comma has no return behind it"
    for part in parts:
        if part.startswith("("):
            continue
        found = _ARGUMENT.fullmatch(part)
        if part != "..." and not (found and _is_type(found["type"])):
            return f"{part!r} is no type" if part else "there is no type behind its ->"
    return ""


def _is_type(name: str) -> bool:
    return name.partition("(")[0] in TYPES or "." in name


def types_that_cannot_cross(text: str) -> list[str]:
    """Return the types of a schema that have no form in a slot, so that only None or an
    empty list can be passed for them."""
    arguments, returns = _halves(text[text.index("("):])
    return [found["type"] for part in [*_split(arguments), *_split(returns)]
            if (found := re.match(r"(?P<type>\w+)", part))
            and found["type"] in WITHOUT_SLOT]


def differences(declared: Types, schema: Types) -> list[str]:
    """Return what is wrong with the declaration, a line each; [] if it fits."""
    found = _differences("argument", declared.arguments, schema.arguments,
                         schema.names)
    return found + _differences("return", declared.returns, schema.returns, ())


def _differences(what, declared, schema, names):
    found = []
    if len(declared) != len(schema):
        found.append(f"{len(declared)} {what}{'s' * (len(declared) != 1)} "
                     f"declared, the schema has {len(schema)}")
    for i in range(max(len(declared), len(schema))):
        name = f" ({names[i]})" if i < len(names) and names[i] else ""
        if i >= len(declared):
            found.append(f"{what} {i}{name} is missing: {schema[i]}")
        elif i >= len(schema):
            found.append(f"{what} {i} is one too many: {declared[i]}")
        elif declared[i] != schema[i]:
            found.append(f"{what} {i}{name} is {schema[i]}, declared {declared[i]}"
                         + _why(schema[i]))
    return found


def _why(type):
    base = re.sub(r"[?\[\]]", "", type)
    crossing = {"bool", "int", "float", "str", "Tensor", "ScalarType", "Layout",
                "MemoryFormat", "Device"}
    return "" if base in crossing else ": it cannot be passed by name"


def _halves(text):
    """Return "(a, b) -> c" as ("a, b", "c")."""
    depths = itertools.accumulate((c == "(") - (c == ")") for c in text)
    end = next(i for i, depth in enumerate(depths) if depth == 0)
    returns = text[end + 1:].strip().removeprefix("->").strip()
    whole = re.fullmatch(r"\((.*)\)", returns)
    return text[1:end], whole[1] if whole else returns


def _split(text):
    """Split a text at the commas that are in no bracket and in no string."""
    parts, depth, quote, start = [], 0, "", 0
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
        depth += (c in "([") - (c in ")]") if not quote else 0
    return [p.strip() for p in [*parts, text[start:]] if p.strip()]


def _argument(text):
    default = text.partition("=")[2].strip() if "=" in text else None
    return Argument(_type(text), _name(text), default, text)


def _bare(argument):
    """Return an argument without default and alias: of "Tensor(a! -> *)[] x=[]",
    "Tensor[] x"."""
    return re.sub(r"(?<=\w)\([^()]*\)", "", argument.split("=")[0]).strip()


def _type(argument):
    type = re.sub(r"\[\d+\]", "[]", (_bare(argument).split() or [""])[0])
    for word, meaning in _MEANS.items():
        type = re.sub(rf"\b{word}\b", meaning, type)
    return type


def _name(argument):
    return " ".join(_bare(argument).split()[1:])
