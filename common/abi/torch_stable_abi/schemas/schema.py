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


def parse(text: str) -> Types:
    """Return the types of "(Tensor self, int[1]? dim=None, *, Tensor(a!) out) ->
    Tensor(a!)", with anything before the first parenthesis; types may stand alone."""
    arguments, returns = _halves(text[text.index("("):])
    taken = [a for a in _split(arguments) if a != "*"]
    return Types(tuple(_type(a) for a in taken),
                 tuple(_type(r) for r in _split(returns)),
                 tuple(_name(a) for a in taken))


def name_of(text: str) -> str:
    return text[:text.index("(")]


def is_refused_by_compile(text: str) -> bool:
    """Says whether torch.compile refuses a custom op with this schema that has no
    tag torch.Tag.out or inplace; C++ cannot set these tags.
    docs/results/compiled.json has what each version does."""
    arguments, returns = _halves(text[text.index("("):])
    aliased = re.search(r"\(\w+!?\)", returns)
    writes = "!" in arguments
    return bool(aliased or writes and any(
        _type(r) != "Tensor" for r in _split(returns)))


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
    """At the commas that are in no bracket and in no string."""
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


def _bare(argument):
    """Without default and alias: "Tensor(a! -> *)[] x=[]" is "Tensor[] x"."""
    return re.sub(r"(?<=\w)\([^()]*\)", "", argument.split("=")[0]).strip()


def _type(argument):
    type = re.sub(r"\[\d+\]", "[]", _bare(argument).split(" ")[0])
    for word, meaning in _MEANS.items():
        type = re.sub(rf"\b{word}\b", meaning, type)
    return type


def _name(argument):
    return " ".join(_bare(argument).split(" ")[1:])
