"""Checks the ops of all libraries together, and those that Python files use."""

import ast
import contextlib
import re

from torch_stable_abi.audit.findings import FAIL, NOTE, WARN, Report, names
from torch_stable_abi.audit.ops import TORCHS
from torch_stable_abi.audit.registrations import Registrations
from torch_stable_abi.audit.subject import Subject

# Members of torch.ops that are no namespaces.
LOADING = ("load_library", "loaded_libraries", "import_module")
# How Python adds to an op that is defined.
ADDING = r"\bregister_(?:fake|autograd|kernel|vmap)\(\s*[\"'](\w+)::(\w+)"


def check_together(subject: Subject, registered: list[Registrations],
                   report: Report) -> None:
    """Check what the libraries of a subject register, each in its place in
    `registered`, against each other, and against what Python files use."""
    for namespace in sorted({n for found in registered for n in found.opened}):
        opening = [lib for lib, found in zip(subject.libraries, registered)
                   if found.opened[namespace]]
        # Libraries for one Python, torch or GPU each have names that a number tells
        # apart, or lie in folders of their own.
        if len({re.sub(r"\d+", "", lib.file) for lib in opening}) > 1:
            report.add("defined-twice", WARN, f"STABLE_TORCH_LIBRARY({namespace}) is "
                       f"in {names(lib.name for lib in opening)}: one process can load "
                       "one of them")
    known = _find_known(subject, registered)
    for file, text in sorted(subject.python.items()):
        for namespace, name in sorted(set(re.findall(ADDING, text))):
            if namespace in known and name not in known[namespace]:
                report.add("calls-no-op", WARN, f"{file} adds to {namespace}::{name}, "
                           "which no library here defines")
        _check_loads(subject, file, text, report)
        # A large package has thousands of files, which take time to parse.
        if subject.id or any(f"torch.ops.{n}" in text for n in known):
            _check_uses(subject, file, text, known, report)
    _check_kernels(subject, registered, report)


def _find_known(subject: Subject, registered: list[Registrations]
                ) -> dict[str, set[str]]:
    """Return {namespace: the names of its ops} of the namespaces that no Python file
    names in a string, for it may define ops there, and whose ops all show."""
    if not all(found.is_whole for found in registered):
        return {}
    known: dict[str, set[str]] = {}
    for op in (op for found in registered for op in found.ops):
        known.setdefault(op.namespace, set()).add(op.name.partition(".")[0])
    strings = re.compile(r"[\"'](\w+)(?=[\"']|::)")
    for text in subject.python.values():
        for namespace in strings.findall(re.sub(ADDING, "", text)):
            known.pop(namespace, None)
    return known


def _check_uses(subject: Subject, file: str, text: str, known: dict[str, set[str]],
                report: Report) -> None:
    with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        for namespace, name, line in sorted(_find_uses(ast.parse(text))):
            own = known.get(namespace, set()) | {"", "name"}  # a namespace has a name
            if namespace in known and name not in own:
                report.add("calls-no-op", WARN, f"{file}:{line} uses torch.ops."
                           f"{namespace}.{name}, which no library here defines")
            if subject.id and namespace not in {*TORCHS, "prim", "higher_order",
                                                "inductor", subject.id}:
                report.add("namespace-of-the-hub", FAIL, f"{file}:{line} uses torch."
                           f"ops.{namespace}, and metadata.json has the id "
                           f"{subject.id}")


def _check_kernels(subject: Subject, registered: list[Registrations],
                   report: Report) -> None:
    """Look for ops that nothing here has a kernel for."""
    kernels = {(k.namespace, k.name) for found in registered for k in found.kernels}
    ops = {(op.namespace, op.name) for found in registered for op in found.ops
           if found.opened[op.namespace]}
    named = set(re.findall(r"[\"':](\w+)", "\n".join(subject.python.values())))
    without = [f"{namespace}::{name}" for namespace, name in sorted(ops - kernels)
               if name.partition(".")[0] not in named]
    if without and all(found.is_whole for found in registered):
        report.add("op-without-kernel", WARN if subject.python else NOTE,
                   f"nothing here has a kernel for {names(without)}", without)


def _check_loads(subject: Subject, file: str, text: str, report: Report) -> None:
    """Look for the libraries that a Python file names where it loads some."""
    there = {lib.file for lib in subject.libraries}
    loading = re.findall(r"torch\.ops\.load_library\((.*)\n", text)
    missing = {name for line in loading
               for name in re.findall(r"[\"'](?:[^\"'\n]*/)?(\w[\w.-]*\.so)[\"']", line)
               if name not in there}
    if missing and subject.libraries and not subject.foreign:
        report.add("loads-no-library", WARN, f"{file} loads {names(sorted(missing))}, "
                   f"and there is {names(sorted(there))}")


def _find_uses(tree: ast.AST) -> set[tuple[str, str, int]]:
    """Return the namespace, the name or "", and the line of each torch.ops.X.Y."""
    found: dict[tuple[int, int], list[str]] = {}
    for node in ast.walk(tree):
        parts: list[str] = []
        inner = node
        while isinstance(inner, ast.Attribute):
            parts.insert(0, inner.attr)
            inner = inner.value
        if isinstance(node, ast.Attribute) and isinstance(inner, ast.Name) and \
                inner.id == "torch" and parts[0] == "ops":
            where = (node.lineno, node.col_offset)
            found[where] = max(found.get(where, []), parts[1:3], key=len)
    return {(parts[0], "".join(parts[1:]), line) for (line, _), parts in found.items()
            if parts and parts[0] not in LOADING}
