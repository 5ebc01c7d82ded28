"""Checks what the Python files of a subject ask of its modules, libraries and ops."""

import ast
import contextlib
import difflib
import posixpath
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from torch_stable_abi.audit.findings import FAIL, NOTE, WARN, Report, count, names
from torch_stable_abi.audit.ops import TORCHS
from torch_stable_abi.audit.subject import Subject, Wheel
from torch_stable_abi.schemas import schema

# An import at the start of a line, so that no `try`, `if` or function has it.
IMPORT = re.compile(
    r"^(?:from (?P<dots>\.*)(?P<module>[\w.]*) import (?P<names>\([^)]*\)|.*)"
    r"|import (?P<plain>\w+(?:\.\w+)+))", re.M)
SUFFIX = re.compile(r"\.(?:abi3\.|cpython-[^/]*\.)?(?:py|pyi|so|pyd)$")
# Folders of a wheel whose contents pip puts beside the others.
UNPACKED = re.compile(r"^[^/]+\.data/(?:purelib|platlib)/")
# Members of torch.ops that are no namespaces, and of an op that are no overloads.
LOADING = ("load_library", "loaded_libraries", "import_module")
OF_TORCH = {*TORCHS, "prim", "higher_order", "inductor"}
OF_OP = ("op", "overloads")
# How Python adds to an op that is defined.
ADDING = r"\bregister_(?:fake|autograd|kernel|vmap)\(\s*[\"'](\w+)::(\w+)"
# Those to which a function is given that takes what the schema says.
TAKING = ("register_fake", "register_kernel", "impl_abstract")
# Packages that have one name for pip and for Python, and that torch does not require.
SAME_NAME = {"einops", "numpy", "packaging", "pandas", "psutil", "pydantic", "requests",
             "safetensors", "scipy", "tqdm", "transformers"}
UNREADABLE = SyntaxError, ValueError, RecursionError, MemoryError  # for ast
ALIKE = 0.8  # from here on one name may be meant for another; 1 is the same

Schemas = dict[str, dict[str, list[str]]]  # {namespace: {op: those of its overloads}}


def check_python_files(subject: Subject, known: Schemas, named: set[str],
                       near: Iterable[str], report: Report) -> None:
    """`known` has the ops of the libraries, as far as all of a namespace show, and
    `named` what find_names finds. A namespace that is not known, but is like one of
    `near`, may be a slip."""
    if subject.foreign:  # what is not read may define ops of any namespace
        known, near = {}, []
    slips = {n: close[0] for n in _find_strangers(subject, named)
             if n not in known and (close := difflib.get_close_matches(
                 n, [*known, *near], 1, ALIKE))}
    if not subject.variant:  # there it is a rule of the Hub
        _check_imports(subject, report)
    for file, text in sorted(subject.python.items()):
        for namespace, name in sorted(set(re.findall(
                ADDING, re.sub(r"(?m)^\s*#.*", "", text)))):
            if namespace in known and name not in known[namespace]:
                report.add("calls-no-op", WARN, f"{file} adds to {namespace}::{name}, "
                           "which no library here defines")
            elif namespace in slips:
                report.add("calls-no-op", WARN, f"{file} adds to {namespace}::{name}, "
                           f"where no library here defines an op"
                           + _ask(namespace, slips))
            if subject.id and namespace not in {*OF_TORCH, subject.id}:
                report.add("namespace-of-the-hub", FAIL, f"{file} adds to {namespace}::"
                           f"{name}, and metadata.json has the id {subject.id}")
        # A large package has thousands of files, which take time to parse.
        loads = subject.libraries and not subject.foreign and "load_library(" in text
        if loads or subject.id or any(
                re.search(rf"torch\.ops\.{n}\b|[\"']{n}::", text)
                for n in [*known, *slips]):
            with contextlib.suppress(*UNREADABLE):
                tree = ast.parse(text)
                if loads:
                    _check_loads(subject, file, tree, report)
                    _check_order(file, tree, known, report)
                _check_uses(subject, file, tree, known, slips, report)
                _check_functions(file, tree, known, report)


def find_names(subject: Subject) -> set[str]:
    """Return the namespaces that Python files name in strings, for they may define ops
    there."""
    strings = re.compile(r"[\"'](\w+)(?=[\"']|::)")
    return {name for text in subject.python.values()
            for name in strings.findall(re.sub(ADDING, "", text))}


def _find_strangers(subject: Subject, named: set[str]) -> set[str]:
    """Return the namespaces that Python files use, and nothing here names besides."""
    used = {*subject.namespaces, *(
        namespace for text in subject.python.values()
        for namespace, _ in re.findall(ADDING, text))}
    return {n for n in used - named - {*TORCHS}
            if not any(n in library.strings for library in subject.libraries)}


def _ask(namespace: str, slips: dict[str, str]) -> str:
    return "" if slips[namespace] == namespace else f". Is {slips[namespace]} meant?"


# --- modules and libraries ----------------------------------------------------------


def find_modules(subject: Subject) -> dict[str, bool]:
    """Return the modules of a subject, and its folders, and whether each is a library:
    {"one": False, "one/_C": True}."""
    found: dict[str, bool] = {}
    for name in subject.sums:
        place = SUFFIX.sub("", UNPACKED.sub("", name))
        found[place] = name.endswith(".so")
        while (place := posixpath.dirname(place)) and place not in found:
            found[place] = False
    return found


def read_imports(file: str, subject: Subject, there: dict[str, bool]
                 ) -> Iterator[tuple[str, int, str]]:
    """Yield each module that a file of Python imports of its own package as soon as it
    is imported itself, the line, and what is not there, or ""."""
    text = subject.python.get(file, "")
    tops: set[int] | None = None
    for found in IMPORT.finditer(text):
        places, missing = _resolve(file, found, subject, there)
        line = text.count("\n", 0, found.start()) + 1
        if missing and tops is None:  # the import may be a line of a string
            tops = set()
            with contextlib.suppress(*UNREADABLE):
                tops = {node.lineno for node in ast.parse(text).body}
        for place in places:
            yield place, line, ""
        if missing and line in (tops or ()):
            yield "", line, missing


def _resolve(file: str, found: re.Match, subject: Subject, there: dict[str, bool]
             ) -> tuple[list[str], str]:
    """Return the modules that an import runs, and what it asks for in vain, or ""."""
    dots, module = found["dots"] or "", found["module"] or found["plain"] or ""
    folder = UNPACKED.sub("", file).split("/")[:-len(dots)] if dots else []
    parts = [part for part in module.split(".") if part]
    package = "/".join(folder if dots else parts[:1])
    parts = [*folder, *parts]
    places = ["/".join(parts[:n + 1]) for n in range(len(parts))]
    begin = posixpath.join(package, "__init__")
    own = subject.python.get(f"{begin}.py", "")
    if begin not in there or "__path__" in own or any(
            there.get(place) for place in places[:-1]):
        return places, ""  # of another package, or no file tells what is in it
    place = "/".join(parts)
    if place and place not in there:
        return places, f"{dots}{module}"
    names = re.findall(r"(\w+)(?: as \w+)?\s*(?:[,)]|$)",
                       re.sub("#.*", "", found["names"] or ""))
    places += [posixpath.join(place, name) for name in names]
    own = own.replace(found[0], "")
    return places, next((f"{dots}{module}{module and '.'}{name}" for name in names
                         if place == package and posixpath.join(place, name) not in
                         there and not re.search(rf"\b({name}|__getattr__|import \*)",
                                                 own)), "")


def _check_imports(subject: Subject, report: Report) -> None:
    """Follow what the packages with libraries import as soon as they are imported
    themselves: a file that nothing imports, such as a test, may ask for anything."""
    there = find_modules(subject)
    tops = {lib.name.partition("/")[0] for lib in subject.libraries}
    if subject.wheel and any("/" not in lib.name for lib in subject.libraries):
        tops.add(subject.wheel.name.replace("-", "_"))  # which has a module beside it
    files = sorted(f"{top}/__init__.py" for top in tops)
    seen, asked = {*files}, set[str]()
    for file in files:
        _check_source(file, subject, asked, report)
        for place, line, missing in read_imports(file, subject, there):
            if missing:
                report.add("imports-no-module", FAIL, f"{file}:{line} imports "
                           f"{missing}, which is not here")
            new = {f"{place}.py", f"{place}/__init__.py"} & subject.python.keys() - seen
            files += sorted(new)
            seen |= new


def _check_source(file: str, subject: Subject, asked: set[str], report: Report
                  ) -> None:
    """Check that each Python which the wheel is for can read a file that the package
    imports, and that the wheel requires the packages that it imports, each `asked`
    once."""
    text = subject.python.get(file)
    if text is None or subject.wheel is None:
        return
    oldest = find_oldest_python(subject.wheel)
    try:
        tree = ast.parse(text, feature_version=(3, oldest or sys.version_info[1]))
    except SyntaxError as error:
        here = _is_read(text)
        if here or oldest <= sys.version_info[1]:  # else this Python may be too old
            report.add("python-cannot-read", FAIL if oldest and not here else WARN,
                       f"{file}:{error.lineno}: Python {f'3.{oldest} ' * here}"
                       f"cannot read it: {error.msg}")
        return
    except UNREADABLE:
        return
    required = {re.split(r"[^\w.-]", line.strip(), maxsplit=1)[0].lower()
                for line in subject.wheel.metadata.get_all("Requires-Dist", [])}
    for node in tree.body:  # one in a function, a try or an if may be done without
        modules = [a.name for a in node.names] if isinstance(node, ast.Import) else \
            [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level \
            else []
        for name in (m.partition(".")[0] for m in modules):
            if name in SAME_NAME and name not in required | asked:
                asked.add(name)
                # Another package may bring it.
                level = NOTE if required - {"torch"} else WARN
                report.add("requires-no-package", level, f"{file}:{node.lineno} "
                           f"imports {name}, which the wheel does not require")


def _is_read(text: str) -> bool:
    try:
        return bool(ast.parse(text))
    except UNREADABLE:
        return False


def find_oldest_python(wheel: Wheel) -> int:
    """Return the oldest minor version of Python 3 that Requires-Python admits, or 0."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    text = wheel.metadata["Requires-Python"]
    try:
        wanted = SpecifierSet(text or "")
    except InvalidSpecifier:
        return 0
    return next((minor for minor in range(7, 30) if wanted.contains(f"3.{minor}.99")),
                0) if text else 0


def _check_loads(subject: Subject, file: str, tree: ast.AST, report: Report) -> None:
    """Warn of each library that a Python file loads by name and that is not there. A
    path whose existence the file checks first is left out."""
    there = sorted(lib.name for lib in subject.libraries)
    loaded = [argument for node in ast.walk(tree) if isinstance(node, ast.Call) and
              ast.unparse(node.func) == "torch.ops.load_library"
              for argument in node.args]
    relative = [e for e in loaded if isinstance(e, ast.Constant) and
                re.fullmatch(r"[^/].*\.so", str(e.value))]
    for constant in relative:
        report.add("loads-no-library", WARN, f"{file} loads {constant.value!s}, which "
                   "is sought in the current folder: begin with that of __file__")
    loaded = [e for e in loaded if e not in relative]
    text = subject.python[file]
    asked = {*re.findall(r"exists\((\w+)\)", text),
             *re.findall(r"(\w+)\.(?:exists|is_file)\(", text)}
    used = {node.id for expression in loaded for node in ast.walk(expression)
            if isinstance(node, ast.Name)} - asked
    loaded += [node.value for node in ast.walk(tree) if isinstance(node, ast.Assign)
               and isinstance(node.targets[0], ast.Name) and node.targets[0].id in used]
    for expression in loaded:
        for place in _find_places(ast.unparse(expression)):
            if not any(f"/{name}".endswith(f"/{place}") for name in there):
                report.add("loads-no-library", WARN, f"{file} loads {place}, and there "
                           f"is {names(there)}")


def _find_places(expression: str) -> list[str]:
    """Return the paths in an expression, or the ends of them: "lib/libone.so" of HERE /
    "lib" / "libone.so", and of f"{HERE}/lib/libone.so"."""
    literal = r"[\"']([^\"'\n]*)[\"']"
    places = []
    for before, _, last in re.findall(
            rf"((?:{literal}\s*[,/]\s*)*){literal}", expression):
        # What stands before a comma of get() is no folder.
        folders = re.findall(literal, before) if "get" not in expression else []
        place = re.sub(r".*\}(?=/)", "", "/".join([*folders, last]))
        if re.fullmatch(r"(?:.*/)?\w[\w.-]*\.so", place) and "}" not in place:
            whole = expression.strip("( )")[1:-1] == place
            place = posixpath.normpath(place if whole else place.lstrip("/"))
            places.append(re.sub(r"^(\.\./)+", "", place))
    return places


# --- ops ----------------------------------------------------------------------------


def _check_order(file: str, tree: ast.Module, known: Schemas, report: Report) -> None:
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


def _check_uses(subject: Subject, file: str, tree: ast.AST, known: Schemas,
                slips: dict[str, str], report: Report) -> None:
    for use in _find_uses(tree):
        namespace = use.names[0]
        where = f"{file}:{use.line} uses torch.ops.{namespace}"
        if fault := _find_fault(use, known):
            report.add("calls-no-op", WARN, f"{where}.{fault}")
        elif namespace in slips:
            report.add("calls-no-op", WARN, f"{where}, where no library here "
                       f"defines an op{_ask(namespace, slips)}")
        if subject.id and namespace not in {*OF_TORCH, subject.id}:
            report.add("namespace-of-the-hub", FAIL, f"{where}, and metadata.json has "
                       f"the id {subject.id}")


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


def _check_functions(file: str, tree: ast.AST, known: Schemas, report: Report) -> None:
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
        if not (isinstance(node, ast.Call) and len(node.args) > 1 and
                ast.unparse(node.func).endswith("register_autograd") and
                isinstance(node.args[0], ast.Constant) and
                isinstance(node.args[1], ast.Name) and node.args[1].id in of_name):
            continue
        function = of_name[node.args[1].id]
        for text in _find_schemas(str(node.args[0].value), known):
            for line, fault in _find_wrong_gradients(function, text):
                report.add("calls-no-op", WARN, f"{file}:{line}: {function.name} "
                           f"returns {fault}: {text}")


def _find_schemas(name: str, known: Schemas) -> list[str]:
    """Return the schema of an op and overload, such as "ns::op.out", if it is known."""
    found = re.fullmatch(r"(\w+)::(\w+)(?:\.(\w+))?", name)
    return [text for text in known.get(found[1], {}).get(found[2], [])
            if _overload(text) == (found[3] or "default")
            and not schema.find_fault(text) and "..." not in text] if found else []


def _find_wrong_gradients(backward: ast.FunctionDef, text: str
                          ) -> Iterator[tuple[int, str]]:
    """Return the lines where a backward function returns fewer gradients than the op
    has arguments by place, or more, and what is wrong. What is no tuple as it stands
    there is not judged."""
    wanted = len(schema.split_at_star(text)[0])
    inner = {node for other in ast.walk(backward)
             if isinstance(other, ast.FunctionDef) and other is not backward
             for node in ast.walk(other)}
    for node in ast.walk(backward):
        if isinstance(node, ast.Return) and node not in inner and \
                isinstance(node.value, ast.Tuple):
            given = node.value.elts
            more = [e for e in given[wanted:] if ast.unparse(e) != "None"]
            if not any(isinstance(e, ast.Starred) for e in given) and \
                    (len(given) < wanted or more):
                yield node.lineno, (f"{count(given, 'gradient')}, one for each of "
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
