"""Writes the call by name that a schema wants: C++ for by_name.h or call_op.h, and
where these have no type for an argument, slots that are filled by hand."""

import re
import textwrap

from torch_stable_abi.schemas.schema import Argument, name_of, read

CPP = {"Tensor": "Tensor", "int": "int64_t", "float": "double", "bool": "bool",
       "str": "std::string", "ScalarType": "ScalarType", "Layout": "Layout",
       "MemoryFormat": "MemoryFormat", "Device": "Device"}
VALUES = {"False": "false", "True": "true", "None": "std::nullopt",
          "inf": "INFINITY", "-inf": "-INFINITY", "nan": "NAN"}
ENUMS = ("ScalarType", "Layout", "MemoryFormat")  # whose defaults are numbers
KEYWORDS = {"and", "or", "xor", "not", "new", "delete", "default", "char", "bool",
            "int", "float", "double", "long", "short", "signed", "unsigned", "union",
            "operator", "result", "call", "slots"}


def describe(schema: str) -> list[str]:
    """Return the slots of a call, each with its default, those of its returns, and the
    C++ to write."""
    arguments, returns = read(schema)
    op, _, overload = name_of(schema).partition(".")
    lines = [f"slots[{max(len(arguments), len(returns))}], all of them given:"]
    lines += [f"  {i}  {one.text}{find_limit(one)}" for i, one in enumerate(arguments)]
    lines += [f"after the call slot {i} has {one.text}" for i, one in
              enumerate(returns)]
    return lines + write(op, overload, arguments, returns)


def find_limit(argument: Argument) -> str:
    if name_type(argument.type):
        return ""
    return "  (of it only None can cross)" if argument.type[-1] == "?" \
        else "  (cannot be passed by name)"


def name_type(type: str) -> str | None:
    """Return "std::optional<int64_t>" of "int?"; None if there is no C++ type for it
    that crosses by name, as for bool[]: std::vector<bool> has no data()."""
    if "bool[]" in type:
        return None
    for ending, template in (("?", "std::optional"), ("[]", "std::vector")):
        if type.endswith(ending):
            inner = name_type(type.removesuffix(ending))
            return inner and f"{template}<{inner}>"
    return CPP.get(type)


def name_value(argument: Argument) -> str:
    """Return the default in C++; without one, the name of a variable. The default 1 of
    an int[2] means 1, 1."""
    text, type = argument.default, argument.type
    if text is None:
        return name_variable(argument.name)
    if text[0] in "\"'":
        return '"' + text[1:-1] + '"'
    if text in VALUES:
        return VALUES[text]
    if text[0] == "[" or "[]" in type:
        length = re.search(r"\[(\d+)\]", argument.text)
        values = text[1:-1] if text[0] == "[" else \
            ", ".join([text] * int(length[1] if length else 1))
        return f"{name_type(type.rstrip('?'))}{{{values}}}"
    return f"{type.rstrip('?')}({text})" if type.startswith(ENUMS) else text


def name_variable(name: str) -> str:
    return f"{name}_" if name in KEYWORDS else name


def write(op: str, overload: str, arguments: list[Argument],
          returns: list[Argument]) -> list[str]:
    """Return the declaration and the call, or why there is none."""
    types = [name_type(one.type) for one in arguments]
    results = [name_type(one.type) for one in returns]
    if not all(results) or any(not type and one.type[-1] != "?"
                             for type, one in zip(types, arguments)):
        return ["no call by name: a type of it cannot cross"]
    if results != results[::-1]:
        return ["no call by name: libtorch confuses returns of several types"]
    if not all(types):
        return write_slots(op, overload, arguments, returns)
    result = results[0] if len(results) == 1 else \
        f"std::tuple<{', '.join(map(str, results))}>" if results else "void"
    name = name_variable("_".join(filter(None, (op.partition("::")[2], overload))))
    name += "_op" if name in {one.name for one in arguments} else ""
    values = ", ".join(map(name_value, arguments))
    return [*wrap(f"inline constexpr OpDecl<{result}({', '.join(map(str, types))})> "
                  f"{name}{{"),
            f'    "{op}", "{overload}"}};',
            *wrap(f"{name_result(arguments, returns)}call<{name}>({values});")]


def name_result(arguments: list[Argument], returns: list[Argument]) -> str:
    """Return "const auto result = ", or "" for an op that returns nothing."""
    if len(returns) < 2:
        return "const auto result = " if returns else ""
    taken = {name_variable(one.name) for one in arguments}
    names = [name_variable(one.name or f"return_{i}") for i, one in enumerate(returns)]
    names = [f"{name}_out" if name in taken else name for name in names]
    return f"const auto [{', '.join(names)}] = "


def write_slots(op: str, overload: str, arguments: list[Argument],
                returns: list[Argument]) -> list[str]:
    """Return the call with slots by hand: None in a slot is 0."""
    slots = []
    for one in arguments:
        type = name_type(one.type)
        slots.append(f"torch::stable::detail::from({type}({name_value(one)})),"
                     if type and one.default != "None" else f"0, // {one.name}=None")
    taken = [f"torch::stable::detail::to<{name_type(one.type)}>(slots[{i}])"
             for i, one in enumerate(returns)]
    take = [f"const auto result = {taken[0]};"] if len(taken) == 1 else \
        [f"const std::tuple result{{{', '.join(taken)}}};"] if taken else []
    return [f"StableIValue slots[{max(len(arguments), len(returns))}] = {{",
            *(f"    {slot}" for slot in slots), "};",
            "TORCH_ERROR_CODE_CHECK(torch_call_dispatcher(",
            f'    "{op}", "{overload}", slots, TORCH_ABI_VERSION));',
            *take]


def wrap(line: str) -> list[str]:
    """Fold code into lines that fit a page. Code that has a string with a space stays
    as it is, since the string would be torn."""
    return [line] if '"' in line else textwrap.wrap(
        line, 80, subsequent_indent="    ", break_long_words=False,
        break_on_hyphens=False)
