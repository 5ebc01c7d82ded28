"""Checks how Python files use the ops of a subject, and what they add to them."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from torch_stable_abi.audit.findings import FAIL, WARN, Report, count
from torch_stable_abi.audit.ops import TORCHS
from torch_stable_abi.audit.subject import Subject
from torch_stable_abi.schemas import schema

# Members of torch.ops that are no namespaces, and of an op that are no overloads.
LOADING = ("load_library", "loaded_libraries", "import_module")
OF_TORCH = {*TORCHS, "prim", "higher_order", "inductor"}
OF_OP = ("op", "overloads")
# What is no type of a device, and what is meant.
NO_DEVICES = {"gpu": "cuda", "GPU": "cuda", "nvidia": "cuda", "rocm": "cuda"}
# Those to which a function is given that takes what the schema says.
TAKING = ("register_fake", "register_kernel", "impl_abstract")

Schemas = dict[str, dict[str, list[str]]]  # {namespace: {op: those of its overloads}}


def check_order(file: str, tree: ast.Module, known: Schemas, report: Report) -> None:
    """Warn of an op that a file uses, as it is imported, above the line that loads its
    library. Where an import stands before, that may have loaded it."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        inner = list(ast.walk(node))
        if isinstance(node, ast.ImportFrom) and node.level or any(
                isinstance(n, ast.Attribute) and n.attr == "load_library"
                for n in inner):
            return
        if any(isinstance(n, (ast.Lambda, ast.Try, ast.If)) for n in inner):
            continue
        for use in _find_uses(node):
            if use.names[0] in known and use.names[1:]:
                report.add("calls-no-op", WARN, f"{file}:{use.line} uses torch.ops."
                           f"{'.'.join(use.names[:2])} before the line that loads a "
                           "library")


@dataclass
class Use:
    """A place where Python names torch.ops.NAMESPACE.NAME.OVERLOAD."""
    names: list[str]
    line: int
    call: ast.Call | None = None


def _find_uses(tree: ast.AST) -> list[Use]:
    calls = {id(n.func): n for n in ast.walk(tree) if isinstance(n, ast.Call)}
    roots = {"torch": ["torch"], **_find_aliases(tree)}
    found: dict[tuple[int, int], Use] = {}
    for node in ast.walk(tree):
        parts = _read_chain(node, roots)
        if isinstance(node, ast.Attribute) and parts[:2] == ["torch", "ops"] and \
                parts[2:] and parts[2] not in LOADING:
            where = (node.lineno, node.col_offset)
            if where not in found or len(parts) > len(found[where].names) + 2:
                found[where] = Use(parts[2:], node.lineno, calls.get(id(node)))
    return [use for _, use in sorted(found.items())]


def _read_chain(node: ast.AST, roots: dict[str, list[str]]) -> list[str]:
    """Return the names of torch.ops.one, or [] for another expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    return [*roots[node.id], *parts] if isinstance(node, ast.Name) and \
        node.id in roots else []


def _find_aliases(tree: ast.AST) -> dict[str, list[str]]:
    """Return what names stand for that a file gives a value once, as by ops =
    torch.ops.one."""
    given = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name)
             and not isinstance(n.ctx, ast.Load)]
    given += [n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)]
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and \
                given.count(node.targets[0].id) == 1:
            chain = _read_chain(node.value, {"torch": ["torch"]})
            if chain[1:2] == ["ops"]:
                found[node.targets[0].id] = chain
    return found


def check_uses(subject: Subject, file: str, tree: ast.AST, known: Schemas,
                slips: dict[str, str], report: Report) -> None:
    wanted = {id(n.value) for n in ast.walk(tree) if isinstance(
        n, (ast.Attribute, ast.Subscript, ast.Assign))}
    asked = {n.args[1].value for n in ast.walk(tree) if isinstance(n, ast.Call)
             and ast.unparse(n.func) == "hasattr" and len(n.args) == 2
             and isinstance(n.args[1], ast.Constant)}
    for use in _find_uses(tree):
        namespace = use.names[0]
        schemas = known.get(namespace, {}).get("".join(use.names[1:2]), [])
        if schemas and use.call and id(use.call) in wanted and all(
                re.search(r"->\s*\(\s*\)\s*$", text) for text in schemas):
            report.add("calls-no-op", WARN, f"{file}:{use.line} takes what torch.ops."
                       f"{namespace}.{use.names[1]} returns, which is None: "
                       f"{schemas[0]}")
        where = f"{file}:{use.line} uses torch.ops.{namespace}"
        fault = "" if {*use.names[1:3]} & asked else _find_fault(use, known)
        if fault:  # not if hasattr(torch.ops.one, "name") asks first
            report.add("calls-no-op", WARN, f"{where}.{fault}")
        elif namespace in slips:
            report.add("calls-no-op", WARN, f"{where}, where no library here "
                       f"defines an op{ask_for(namespace, slips)}")
        if subject.id and namespace not in {*OF_TORCH, subject.id}:
            report.add("namespace-of-the-hub", FAIL, f"{where}, and metadata.json has "
                       f"the id {subject.id}")


def ask_for(namespace: str, slips: dict[str, str]) -> str:
    return "" if slips[namespace] == namespace else f". Is {slips[namespace]} meant?"


def _find_fault(use: Use, known: Schemas) -> str:
    """Return what is wrong with a use of an op that is known, or ""."""
    namespace, name, overload, *more = [*use.names, "", ""]
    if namespace not in known or name in ("", "name"):  # a namespace has a name
        return ""
    if name not in known[namespace]:
        return f"{name}, which no library here defines"
    schemas = known[namespace][name]
    if overload and overload not in OF_OP and not overload.startswith("_"):
        own = [s for s in schemas if _overload(s) == overload]
        if not own:
            return f"{name}.{overload}, an overload that no library here defines"
        schemas = own
    elif overload:
        return ""
    call = use.call
    if call is None or more[:-2] or any(isinstance(a, ast.Starred) for a in call.args) \
            or not all(k.arg for k in call.keywords):
        return ""
    faults = [schema.find_misfit(text, len(call.args),
                                 {str(k.arg) for k in call.keywords})
              for text in schemas]
    return f"{name} with {faults[0]}" if all(faults) else ""


def _overload(text: str) -> str:
    return schema.name_of(text).partition(".")[2].strip() or "default"


def check_functions(file: str, tree: ast.AST, known: Schemas, report: Report) -> None:
    """Check the functions that Python adds to ops against the schemas of these."""
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    for function in functions:
        # Another decorator may change what the function takes.
        for given in function.decorator_list[:len(function.decorator_list) == 1]:
            if not (isinstance(given, ast.Call) and given.args and
                    ast.unparse(given.func).rpartition(".")[2] in TAKING and
                    isinstance(given.args[0], ast.Constant)):
                continue
            name = str(given.args[0].value)
            for text in _find_schemas(name, known):
                if fault := _find_misfit_of(function.args, text):
                    report.add("calls-no-op", WARN, f"{file}:{function.lineno} adds to "
                               f"{name} a function {fault}: {text}")
    of_name = {f.name: f for f in functions}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            _check_fake(file, node, of_name, known, report)
        if isinstance(node, ast.Call) and len(node.args) > 1 and \
                isinstance(node.args[0], ast.Constant):
            what = ast.unparse(node.func).rpartition(".")[2]
            if what in ("register_kernel", "register_autocast") or \
                    what == "impl" and "::" in str(node.args[0].value):
                _check_devices(file, node, what, report)
            if what == "register_autograd":
                for text in _find_schemas(str(node.args[0].value), known):
                    _check_gradient(file, node, text, of_name, report)


def _check_fake(file: str, node: ast.Call, of_name: dict[str, ast.FunctionDef],
                known: Schemas, report: Report) -> None:
    """Check the function of register_fake("one::op", function), and that of
    register_fake("one::op")(function)."""
    call, rest = (node.func, node.args) if isinstance(node.func, ast.Call) else \
        (node, node.args[1:])
    if not (rest and call.args and isinstance(call.args[0], ast.Constant)) or \
            ast.unparse(call.func).rpartition(".")[2] not in (
                "register_fake", "impl_abstract"):
        return
    added = rest[0] if isinstance(rest[0], ast.Lambda) else \
        of_name.get(ast.unparse(rest[0]))
    name = str(call.args[0].value)
    for text in _find_schemas(name, known) if added else []:
        if added and (fault := _find_misfit_of(added.args, text)):
            report.add("calls-no-op", WARN, f"{file}:{added.lineno} adds to {name} a "
                       f"function {fault}: {text}")


def _check_devices(file: str, node: ast.Call, what: str, report: Report) -> None:
    given = node.args[1]
    for one in given.elts if isinstance(given, (ast.List, ast.Tuple)) else [given]:
        device = str(one.value) if isinstance(one, ast.Constant) else ""
        numbered = re.fullmatch(r"(\w+):\d+", device)
        meant = NO_DEVICES.get(device) or (numbered[1] if numbered else "")
        if meant:
            report.add("refused-by-torch", FAIL, f"{file}:{node.lineno}: "
                       f"{what} knows no device {device!r}. Is {meant} meant?")


def _check_gradient(file: str, node: ast.Call, text: str,
                    functions: dict[str, ast.FunctionDef], report: Report) -> None:
    """Check what register_autograd is given for an op with such a schema."""
    if "!" in text:
        report.add("refused-by-torch", FAIL, f"{file}:{node.lineno}: register_autograd "
                   f"takes no op that writes to an argument: {text}")
    added = node.args[1]
    backward = added if isinstance(added, ast.Lambda) else \
        functions.get(added.id) if isinstance(added, ast.Name) else None
    for line, fault in _find_wrong_gradients(backward, text) if backward else ():
        name = getattr(backward, "name", "the lambda")
        report.add("calls-no-op", WARN, f"{file}:{line}: {name} returns {fault}: "
                   f"{text}")
    given = next((k.value for k in node.keywords if k.arg == "setup_context"), None)
    if isinstance(given, ast.Name) and given.id in functions:
        own = functions[given.id].args
        wanted = {"ctx", "inputs", "output"} | (
            {"keyword_only_inputs"} if schema.split_at_star(text)[1] else set())
        lacking = sorted(wanted - {a.arg for a in [*own.args, *own.kwonlyargs]})
        if lacking and not own.kwarg:
            report.add("calls-no-op", WARN, f"{file}:{functions[given.id].lineno}: "
                       f"{given.id} does not take {lacking[0]}, by whose name it gets "
                       f"that: {text}")


def find_libraries(tree: ast.AST) -> dict[str, str]:
    """Return the variables that a file sets to a torch.library.Library, and the
    namespace of each."""
    return {node.targets[0].id: str(node.value.args[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
            and isinstance(node.value, ast.Call) and node.value.args
            and ast.unparse(node.value.func).rpartition(".")[2] == "Library"
            and isinstance(node.value.args[0], ast.Constant)}


def check_added(file: str, tree: ast.AST, known: Schemas, report: Report) -> None:
    """Check the names of ops that a Library of Python is given a function for, by its
    own methods or by torch.library.impl."""
    libraries = find_libraries(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        holder, _, what = ast.unparse(node.func).rpartition(".")
        first, *rest = node.args
        if what == "impl" and isinstance(first, ast.Name) and rest:
            holder, first = first.id, rest[0]
        if what not in ("impl", "_register_fake") or holder not in libraries or \
                not isinstance(first, ast.Constant):
            continue
        namespace, name = libraries[holder], str(first.value).rpartition("::")[2]
        if namespace in known and name.partition(".")[0] not in known[namespace]:
            report.add("calls-no-op", WARN, f"{file}:{node.lineno} adds to "
                       f"{namespace}::{name}, which no library here defines")


def find_definitions(tree: ast.Module) -> Iterator[tuple[str, str, int]]:
    """Yield the namespace, the name and the line of each op that a file defines as
    soon as it is imported."""
    libraries = find_libraries(tree)
    for node in tree.body:
        given = node.decorator_list if isinstance(node, ast.FunctionDef) else \
            [node.value] if isinstance(node, (ast.Expr, ast.Assign)) else []
        for call in given:
            while isinstance(call, ast.Call) and isinstance(call.func, ast.Call):
                call = call.func
            if not (isinstance(call, ast.Call) and call.args
                    and isinstance(call.args[0], ast.Constant)):
                continue
            holder, _, what = ast.unparse(call.func).rpartition(".")
            text = str(call.args[0].value)
            if what == "define" and holder in libraries:
                text = f"{libraries[holder]}::{text}"
            found = re.match(r"(\w+)::(\w+(?:\.\w+)?)", text)
            if found and what in ("custom_op", "triton_op", "define"):
                yield found[1], found[2], node.lineno


def _find_schemas(name: str, known: Schemas) -> list[str]:
    """Return the schema of an op and overload, such as "ns::op.out", if it is known."""
    found = re.fullmatch(r"(\w+)::(\w+)(?:\.(\w+))?", name)
    return [text for text in known.get(found[1], {}).get(found[2], [])
            if _overload(text) == (found[3] or "default")
            and not schema.find_fault(text) and "..." not in text] if found else []


def _find_wrong_gradients(backward: ast.FunctionDef | ast.Lambda, text: str
                          ) -> Iterator[tuple[int, str]]:
    """Yield the lines where a backward function returns fewer gradients than the op
    has arguments by place, or more, and what is wrong. What is no tuple as it stands
    there is not judged."""
    wanted = len(schema.split_at_star(text)[0])
    inner = {node for other in ast.walk(backward)
             if isinstance(other, ast.FunctionDef) and other is not backward
             for node in ast.walk(other)}
    returned = [backward.body] if isinstance(backward, ast.Lambda) else [
        node.value for node in ast.walk(backward)
        if isinstance(node, ast.Return) and node not in inner]
    for value in returned:
        if isinstance(value, ast.Tuple):
            given = value.elts
            more = [e for e in given[wanted:] if ast.unparse(e) != "None"]
            if not any(isinstance(e, ast.Starred) for e in given) and \
                    (len(given) < wanted or more):
                yield value.lineno, (f"{count(given, 'gradient')}, one for each of "
                                     f"{wanted} arguments is wanted")


def _find_misfit_of(given: ast.arguments, text: str) -> str:
    """Return why a function cannot take the arguments of a schema, or ""."""
    by_place, by_name = schema.split_at_star(text)
    own = [*given.posonlyargs, *given.args]
    if len(own) < len(by_place) and not given.vararg:
        return f"that takes {count(own, 'argument')} by place, and gets {len(by_place)}"
    firm = own[len(by_place):len(own) - len(given.defaults)]
    names = {a.name for a in by_name}
    lacking = [a.arg for a in firm if a.arg not in names] + [
        a.arg for a, default in zip(given.kwonlyargs, given.kw_defaults)
        if default is None and a.arg not in names]
    if lacking:
        return f"that wants {lacking[0]}, which is not given"
    takes = {a.arg for a in [*own[len(by_place):], *given.kwonlyargs]}
    unknown = sorted(names - takes)
    return f"that does not take {unknown[0]}" if unknown and not given.kwarg else ""
