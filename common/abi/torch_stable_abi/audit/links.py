"""How a library was linked, and what it shows to others."""

import posixpath
import re

from torch_stable_abi.audit import elf, libtorch
from torch_stable_abi.audit.elf import Library
from torch_stable_abi.audit.findings import FAIL, NOTE, WARN, Report, count, join
from torch_stable_abi.audit.libtorch import UNSTABLE
from torch_stable_abi.audit.platforms import find_cuda_functions, find_policy
from torch_stable_abi.audit.python_files import UNPACKED
from torch_stable_abi.audit.subject import Subject
from torch_stable_abi.libtorch import surface

# What torch and its CUDA bring into the process.
THERE = re.compile(r"lib(torch|c10|cu|nv|npp|mkl|gomp|python)\w*[.-].*|ld-linux.*")
CANNOT_BE_OPENED = {
    elf.NO_DLOPEN: "is marked so that dlopen refuses it: link without -z nodlopen",
    elf.PROGRAM: "is a program, which dlopen refuses: link with -shared"}
SANITIZER = re.compile(
    r"lib(asan|tsan|ubsan|lsan|msan|hwasan|clang_rt\.(ub|hw)?\w?san.*)\b")
OF_SANITIZER = re.compile(r"__([atm]|ub|hwa)san_")  # clang links these into programs
# A copy of libtorch that auditwheel has packed and renamed.
PACKED = re.compile(r"lib(torch|c10)\w*-[0-9a-f]{8}\.so.*")
# What glibc keeps free of static thread-local storage for libraries that are opened:
# TLS_STATIC_SURPLUS, of csu/libc-tls.c before 2.32 and of elf/dl-tls.c since.
STATIC_TLS = 1664
MOST_SYMBOLS = 20  # of C++ that may be visible; if there are more, a warning


def check_links(library: Library, subject: Subject, report: Report) -> None:
    _check_needed(library, subject, report)
    if packed := [n for n in library.needed if PACKED.fullmatch(n)]:
        report.add("brings-libtorch", FAIL, f"needs {join(packed)}, a second "
                   "libtorch: auditwheel repair --exclude leaves torch's out")
    elif library.shims and not any(
            re.match(r"libtorch(_cpu)?\.so", n) for n in library.needed):
        report.add("names-no-libtorch", WARN, "names no libtorch_cpu.so as needed: "
                   "Python loads it only if that is in the global namespace. Link to "
                   "it")
    elif (functions := find_cuda_functions(library)) and not any(
            re.match(r"libtorch(_cuda|_hip)?\.so", n) for n in library.needed):
        report.add("names-no-libtorch", WARN, f"takes {join(functions)} of "
                   "libtorch_cuda.so, and names neither that nor libtorch.so as "
                   "needed: Python finds it only in the global namespace. Link to it")
    strange = [p for p in library.rpath if not p.startswith(("$ORIGIN", "${ORIGIN}"))]
    if library.rpath and (strange or subject.variant):
        relative = [p for p in strange if not p.startswith("/")]
        report.add("rpath", FAIL if subject.variant else WARN,
                   f"RPATH {join(p or repr(p) for p in relative)} is sought in the "
                   f"current folder: {_mend(relative)}" if relative else
                   f"RPATH of the machine that built it: {join(strange)}"
                   if strange else "has an RPATH, which the Hub refuses: "
                   + join(library.rpath))
    if elf.EXECUTABLE_STACK in library.flags:
        report.add("executable-stack", FAIL, "asks for an executable stack (an .S file "
                   "without .note.GNU-stack, or a nested function of GNU C?): newer "
                   "systems refuse to load it")
    if elf.TEXT_RELOCATIONS in library.flags:
        report.add("code-relocations", FAIL, "has relocations in its code: compile all "
                   "of it with -fPIC")
    if elf.STATIC_TLS in library.flags and library.thread_local > STATIC_TLS:
        report.add("static-tls", FAIL, f"has {library.thread_local} bytes of "
                   "thread-local data with a place fixed at the start of the process, "
                   f"where glibc keeps {STATIC_TLS} free: compile it without "
                   "-ftls-model=initial-exec")
    for flag, text in CANNOT_BE_OPENED.items():
        if flag in library.flags:
            report.add("cannot-be-opened", FAIL, text)
    if any("St3__1" in n for n in [*library.imports, *library.exports]):
        report.add("libcxx", FAIL, "uses libc++: what it throws is not caught by "
                   "libtorch, which uses libstdc++")
    elif library.shims and "libstdc++.so.6" not in library.needed and \
            _has_libstdcxx(library):
        report.add("no-libstdcxx", WARN, "names no libstdc++.so.6 as needed: linked "
                   "in, it would be a second one beside libtorch's")
    sanitizers = [n for n in library.needed if SANITIZER.match(n)] or sorted(
        n for n, weak in library.imports.items() if not weak and OF_SANITIZER.match(n))
    if sanitizers:
        report.add("instrumented", FAIL, f"was built with a sanitizer: it needs "
                   f"{join(sanitizers)}, which must be loaded before all else")
    if any(text.endswith((".gcda", ".profraw")) for text in library.strings):
        report.add("instrumented", WARN, "was built with --coverage or to be profiled: "
                   "each process that loads it writes .gcda or .profraw files")
    if "set_fast_math" in library.inner:
        report.add("fast-math", WARN, "was linked with -ffast-math: to load it makes "
                   "the small numbers of the thread 0. Compile with it, link without")
    if library.debug:
        report.add("debug-information", NOTE, "carries debug information; strip -g "
                   "makes it smaller")


def _has_libstdcxx(library: Library) -> bool:
    """Return whether C++ of libstdc++ is in the library, or is taken from elsewhere."""
    return "St9exception" in library.strings or any(
        re.match(r"_ZN?K?S|__gxx_|__cxa_(?!finalize|atexit|thread_atexit)", name)
        for name in library.imports)


def _mend(relative: list[str]) -> str:
    """Return what is to be done about entries of an RPATH that are not absolute."""
    if relative == [""]:
        return "leave the empty entry out; CMake writes one in a build folder, which " \
            "cmake --install takes away"
    return "leave the backslash out" if any(p.startswith("\\$") for p in relative) \
        else "write $ORIGIN before it"


def _check_needed(library: Library, subject: Subject, report: Report) -> None:
    """Look for what it needs among the libraries beside it, in torch's, and in those
    that manylinux has."""
    beside = {other.file: other for other in subject.libraries}
    beside |= {other.soname: other for other in subject.libraries if other.soname}
    policy = find_policy([library])
    packed = bool(subject.wheel or subject.variant)
    known = {*beside, *subject.beside, *(policy.whitelist if policy else ())}
    strange = [n for n in library.needed if n not in known and policy and not
               SANITIZER.match(n)
               and not PACKED.fullmatch(n) and not THERE.fullmatch(n)]
    if places := [n for n in strange if "/" in n]:
        report.add("needs-a-place", FAIL if packed else WARN, "needs a file of the "
                   f"machine that built it, {join(places)}: give it a SONAME")
        strange = [n for n in strange if n not in places]
    if strange:
        report.add("needs-other-library", FAIL if subject.variant else
                   WARN if packed else NOTE, "needs what neither it, torch nor "
                   f"manylinux brings: {join(strange, 9)}")
    for name, versions in library.versions.items():
        if name in beside and (lacking := versions - beside[name].defines):
            report.add("needs-other-version", FAIL, f"needs {join(sorted(lacking))} "
                       f"of {name}, and the one beside it has " + (
                           join(sorted(beside[name].defines)) or "no versions"))
    found = [n for n in library.needed if n in beside and not THERE.fullmatch(n)
             and beside[n] is not library]
    loaders = [other for other in subject.libraries
               if {library.file, library.soname} & set(other.needed)]
    hidden = [n for n in found if not any(
        _leads_to(one, beside[n]) for one in [library, *(
            other for other in loaders if n in other.needed or  # loaded before
            not other.has_runpath and not library.has_runpath)])]  # its DT_RPATH
    if hidden and packed:
        report.add("library-is-not-found", WARN, f"needs {join(hidden)}, which lies "
                   "beside it, but no RPATH leads there: it loads only after that")
    for name in found if packed else ():
        if name not in hidden and beside[name].file != name:
            report.add("library-is-not-found", WARN, f"needs {name}, which lies beside "
                       f"it as {beside[name].file}: it loads only after that")


def _leads_to(library: Library, other: Library) -> bool:
    """Return whether a path in the library leads to where the other one lies."""
    home, there = (posixpath.dirname(UNPACKED.sub("", one.name))
                   for one in (library, other))
    for path in library.rpath:
        for origin in ("$ORIGIN", "${ORIGIN}"):
            if path.startswith(origin):
                place = posixpath.join(home, path[len(origin):].lstrip("/"))
                if posixpath.normpath(place or ".") == \
                        posixpath.normpath(there or "."):
                    return True
    return False


def check_exports(library: Library, report: Report) -> None:
    # What an archive brings was compiled elsewhere: no option of the compiler hides it.
    archive = "libstdc++.so.6" not in library.needed and " They are libstdc++.a's: " \
        "link the shared one, or -Wl,--exclude-libs,ALL"
    unique = [n for n, bind in library.exports.items() if bind == elf.UNIQUE]
    if unique:
        report.add("gnu-unique", WARN, f"{count(unique, 'gnu-unique symbol')}: all "
                   "libraries of a process share them, and dlclose frees nothing." + (
                       archive if archive and libtorch.STANDARD.match(unique[0])
                       else " -fno-gnu-unique"), elf.demangle(unique))
    own = sorted(n for n in library.exports if surface.since(n))
    if own:
        report.add("hides-libtorch", WARN, f"defines {join(own)} itself, which its "
                   "own calls then reach instead of libtorch's, and those of "
                   "other libraries where this one is loaded first", own)
    libc = sorted(n for n in library.exports if n in library.called and
                  libtorch.is_of_libc(n))
    if libc:
        report.add("name-of-libc", WARN, f"defines {join(libc)}, and calls it by a "
                   "stub: libc or libm has that name too, and is found first", libc)
    mangled = [n for n in library.exports if n.startswith("_Z")]
    torchs = [n for n in mangled if UNSTABLE.match(n)]
    standard = [n for n in mangled if libtorch.STANDARD.match(n)]
    if torchs or len(mangled) > MOST_SYMBOLS:
        report.add("visible-symbols", NOTE, count(mangled, "C++ symbol") + (
            f", {len(torchs)} of them of torch's headers, which another library "
            "may bring too" if torchs else "") + (
                f".{archive}" if archive and len(standard) > len(mangled) / 2
                else ": -fvisibility=hidden -fvisibility-inlines-hidden"),
            elf.demangle(torchs or mangled))
