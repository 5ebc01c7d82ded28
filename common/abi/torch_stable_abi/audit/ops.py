"""The ops that a library calls by name, and those that it defines."""

import re
from collections import Counter

from torch_stable_abi.audit.elf import Library
from torch_stable_abi.audit.findings import FAIL, NOTE, OK, WARN, Report, count, join
from torch_stable_abi.audit.registrations import NAME, Kernel, Registrations
from torch_stable_abi.audit.subject import Subject
from torch_stable_abi.libtorch import surface
from torch_stable_abi.libtorch.versions import numbers
from torch_stable_abi.schemas import schema

OP = re.compile(r"aten::(\w+)(?:\.(\w+))?")
# Namespaces of which PyTorch has the one TORCH_LIBRARY.
TORCHS = ("aten", "prims", "quantized", "_quantized", "c10d", "_c10d_functional",
          "mkl", "mkldnn", "onednn", "profiler", "sparse")
# Keys that PyTorch itself has kernels of its ops for, and other backends have none.
OWN_KEYS = re.compile(r"(Autograd|Autocast)?(CPU|CUDA)|Autograd|Meta|Composite\w+")
# Keys for which the dispatcher of no build of PyTorch looks.
NEVER = {"HIP": "builds for ROCm look for CUDA"}
# What a C++ type that TORCH_BOX takes is in a schema.
SIMPLE = {"torch::stable::Tensor": "Tensor", "long": "int", "double": "float",
          "bool": "bool", "std::string": "str", "torch::stable::Device": "Device",
          "c10::ScalarType": "ScalarType",
          "torch::headeronly::ScalarType": "ScalarType",
          "float": "no type of a schema"}  # whose float has 64 bits


def check_calls(library: Library, report: Report) -> None:
    if "call_op_declared" in library.exports:
        report.add("calls-are-declared", NOTE, "lists its calls by name: "
                   "the command schemas FILE --torch all compares each with every "
                   "libtorch")
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
            missing.append(f"aten::{op} is not in {join(without, 9)}")
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


def check_registrations(library: Library, found: Registrations, subject: Subject,
                        report: Report) -> None:
    spaces = found.spaces
    if found.ops and not spaces and not found.macros:  # what its Python files name
        spaces = {n for n in subject.namespaces if n in library.strings}
    _tell_definitions(library, found, spaces, report)
    _check_keys(found.targets, report)
    if report.floor:  # else it may be a part of one, or for a parser of other rules
        _check_schemas(found, report)
        _check_twice(found, report)
        _check_kernels(library, found, report)
    right = sorted(op.schema for op in found.ops if not schema.find_fault(op.schema))
    if refused := list(filter(schema.is_refused_by_compile, right)):
        report.add("refused-by-compile", WARN, "torch.compile refuses an op that "
                   "returns an argument, or that writes to one and returns anything "
                   f"but new tensors: {refused[0]}", refused)
    if dropped := list(filter(schema.is_dropped_by_compile, right)):
        report.add("dropped-by-compile", WARN, "torch.compile leaves out each call of "
                   "an op that, by its schema, returns nothing and writes to nothing: "
                   f"{dropped[0]}. Tensor(a!) marks what is written to", dropped)
    if unmarked := [text for text in right if "!" not in text and
                    re.match(r"(\w+::)?\w*[a-z0-9]_[.(]", text)]:
        report.add("in-place-name", WARN, "an op that writes to an argument, by its "
                   f"name, has a schema that does not say so: {unmarked[0]}. Compiled "
                   "code then reads old values. Tensor(a!) marks what is written to",
                   unmarked)
    if "TORCH_EXTENSION_NAME" in spaces:
        report.add("namespace-is-a-macro", WARN, "the namespace is the name of a macro:"
                   " the headers of 2.10 do not expand it in STABLE_TORCH_LIBRARY")
    elif macros := sorted(n for n in spaces if re.fullmatch(r"[A-Z][A-Z0-9_]+", n)):
        report.add("namespace-is-a-macro", NOTE, f"the namespace {macros[0]} is "
                   "written as macros are, which the headers of 2.10 do not expand "
                   "in STABLE_TORCH_LIBRARY")
    if subject.id and spaces - {subject.id}:
        report.add("namespace-of-the-hub", FAIL, "the Hub wants the namespace "
                   f"{subject.id}, as metadata.json has it, so that two versions can "
                   "be loaded")


def _tell_definitions(library: Library, found: Registrations, spaces: set[str],
                      report: Report) -> None:
    texts = join(f"torch.ops.{n}" for n in sorted(spaces))
    if found.ops:
        where = f" in {texts}" if spaces else \
            f" in the namespace that {join(sorted(found.macros))} stands for" \
            if found.macros else "; their namespace does not show" + (
                ", since the file is stripped" if library.stripped else "")
        hidden = "; some are made when it is loaded, and may not show" \
            if found.hidden else ""
        report.add("defines", OK, count(found.ops, "op") + where + hidden,
                   sorted(op.schema for op in found.ops))
    elif spaces:
        report.add("defines", NOTE, f"ops in {texts}, whose schemas do not show: they "
                   "are made when it is loaded")
    elif found.targets:
        report.add("defines", NOTE, "kernels alone, for the ops of " + join(
            f"torch.ops.{n}" for n in sorted({n for n, _ in found.targets})))


def _check_keys(targets: set[tuple[str, str]], report: Report) -> None:
    for namespace, key in sorted(targets):
        if key in NEVER:
            report.add("dispatch-key", WARN, f"kernels of {namespace} for the key "
                       f"{key} are never called: {NEVER[key]}")
        elif key not in surface.dispatch_keys():
            near = [k for k in surface.dispatch_keys() if k.lower() == key.lower()]
            report.add("dispatch-key", FAIL, f"no libtorch has the dispatch key {key}, "
                       f"which kernels of {namespace} are for: the process ends when "
                       "it is loaded" + (f". Is {near[0]} meant?" if near else ""))


def _check_schemas(found: Registrations, report: Report) -> None:
    whole = []
    for op in found.ops:
        fault = schema.find_fault(op.schema)
        other = NAME.match(op.schema.strip())
        if fault:
            report.add("schema-is-malformed", FAIL,
                       f"libtorch cannot read {op.schema}: {fault}")
        elif op.namespace and other and other[1] not in (None, op.namespace):
            report.add("schema-is-malformed", FAIL, f"{op.schema} names the namespace "
                       f"{other[1]}, in the block of {op.namespace}")
        else:
            whole.append(op.schema)
    stuck = [f"{type} in {text}" for text in whole
             for type in sorted(set(schema.types_that_cannot_cross(text)))]
    if stuck:
        report.add("type-cannot-cross", WARN, "a type has no form in a slot, so that a "
                   f"call with a value of it fails: {stuck[0]}", stuck)


def _check_twice(found: Registrations, report: Report) -> None:
    times = Counter((op.namespace, op.name) for op in found.ops if op.namespace
                    and not found.guessed and not schema.find_fault(op.schema))
    for (namespace, name), n in sorted(times.items()):
        if n > 1:
            report.add("defined-twice", FAIL, f"defines {namespace}::{name} {n} times: "
                       "libtorch refuses the second, which ends the process "
                       "where the headers are 2.13 or newer")
    for namespace, n in sorted(found.opened.items()):
        if n > 1:
            report.add("defined-twice", FAIL, f"has STABLE_TORCH_LIBRARY({namespace}) "
                       f"{n} times: a namespace has one, and "
                       "STABLE_TORCH_LIBRARY_FRAGMENT besides")
        if n and namespace in TORCHS:
            report.add("defined-twice", FAIL, f"has STABLE_TORCH_LIBRARY({namespace}), "
                       "which PyTorch has: the process ends when it is loaded. "
                       "STABLE_TORCH_LIBRARY_FRAGMENT adds to it")
    kernels = Counter((k.namespace, k.name, k.key) for k in found.kernels
                      if k.namespace and k.key)
    for (namespace, name, key), n in sorted(kernels.items()):
        if n > 1:
            report.add("defined-twice", WARN, f"has {n} kernels of {namespace}::{name} "
                       f"for {key}: the last one stays")
    own = {(op.namespace, op.name) for op in found.ops}
    for namespace, name, key in sorted(kernels):
        if namespace in TORCHS and OWN_KEYS.fullmatch(key) and \
                (namespace, name) not in own:
            report.add("defined-twice", WARN, f"has a kernel of {namespace}::{name} "
                       f"for {key}, which takes the place of PyTorch's in all of the "
                       "process")


def _check_kernels(library: Library, found: Registrations, report: Report) -> None:
    """Check the kernels of a namespace that is defined here against its ops."""
    implemented = {namespace for namespace, _ in found.targets}
    if found.spaces and implemented and not found.macros and \
            not found.spaces & implemented:
        report.add("kernels-for-other-ops", WARN, "no op here has a kernel here: the "
                   f"kernels are for the ops of {join(sorted(implemented))}")
        return
    for text in found.misnamed:
        report.add("kernels-for-other-ops", FAIL, f"m.impl got {text}, where the name "
                   "of an op is expected: the process ends when it is loaded")
    if found.hidden or found.guessed:
        return
    there = {(op.namespace, op.name): op.schema for op in found.ops}
    for kernel in found.kernels:
        defined = there.get((kernel.namespace, kernel.name))
        if defined and kernel.namespace:
            check_signature(kernel, defined, report)
    for namespace in sorted({op.namespace for op in found.ops} & {
            n for n, times in found.opened.items() if times}):
        without = sorted({k.name for k in found.kernels if k.namespace == namespace
                          and (namespace, k.name) not in there})
        if without:
            report.add("kernels-for-other-ops", WARN, f"has kernels for "
                       f"{join(f'{namespace}::{n}' for n in without)}, and no schema "
                       "of that name")
        own = {name.partition(".")[0] for space, name in there if space == namespace}
        called = sorted(text for text in library.strings
                        if (m := re.fullmatch(rf"{re.escape(namespace)}::(\w+)", text))
                        and m[1] not in own)
        if called and namespace not in TORCHS:
            report.add("calls-no-op", WARN, f"names {join(called)}, and has no schema "
                       "of that name", called)


def _as_schema(cpp: str) -> str:
    """Return "Tensor?" of "std::optional<torch::stable::Tensor> const&", or "" for a
    type that is not judged."""
    cpp = re.sub(r"std::(__cxx11::)?basic_string<.*>", "std::string",
                 re.sub(r"( const)?&*$", "", cpp).strip())
    for outer, mark in (("std::optional<(.*)>", "?"), ("std::vector<([^,]*).*>", "[]")):
        if inner := re.fullmatch(outer, cpp):
            element = _as_schema(inner[1])
            return element and element + mark
    return SIMPLE.get(cpp, "")


def check_signature(kernel: Kernel, text: str, report: Report) -> None:
    """Compare the C++ function that TORCH_BOX was given with the schema of its op."""
    found = kernel.shape
    if found is None or schema.find_fault(text):
        return
    types = schema.parse(text)
    without = schema.types_that_cannot_cross(text)  # another rule names these
    wrong = []
    for what, has, wants in (("argument", found[0], types.arguments),
                             ("return", found[1], types.returns)):
        if len(has) != len(wants) and "..." not in text:
            wrong.append(f"{count(has, what)}, and the schema has {len(wants)}: each "
                         "call fails")
            continue
        wrong += [f"C++'s {one} as {what} {n}, and the schema has {type}" +
                  ", a double" * ("float" in one and "float" in type) +
                  ": it takes the bits of one for the other"
                  for n, (one, type) in enumerate(zip(has, wants))
                  if _as_schema(one) not in ("", type.replace("!", ""))
                  and type.strip("?![]") not in without]
    for fault in wrong:
        name = f"{kernel.namespace}::{kernel.name}"
        report.add("kernel-of-another-shape", FAIL, f"the kernel of {name} for "
                   f"{kernel.key or 'a key'} has {fault}")
