"""Checks a wheel's name and metadata against what it holds."""

import base64
import contextlib
import re

from torch_stable_abi.audit.findings import FAIL, NOTE, OK, WARN, Report, join
from torch_stable_abi.audit.platforms import find_policy
from torch_stable_abi.audit.subject import Subject, Wheel
from torch_stable_abi.files import MACHINES
from torch_stable_abi.libtorch import surface
from torch_stable_abi.libtorch.versions import numbers

# PEP 600: what the older names stand for.
OLDER_NAMES = {"manylinux1": "manylinux_2_5", "manylinux2010": "manylinux_2_12",
               "manylinux2014": "manylinux_2_17"}
# Folders of a project that belong in no wheel.
COMMON_NAMES = {"tests", "test", "docs", "examples", "benchmarks", "scripts", "build"}
# Fields, and the Metadata-Version that brought them. (License-File was written long
# before it was of 2.4.)
NEWER_FIELDS = {"Description-Content-Type": "2.1", "Provides-Extra": "2.1",
                "Dynamic": "2.2", "License-Expression": "2.4", "Import-Name": "2.5",
                "Import-Namespace": "2.5"}
SCHEMES = ("purelib", "platlib", "headers", "scripts", "data")  # of a .data folder
OF_TORCH = re.compile(r"\s*torch\b(?![-_.])", re.I)  # a requirement
# A tag of a system, as PEP 513, 571, 599, 600 and 656 have them.
LINUX = re.compile(r"(manylinux(1|2010|2014|_\d+_\d+)|musllinux_\d+_\d+|linux)_"
                   r"(x86_64|i686|aarch64|armv7l|armv6l|ppc64|ppc64le|s390x|riscv64|"
                   r"loongarch64)")
FUTURE = "2.99"  # stands for each minor version to come
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")


def check_wheel(subject: Subject, floor: str | None, bound: list[str],
                report: Report) -> None:
    """`bound` are the libraries that run on one libtorch."""
    assert subject.wheel
    if subject.libraries:
        _check_machines(subject, report)
        _check_manylinux(subject, report)
    _check_metadata(subject, subject.wheel, report)
    _check_record(subject, subject.wheel, report)
    _check_cuda(subject, subject.wheel, report)
    if floor or bound:
        _check_requirement(subject.wheel, floor, bound, report)


def _check_machines(subject: Subject, report: Report) -> None:
    machines = {lib.machine for lib in subject.libraries}
    for machine in sorted(machines):
        if not any(f.endswith(machine) for _, _, f in subject.tags):
            other = [lib.name for lib in subject.libraries if lib.machine == machine]
            report.add("wheel-machine", NOTE if len(machines) > 1 else FAIL,
                       f"holds libraries for {machine}, which its name does not say: "
                       f"{join(other)}")
    systems = {f for _, _, f in subject.tags}
    if not any(re.match(r"any$|(many|musl)?linux", f) for f in systems):
        report.add("wheel-machine", FAIL, f"holds libraries for Linux, where nobody "
                   f"installs {join(sorted(systems))}")
    empty = [f for f in sorted(systems) if any(
        f.endswith(f"_{m}") for m in MACHINES.values()) and not any(
            f.endswith(f"_{m}") for m in machines)]
    if 0 < len(empty) < len(systems):
        report.add("wheel-machine", FAIL, f"says {empty[0]}, and has no library for it")
    musl = [f for _, _, f in subject.tags if f.startswith("musllinux")]
    glibc = [lib.name for lib in subject.libraries if "libc.so.6" in lib.needed]
    if musl and glibc:
        report.add("wheel-manylinux", FAIL, f"says {musl[0]}; {glibc[0]} needs glibc")
    odd = sorted(f for f in systems if "linux" in f and not LINUX.fullmatch(f))
    if odd:
        report.add("wheel-machine", FAIL if len(odd) == len(systems) else WARN,
                   f"says {join(odd)}, which is no tag that pip knows: one is "
                   "manylinux_2_28_x86_64")


def _check_manylinux(subject: Subject, report: Report) -> None:
    alike = [lib for lib in subject.libraries
             if lib.machine == subject.libraries[0].machine]
    policy = find_policy(alike)
    if unported := [tag for _, _, tag in subject.tags if tag.startswith("linux_")]:
        report.add("wheel-manylinux", NOTE, f"says {unported[0]}, which PyPI refuses"
                   + (f": auditwheel names it {policy.name}" if policy and
                      policy.name.startswith("many") else ""))
    claimed = []
    for _, _, tag in subject.tags:
        name = re.sub(r"^(manylinux(?:1|2010|2014))(?=_)",
                      lambda m: OLDER_NAMES[m[1]], tag)
        if found := re.match(r"manylinux_(\d+)_(\d+)_\w+", name):
            claimed.append(((int(found[1]), int(found[2])), tag))
    if not policy or not claimed:
        return
    oldest, tag = min(claimed)
    is_linux = policy.name.startswith("linux")
    wrong = is_linux or oldest < numbers(policy.name)[:2]
    why = next(lib.name for lib in alike if find_policy([lib]) == policy)
    report.add("wheel-manylinux", FAIL if wrong else OK,
               f"says {tag}; {why} needs {policy.name}")


def _check_metadata(subject: Subject, wheel: Wheel, report: Report) -> None:
    from packaging.utils import canonicalize_name, canonicalize_version
    if len(wheel.folders) != 1:
        report.add("wheel-metadata", FAIL, "has " + (
            f"{join(wheel.folders)}, where one .dist-info is expected"
            if wheel.folders else "no .dist-info: pip refuses it"))
        return
    outside = [n for n in subject.sums if n.startswith("/") or ".." in n.split("/")]
    if outside:
        report.add("wheel-metadata", FAIL, f"has {join(outside)}, outside of it: pip "
                   "refuses it")
    odd = sorted({m[1] for n in subject.sums if (
        m := re.match(r"[^/]+\.data/([^/]+)/", n)) and m[1] not in SCHEMES})
    if odd:
        report.add("wheel-metadata", FAIL, f"has {join(odd)} in its .data: pip knows "
                   f"{join(SCHEMES)} alone, and refuses it")
    if wheel.unread:
        report.add("wheel-metadata", FAIL, f"{join(wheel.unread)} is no UTF-8: pip "
                   "refuses it")
    said_version = wheel.about.get("Wheel-Version", "")
    if wheel.about and not re.fullmatch(r"1\.\d+", said_version.strip()):
        report.add("wheel-metadata", FAIL, "its file WHEEL " + (
            f"says Wheel-Version {said_version}" if said_version else
            "has no Wheel-Version") + ", where pip knows 1.0: it refuses it")
    folder = wheel.folders[0].removesuffix(".dist-info")
    said = {"its .dist-info": folder.rpartition("-")[::2],
            "METADATA": (wheel.metadata["Name"] or "",
                         wheel.metadata["Version"] or "")}
    for where, (name, version) in said.items():
        if not name or not version:
            report.add("wheel-metadata", FAIL, f"{where} lacks a name or a version")
        elif canonicalize_name(name) != wheel.name:
            report.add("wheel-metadata", FAIL, f"{where} says {name} {version}, and "
                       f"the file's name {wheel.name} {wheel.version}: pip refuses it")
        elif canonicalize_version(version) != canonicalize_version(wheel.version):
            refused = where == "METADATA"
            report.add("wheel-metadata", FAIL if refused else WARN, f"{where} says "
                       f"{name} {version}, and the file's name {wheel.name} "
                       f"{wheel.version}" + ": pip refuses it, unless it is given its "
                       "path" * refused)
    tags = {"-".join(tag) for tag in wheel.tags}
    says = wheel.about.get_all("Tag", [])
    if not says:
        report.add("wheel-metadata", FAIL, "its file WHEEL is missing, or has no tag")
    elif set(says) != tags:
        report.add("wheel-metadata", WARN, f"its file WHEEL says {join(says)}, "
                   f"and its name {join(sorted(tags))}")
    for key, since in NEWER_FIELDS.items():
        if wheel.metadata[key] and \
                numbers(wheel.metadata["Metadata-Version"] or "0") < numbers(since):
            report.add("wheel-metadata", WARN, f"METADATA has {key}, which "
                       f"Metadata-Version {since} brought, and says "
                       f"{wheel.metadata['Metadata-Version']}: an index may refuse it")
    tops = {name.partition("/")[0] for name in subject.sums if "/" in name}
    for top in sorted(tops & COMMON_NAMES - {wheel.name}):
        report.add("wheel-metadata", WARN, f"has a package {top}, as other wheels have:"
                   " the last one that is installed stays")
    if subject.libraries and wheel.about.get("Root-Is-Purelib", "").lower() == "true":
        report.add("wheel-metadata", WARN, "its file WHEEL says Root-Is-Purelib: true, "
                   "though it has libraries: some systems keep these elsewhere")
    _check_requirements(wheel, report)
    _check_pythons(wheel, report)


def _check_requirements(wheel: Wheel, report: Report) -> None:
    """Name what pip cannot read of what it requires."""
    from packaging.requirements import InvalidRequirement, Requirement
    for text in wheel.metadata.get_all("Requires-Dist", []):
        try:
            Requirement(text)
        except InvalidRequirement:
            if not OF_TORCH.match(text):  # another rule is about that
                report.add("wheel-metadata", FAIL, f"requires {text!r}, which pip "
                           "cannot read")


def _check_pythons(wheel: Wheel, report: Report) -> None:
    """Check that a Python which the tags are for is one that Requires-Python admits."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    text = wheel.metadata["Requires-Python"]
    try:
        wanted = SpecifierSet(text or "")
    except InvalidSpecifier:
        report.add("wheel-metadata", FAIL, f"Requires-Python is {text!r}, which pip "
                   "cannot read")
        return
    if not all(re.match(r"cp|py", python) for python, _, _ in wheel.tags):
        return  # it is for another Python than CPython too
    own = join(sorted({f"{python}-{abi}" for python, abi, _ in wheel.tags}))
    pythons = _find_installing(wheel)
    if not pythons:
        report.add("wheel-metadata", FAIL, f"no Python installs it: {own} is no tag "
                   "that pip knows. cp39-abi3 is for CPython 3.9 and newer, cp313-cp313"
                   " for 3.13 alone")
    elif not any(wanted.contains(f"3.{minor}.99") for minor in pythons):
        report.add("wheel-metadata", FAIL, f"no Python installs it: it is for {own}, "
                   f"and Requires-Python is {text}")


def _find_installing(wheel: Wheel) -> list[int]:
    """Return the minor versions of CPython 3 that have a tag of the wheel."""
    from packaging import tags
    own = {"-".join(tag) for tag in wheel.tags}
    platforms = sorted({platform for _, _, platform in wheel.tags})

    def list_tags(minor: int) -> set[str]:
        abis = [f"cp3{minor}", f"cp3{minor}m"] if minor < 8 else [f"cp3{minor}"]
        found = [*tags.cpython_tags((3, minor), abis, platforms),
                 *tags.compatible_tags((3, minor), f"cp3{minor}", platforms)]
        if minor > 12:  # without the GIL
            found += tags.cpython_tags((3, minor), [f"cp3{minor}t"], platforms)
        return {str(tag) for tag in found}
    return [minor for minor in range(6, 40) if own & list_tags(minor)]


def _check_record(subject: Subject, wheel: Wheel, report: Report) -> None:
    if wheel.record is None:
        if wheel.folders:
            report.add("wheel-record", FAIL, "has no RECORD: pip refuses it")
        return
    signed = re.compile(r"[^/]+\.dist-info/RECORD(\.jws|\.p7s)?")
    listed = {n: said for n, said in wheel.record.items() if not signed.fullmatch(n)}
    there = {n: sum for n, sum in subject.sums.items() if not signed.fullmatch(n)}
    wrong = []
    for name, said in listed.items():
        if name in there and said.startswith("sha256=") and \
                said[7:].rstrip("=") != base64.urlsafe_b64encode(
                    there[name]).decode().rstrip("="):
            wrong.append(f"{name} is another one than RECORD says")
    wrong += [f"{name} is not in it" for name in listed if name not in there]
    other = sorted({said.partition("=")[0] for said in listed.values()
                    if said and not said.startswith("sha256=")})
    if other:
        weak = {"md5", "sha1", "sha224"} & {*other}
        report.add("wheel-record", WARN if weak else NOTE, f"RECORD has {join(other)} "
                   "of files, which is not compared" + ": its format asks for SHA-256 "
                   "or better" * bool(weak))
    wrong += [f"RECORD does not have {name}" for name in there if name not in listed]
    if wrong:
        report.add("wheel-record", FAIL, f"was changed after it was built: {wrong[0]}"
                   + (f" and {len(wrong) - 1} more" if wrong[1:] else ""), wrong)


def _check_cuda(subject: Subject, wheel: Wheel, report: Report) -> None:
    """Compare the CUDA of the packages that it requires with that of its libraries."""
    needed = {m[1]: m[0] for lib in subject.libraries for name in lib.needed
              if (m := re.fullmatch(
                  r"lib(?:cudart|cublas|cublasLt|nvrtc|nvJitLink)\.so\.(\d+).*",
                  name))}
    for text in wheel.metadata.get_all("Requires-Dist", []):
        found = re.match(r"(nvidia-[\w-]+-cu(\d+))(?!.*\bextra\b)", text)
        if found and needed and found[2] not in needed:
            report.add("cuda-major", WARN, f"requires {found[1]}, and needs "
                       f"{join(needed.values())}")


def _find_pythons(wheel: Wheel) -> list[str]:
    """Return those of PYTHONS that a wheel is for, by its tags and Requires-Python; all
    of them, if it is for none of these."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    wanted = SpecifierSet()
    with contextlib.suppress(InvalidSpecifier):
        wanted = SpecifierSet(wheel.metadata["Requires-Python"] or "")
    ones = [(f"3.{m[1]}", abi) for python, abi, _ in wheel.tags
            if (m := re.fullmatch(r"cp3(\d+)", python))]
    return [p for p in PYTHONS if wanted.contains(f"{p}.99") and (not ones or any(
        p == own or abi == "abi3" and numbers(p) > numbers(own)
        for own, abi in ones))] or list(PYTHONS)


def _read_requirements(wheel: Wheel, report: Report):
    """Return what it requires of torch on Linux, each as packaging reads it."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name
    found = []
    for text in wheel.metadata.get_all("Requires-Dist", []):
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            if OF_TORCH.match(text):
                report.add("torch-requirement", FAIL, f"requires {text!r}, which pip "
                           "cannot read")
            continue
        if canonicalize_name(requirement.name) == "torch":
            found.append(requirement)
    return found


def _check_requirement(wheel: Wheel, floor: str | None, bound: list[str],
                       report: Report) -> None:
    """Check what it requires of torch, on all of its Pythons at once if that is the
    same."""
    before = len(report.findings)
    requirements = _read_requirements(wheel, report)
    if not requirements and len(report.findings) > before:
        return
    machine = next((m for m in MACHINES.values()
                    if any(f.endswith(m) for _, _, f in wheel.tags)), "x86_64")
    here = {"platform_system": "Linux", "sys_platform": "linux", "os_name": "posix",
            "platform_machine": machine, "extra": ""}
    pythons: dict[tuple[int, ...], list[str]] = {}  # those of the same requirements
    for python in _find_pythons(wheel):
        pythons.setdefault(tuple(
            n for n, r in enumerate(requirements) if not r.marker or r.marker.evaluate(
                {**here, "python_version": python,
                 "python_full_version": f"{python}.0"})), []).append(python)
    for which, own in pythons.items():
        where = f" on Python {join(own, 9)}" if len(pythons) > 1 else ""
        found = [requirements[n] for n in which]
        if found:
            _compare_requirement(found, where, floor, bound, report)
            continue
        why = f"; {join(bound)} is bound to one, and pip installs it beside any" \
            if bound else f"; the libraries need {floor}"
        unmet = [str(r.marker) for r in requirements if "extra" not in str(r.marker)]
        report.add("torch-requirement", FAIL if bound else WARN if unmet else NOTE,
                   f"does not require torch{where or ' in its metadata'}" + (
                       f", since {unmet[0]} does not hold" if unmet else "") + why)


def _compare_requirement(found: list, where: str, floor: str | None, bound: list[str],
                         report: Report) -> None:
    """Compare what it requires of torch, which is something, with what its libraries
    need."""
    from packaging.specifiers import SpecifierSet
    # 2.13.0+cpu is the 2.13.0 of another index.
    wanted = [SpecifierSet(re.sub(r"\+[\w.-]+", "", str(r.specifier))) for r in found]

    def admits(version: str) -> bool:
        return all(one.contains(f"{version}.0") or
                   version != FUTURE and any(one.contains(f"{version}.{n}")
                                             for n in range(1, 4)) for one in wanted)

    if urls := [r.url for r in found if r.url]:
        report.add("torch-requirement", NOTE, f"requires torch from {urls[0]}, whose "
                   "version does not show")
        return
    text = "requires torch" + " and ".join(str(r.specifier) for r in found) + where
    if any("+" in one.version for r in found for one in r.specifier):
        report.add("torch-requirement", WARN, f"{text}: a version with a + is in "
                   "PyTorch's own indexes alone, and pip finds none in PyPI")
    known = surface.versions()
    admitted = [v for v in [*known, FUTURE] if admits(v)]
    if bound:
        shown = [v if v != FUTURE else "all to come" for v in admitted]
        are = "is" if len(bound) == 1 else "are"
        report.add("torch-requirement", FAIL if len(admitted) > 1 else OK, text + (
            f", which admits {join(shown, 9)}; {join(bound)} {are} bound to one of "
            "them: require that one, with ==" if len(admitted) > 1
            else ", and a library is bound to it"))
        return
    assert floor
    older = [v for v in known if numbers(v) < numbers(floor) and admits(v)]
    newer = [v for v in known if numbers(v) >= numbers(floor) and not admits(v)]
    fits = any(admits(v) for v in [*known, FUTURE] if numbers(v) >= numbers(floor))
    if not fits or older and any(r.specifier for r in found):
        report.add("torch-requirement", FAIL, f"{text}, but the libraries need {floor}")
    elif older:
        report.add("torch-requirement", WARN, "requires torch of any version, but the "
                   f"libraries need {floor}: torch>={floor}")
    elif newer:
        report.add("torch-requirement", NOTE, f"{text}, though its libraries load on "
                   f"{join(newer, 9)} too")
    else:
        report.add("torch-requirement", OK, text)
