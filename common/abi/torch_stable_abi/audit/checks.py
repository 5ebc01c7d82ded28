"""The verdicts: what each line of an audit says, and how bad it is."""

import functools
import re
from dataclasses import asdict, dataclass, field

from torch_stable_abi.audit import elf
from torch_stable_abi.audit.elf import Library
from torch_stable_abi.audit.subject import VARIANT, Subject
from torch_stable_abi.libtorch import surface
from torch_stable_abi.libtorch.versions import numbers
from torch_stable_abi.schemas import schema

OK, NOTE, WARN, FAIL = LEVELS = "ok", "note", "warn", "FAIL"
MACHINES = {"x64": "x86_64", "AArch64": "aarch64"}
UNSTABLE = re.compile(r"\b(at|c10|torch|caffe2)::")
STABLE = re.compile(r"\btorch::(stable|headeronly)\b")
# A schema, alone in a string; and the name of an op.
SCHEMA = re.compile(r"(?:\w+::)?(\w+(?:\.\w+)?)\(([^()]|\([^()]*\))*\) *->.*")
OP = re.compile(r"aten::(\w+)(?:\.(\w+))?")
# What the macros of library.h call their functions: NAMESPACE, or
# NAMESPACE_NUMBER, or NAMESPACE_KEY_NUMBER.
REGISTRATION = re.compile(
    r"\bSTABLE_TORCH_LIBRARY_(?:(FRAGMENT|IMPL)_)?(?:static_)?init_(\w+)")
TORCHS = re.compile(r"_ZNK?(3c10|2at|5torch(?!6stable|10headeronly))")
# What torch and its CUDA bring into the process.
THERE = re.compile(r"lib(torch|c10|cu|nv|npp|mkl|gomp|python)\w*[.-].*|ld-linux.*")


@dataclass
class Line:
    what: str
    level: str
    text: str
    more: list[str] = field(default_factory=list)


@dataclass
class Report:
    """The lines on one library or, without a name, on what holds them all."""
    names: list[str]
    lines: list[Line]
    floor: str | None = None  # the oldest libtorch
    unstable: bool = False  # so that there is none
    manylinux: str = ""
    python: str = ""

    @property
    def level(self) -> str:
        return max((line.level for line in self.lines), key=LEVELS.index,
                   default=OK)


def audit(subject: Subject) -> list[Report]:
    """Libraries whose lines are the same share a report."""
    reports: list[Report] = []
    bystanders = []
    for library in subject.libraries:
        if not uses_torch(library) and len(subject.libraries) > 1:
            bystanders.append(library)
            continue
        report = of_library(library, subject)
        twin = next((r for r in reports if r.lines == report.lines), None)
        if twin:
            twin.names += report.names
        else:
            reports.append(report)
    whole = of_whole(subject, reports, bystanders)
    return [*reports, whole] if whole.lines else reports


def uses_torch(library: Library) -> bool:
    return bool(library.shims) or any(
        re.match(r"lib(torch|c10)", name) for name in library.needed)


def of_library(library: Library, subject: Subject) -> Report:
    siblings = {name for other in subject.libraries if other is not library
                for name in other.exports}
    report = Report([library.name], [])
    add = report.lines.append
    foreign = _unstable(library, siblings)
    report.unstable = bool(foreign)
    report.floor = _libtorch(library, foreign, add)
    _symbols(foreign, library, add)
    _calls(library, report.floor, add)
    _defines(library, subject, add)
    report.manylinux = _manylinux(library, add)
    report.python = _python(library, subject, add)
    _cuda(library, add)
    _check_links(library, subject, add)
    _check_exports(library, add)
    return report


def _names(names, most: int = 4) -> str:
    names = list(names)
    return ", ".join(names[:most]) + (
        f" and {len(names) - most} more" if len(names) > most else "")


def _count(things, what: str) -> str:
    return f"{len(things)} {what}{'s' * (len(things) != 1)}"


# --- libtorch ----------------------------------------------------------------


def _unstable(library: Library, siblings: set[str]) -> list[str]:
    """Return what it takes of libtorch's C++, demangled."""
    names = [n for n in library.imports if n not in siblings]
    return sorted(text for text in elf.demangle(names)
                  if UNSTABLE.search(STABLE.sub("", text)))


def _libtorch(library: Library, unstable: list[str], add) -> str | None:
    shims = library.shims
    if unstable:
        add(Line("libtorch", FAIL, "runs on the libtorch that it was built with, "
                 "and maybe on no other: it takes C++ symbols of it"))
        return None
    if not shims:
        add(Line("libtorch", NOTE, "takes nothing of it"))
        return None
    firm = {n: surface.since(n) for n, weak in shims.items() if not weak}
    oldest, newest = surface.versions()[0], surface.versions()[-1]
    floor = max((v for v in firm.values() if v), key=numbers, default=oldest)
    why = sorted(n for n, v in firm.items() if v == floor)
    newer = "or newer" if floor != oldest else "or older"
    add(Line("libtorch", OK, f"{floor} {newer}" + (
        f", for {_names(why)}" if floor != oldest else ""),
        [f"{v}: {_names(sorted(n for n in firm if firm[n] == v), 99)}"
         for v in surface.versions()[1:] if v in firm.values()]))
    unknown = sorted(n for n, v in firm.items() if v is None)
    if unknown:
        add(Line("libtorch", WARN, f"no libtorch up to {newest} has "
                 f"{_names(unknown)}"))
    later = {n: surface.since(n) for n in {
        *(n for n, weak in shims.items() if weak),
        *(s for s in library.strings if surface.since(s))}}
    later = {n: v for n, v in later.items() if v and numbers(v) > numbers(floor)}
    if later:
        add(Line("libtorch", NOTE, "looks up, and can do without: " + _names(
            f"{n} ({v})" for n, v in sorted(later.items()))))
    return floor


def _symbols(unstable: list[str], library: Library, add) -> None:
    if unstable:
        add(Line("symbols", FAIL, f"{len(unstable)} are not of the stable ABI, "
                 f"such as {unstable[0]}", unstable))
    elif library.shims:
        add(Line("symbols", OK, f"{len(library.shims)} functions of the C shim, "
                 "nothing of libtorch's C++"))
    python = [n for n in library.needed if n.startswith("libtorch_python")]
    if python and library.shims and not unstable:
        add(Line("symbols", WARN, "links to libtorch_python.so and takes nothing "
                 "of it: link to libtorch_cpu.so alone"))


def _calls(library: Library, floor: str | None, add) -> None:
    if "call_op_declared" in library.exports:
        add(Line("calls", NOTE, "lists its calls by name: ./workbook schemas "
                 f"{library.name} compares each with every libtorch"))
    ops = sorted({m[1] for m in map(OP.fullmatch, library.strings) if m})
    if not ops or floor is None:
        return
    since = [v for v in surface.versions() if numbers(v) >= numbers(floor)]
    missing, moved = [], []
    for op in ops:
        without = [v for v in surface.lacking(op) if v in since]
        if without == since:
            missing.append(f"aten::{op} is in no libtorch since {floor}")
        elif without:
            missing.append(f"aten::{op} is not in {_names(without, 9)}")
        for name in surface.overloads(op):
            overload = name.partition(".")[2]
            if overload and overload not in library.strings:
                continue
            moved += [f"aten::{name} is in {v} {text or 'gone'}"
                      for v, text in surface.changes(name).items() if v in since[1:]]
    span = f"libtorch {since[0]} to {since[-1]}" if len(since) > 1 else since[0]
    add(Line("calls", WARN if missing else OK,
             f"{_count(ops, 'aten op')} by name, " + (
                 f"of which {len(missing)} not on every {span}: {missing[0]}"
                 if missing else f"each in {span}"), missing or ops))
    if moved:
        add(Line("calls", WARN, "a schema changed, and a call passes as many "
                 f"slots as it was built with: {moved[0]}", moved))


def _namespaces(library: Library) -> tuple[set[str], set[str], set[str]]:
    """Return the namespaces that the library defines ops in, those that it has
    kernels for, and the macros that stand for one of either. The name in a symbol
    is what the author wrote; it is a namespace if it is a string of the library
    too."""
    defined, implemented = set(), set()
    names = [n for n in {*library.inner, *library.exports}
             if "STABLE_TORCH_LIBRARY" in n]
    for match in filter(None, map(REGISTRATION.search, elf.demangle(names))):
        if match[1] == "IMPL":
            implemented.add(re.sub(r"_[A-Za-z0-9]+_\d+$", "", match[2]))
        else:
            defined.add(re.sub(r"_\d+$", "", match[2]) if match[1] else match[2])
    there = library.strings
    return defined & there, implemented & there, (defined | implemented) - there


def _defines(library: Library, subject: Subject, add) -> None:
    schemas = {m[1]: text for text in library.strings
               if ")" in text and "->" in text and (m := SCHEMA.fullmatch(text))}
    spaces, implemented, macros = _namespaces(library)
    if schemas and not spaces and not macros:  # what its Python files name
        spaces = {n for n in subject.namespaces if n in library.strings}
    texts = [f"torch.ops.{n}" for n in sorted(spaces)]
    if schemas:
        where = f" in {_names(texts)}" if texts else \
            f" in the namespace that {_names(sorted(macros))} stands for" if macros \
            else "; the file is stripped, so their namespace does not show" \
            if library.stripped else "; their namespace does not show"
        add(Line("defines", OK, _count(schemas, "op") + where,
                 sorted(schemas.values())))
    elif spaces:
        add(Line("defines", NOTE, f"ops in {_names(texts)}, whose schemas do not "
                 "show: they are made when it is loaded"))
    elif implemented:
        add(Line("defines", NOTE, "kernels alone, for the ops of " + _names(
            f"torch.ops.{n}" for n in sorted(implemented))))
    if "TORCH_EXTENSION_NAME" in spaces:
        add(Line("defines", WARN, "the namespace is the name of a macro: headers "
                 "before 2.13 do not expand it in STABLE_TORCH_LIBRARY"))
    elif spaces and implemented and not macros and not spaces & implemented:
        add(Line("defines", WARN, f"no op here has a kernel here: the kernels are "
                 f"for the ops of {_names(sorted(implemented))}"))
    refused = [text for _, text in sorted(schemas.items())
               if schema.is_refused_by_compile(text)]
    if refused:
        add(Line("defines", WARN, "torch.compile refuses an op that returns an "
                 "argument, or that writes to one and returns anything but new "
                 f"tensors: {refused[0]}", refused))
    if subject.id and spaces - {subject.id}:
        add(Line("defines", FAIL, f"the Hub wants the namespace {subject.id}, "
                 "as metadata.json has it, so that two versions can be loaded"))


# --- the platform --------------------------------------------------------------


def _manylinux(library: Library, add) -> str:
    floors: dict[str, str] = {}
    for versions in library.versions.values():
        for version in versions:
            name, _, number = version.partition("_")
            if numbers(number) and name in ("GLIBC", "GLIBCXX", "CXXABI", "GCC"):
                floors[name] = max(floors.get(name, number), number, key=numbers)
    policy = _policy([library])
    needs = ", ".join(f"{n} {v}" for n, v in sorted(floors.items()))
    if not policy:
        add(Line("platform", NOTE, f"{library.machine}: {needs}"))
        return ""
    bare = policy.name.startswith("linux")
    add(Line("platform", WARN if bare else OK, f"{policy.name}: {needs}"
             + (", more than any manylinux has" if bare else "")))
    return policy.name


@functools.cache
def _policies(machine: str):
    from auditwheel.architecture import Architecture
    from auditwheel.libc import Libc
    from auditwheel.policy import WheelPolicies
    return WheelPolicies(libc=Libc.GLIBC, arch=Architecture(machine))


def _policy(libraries: list[Library]):
    """Return the oldest manylinux that has what they need."""
    machine = MACHINES.get(libraries[0].machine)
    if not machine:
        return None
    needed: dict[str, set[str]] = {}
    for library in libraries:
        for name, versions in library.versions.items():
            needed.setdefault(name, set()).update(versions)
    return _policies(machine).versioned_symbols_policy(needed)


def _python(library: Library, subject: Subject, add) -> str:
    from abi3info import DATAS, FUNCTIONS
    used = [n for n in library.imports if re.match(r"_?Py[A-Z_]", n)]
    if not used:
        bound = sorted({f"{p}-{a}" for p, a, _ in subject.tags
                        if re.fullmatch(r"cp\d+t?", a)})
        add(Line("Python", NOTE if bound else OK, "uses nothing of it: any version, "
                 "free-threaded too" + (
                     f"; but the wheel says {_names(bound)}, where py3-none would do"
                     if bound else "")))
        return "any"
    added = {s.name: of.added for s, of in [*FUNCTIONS.items(), *DATAS.items()]}
    private = sorted(n for n in used if n not in added)
    claims = [p for p, a, _ in subject.tags if a == "abi3"]
    one = re.search(r"\.cpython-3(\d+)", library.name)
    many = [f"{p}-{a}" for p, a, _ in subject.tags if a in ("abi3", "none")]
    if one and many:  # whatever it uses: no other Python looks for this name
        add(Line("Python", FAIL, f"CPython 3.{one[1]} alone finds a module of this "
                 f"name, though the wheel says {many[0]}", private))
        return "one"
    if private:
        any_python = [p for p, a, _ in subject.tags if a == "none"]
        false = ".abi3." in library.name or claims
        add(Line("Python", FAIL if false or any_python else NOTE, (
            f"CPython 3.{one[1]} alone" if one else "one build for each Python")
            + f": {_names(private)} are not of the limited API"
            + (", though it says abi3" if false else
               f", though the wheel says {any_python[0]}-none" if any_python else ""),
            private))
        return "one"
    least = max((added[n] for n in used), key=lambda v: (v.major, v.minor))
    text = f"{least.major}.{least.minor}"
    low = [p for p in claims if numbers("3." + p[3:]) < numbers(text)]
    add(Line("Python", WARN if low else OK, f"the limited API of {text}" + (
        f", for {_names(n for n in used if added[n] == least)}, though the wheel "
        f"says {low[0]}" if low else
        "; a free-threaded Python wants a build of its own before 3.15")))
    return text


def _cuda(library: Library, add) -> None:
    if library.cuda:
        add(Line("CUDA", OK, _names(library.cuda, 99)))
        exact = [a for a in library.cuda if a[-1] in "af"]
        binary = [a for a in library.cuda if a.startswith("sm_")]
        if exact:
            add(Line("CUDA", NOTE, f"{_names(exact)}: code for that GPU (a) or its "
                     "family (f) alone; others need code of their own"))
        if len(binary) == len(library.cuda):
            add(Line("CUDA", NOTE, "no PTX: a GPU of a newer generation has no code "
                     "to run"))
        elif not binary:
            add(Line("CUDA", NOTE, "PTX alone: the driver compiles it at the first "
                     "use, if it is as new as the nvcc that made it"))
    gpu = [n for n in library.needed if re.match(
        r"lib(torch_cuda|c10_cuda|torch_hip|c10_hip)\b", n)]
    driver = [n for n in library.needed if re.match(r"libcuda\b", n)]
    functions = sorted(n for n, weak in library.shims.items() if not weak and
                       re.search(r"(?<!device_type)_cuda(_|$)", n))
    if gpu or functions:
        add(Line("CUDA", NOTE, "a CPU build of torch refuses it: it needs "
                 f"{_names(gpu or functions)}"))
    if driver:
        add(Line("CUDA", NOTE, f"a machine without NVIDIA's driver refuses it: it "
                 f"needs {_names(driver)}"))


# --- how it was linked -----------------------------------------------------------


def _check_links(library: Library, subject: Subject, add) -> None:
    inside = {name.rsplit("/", 1)[-1] for name in
              (other.name for other in subject.libraries)}
    policy = _policy([library])
    strange = [n for n in library.needed if n not in inside and
               not THERE.fullmatch(n) and policy and n not in policy.whitelist]
    if strange:
        add(Line("linked", NOTE if len(subject.libraries) > 1 else OK,
                 f"needs what neither it, torch nor manylinux brings: "
                 f"{_names(strange, 9)}"))
    if library.shims and not any(
            re.match(r"libtorch(_cpu)?\.so", n) for n in library.needed):
        add(Line("linked", WARN, "names no libtorch_cpu.so as needed: Python loads "
                 "it only if that is in the global namespace. Link to it"))
    absolute = [p for p in library.rpath if not p.startswith("$ORIGIN")]
    if library.rpath and (absolute or subject.variant):
        add(Line("linked", FAIL if subject.variant else WARN,
                 f"RPATH of the machine that built it: {_names(absolute)}"
                 if absolute else "has an RPATH, which the Hub refuses: "
                 + _names(library.rpath)))
    if elf.EXECUTABLE_STACK in library.flags:
        add(Line("linked", FAIL, "asks for an executable stack (an .S file "
                 "without .note.GNU-stack?): newer systems refuse to load it"))
    if elf.TEXT_RELOCATIONS in library.flags:
        add(Line("linked", FAIL, "has relocations in its code: compile all of it "
                 "with -fPIC"))
    names = [*library.imports, *library.exports]
    if any("St3__1" in n for n in names):
        add(Line("linked", FAIL, "uses libc++: what it throws is not caught by "
                 "libtorch, which uses libstdc++"))
    elif library.shims and "libstdc++.so.6" not in library.needed:
        add(Line("linked", WARN, "names no libstdc++.so.6 as needed: linked in, it "
                 "would be a second one beside libtorch's"))
    if library.debug:
        add(Line("linked", NOTE, "carries debug information; strip -g makes it "
                 "smaller"))


def _check_exports(library: Library, add) -> None:
    unique = [n for n, bind in library.exports.items() if bind == elf.UNIQUE]
    if unique:
        add(Line("exports", WARN, f"{_count(unique, 'gnu-unique symbol')}: all "
                 "libraries of a process share them, and dlclose frees nothing. "
                 "-fno-gnu-unique", elf.demangle(unique)))
    mangled = [n for n in library.exports if n.startswith("_Z")]
    torchs = [n for n in mangled if TORCHS.match(n)]
    if torchs or len(mangled) > 20:
        add(Line("exports", NOTE, _count(mangled, "C++ symbol") + (
            f", {len(torchs)} of them of torch's headers, which another library "
            "may bring too" if torchs else "") + ": -fvisibility=hidden "
            "-fvisibility-inlines-hidden", elf.demangle(torchs or mangled)))


# --- the wheel, the variant --------------------------------------------------------


def of_whole(subject: Subject, reports: list[Report],
             bystanders: list[Library]) -> Report:
    report = Report([], [])
    add = report.lines.append
    floor = max((r.floor for r in reports if r.floor), key=numbers, default=None)
    if subject.tags:
        _tags(subject, add)
        _requirement(subject, floor, any(r.unstable for r in reports), add)
    if variant := VARIANT.fullmatch(subject.variant):
        _variant(variant, subject, reports, floor, add)
    if bystanders and reports:
        add(Line("beside", NOTE, f"{len(bystanders)} libraries that use no "
                 f"libtorch: {_names(b.name for b in bystanders)}"))
    elif bystanders:
        add(Line("libtorch", NOTE, f"{len(bystanders)} libraries, of which none "
                 "uses libtorch"))
    return report


def _tags(subject: Subject, add) -> None:
    machines = {MACHINES.get(lib.machine, lib.machine) for lib in subject.libraries}
    for machine in sorted(machines):
        if not any(f.endswith(machine) for _, _, f in subject.tags):
            add(Line("wheel", NOTE if len(machines) > 1 else FAIL,
                     f"holds libraries for {machine}, which its name does not say"))
    policy = _policy([lib for lib in subject.libraries
                      if lib.machine == subject.libraries[0].machine])
    claimed = sorted((numbers(m[1]), m[0]) for _, _, f in subject.tags
                     if (m := re.match(r"manylinux_(\d+_\d+)_\w+", f)))
    if policy and claimed:
        bare = policy.name.startswith("linux")
        least = numbers(policy.name) if not bare else (99,)
        wrong = bare or claimed[0][0] < least[:2]
        why = next(lib.name for lib in subject.libraries
                   if _policy([lib]) == policy)
        add(Line("wheel", FAIL if wrong else OK, f"says {claimed[0][1]}; {why} "
                 f"needs {policy.name}"))


def _requirement(subject: Subject, floor: str | None, bound: bool, add) -> None:
    """`bound` says that a library takes C++ of one libtorch."""
    from packaging.requirements import InvalidRequirement, Requirement
    torch = None
    for text in subject.requires:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if requirement.name == "torch" and not requirement.marker:
            torch = requirement
    if torch is None:
        why = "; a library is bound to one, and pip installs it beside any" if bound \
            else f"; the libraries need {floor}" if floor else ""
        add(Line("wheel", FAIL if bound else NOTE,
                 f"does not require torch in its metadata{why}"))
        return
    admitted = [v for v in surface.versions() if torch.specifier.contains(f"{v}.0")]
    if bound and len(admitted) > 1:
        add(Line("wheel", FAIL, f"requires torch{torch.specifier}, which admits "
                 f"{_names(admitted, 9)}; a library is bound to one of them"))
        return
    if floor is None:
        return
    older = [v for v in surface.versions() if numbers(v) < numbers(floor)
             and torch.specifier.contains(f"{v}.0")]
    newer = [v for v in surface.versions() if numbers(v) >= numbers(floor)
             and not torch.specifier.contains(f"{v}.0")]
    text = f"requires torch{torch.specifier}"
    if older and torch.specifier:
        add(Line("wheel", FAIL, f"{text}, but the libraries need {floor}"))
    elif older:
        add(Line("wheel", WARN, f"requires torch of any version, but the "
                 f"libraries need {floor}: torch>={floor}"))
    elif newer:
        add(Line("wheel", NOTE, f"{text}, though its libraries load on "
                 f"{_names(newer, 9)} too"))
    else:
        add(Line("wheel", OK, text))


def _variant(variant: re.Match, subject: Subject, reports: list[Report],
             floor: str | None, add) -> None:
    target = f"{variant[1]}.{variant[2]}"
    if floor:
        add(Line("variant", OK if numbers(floor) <= numbers(target) else FAIL,
                 f"says libtorch {target}, and needs {floor}"))
    policy = _policy(subject.libraries)
    if policy:
        good = not policy.name.startswith("linux") and \
            numbers(policy.name)[:2] <= (2, 28)
        add(Line("variant", OK if good else FAIL,
                 f"the Hub takes manylinux_2_28; this needs {policy.name}"))
    wrong = {MACHINES.get(lib.machine, lib.machine)
             for lib in subject.libraries} - {variant[4]}
    if wrong:
        add(Line("variant", FAIL, f"says {variant[4]}, and holds {_names(wrong)}"))
    pythons = [r.python for r in reports if r.python not in ("any", "")]
    if any(p == "one" or numbers(p) > (3, 9) for p in pythons):
        add(Line("variant", FAIL, "the Hub takes the limited API of 3.9 or older"))


def as_json(subject: Subject, reports: list[Report]) -> dict:
    return {"name": subject.name, "level": level(reports),
            "reports": [{**asdict(r), "level": r.level} for r in reports]}


def level(reports: list[Report]) -> str:
    return max((r.level for r in reports), key=LEVELS.index, default=OK)

