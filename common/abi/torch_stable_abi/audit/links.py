"""How a library was linked, and what it shows to others."""

import posixpath
import re

from torch_stable_abi.audit import elf
from torch_stable_abi.audit.elf import Library
from torch_stable_abi.audit.findings import FAIL, NOTE, WARN, Report, count, names
from torch_stable_abi.audit.libtorch import UNSTABLE
from torch_stable_abi.audit.platforms import find_policy
from torch_stable_abi.audit.subject import Subject

# What torch and its CUDA bring into the process.
THERE = re.compile(r"lib(torch|c10|cu|nv|npp|mkl|gomp|python)\w*[.-].*|ld-linux.*")
MOST_SYMBOLS = 20  # of C++, that are visible, before a word is said


def check_links(library: Library, subject: Subject, report: Report) -> None:
    _check_needed(library, subject, report)
    if library.shims and not any(
            re.match(r"libtorch(_cpu)?\.so", n) for n in library.needed):
        report.add("names-no-libtorch", WARN, "names no libtorch_cpu.so as needed: "
                   "Python loads it only if that is in the global namespace. Link to "
                   "it")
    absolute = [p for p in library.rpath if not p.startswith("$ORIGIN")]
    if library.rpath and (absolute or subject.variant):
        report.add("rpath", FAIL if subject.variant else WARN,
                   f"RPATH of the machine that built it: {names(absolute)}"
                   if absolute else "has an RPATH, which the Hub refuses: "
                   + names(library.rpath))
    if elf.EXECUTABLE_STACK in library.flags:
        report.add("executable-stack", FAIL, "asks for an executable stack (an .S file "
                   "without .note.GNU-stack?): newer systems refuse to load it")
    if elf.TEXT_RELOCATIONS in library.flags:
        report.add("code-relocations", FAIL, "has relocations in its code: compile all "
                   "of it with -fPIC")
    if any("St3__1" in n for n in [*library.imports, *library.exports]):
        report.add("libcxx", FAIL, "uses libc++: what it throws is not caught by "
                   "libtorch, which uses libstdc++")
    elif library.shims and "libstdc++.so.6" not in library.needed:
        report.add("no-libstdcxx", WARN, "names no libstdc++.so.6 as needed: linked "
                   "in, it would be a second one beside libtorch's")
    if library.debug:
        report.add("debug-information", NOTE, "carries debug information; strip -g "
                   "makes it smaller")


def _check_needed(library: Library, subject: Subject, report: Report) -> None:
    """Look for what it needs among the libraries beside it, in torch's, and in those
    that manylinux has."""
    beside = {other.file: other for other in subject.libraries}
    beside |= {other.soname: other for other in subject.libraries if other.soname}
    policy = find_policy([library])
    packed = bool(subject.wheel or subject.variant)
    strange = [n for n in library.needed if n not in beside and
               not THERE.fullmatch(n) and policy and n not in policy.whitelist]
    if strange:
        report.add("needs-other-library", FAIL if subject.variant else
                   WARN if packed else NOTE, "needs what neither it, torch nor "
                   f"manylinux brings: {names(strange, 9)}")
    hidden = [n for n in library.needed if n in beside and not THERE.fullmatch(n)
              and beside[n] is not library and not _leads_to(library, beside[n])]
    if hidden and packed:
        report.add("library-is-not-found", WARN, f"needs {names(hidden)}, which lies "
                   "beside it, but no RPATH leads there: it loads only after that")


def _leads_to(library: Library, other: Library) -> bool:
    """Return whether a path in the library leads to where the other one lies."""
    home = posixpath.dirname(library.name)
    for path in library.rpath:
        for origin in ("$ORIGIN", "${ORIGIN}"):
            if path.startswith(origin):
                place = posixpath.join(home, path[len(origin):].lstrip("/"))
                if posixpath.normpath(place or ".") == \
                        posixpath.normpath(posixpath.dirname(other.name) or "."):
                    return True
    return False


def check_exports(library: Library, report: Report) -> None:
    unique = [n for n, bind in library.exports.items() if bind == elf.UNIQUE]
    if unique:
        report.add("gnu-unique", WARN, f"{count(unique, 'gnu-unique symbol')}: all "
                   "libraries of a process share them, and dlclose frees nothing. "
                   "-fno-gnu-unique", elf.demangle(unique))
    mangled = [n for n in library.exports if n.startswith("_Z")]
    torchs = [n for n in mangled if re.match("_Z" + UNSTABLE.pattern, n)]
    if torchs or len(mangled) > MOST_SYMBOLS:
        report.add("visible-symbols", NOTE, count(mangled, "C++ symbol") + (
            f", {len(torchs)} of them of torch's headers, which another library "
            "may bring too" if torchs else "") + ": -fvisibility=hidden "
            "-fvisibility-inlines-hidden", elf.demangle(torchs or mangled))
