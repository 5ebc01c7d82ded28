"""Checks the ops of all libraries together, and those that Python files use."""

import re

from torch_stable_abi.audit.elf import Library
from torch_stable_abi.audit.findings import FAIL, NOTE, WARN, Report, join
from torch_stable_abi.audit.ops import check_signature
from torch_stable_abi.audit.python_files import (
    check_definitions,
    check_python_files,
    find_names,
)
from torch_stable_abi.audit.python_ops import Schemas
from torch_stable_abi.audit.registrations import Registrations
from torch_stable_abi.audit.subject import Subject
from torch_stable_abi.libtorch import surface
from torch_stable_abi.schemas import schema


def check_together(subject: Subject, registered: list[Registrations],
                   report: Report) -> None:
    """Check what the libraries of a subject register, each in its place in
    `registered`, against each other, and against what Python files use."""
    _check_twice(subject, registered, report)
    for namespace in sorted({n for found in registered for n in found.opened}):
        second = rf"(?m)^[^#\n]*\bLibrary\(\s*[\"']{namespace}[\"'],\s*[\"']DEF[\"']"
        for file, text in sorted(subject.python.items()):
            if re.search(second, text):
                report.add("defined-twice", FAIL, f'Library("{namespace}", "DEF") in '
                           f"{file} opens the namespace a second time, which PyTorch "
                           "refuses: FRAGMENT adds to it")
    bare = not any(found.ops or found.spaces or found.targets or found.hidden
                   for found in registered)
    named = find_names(subject)
    known = {namespace: ops for namespace, ops in _find_known(registered).items()
             if namespace not in named}
    check_definitions(subject, {(op.namespace, op.name) for found in registered
                                for op in found.ops}, report)
    check_python_files(subject, known, named,
                       {name.partition("/")[0] for name in subject.python}
                       if bare else (), report)
    _check_kernels(subject, registered, report)
    _check_schemas(subject, registered, report)


def _check_twice(subject: Subject, registered: list[Registrations],
                 report: Report) -> None:
    """Name the namespaces that two libraries open, and the ops that two of them define
    in a namespace that not both open."""
    where: dict[str, list[Library]] = {}
    for library, found in zip(subject.libraries, registered):
        for namespace in +found.opened:
            where.setdefault(f"STABLE_TORCH_LIBRARY({namespace})", []).append(library)
        for op in [] if found.guessed else found.ops:
            if op.namespace and not schema.find_fault(op.schema):
                where.setdefault(f"the schema of {op.namespace}::{op.name}",
                                 []).append(library)
    told: list[list[Library]] = []
    for what, libraries in sorted(where.items()):
        # Libraries for one Python, torch or GPU each have names that a number tells
        # apart, or lie in folders of their own; but so may a copy of another project's.
        files, paths = ({re.sub(r"\d+", "", name) for name in found} for found in (
            [lib.file for lib in libraries], [lib.name for lib in libraries]))
        if len(paths) > 1 and libraries not in told:
            told.append(libraries)
            report.add("defined-twice", WARN if len(files) > 1 else NOTE,
                       f"{what} is in {join(lib.name for lib in libraries)}: one "
                       "process can load one of them")


def _find_known(registered: list[Registrations]) -> Schemas:
    """Return the schemas of the libraries, if all show."""
    known: Schemas = {}
    if all(found.is_whole for found in registered):
        for op in (op for found in registered for op in found.ops):
            own = known.setdefault(op.namespace, {})
            own.setdefault(op.name.partition(".")[0], []).append(op.schema)
    return known


def _check_kernels(subject: Subject, registered: list[Registrations],
                   report: Report) -> None:
    """Look for ops that nothing here has a kernel for, but those for Meta and such."""
    kernels = {(k.namespace, k.name) for found in registered for k in found.kernels
               if surface.computes(k.key)}
    ops = {(op.namespace, op.name) for found in registered for op in found.ops
           if found.opened[op.namespace]}
    named = set(re.findall(r"[\"':](\w+)", "\n".join(subject.python.values())))
    without = [f"{namespace}::{name}" for namespace, name in sorted(ops - kernels)
               if name.partition(".")[0] not in named]
    if without and all(found.is_whole for found in registered):
        report.add("op-without-kernel", WARN if subject.python else NOTE,
                   f"nothing here has a kernel that computes {join(without)}", without)


def _check_schemas(subject: Subject, registered: list[Registrations],
                   report: Report) -> None:
    """Check the kernels of a library against the schemas of another one."""
    schemas: dict[tuple[str, str], set[str]] = {}
    for op in (op for found in registered for op in found.ops):
        schemas.setdefault((op.namespace, op.name), set()).add(op.schema)
    whole = all(found.is_whole for found in registered)
    opened = {n for found in registered for n, times in found.opened.items() if times}
    words = set(re.findall(r"\w+", "\n".join(subject.python.values())))
    for library, found in zip(subject.libraries, registered):
        own = {(op.namespace, op.name) for op in found.ops}
        spaces = {op.namespace for op in found.ops}
        for kernel in found.kernels:
            name = (kernel.namespace, kernel.name)
            others = schemas.get(name, set())
            if name not in own and len(others) == 1 and kernel.namespace:
                check_signature(kernel, next(iter(others)), report)
            elif not others and whole and kernel.namespace in opened - spaces and \
                    kernel.name.partition(".")[0] not in words:
                report.add("kernels-for-other-ops", WARN, f"{library.name} has a kernel"
                           f" for {'::'.join(name)}, and nothing here has a schema of "
                           "that name")
