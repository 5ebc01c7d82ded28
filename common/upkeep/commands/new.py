"""new: a project of your own, from a template.

Everything is renamed: files, library, package, the namespace of its ops and that
of its C++ code. With --bare it has the core alone, and one op of two inputs to
be replaced by yours.

With --wrap it is made around C++ and CUDA sources that exist: they are copied,
ported as ./workbook port does it, and their kernels are registered. What a person
must decide stands at its line, behind TODO(wrap), and is listed.

    ./workbook new my_ops --from 08 --bare --cuda
    ./workbook new my_ops --from 07 --wrap csrc

    ./workbook new --update DIR    core/ of such a project, as it is now"""

import argparse
import keyword
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from base.project import ROOT
from base.requirements import install, lock_files
from base.sheets import Chapter, chapters, find_chapter, source_files
from torch_stable_abi.programs import CannotRun
from upkeep import updating

# With dashes for its _ the Hub takes it too, which wants two characters.
NAME = re.compile(r"(?=..)[a-z][a-z0-9]*(_[a-z0-9]+)*")

# Words of C++, and namespaces that others have opened: the name becomes one.
OF_CPP = set(
    "alignas alignof and asm auto bitand bitor bool break case catch char class "
    "compl concept const consteval constexpr constinit continue decltype default "
    "delete do double else enum explicit export extern float for friend goto if "
    "inline int long mutable namespace new noexcept not nullptr operator or "
    "private protected public register requires return short signed sizeof "
    "static struct switch template this throw try typedef typeid typename union "
    "unsigned using virtual void volatile while xor "
    "at aten c10 cuda prim std torch wb".split())

OF_PROJECTS = set("build dist docs setup src tests".split())

BARE = ROOT / "common/upkeep/bare"  # one small op for each template

# The files of a template's own ops, and what they alone need.
OF_ITS_OPS = {
    "04": ["silu*", "swiglu.h", "widen_narrow.h", "tests/test_silu_and_mul.py"],
    "07": ["silu*", "functors.h", "backward.h", "widen_narrow.h",
           "tests/test_silu_and_mul.py"],
    "08": ["activation_cpu/*.*", "activation_cuda/*", "activation_cuda/core/*",
           "widen_narrow.h", "arguments.h", "op_kind.h", "rows.h", "current_stream.h",
           "cuda_inputs.h", "layers.py", "reference.py", "test_activation.py",
           "test_pytorch.py", "benchmarks/*"]}
# What the small op has from other templates.
OF_OTHERS = {
    "04": {},
    "07": {"cuda_activation_kernel.cpp": BARE / "04/boxed_kernels.cpp"},
    "08": {"torch-ext/core/dispatch.h":
           ROOT / "solutions/04_boxed_kernels/core/dispatch.h"}}
# What a small op for CUDA needs in the Hub's package: the kernel of 07's, and core/.
OF_CUDA = {"activation_cuda/add_scaled.cu": BARE / "07/add_scaled.cu",
           "activation_cuda/add_scaled_cuda.h": BARE / "07/add_scaled_cuda.h"}
CORE_OF_CUDA = ["activation_cuda/core/*", "core/cuda_inputs.h",
                "core/current_stream.h", "core/rows.h"]
# What a project around other kernels has of the bare one, and its core/.
OF_WRAPPED = {
    "04": ["CMakeLists.txt", "pyproject.toml", "python/*/*"],
    "07": ["CMakeLists.txt", "cuda.cmake", "pyproject.toml", "python/*/*"],
    "08": ["CMakeLists.txt", "build.toml", "package.py", "CARD.md", "registration.h",
           "_ops.py.in", "torch-ext/*/__init__.py", "core/portable.cpp",
           "core/checked_box.h"]}
CORE_OF_WRAPPED = ["by_name.h", "checked_box.h", "error_text.h", "sizes.h"]


def list_templates() -> list:
    """Return the chapters whose solution has a page of its own."""
    return [c for c in chapters() if (c.solution / "README.md").exists()]


def hub_name(name: str) -> str:
    """Return what the Hub, and pip, call the package: their names have no _."""
    return name.replace("_", "-")


def find_objection(name: str) -> str | None:
    """Return why it cannot be the name of a package."""
    if len(name) > 64:
        return "it has more than 64 characters"
    if not NAME.fullmatch(name):
        return ("two or more lower case letters, digits and single _, as in "
                "my_kernels")
    if keyword.iskeyword(name) or name in OF_CPP:
        return "it means something else in Python, C++ or PyTorch"
    if name in sys.stdlib_module_names:
        return "Python has a module of this name"
    if name in OF_PROJECTS:
        return "a project has a folder or a file of this name for something else"
    if is_installed(name) or hub_name(name) in locked_packages():
        return "there is a package of this name, which yours would replace"
    return None


def is_installed(name: str) -> bool:
    """Return whether Python finds a package, other than a folder of this tool's."""
    spec = find_spec(name)
    return spec is not None and not any(
        Path(place).is_relative_to(ROOT / "common")
        for place in [*(spec.submodule_search_locations or []), spec.origin or ""])


def locked_packages() -> set[str]:
    """Return the packages of PyPI that the workbook downloads, which a learner's
    environment is likely to have."""
    return {name for file in lock_files().values()
            for name in re.findall(r"^([\w.-]+)==", file.read_text(), re.M)}


def read_texts(chapter: Chapter, bare: bool, cuda: bool) -> dict[str, str]:
    """Return the template's files, by their paths. `cuda` is of template 08, whose
    bare project is for CPU alone without it."""
    found = {str(path.relative_to(chapter.solution)): path.read_text()
             for path in [*source_files(chapter.solution),
                          chapter.solution / "README.md"]}
    if not bare:
        return found
    for path in list(found):
        if cuda and any(Path(path).match(files) for files in CORE_OF_CUDA):
            continue
        if any(Path(path).match(files) for files in OF_ITS_OPS[chapter.number]):
            del found[path]
        elif path.startswith("python/"):  # which names the op with a gradient
            found[path] = found[path].replace("silu_and_mul", "add_scaled")
    found |= {path: source.read_text()
              for path, source in OF_OTHERS[chapter.number].items()}
    found |= read_overlay(BARE / chapter.number)
    if cuda:
        found |= {path: source.read_text() for path, source in OF_CUDA.items()}
        found |= read_overlay(BARE / f"{chapter.number}_cuda")
    return found


def read_overlay(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text()
            for path in folder.rglob("*") if path.is_file()}


def texts_to_wrap(chapter: Chapter) -> dict[str, str]:
    """Return the template's files that a project around other kernels has."""
    found = {path: text for path, text in read_texts(chapter, True, False).items()
             if any(Path(path).match(files) for files in OF_WRAPPED[chapter.number])}
    if chapter.number != "08":  # which has its own
        core = find_chapter("04").solution / "core"
        found |= {f"core/{name}": (core / name).read_text() for name in CORE_OF_WRAPPED}
    return found | read_overlay(
        BARE / ("wrap_08" if chapter.number == "08" else "wrap"))


def make_rename(chapter: Chapter, name: str) -> Callable[[str], str]:
    """Return a function that puts the project's name in place of the template's."""
    old, = re.findall(r"^project\((\w+)", (
        chapter.solution / "CMakeLists.txt").read_text(), re.M)
    # Not in "activations", nor where another project's name is meant. What
    # stands before the name says whose name it is.
    word = re.compile(rf'(^name = "|your-name/)?'
                      rf"(?<!kernels-community/){old}(?!s\b)", re.M)

    def rename(text: str) -> str:
        text = word.sub(
            lambda m: m[1] + hub_name(name) if m[1] else name, text)
        text = text.replace(old.upper(), name.upper())
        # The ops' namespace, and that of the C++ code.
        return re.sub(r"\bwb(\d\d)?\b", name, text)

    return rename


def make_files(chapter: Chapter, name: str, bare: bool, wrap: bool = False,
               cuda: bool = False) -> dict[str, str]:
    """Return the files of a project from a template, by their paths."""
    rename = make_rename(chapter, name)
    if wrap:
        return {rename(path): re.sub(r"\bNAME\b", name, rename(text))
                if path in ("README.md", "tests/test_ops.py") and chapter.number != "08"
                else rename(text) for path, text in texts_to_wrap(chapter).items()}
    return {rename(path): rename(text)
            for path, text in read_texts(chapter, bare, cuda).items()}


def new(name: str, number: str, folder: str | None, bare: bool, cuda: bool,
        sources: list[str] | None) -> None:
    chapter = find_chapter(number.zfill(2))
    if chapter not in list_templates():
        raise CannotRun(f"chapter {chapter.number} is no template; these are: "
                        + ", ".join(c.number for c in list_templates()))
    if sources and bare:
        raise CannotRun("--wrap takes the core and your sources, --bare the core and "
                        "an op of ours: say one of them")
    if cuda and not (bare and chapter.number == "08"):
        raise CannotRun("--cuda goes with --from 08 --bare: template 07 is for CUDA "
                        "in any case, and --wrap takes the sources that you name")
    if sources and chapter.number not in OF_WRAPPED:
        raise CannotRun(f"--wrap is of the templates {', '.join(OF_WRAPPED)}")
    target = find_target(name, chapter.number, folder)
    if sources:
        wrap(chapter, name, target, sources)
        return
    made = make_files(chapter, name, bare, cuda=cuda)
    write_project(target, made, {"template": chapter.number, "bare": bare,
                                 "cuda": cuda, "name": name})
    files = [path for path in target.rglob("*") if path.is_file()]
    lines = sum(path.read_text().count("\n") for path in files)
    print(f"{target} is made: {len(files)} files, {lines} lines.\n"
          "LICENSE is the workbook's, MIT: put yours in its place.\n")
    print_commands(target)


def find_target(name: str, number: str, folder: str | None) -> Path:
    """Return the folder to be made; refuse a name or a folder that cannot be."""
    reason = find_objection(name)
    if reason is not None:
        raise CannotRun(f"{name!r} cannot be the name of a package: {reason}")
    target = Path(folder or name)
    above = next(p for p in target.absolute().parents if os.path.lexists(p))
    if not above.is_dir():
        raise CannotRun(f"DIR: {above} is no folder, so {target} cannot be made in it")
    if not os.access(above, os.W_OK):
        raise CannotRun(f"DIR: the folder {above} cannot be written to")
    if os.path.lexists(target):
        raise CannotRun(f"{target} is there already; name another folder: "
                        f"./workbook new {name} --from {number} DIR")
    return target


def write_project(target: Path, made: dict[str, str], origin: dict) -> None:
    """Write the files of a project, whole or not at all."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryDirectory(dir=target.parent).cleanup()
    except OSError as error:
        raise CannotRun(f"DIR: no folder can be made in {target.parent}: "
                        f"{error.strerror}") from None
    with tempfile.TemporaryDirectory(
            prefix=f".{target.name}-", dir=target.parent) as scratch:
        part = Path(scratch, target.name)
        for path, text in made.items():
            copy = part / path
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(text)
        if core := updating.list_core(made):
            updating.write_record(part, origin, core)
        (part / "LICENSE").write_text((ROOT / "LICENSE").read_text())
        (part / ".gitignore").write_text("build/\ndist/\n__pycache__/\n")
        part.rename(target)


def print_commands(target: Path) -> None:
    """Print what the project's page says first: how it is built and tested."""
    commands = re.findall(
        r"```sh\n(.*?)```", (target / "README.md").read_text(), re.S)[0]
    print(f"  cd {shlex.quote(str(target))}")
    print("".join(f"  {line}\n" for line in commands.splitlines()), end="")


def wrap(chapter: Chapter, name: str, target: Path, sources: list[str]) -> None:
    """Make a project around sources that exist."""
    install("port")
    from upkeep.wrapping import project as wrapping  # needs tree-sitter
    project = wrapping.wrap(chapter.number, name, make_files(
        chapter, name, True, True), sources, target)
    write_project(target, {**project.ours, **project.theirs}, {
        "template": chapter.number, "bare": True, "wrap": True, "name": name})
    count = sum(path.is_file() for path in target.rglob("*")) - len(project.theirs)
    lines = sum(text.count("\n") for text in project.theirs.values())
    marks = wrapping.list_marks({**project.theirs, **project.ours}.items())
    print(f"{target} is made: {count} files of ours; {len(project.theirs)} of yours "
          f"with {lines} lines, in csrc/; ops: {len(project.ops)}.\n"
          f"port has rewritten {project.done} places in the sources, and left "
          f"{project.left}.\nLICENSE is the workbook's, MIT: put yours in its place, "
          f"and that of the sources.\n\nYou decide, at these places ({len(marks)}):")
    print("".join(f"  {mark}\n" for mark in marks))
    print("What compiles and behaves differently now is told by\n"
          f"  ./workbook port {shlex.join(sources)}\nThen:")
    print_commands(target)


def update(folder: Path) -> None:
    record = updating.read_record(folder)
    core = updating.list_core(make_files(
        find_chapter(record["template"]), record["name"], record["bare"],
        record.get("wrap") is True, record.get("cuda") is True))
    said = updating.update(folder, record, core)
    updating.write_record(folder, {key: record[key] for key in (
        "template", "bare", "cuda", "wrap", "name") if key in record}, core)
    print("\n".join([*said, f"{folder}: core/ of template {record['template']}, from "
                     f"version {record['version']} to "
                     f"{updating.find_version(core)}"]))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="as my_kernels")
    parser.add_argument("--from", dest="template", metavar="NN",
                        help=", ".join(f"{c.number} ({c.title})"
                                       for c in list_templates()))
    parser.add_argument("--bare", action="store_true",
                        help="the core, and an op of two inputs to replace: of "
                             + " and ".join(sorted(
                                 path.name for path in BARE.glob("[0-9][0-9]"))))
    parser.add_argument("--cuda", action="store_true",
                        help="with --from 08 --bare: a kernel for CUDA as well")
    parser.add_argument("--wrap", nargs="+", metavar="SOURCE",
                        help="C++ and CUDA sources, or folders of them, to make the "
                             "project around: of " + ", ".join(OF_WRAPPED))
    parser.add_argument("folder", nargs="?", metavar="DIR",
                        help="that is made; default: NAME")
    parser.add_argument("--update", type=Path, metavar="DIR",
                        help="of a project that was made so: write what has changed "
                             "in core/ since, but for files that you have edited")


def run(arguments: argparse.Namespace) -> int:
    if arguments.update:
        update(arguments.update)
    elif arguments.name is None or arguments.template is None:
        raise CannotRun("say a name and a template, as in "
                        "./workbook new my_kernels --from 04")
    else:
        new(arguments.name, arguments.template, arguments.folder, arguments.bare,
            arguments.cuda, arguments.wrap)
    return 0
