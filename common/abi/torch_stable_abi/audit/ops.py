"""The ops that a library calls by name, and those that it defines."""

import re

from torch_stable_abi.audit.elf import Library
from torch_stable_abi.audit.findings import FAIL, NOTE, OK, WARN, Report, count, names
from torch_stable_abi.audit.subject import Subject
from torch_stable_abi.libtorch import surface
from torch_stable_abi.libtorch.versions import numbers
from torch_stable_abi.schemas import schema

OP = re.compile(r"aten::(\w+)(?:\.(\w+))?")
# A schema, alone in a string; and a string that is meant to be one.
SCHEMA = re.compile(r"(?:\w+::)?(\w+(?:\.\w+)?)\(([^()]|\([^()]*\))*\) *->.*", re.S)
# The macros of library.h name a function by the namespace and the dispatch key that
# they got; behind a fragment and a kernel stands a number.
MACRO = re.compile(
    r"STABLE_TORCH_LIBRARY_(?:(FRAGMENT|IMPL)_)?(?:static_)?init_(\w+)")
MACROS_NAME = re.compile(r"(\d+)(STABLE_TORCH_LIBRARY_\w+)")
KEY = re.compile(r"(\w+?)_([A-Za-z0-9]+)_\d+$")
# Keys for which the dispatcher of no build of PyTorch looks.
NEVER = {"HIP": "builds for ROCm look for CUDA"}


def check_calls(library: Library, report: Report) -> None:
    if "call_op_declared" in library.exports:
        report.add("calls-are-declared", NOTE, "lists its calls by name: schemas "
                   f"{library.name} compares each with every libtorch")
    ops = sorted({m[1] for m in map(OP.fullmatch, library.strings) if m})
    if not ops or report.floor is None:
        return
    floor = report.floor
    since = [v for v in surface.versions() if numbers(v) >= numbers(floor)]
    missing, changed = [], []
    for op in ops:
        without = [v for v in surface.lacking(op) if v in since]
        if without == since:
            missing.append(f"aten::{op} is in no libtorch since {floor}")
        elif without:
            missing.append(f"aten::{op} is not in {names(without, 9)}")
        for name in surface.overloads(op):
            overload = name.partition(".")[2]
            if overload and overload not in library.strings:
                continue
            changed += [f"aten::{name} is in {v} {text or 'gone'}"
                        for v, text in surface.changes(name).items()
                        if v in since[1:]]
    span = f"libtorch {since[0]} to {since[-1]}" if len(since) > 1 else since[0]
    if missing:
        report.add("op-is-missing", WARN, f"{count(ops, 'aten op')} by name, of which "
                   f"{len(missing)} not on every {span}: {missing[0]}", missing)
    else:
        report.add("calls-by-name", OK,
                   f"{count(ops, 'aten op')} by name, each in {span}", ops)
    if changed:
        report.add("schema-changed", WARN, "a schema changed, and a call passes as "
                   f"many slots as it was built with: {changed[0]}", changed)


def check_registrations(library: Library, subject: Subject, report: Report) -> None:
    spaces, kernels, macros = _read_macros(library)
    schemas = {m[1]: text for text in library.strings
               if ")" in text and "->" in text and (m := SCHEMA.fullmatch(text))}
    if schemas and not spaces and not macros:  # what its Python files name
        spaces = {n for n in subject.namespaces if n in library.strings}
    _tell_definitions(library, schemas, spaces, kernels, macros, report)
    _check_keys(kernels, report)
    texts = [text for _, text in sorted(schemas.items())]
    if report.floor:  # else it may be a part of one, or for a parser of other rules
        _check_schemas(texts, report)
    refused = [text for text in texts if schema.is_refused_by_compile(text)]
    if refused:
        report.add("refused-by-compile", WARN, "torch.compile refuses an op that "
                   "returns an argument, or that writes to one and returns anything "
                   f"but new tensors: {refused[0]}", refused)
    implemented = {namespace for namespace, _ in kernels}
    if "TORCH_EXTENSION_NAME" in spaces:
        report.add("namespace-is-a-macro", WARN, "the namespace is the name of a macro:"
                   " headers before 2.13 do not expand it in STABLE_TORCH_LIBRARY")
    elif spaces and implemented and not macros and not spaces & implemented:
        report.add("kernels-for-other-ops", WARN, "no op here has a kernel here: the "
                   f"kernels are for the ops of {names(sorted(implemented))}")
    if subject.id and spaces - {subject.id}:
        report.add("namespace-of-the-hub", FAIL, "the Hub wants the namespace "
                   f"{subject.id}, as metadata.json has it, so that two versions can "
                   "be loaded")


def _read_macros(library: Library) -> tuple[set[str], set[tuple[str, str]], set[str]]:
    """Return the namespaces that the library defines ops in, the namespaces and keys
    that it has kernels for, and the macros that stand for a namespace. The name in a
    symbol is what the author wrote; it is a namespace if it is a string of the library
    too."""
    defined, kernels = set(), set()
    for symbol in {*library.inner, *library.exports}:
        found = MACROS_NAME.search(symbol)
        macro = MACRO.fullmatch(found[2][:int(found[1])]) if found else None
        if macro and macro[1] == "IMPL":
            if key := KEY.fullmatch(macro[2]):
                kernels.add((key[1], key[2]))
        elif macro:
            defined.add(re.sub(r"_\d+$", "", macro[2]) if macro[1] else macro[2])
    there = library.strings
    return (defined & there, {pair for pair in kernels if pair[0] in there},
            {*defined, *(namespace for namespace, _ in kernels)} - there)


def _tell_definitions(library: Library, schemas: dict[str, str], spaces: set[str],
                      kernels: set[tuple[str, str]], macros: set[str],
                      report: Report) -> None:
    texts = names(f"torch.ops.{n}" for n in sorted(spaces))
    if schemas:
        where = f" in {texts}" if spaces else \
            f" in the namespace that {names(sorted(macros))} stands for" if macros \
            else "; the file is stripped, so their namespace does not show" \
            if library.stripped else "; their namespace does not show"
        report.add("defines", OK, count(schemas, "op") + where,
                   sorted(schemas.values()))
    elif spaces:
        report.add("defines", NOTE, f"ops in {texts}, whose schemas do not show: they "
                   "are made when it is loaded")
    elif kernels:
        report.add("defines", NOTE, "kernels alone, for the ops of " + names(
            f"torch.ops.{n}" for n in sorted({n for n, _ in kernels})))


def _check_keys(kernels: set[tuple[str, str]], report: Report) -> None:
    for namespace, key in sorted(kernels):
        if key in NEVER:
            report.add("dispatch-key", WARN, f"kernels of {namespace} for the key "
                       f"{key} are never called: {NEVER[key]}")
        elif key not in surface.dispatch_keys():
            near = [k for k in surface.dispatch_keys() if k.lower() == key.lower()]
            report.add("dispatch-key", FAIL, f"no libtorch has the dispatch key {key}, "
                       f"which kernels of {namespace} are for: the process ends when "
                       "it is loaded" + (f". Is {near[0]} meant?" if near else ""))


def _check_schemas(texts: list[str], report: Report) -> None:
    faults = {text: fault for text in texts if (fault := schema.find_fault(text))}
    for text, fault in faults.items():
        report.add("schema-is-malformed", FAIL, f"libtorch cannot read {text}: {fault}")
    whole = [text for text in texts if text not in faults]
    stuck = [f"{type} in {text}" for text in whole
             for type in sorted(set(schema.types_that_cannot_cross(text)))]
    if stuck:
        report.add("type-cannot-cross", WARN, "a type has no form in a slot, so that a "
                   f"call with a value of it fails: {stuck[0]}", stuck)
