"""The machines, Pythons and GPUs that a library is for."""

import functools
import posixpath
import re

from torch_stable_abi.audit.elf import Library
from torch_stable_abi.audit.findings import FAIL, NOTE, OK, WARN, Report, join
from torch_stable_abi.audit.subject import Subject
from torch_stable_abi.files import MACHINES
from torch_stable_abi.libtorch.versions import numbers


def check_platform(library: Library, report: Report) -> None:
    floors: dict[str, str] = {}
    for versions in library.versions.values():
        for version in versions:
            name, _, number = version.partition("_")
            if numbers(number) and name in ("GLIBC", "GLIBCXX", "CXXABI", "GCC"):
                floors[name] = max(floors.get(name, number), number, key=numbers)
    needs = ", ".join(f"{n} {v}" for n, v in sorted(floors.items())) or "no libc"
    private = any("GLIBC_PRIVATE" in v for v in library.versions.values())
    policy = find_policy([library])
    if not policy:
        report.add("platform", NOTE, f"{library.machine}: {needs}")
    elif not policy.name.startswith("linux"):
        report.add("platform", OK, f"{policy.name}: {needs}")
    else:
        report.add("newer-than-manylinux", WARN, f"{policy.name}: {needs}" + (
            ", and names of glibc's own, GLIBC_PRIVATE" if private else
            ", more than any manylinux has"))
    if library.instructions not in ("", "x86-64"):
        report.add("instruction-set", NOTE, "says that it needs "
                   f"{library.instructions}: older CPUs refuse it")


@functools.cache
def _read_policies(machine: str):
    from auditwheel.architecture import Architecture
    from auditwheel.libc import Libc
    from auditwheel.policy import WheelPolicies
    return WheelPolicies(libc=Libc.GLIBC, arch=Architecture(machine))


def find_policy(libraries: list[Library]):
    """Return the oldest manylinux that has what they need, or None."""
    if not libraries or libraries[0].machine not in MACHINES.values():
        return None
    needed: dict[str, set[str]] = {}
    for library in libraries:
        for name, versions in library.versions.items():
            needed.setdefault(name, set()).update(versions)
    return _read_policies(libraries[0].machine).versioned_symbols_policy(needed)


def check_python(library: Library, subject: Subject, report: Report) -> None:
    from abi3info import DATAS, FUNCTIONS
    _check_init(library, subject, report)
    used = [n for n in library.imports if re.match(r"_?Py[A-Z_]", n)]
    if own := re.search(r"\blibpython3\.(\d+)", " ".join(library.needed)):
        report.python = "one"
        report.add("private-python", WARN, f"needs {own[0]}: CPython 3.{own[1]} alone, "
                   "and not one that is linked statically. An extension links to no "
                   "libpython")
        return
    if not used:
        bound = sorted({f"{p}-{a}" for p, a, _ in subject.tags
                        if re.fullmatch(r"cp\d+t?", a)})
        report.python = "any"
        report.add("needless-python-tag" if bound else "python", NOTE if bound else OK,
                   "uses nothing of it: any version, free-threaded too" + (
                       f"; but the wheel says {join(bound)}, where py3-none would do"
                       if bound else ""))
        _check_module_name(library, subject, report)
        return
    added = {s.name: of.added for s, of in [*FUNCTIONS.items(), *DATAS.items()]}
    private = sorted(n for n in used if n not in added)
    if _check_module_name(library, subject, report):
        return
    if private:
        _check_private(library, subject, private, report)
        return
    least = max((added[n] for n in used), key=lambda v: (v.major, v.minor))
    report.python = f"{least.major}.{least.minor}"
    low = sorted({p for p, a, _ in subject.tags if a == "abi3"
                  and numbers("3." + p[3:]) < numbers(report.python)})
    text = f"the limited API of {report.python}"
    if low or subject.variant and numbers(report.python) > (3, 9):
        text += f", for {join(n for n in used if added[n] == least)}"
    if low:
        report.add("newer-python", WARN, f"{text}, though the wheel says {low[0]}")
    elif subject.tags and ".abi3." in library.file and all(
            re.fullmatch(r"cp3(13|14)t", a) for _, a, _ in subject.tags):
        report.add("newer-python", WARN, f"{text}, which a free-threaded Python has "
                   f"from 3.15 on, though the wheel says {subject.tags[0][1]}")
    else:
        report.add("python", OK, f"{text}; a free-threaded Python wants a build of its "
                   "own before 3.15")


def _check_init(library: Library, subject: Subject, report: Report) -> None:
    """Check that a file which is named as a module, or which Python imports, has the
    function that Python calls to import it."""
    found = re.fullmatch(r"(\w+)(\.abi3|\.cpython-\d+[\w-]*)?\.so", library.file)
    wanted = f"PyInit_{found[1]}" if found else ""
    if not found or wanted in library.exports:
        return
    there = sorted(n for n in library.exports if n.startswith("PyInit_"))
    home, name = posixpath.dirname(library.name), found[1]
    imports = re.compile(rf"from \. import [^\n]*\b{name}\b|from \.{name} import")
    importing = [] if posixpath.join(home, f"{name}.py") in subject.python else [
        file for file, text in sorted(subject.python.items())
        if posixpath.dirname(file) == home and imports.search(text)]
    mangled = f"_Z{len(wanted)}{wanted}v"
    if mangled in library.exports:
        report.add("module-name", FAIL, f"Python does not import it: {wanted} is a "
                   'name of C++. PyMODINIT_FUNC, or extern "C", makes it one of C')
    elif wanted in library.inner:
        report.add("module-name", FAIL, f"Python does not import it: {wanted} is "
                   "hidden. PyMODINIT_FUNC makes it visible")
    elif found[2] and there or importing:
        report.add("module-name", FAIL, f"Python does not import it: it looks for "
                   f"{wanted}, and there is {join(there) or 'none'}" + (
                       f"; {importing[0]} imports it" if importing else ""))


def _check_module_name(library: Library, subject: Subject, report: Report) -> bool:
    """Return whether a wheel is for Pythons that do not import a module of this name,
    whatever it uses."""
    found = re.search(r"\.cpython-3(\d+)(t?)-(.*)\.so$", library.file)
    kinds = {"musl" if f.startswith("musllinux") else "gnu" for _, _, f in subject.tags}
    ends = [f"{library.machine}-linux-{kind}" for kind in sorted(
        kinds or {"gnu", "musl"})]
    if found and found[3] not in ends:
        report.add("one-python-by-name", FAIL, "Python does not import it: its name "
                   f"ends in {found[3]}.so, where Python looks for {' or '.join(ends)}"
                   ".so")
        return True
    if not found or not subject.tags:
        return False
    own = f"cp3{found[1]}"
    all_own = {m[1] for other in subject.libraries
               if (m := re.search(r"\.cpython-3(\d+)", other.file))}
    for_one = [f"{p}-{a}" for p, a, _ in subject.tags if re.fullmatch(r"cp3\d+t?", a)]
    many = [f"{p}-{a}" for p, a, _ in subject.tags if a in ("abi3", "none")]
    if len(all_own) > 1:  # one for each Python
        return False
    if not many and any(t.endswith(own + found[2]) for t in for_one):
        return False
    imported = any(n.startswith("PyInit_") for n in library.exports)
    module = library.name[:-len(library.file)] + library.file.partition(".")[0]
    others = [lib.file for lib in subject.libraries if lib.name in (
        f"{module}.abi3.so", f"{module}.so")]
    free = any(a.endswith("t") for _, a, _ in subject.tags)
    python = f"CPython 3.{found[1]}{found[2]}" + (
        " with the GIL" if free and not found[2] else "")
    text = f"{python} alone imports a module of this name, though the wheel says " \
           f"{(many or for_one)[0]}"
    if not imported:
        text += "; it has no PyInit_, so it may be meant to be loaded by its path"
    elif others:
        text = f"{python} imports this in place of {others[0]}, which lies beside it " \
               "and serves all others: was it left by an older build?"
    report.add("one-python-by-name", FAIL if imported else NOTE, text)
    if imported:
        report.python = "one"
    return imported


def _check_private(library: Library, subject: Subject, private: list[str],
                   report: Report) -> None:
    report.python = "one"
    one = re.search(r"\.cpython-3(\d+)", library.file)
    abi3 = ".abi3." in library.file or any(a == "abi3" for _, a, _ in subject.tags)
    none = [p for p, a, _ in subject.tags if a == "none"]
    report.add("private-python", FAIL if abi3 or none else NOTE, (
        f"CPython 3.{one[1]} alone" if one else "one build for each Python")
        + f": {join(private)} are not of the limited API"
        + (", though it says abi3" if abi3 else
           f", though the wheel says {none[0]}-none" if none else ""), private)


def find_cuda_functions(library: Library) -> list[str]:
    """Return the functions of libtorch's shim that only libtorch_cuda.so has."""
    return sorted(n for n, weak in library.shims.items() if not weak and
                  re.search(r"(?<!device_type)_cuda(_|$)", n))


def check_cuda(library: Library, subject: Subject, report: Report) -> None:
    if library.cuda:
        _check_architectures(library.cuda, report)
    gpu = [n for n in library.needed if re.match(
        r"lib(torch_cuda|c10_cuda|torch_hip|c10_hip)\b", n)]
    driver = [n for n in library.needed if re.match(r"lib(cuda|nvidia-ml)\b", n)]
    functions = find_cuda_functions(library)
    if gpu or functions:
        report.add("needs-cuda-torch", NOTE, "a CPU build of torch refuses it: it "
                   f"needs {join(gpu or functions)}")
    for name in library.needed if not subject.variant else ():  # its name says it
        if found := re.fullmatch(r"libcudart\.so\.(\d+).*", name):
            report.add("cuda-major", NOTE, f"needs {name}, which a PyTorch for CUDA "
                       f"{found[1]} brings, and none for another CUDA")
    there = {lib.file for lib in subject.libraries}
    if packed := [n for n in driver if n in there]:
        report.add("needs-driver", FAIL, f"needs {join(packed)}, a copy of NVIDIA's "
                   "driver that lies beside it, and fits the driver of one machine: "
                   "auditwheel repair --exclude "
                   f"'{re.sub('(-[0-9a-f]{8})?[.]so.*', '.so*', packed[0])}'")
    elif driver:
        report.add("needs-driver", NOTE, f"a machine without NVIDIA's driver refuses "
                   f"it: it needs {join(driver)}")


def _check_architectures(cuda: list[str], report: Report) -> None:
    report.add("cuda-code", OK, join(cuda, 99))
    exact = [a for a in cuda if a[-1] in "af"]
    binary = [a for a in cuda if a.startswith("sm_")]
    if exact:
        report.add("cuda-exact-gpu", NOTE, f"{join(exact)}: code for that GPU (a) or "
                   "its family (f) alone; others need code of their own")
    if binary and set(cuda) <= {*binary, *exact}:
        report.add("cuda-no-ptx", NOTE, "no PTX"
                   + " for other GPUs" * (len(binary) < len(cuda)) +
                   ": a GPU of a newer generation has no code to run")
    elif not binary:
        report.add("cuda-ptx-alone", NOTE, "PTX alone: the driver compiles it at the "
                   "first use, if it is as new as the nvcc that made it")
