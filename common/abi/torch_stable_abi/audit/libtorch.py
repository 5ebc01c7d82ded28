"""Checks what a library takes of libtorch and of others, by its symbols' names."""

import contextlib
import ctypes
import functools
import re

from torch_stable_abi.audit import elf
from torch_stable_abi.audit.elf import Library
from torch_stable_abi.audit.findings import FAIL, NOTE, OK, WARN, Report, count, join
from torch_stable_abi.audit.subject import Subject
from torch_stable_abi.libtorch import surface
from torch_stable_abi.libtorch.versions import numbers

# A namespace of libtorch's C++ in a mangled name, but not one of the stable ABI. A name
# of libtorch's begins so; in another's name it may be a parameter's, such as c10::Half.
SPACE = r"N[rVKRO]*(2at|3c10|5torch(?!6stable|10headeronly)|6caffe2)"
UNSTABLE = re.compile(rf"_Z(T[VTIS]|GV|T[hv]n?\d+_(n?\d+_)?)?{SPACE}|_Z\d+THP|"
                      r"THP\w+|ParameterClass$")  # libtorch_python's, by nm of 2.13
# Libraries whose every name is known, if it is looked up by version or as below.
KNOWN = re.compile(
    r"lib(torch|torch_cpu|torch_cuda|torch_hip|torch_python|c10|c10_cuda|c10_hip|stdc\+\+"
    r"|gcc_s|m|c|dl|rt|pthread|util|gomp|cuda|cudart|cublas|cublasLt|cufft|curand"
    r"|cusparse|cusolver)\.so[.\d]*|ld-linux.*")
# A mangled name in the namespace std, or of its table of virtual functions; operator
# new and delete; what compilers call. Old systems give them no version.
STANDARD = re.compile(
    r"_Z(T[VTIS]|GV|Th?n?\d+_)?(N[rVKRO]*)?S[tabsiod]|_Z(n[wa]|d[la])|"
    r"__(cxa|gxx)_|__dynamic_cast$")
# How pybind11 passes types of libtorch's: libtorch_python has it.
CASTS = re.compile(r"_ZNK?8pybind116detail11type_casterI")
# Names in C of libraries that libtorch has in it, or needs, by nm of 2.13 from PyPI.
OF_TORCH = re.compile("GOMP_|omp_|mkl_|MKL_|Sleef_|pthreadpool_|cpuinfo_|nnp_")
# Names of libraries that libtorch_cuda needs, and so brings.
OF_CUDA = re.compile(
    r"(cublas|cudnn|cufft|curand|cusparse|cusolver|nccl|nvrtc|cuda)\w+")
# A library for one torch, by a folder or a name such as torch-2.3/ or _torch211.
FOR_TORCH = re.compile(r"torch[-_.]?v?(2)[._]?(\d{1,2})(?!\d)")


def uses_torch(library: Library) -> bool:
    return bool(library.shims) or any(
        re.match(r"lib(torch|c10)", name) for name in library.needed)


def torch_of_name(library: Library) -> str:
    """Return "2.11" of "lib/torch-2.11/libops.so", or ""."""
    found = FOR_TORCH.search(library.name)
    return f"{found[1]}.{found[2]}" if found else ""


def check_libtorch(library: Library, subject: Subject, report: Report) -> None:
    siblings = {name for other in subject.libraries if other is not library
                for name in other.exports}
    unstable = sorted(n for n in library.imports
                      if n not in siblings and UNSTABLE.match(n))
    report.bound = bool(unstable)
    if unstable:
        _check_bound(library, subject, unstable, report)
    elif not library.shims:
        report.add("uses-no-libtorch", NOTE, "takes nothing of it")
    else:
        report.floor = _check_functions(library, report)
        _check_others(library, report)
    _check_undefined(library, subject, siblings, bool(unstable), report)


def _check_bound(library: Library, subject: Subject, unstable: list[str],
                 report: Report) -> None:
    versions = {torch_of_name(other) for other in subject.libraries
                if uses_torch(other)} - {""}
    own = torch_of_name(library)
    if own and len(versions) > 1:
        report.bound = False
        each = join(sorted(versions, key=numbers), 99)
        report.add("library-for-each-torch", NOTE, f"is for torch {own}, as its name "
                   f"says: there is one for each of {each}")
        return
    report.add("bound-to-one-libtorch", FAIL, "runs on the libtorch that it was built "
               "with, and maybe on no other: it takes C++ symbols of it")
    texts = sorted(elf.demangle(unstable), key=lambda text: ("::" not in text, text))
    report.add("unstable-symbols", FAIL, f"{len(texts)} are not of the stable ABI, "
               f"such as {texts[0]}", texts)


def _check_functions(library: Library, report: Report) -> str:
    """Return the oldest libtorch that has all the functions of the C shim."""
    firm = {n: surface.since(n) for n, weak in library.shims.items() if not weak}
    oldest, newest = surface.versions()[0], surface.versions()[-1]
    floor = max((v for v in firm.values() if v), key=numbers, default=oldest)
    why = sorted(n for n, v in firm.items() if v == floor)
    report.add("oldest-libtorch", OK, f"any; what it takes is in {floor} too"
               if floor == oldest else f"{floor} or newer, for {join(why)}",
        [f"{v}: {join(sorted(n for n in firm if firm[n] == v), 99)}"
         for v in surface.versions()[1:] if v in firm.values()])
    unknown = sorted(n for n, v in firm.items() if v is None)
    if unknown:
        report.add("unknown-function", FAIL, f"no libtorch up to {newest} has "
                   f"{join(unknown)}: the library does not load", unknown)
    later = {n: surface.since(n) for n in {
        *(n for n, weak in library.shims.items() if weak),
        *(s for s in library.strings if surface.since(s))}}
    newer_ones = {n: v for n, v in later.items() if v and numbers(v) > numbers(floor)}
    if newer_ones:
        report.add("can-do-without", NOTE, "looks up, and can do without: " + join(
            f"{n} ({v})" for n, v in sorted(newer_ones.items())))
    return floor


def _check_others(library: Library, report: Report) -> None:
    report.add("symbols-of-the-shim", OK, f"{count(library.shims, 'function')} of the "
               "C shim, nothing of libtorch's C++")
    if any(n.startswith("libtorch_python") for n in library.needed) and \
            not any(re.match(r"_?THP", n) for n in library.imports):
        report.add("needless-libtorch-python", WARN, "links to libtorch_python.so and "
                   "takes nothing of it: link to libtorch_cpu.so alone")


def _check_undefined(library: Library, subject: Subject, siblings: set[str],
                     takes_cpp: bool, report: Report) -> None:
    """Report undefined names that no known library provides. A name with a version is
    of glibc, libstdc++ or CUDA. If an unknown library is needed, nothing is
    reported, since it may provide any name. libtorch also exports parts of libstdc++
    and OpenMP without a version: so where a library `takes_cpp` of libtorch's, a name
    counts only if it has a type of libtorch's in it and its own namespace is
    another."""
    beside = {name: other for other in subject.libraries
              for name in (other.file, other.soname)}
    needed = {*library.needed, *(n for name in library.needed if name in beside
                                 for n in beside[name].needed)}
    if not all(KNOWN.fullmatch(n) or n.startswith("libpython") or n in beside
               for n in needed):
        return
    driver = any(n.startswith("libcuda.so") for n in library.needed)
    torch = any(re.match("libtorch|libc10|libgomp", n) for n in library.needed)
    cuda = any(re.match(r"libtorch(_cuda)?\.|libc10_cuda", n) for n in library.needed)
    python = any(n.startswith("libtorch_python") for n in library.needed)
    libcxx = torch or any(n.startswith("libstdc++") for n in library.needed)
    undefined = [n for n, weak in library.imports.items() if not weak and
                 n not in library.versioned and n not in siblings and
                 not surface.is_shim(n) and
                 not re.match(r"_?(Py|THP)[A-Z_a-z]|__asan|__ubsan|__tsan", n) and
                 not (driver and re.match(r"cu[A-Z]", n)) and
                 not (torch and OF_TORCH.match(n)) and
                 not (cuda and OF_CUDA.fullmatch(n)) and
                 not (libcxx and STANDARD.match(n)) and not is_of_libc(n) and
                 not (takes_cpp and not re.search(SPACE, n)) and
                 not (python and CASTS.match(n)) and
                 not UNSTABLE.match(n)]
    if undefined:
        texts = sorted(elf.demangle(undefined))
        plain = [t for t in texts if t.partition("(")[0] in siblings]
        report.add("undefined-symbols", FAIL, "nothing that it needs brings "
                   f"{join(texts)}: " + (f"{plain[0].partition('(')[0]} of C is here: "
                   "extern \"C\"?" if plain else
                   "was a source file left out of the build?"), texts)


@functools.cache
def _open_libc() -> list[ctypes.CDLL]:
    found = []
    for name in ("libc.so.6", "libm.so.6", "libgcc_s.so.1"):
        with contextlib.suppress(OSError):
            found.append(ctypes.CDLL(name))
    return found


def is_of_libc(name: str) -> bool:
    """Return whether this machine's libc has a name. It may have no version in a
    library that was linked without -ldl, for example, which older systems want."""
    return any(hasattr(library, name) for library in _open_libc())
