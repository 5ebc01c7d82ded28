"""Checks what the Python files of a subject ask of its modules and libraries."""

import ast
import contextlib
import difflib
import io
import posixpath
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator

from torch_stable_abi.audit.elf import Library
from torch_stable_abi.audit.findings import FAIL, NOTE, WARN, Report, join
from torch_stable_abi.audit.ops import TORCHS
from torch_stable_abi.audit.python_ops import (
    OF_TORCH,
    Schemas,
    ask_for,
    check_added,
    check_functions,
    check_order,
    check_uses,
    find_definitions,
    find_libraries,
)
from torch_stable_abi.audit.subject import Subject, Wheel

# An import at the start of a line, so that no `try`, `if` or function has it.
IMPORT = re.compile(
    r"^(?:from (?P<dots>\.*)(?P<module>[\w.]*) import (?P<names>\([^)]*\)|.*)"
    r"|import (?P<plain>\w+(?:\.\w+)+))", re.M)
SUFFIX = re.compile(r"\.(?:abi3\.|cpython-[^/]*\.)?(?:py|pyi|so|pyd)$")
# Folders of a wheel whose contents pip puts beside the others.
UNPACKED = re.compile(r"^[^/]+\.data/(?:purelib|platlib)/")
# Those whose contents it puts elsewhere.
ELSEWHERE = re.compile(r"^[^/]+\.data/(?:data|headers|scripts)/")
# How Python adds to an op that is defined, or tests it.
ADDING = (r"\b(?:register_(?:fake|autograd|kernel|vmap|autocast|torch_dispatch)|"
          r"opcheck|impl_abstract|impl)\(\s*[\"'](\w+)::(\w+)")
# Packages that have one name for pip and for Python, and that torch does not require.
SAME_NAME = {"einops", "numpy", "packaging", "pandas", "psutil", "pydantic", "requests",
             "safetensors", "scipy", "tqdm", "transformers"}
UNREADABLE = SyntaxError, ValueError, RecursionError, MemoryError  # for ast
ALIKE = 0.8  # from here on one name may be meant for another; 1 is the same


def check_python_files(subject: Subject, known: Schemas, named: set[str],
                       near: Iterable[str], report: Report) -> None:
    """`known` has the ops of the libraries, as far as all of a namespace show, and
    `named` what find_names finds. A namespace that is not known, but is like one of
    `near`, may be a slip."""
    if subject.foreign or subject.damaged:  # which may define ops of any namespace
        known, near = {}, []
    slips = {n: close for n in _find_strangers(subject, named)
             if n not in known and (close := find_meant(n, [*known, *near]))}
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
                           + ask_for(namespace, slips))
            if subject.id and namespace not in {*OF_TORCH, subject.id}:
                report.add("namespace-of-the-hub", FAIL, f"{file} adds to {namespace}::"
                           f"{name}, and metadata.json has the id {subject.id}")
        # A large package has thousands of files, which take time to parse.
        loads = subject.libraries and not subject.foreign and "load_library(" in text
        if loads or subject.id or any(
                re.search(rf"torch\.ops\.{n}\b|[\"']{n}(?:::|[\"'])", text)
                for n in [*known, *slips]):
            with contextlib.suppress(*UNREADABLE):
                tree = ast.parse(text)
                if loads:
                    _check_loads(subject, file, tree, report)
                    check_order(file, tree, known, report)
                check_uses(subject, file, tree, known, slips, report)
                check_functions(file, tree, known, report)
                check_added(file, tree, known, report)


def check_definitions(subject: Subject, defined: set[tuple[str, str]], report: Report
                      ) -> None:
    """Check the ops and namespaces that Python files define as soon as they are
    imported; `defined` are the namespaces and names of the ops of the libraries."""
    for file, text in sorted(subject.python.items()):
        if not re.search(r"\b(custom_op|triton_op|define|Library)\(", text):
            continue
        with contextlib.suppress(*UNREADABLE):
            tree = ast.parse(text)
            found = {*find_definitions(tree)}
            for namespace, name, line in sorted(found):
                if (namespace, name) in defined:
                    report.add("defined-twice", WARN, f"{file}:{line} defines "
                               f"{namespace}::{name}, and so does a library: PyTorch "
                               "refuses the second")
            used = {n for n, _, _ in found} | {*find_libraries(tree).values()}
            if subject.id and (other := used - {*OF_TORCH, subject.id}):
                report.add("namespace-of-the-hub", FAIL, f"{file} defines in "
                           f"{join(sorted(other))}, and metadata.json has the id "
                           f"{subject.id}")


def find_meant(name: str, known: list[str]) -> str:
    """Return the known name for which this one may be a slip, or "". Of a short name a
    ratio says little: there other capitals, or another order of letters, are a slip."""
    close = difflib.get_close_matches(name, known, 1, ALIKE) or [
        one for one in known if one.casefold() == name.casefold()
        or len(one) > 3 and sorted(one) == sorted(name)]
    return close[0] if close else ""


def find_names(subject: Subject) -> set[str]:
    """Return the namespaces that Python files name in strings, for they may define ops
    there."""
    strings = re.compile(r"[\"'](\w+)(?=[\"']|::)")
    adding = rf"{ADDING}|\bLibrary\(\s*[\"']\w+[\"'],\s*[\"']IMPL[\"']"
    return {name for text in subject.python.values()
            for name in strings.findall(re.sub(adding, "", text))}


def _find_strangers(subject: Subject, named: set[str]) -> set[str]:
    """Return the namespaces that Python files use, and nothing here names besides."""
    used = {*subject.namespaces, *(
        namespace for text in subject.python.values()
        for namespace, _ in re.findall(ADDING, text))}
    return {n for n in used - named - {*TORCHS}
            if not any(n in library.strings for library in subject.libraries)}


# --- modules and libraries ----------------------------------------------------------


def find_modules(subject: Subject) -> dict[str, bool]:
    """Return the modules of a subject, and its folders, and whether each is a library:
    {"one": False, "one/_C": True}."""
    found: dict[str, bool] = {}
    for name in subject.sums:
        if subject.wheel and ELSEWHERE.match(name):
            continue
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
    whole = UNPACKED.sub("", file).split("/")
    if subject.wheel and len(dots) >= len(whole) > 1 or \
            subject.variant and len(dots) > len(whole):  # whose folder is a package
        return [], f"{dots}{module}"
    folder = whole[:-len(dots)] if dots else []
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
                         there and not re.search(
                             rf"__getattr__|import \*|(globals|setattr|exec)\(|"
                             rf"(?<!['\"])\b{name}\b", own)), "")


def _check_imports(subject: Subject, report: Report) -> None:
    """Follow what the packages with libraries import as soon as they are imported
    themselves: a file that nothing imports, such as a test, may ask for anything."""
    there = find_modules(subject)
    for place in sorted(place for place, is_library in there.items() if is_library):
        if f"{place}/__init__.py" in subject.python:
            report.add("imports-no-module", FAIL, f"{place}/__init__.py hides the "
                       "library of the same name: Python imports the folder")
    tops = {ELSEWHERE.sub("", UNPACKED.sub("", lib.name)).partition("/")[0]
            for lib in subject.libraries}
    if subject.wheel and any("/" not in lib.name for lib in subject.libraries):
        tops.add(subject.wheel.name.replace("-", "_"))  # which has a module beside it
    files = sorted(f"{top}/__init__.py" for top in tops)
    seen, asked = {*files}, set[str]()
    for file in files:
        if early := _find_early_library(file, subject, there, set()):
            report.add("before-torch", WARN, f"{early}, which needs libtorch, and "
                       "nothing before has imported torch: that loads libtorch")
    for file in files:
        _check_source(file, subject, asked, report)
        for place, line, missing in read_imports(file, subject, there):
            if missing:
                report.add("imports-no-module", FAIL, f"{file}:{line} imports "
                           f"{missing}, which is not here")
            new = {f"{place}.py", f"{place}/__init__.py"} & subject.python.keys() - seen
            files += sorted(new)
            seen |= new


def _find_early_library(file: str, subject: Subject, there: dict[str, bool],
                        seen: set[str]) -> str | None:
    """Return the import of a library that uses libtorch, if a file of Python, and what
    it imports of its own package, comes to it before torch; "" if nothing is imported
    that may bring torch, None if something is, or may be."""
    try:
        tree = ast.parse(subject.python.get(file, ""))
    except UNREADABLE:
        return None
    seen.add(file)
    own = UNPACKED.sub("", file).partition("/")[0]
    at: dict[int, list[str]] = {}
    for place, line, _ in read_imports(file, subject, there):
        at.setdefault(line, []).append(place)
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) or isinstance(
                node, (ast.Expr, ast.Assign)) and isinstance(node.value, ast.Constant):
            continue
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            opened = _find_opened(file, node, subject)
            return f"{file}:{node.lineno} opens {opened.name}" \
                if opened and _needs_torch_before(opened) else None
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else \
            [node.module or ""] if not node.level else [own]
        tops = {name.partition(".")[0] for name in names}
        if tops - {own, *sys.stdlib_module_names}:
            return None
        for place in at.get(node.lineno, []):
            library = next((lib for lib in subject.libraries if there.get(place) and
                            SUFFIX.sub("", UNPACKED.sub("", lib.name)) == place), None)
            if library:
                return f"{file}:{node.lineno} imports {library.name}" \
                    if _needs_torch_before(library) else None
            for inner in {f"{place}.py", f"{place}/__init__.py"} & \
                    subject.python.keys() - seen:
                found = _find_early_library(inner, subject, there, seen)
                if found != "":
                    return found
    return ""


def _needs_torch_before(library: Library) -> bool:
    return any(re.match(r"lib(torch|c10)", name) for name in library.needed) and \
        not any("torch" in path for path in library.rpath)


def _find_opened(file: str, node: ast.stmt, subject: Subject) -> Library | None:
    """Return the library that a statement opens by ctypes, if it is one of these."""
    calls = [call for call in ast.walk(node) if isinstance(call, ast.Call) and
             re.fullmatch(r"(ctypes\.)?(CDLL|PyDLL|cdll\.LoadLibrary)",
                          ast.unparse(call.func)) and call.args]
    places = [place for call in calls
              for place in _find_places(ast.unparse(call.args[0]))]
    return next((lib for lib in subject.libraries for place in places
                 if f"/{lib.name}".endswith(f"/{place}")), None)


def check_all(file: str, tree: ast.Module, subject: Subject, report: Report) -> None:
    """Warn of a name in __all__ that the module does not have."""
    text, folder = subject.python[file], posixpath.dirname(file)
    if re.search(r"__getattr__|(globals|vars|exec|eval)\(|\bimport \*", text):
        return
    # __all__ = [...], __all__: list[str] = [...], and __all__ += [...]
    said = [node.value for node in tree.body
            if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and
            ast.unparse(node.targets[0] if isinstance(node, ast.Assign)
                        else node.target) == "__all__"]
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)
             and not isinstance(node.ctx, ast.Load)}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            bound |= {(a.asname or a.name).partition(".")[0] for a in node.names}
    for one in [e for value in said if isinstance(value, (ast.List, ast.Tuple))
                for e in value.elts]:
        name = str(one.value) if isinstance(one, ast.Constant) else ""
        if name and name not in bound and not any(
                other.startswith((f"{folder}/{name}.", f"{folder}/{name}/"))
                for other in subject.sums):
            report.add("all-names-nothing", WARN, f"{file} has {name!r} in __all__, "
                       "and no such name: import * fails")


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
        if 0 < oldest < 12 and (line := _find_nested_quote(text)):
            raise SyntaxError("an f-string with its own quotes inside", (
                file, line, 0, ""))
    except SyntaxError as error:
        here = _is_read(text)
        if here or oldest <= sys.version_info[1]:  # else this Python may be too old
            report.add("python-cannot-read", FAIL if oldest and not here else WARN,
                       f"{file}:{error.lineno}: Python {f'3.{oldest} ' * here}"
                       f"cannot read it: {error.msg}")
        return
    except UNREADABLE:
        return
    check_all(file, tree, subject, report)
    required = {re.split(r"[^\w.-]", line.strip(), maxsplit=1)[0].lower()
                for line in subject.wheel.metadata.get_all("Requires-Dist", [])
                if not re.search(r";.*\bextra\s*==", line)}
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


def _find_nested_quote(text: str) -> int:
    """Return the first line where an expression in an f-string has a string in the
    f-string's own quotes, or 0. Python reads that since 3.12 (PEP 701), of which
    `ast` knows no older form; an older Python refuses it by itself."""
    start = getattr(tokenize, "FSTRING_START", None)
    quotes: list[str] = []  # of the f-strings around
    for token in tokenize.generate_tokens(io.StringIO(text).readline) if start else ():
        if token.type in (start, tokenize.STRING):
            found = re.match(r"\w*(\"\"\"|'''|[\"'])", token.string)
            own = found[1] if found else ""
            if own in quotes:
                return token.start[0]
            quotes += [own] if token.type == start else []
        elif token.type == getattr(tokenize, "FSTRING_END", None):
            quotes.pop()
    return 0


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
            if not any(f"/{name}".endswith(f"/{place}") for name in there
                       if not ELSEWHERE.match(name)):
                report.add("loads-no-library", WARN, f"{file} loads {place}, and there "
                           f"is {join(there)}")


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
