"""The steps of chapter 08, on the variant that an implementation's build made.
Each imports in a process of its own: what is wrong may end it."""

import ast
import io
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from base.project import ROOT
from hub import ENVIRONMENT, NEEDED, NEWEST, forked, told
from torch_stable_abi.audit import elf
from torch_stable_abi.libtorch import surface
from torch_stable_abi.libtorch.installed import torch_root
from torch_stable_abi.libtorch.versions import numbers

FUNCTIONS = {
    "silu_and_mul", "mul_and_silu", "gelu_and_mul", "gelu_tanh_and_mul",
    "fatrelu_and_mul", "silu_and_mul_with_clamp", "swigluoai_and_mul", "silu",
    "gelu", "gelu_tanh", "gelu_new", "gelu_fast", "gelu_quick"}
STRONG = 1  # of a symbol that others find: STB_GLOBAL
LAYERS = {
    "SiluAndMul", "MulAndSilu", "GeluAndMul", "GeluTanhAndMul", "FatreluAndMul",
    "Silu", "Gelu", "GeluTanh", "FastGELU", "NewGELU", "QuickGELU"}


@pytest.fixture(scope="module")
def build(pytestconfig):
    folder = pytestconfig.getoption("--implementation") or \
        ROOT / "build/release/solutions/08_hub_packaging"
    assert list(folder.glob("torch*-cpu-*/__init__.py")), \
        f"{folder} holds no variant: ./workbook check 08 builds one"
    return folder


@pytest.fixture(scope="module")
def source(build):
    """The sources that it was made of: the learner's."""
    cache = (build / "CMakeCache.txt").read_text()
    return Path(re.search(r"^CMAKE_HOME_DIRECTORY\S*=(.*)$", cache, re.M)[1])


@pytest.fixture(scope="module")
def variant(build):
    folder, = build.glob("torch*-cpu-*")
    return folder


@pytest.fixture(scope="module")
def library(variant):
    file, = variant.glob("*.abi3.so")
    return file


@pytest.fixture
def own_package(source, tmp_path):
    """Copies of the sources that package.py reads, where no git is."""
    folder = tmp_path / "sources"
    folder.mkdir()
    for name in ("package.py", "build.toml"):
        shutil.copy(source / name, folder)
    return folder


@pytest.fixture
def look_at(record_property):
    """Where the cause is, if what follows fails: LOOK_AT() of C++."""
    return lambda file, text="": record_property("look at", f"{file}: {text}")


@pytest.fixture
def ask(request, source, variant, tmp_path, look_at):
    """Runs Python code. What it ends with is what is wrong, and "look at FILE:
    TEXT" in a last line where; what it prints names the sources, not copies."""
    # A check has a process of its own, in which torch has computed nothing. Among
    # other tests it may have, and its threads are not there after a fork.
    in_check = request.config.getoption("--implementation")

    def run(code, *arguments, died="", **environment):
        status, text = (forked if in_check else told)(
            code, *arguments, **environment)
        text = text.replace(
            f"{variant}/_ops.py", f"{variant}/_ops.py.in").replace(
            f"{variant}/", f"{source}/torch-ext/activation/").replace(
            f"{tmp_path}/sources/", f"{source}/")
        print(text)
        if status < 0:
            pytest.fail(died or "the process was ended by "
                        f"{signal.Signals(-status).name}")
        if status > 0:
            last = text.rpartition("Traceback (most recent call last):\n")[2]
            said = re.sub(r"\A(?:[ \t].*\n)*", "", last).strip()
            said, _, place = said.partition("\nlook at ")
            if place:
                file, _, line = place.partition(":")
                look_at(file, line.strip())
            pytest.fail(said.removeprefix("AssertionError: "))
    return run


@pytest.fixture
def ask_package(own_package, ask):
    """Runs Python code that has package.py, in a folder of its own."""
    return lambda code, *arguments, **environment: ask(
        PACKAGE + code, *arguments, PYTHONPATH=os.pathsep.join(
            [str(own_package), ENVIRONMENT["PYTHONPATH"]]), **environment)


# The library alone, as Python imports it, before any file of the package is.
LOAD = """
import importlib.machinery, importlib.util, sys, torch
from pathlib import Path
file = Path(sys.argv[1])
id = file.name[:-len(".abi3.so")]
loader = importlib.machinery.ExtensionFileLoader(id, str(file))
def load():
    spec = importlib.util.spec_from_loader(id, loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
def names():
    return set(torch._C._dispatch_get_all_op_names())
"""

# The package, as the Hub's loader imports it: by its id, from its folder. Other
# kernels are there already, whose ops have the names of this one's.
IMPORT = """
import importlib.util, sys, torch
from pathlib import Path
folder = Path(sys.argv[1])
id = next(folder.glob("*.abi3.so")).name[:-len(".abi3.so")]
spec = importlib.util.spec_from_file_location(id, folder / "__init__.py")
package = importlib.util.module_from_spec(spec)
sys.modules[id] = package
def load():
    spec.loader.exec_module(package)
def another(*arguments):
    raise AssertionError("ops of another kernel are called, of the same names")
OTHER_KERNELS = [torch.library.Library(name, "DEF") for name in (
    "activation", "_activation_cpu", "_activation_cpu_0000000")]
for other in OTHER_KERNELS:
    for name in FUNCTION_NAMES.split():
        for op, schema in ((name, "(Tensor! out, Tensor input) -> ()"),
                           (f"{name}_functional", "(Tensor input) -> Tensor")):
            other.define(op + schema)
            other.impl(op, another, "CPU")
""".replace("FUNCTION_NAMES", repr(" ".join(sorted(FUNCTIONS))))


# Once, twice, and by another path, as where one kernel is loaded from two places.
MODULE = """
import ctypes, mmap, warnings
warnings.simplefilter("error", RuntimeWarning)
try:
    module = load()
except RuntimeWarning:
    raise AssertionError("PyModule_Create2 is told of another ABI than Python's "
                         "stable one, which has number 3") from None
except SystemError as error:
    raise AssertionError(f"Python says: {error}. It reads the PyModuleDef after "
                         "PyInit has returned: is it static?") from None
pointer = ctypes.pythonapi.PyModule_GetDef
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object]
assert ctypes.CDLL(None).dladdr(
    ctypes.c_void_p(pointer(module)), (ctypes.c_void_p * 4)()), \\
    "the PyModuleDef is in no library, but on a stack or a thread's own, and " \\
    "Python keeps its address: make it static"
assert module.__name__ == load().__name__ == id, \\
    f"the module is {module.__name__}, and should be {id}"
other = Path(sys.argv[2], file.name)
other.symlink_to(file)
loader = importlib.machinery.ExtensionFileLoader(id, str(other))
assert load() is not module, \\
    "imported by another path it is the first module again: each call has to " \\
    "return what PyModule_Create2 makes, which its caller then owns"
# Once more, by way of a function that notes the ABI that it is told of.
create, told = ctypes.pythonapi.PyModule_Create2, []
create.argtypes, create.restype = [ctypes.c_void_p, ctypes.c_int], ctypes.py_object
@ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
def noted(definition, abi):
    told.append(abi)
    return create(definition, abi)
start = min(int(line.split("-")[0], 16) for line in open("/proc/self/maps")
            if line.rstrip().endswith(f"/{file.name}"))
slot = start + int(sys.argv[3])
page = ctypes.c_size_t(mmap.PAGESIZE)
ctypes.CDLL(None).mprotect(ctypes.c_void_p(slot & -mmap.PAGESIZE), page, 3)
ctypes.c_void_p.from_address(slot).value = ctypes.cast(noted, ctypes.c_void_p).value
init = getattr(ctypes.PyDLL(str(file)), f"PyInit_{id}")
init.restype = ctypes.py_object
init()
assert told == [3], \\
    f"PyModule_Create2 is told of the ABI {told}; that of Python's stable one is 3"
"""


def slot_of(library, name):
    """Where the dynamic linker writes the address of a function of others."""
    file = ELFFile(io.BytesIO(library.read_bytes()))
    names = file.get_section_by_name(".dynsym")
    return next((relocation["r_offset"] for part in (".rela.plt", ".rela.dyn")
                 if (found := file.get_section_by_name(part))
                 for relocation in found.iter_relocations()
                 if names.get_symbol(relocation["r_info_sym"]).name == name), 0)


def test_08_1_a_module_for_every_python(library, tmp_path, ask):
    """Python finds a module in the library, which needs one function of Python's

    Python finds no module in the library, or the module needs more of Python."""
    from kernel_abi_check import ObjectFile
    names = subprocess.run(["nm", "-D", "--undefined-only", library], text=True,
                           capture_output=True, check=True).stdout
    there = subprocess.run(["nm", "--defined-only", library], text=True,
                           capture_output=True, check=True).stdout
    wanted = "PyInit_" + library.name.removesuffix(".abi3.so")
    found = re.search(r" ([Tt]) (\w*PyInit_\w*)", there)
    if found and found[1] == "t":
        pytest.fail(f"{found[2]} is there, but hidden: Python does not see it")
    if found and re.match("_Z[0-9]+PyInit_", found[2]):
        pytest.fail("the function has C++'s linkage: the library calls it "
                    f"{found[2]}")
    if found and found[2] != wanted:
        pytest.fail(f"the function is {found[2]}; Python looks for {wanted}, after "
                    "the file's name")
    needed = re.findall(r"\b_?Py\w+", names)
    assert needed, \
        "it needs nothing of Python: who calls PyModule_Create2, in which function?"
    assert needed == ["PyModule_Create2"], \
        f"of Python it needs {', '.join(needed)}; PyModule_Create2 is enough"
    ask(LOAD + MODULE, library, tmp_path, slot_of(library, "PyModule_Create2"),
        died="the process ended in the import")
    later = ObjectFile(library).check_python_abi("3.9")
    assert later == [], f"not in Python's stable ABI of 3.9: {later}"


# package.py, asked in a folder of its own.
PACKAGE = """
import os, re, subprocess
import package
def git(*arguments):
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@example.org",
                    *arguments], cwd=package.SOURCE, check=True,
                   capture_output=True)
"""


def preprocessed(file, build, *options):
    """What the preprocessor makes of a file, but for what it includes."""
    compiler = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$",
                         (build / "CMakeCache.txt").read_text(), re.M)[1]
    return subprocess.run(
        [compiler, "-E", "-P", "-xc++", *options, "-"],
        input=re.sub(r"^#include.*", "", file.read_text(), flags=re.M),
        text=True, capture_output=True).stdout


def namespaces(source, build, *options):
    """Those that the ops are registered in."""
    text = preprocessed(
        source / "torch-ext/torch_binding.cpp", build,
        "-DTORCH_EXTENSION_NAME=TORCH_EXTENSION_NAME", *options)
    return set(re.findall(r"STABLE_TORCH_LIBRARY\w*\(\s*(\w+)\s*,", text))


def builds(build):
    """The commands of the library's first build, and those of one that ran now."""
    ninja = re.search(r"^CMAKE_MAKE_PROGRAM:\w+=(.*)$",
                      (build / "CMakeCache.txt").read_text(), re.M)[1]
    for options in (["-t", "commands"], ["-n", "-v"]):
        yield subprocess.run(
            [ninja, "-C", build, *options, "activation_cpu_module"], text=True,
            capture_output=True, check=True).stdout


def test_08_2_an_id_for_every_build(
        build, source, library, ask, ask_package, look_at):
    """the same contents have one id, others another, and the ops are in a
    namespace of that name

    Two builds that differ share a name, or two that are the same do not."""
    look_at("torch-ext/torch_binding.cpp", "#define OPS")
    ask(LOAD + """
# Another version of this kernel is there already.
other = torch.library.Library("activation", "DEF")
other.define("silu_and_mul(Tensor! out, Tensor input) -> ()")
before = names()
load()
opened = {n.split("::")[0] for n in names() - before}
assert id in opened, \\
    f"the ops are in {', '.join(opened)}, a name that every build has; " \\
    "TORCH_EXTENSION_NAME is this build's own"
shared = sorted(n for n in names() - before if not n.startswith(f"{id}::"))
assert not shared, \\
    f"the library defines {shared[0]} too, as every build of it does: no two of " \\
    "them can be in one process\\nlook at torch-ext/torch_binding.cpp: " + \\
    shared[0].split("::")[0]
out, x = torch.empty(2, 4), torch.randn(2, 8)
getattr(torch.ops, id).silu_and_mul(out, x)
torch.testing.assert_close(
    out, torch.nn.functional.silu(x[:, :4]) * x[:, 4:])
for name in sorted(n for n in names() if n.startswith(f"{id}::")):
    for key in ("CPU", "Meta"):
        assert torch._C._dispatch_has_kernel_for_dispatch_key(name, key), \\
            f"{name.replace(id, '<id>')} has no kernel for {key}: is it " \\
            "registered in this build's namespace?"
""", library, died="the process ended: another kernel has opened the namespace "
                   "activation")
    for device, options in ("CPU", []), ("CUDA", ["-DCUDA_KERNEL"]):
        shared = namespaces(source, build, *options) - {"TORCH_EXTENSION_NAME"}
        assert not shared, \
            f"for {device} the ops are in {', '.join(sorted(shared))}, a name that " \
            "every build has; TORCH_EXTENSION_NAME is this build's own"
    look_at("package.py", "unique_id")
    ask_package("""
first = package.unique_id()
import importlib
second = importlib.reload(package).unique_id()  # as by another build
assert first != second, f"without git unique_id() is {first!r} for every build"
assert re.fullmatch("[0-9A-Fa-f]{8}", first), \\
    f"without git unique_id() is {first!r}, and should be eight digits: it " \\
    "becomes part of names in C++ and in Python"
path, os.environ["PATH"] = os.environ["PATH"], str(package.SOURCE)
try:
    found = package.unique_id()
except FileNotFoundError:
    raise AssertionError("unique_id() ends in a FileNotFoundError where no git is "
                         "installed") from None
assert re.fullmatch("[0-9A-Fa-f]{8}", found), \\
    f"where no git is installed unique_id() is {found!r}"
os.environ["PATH"] = path
# In a repository that has other folders as well.
beside = package.SOURCE.parent / "beside.txt"
beside.write_text("1")
git("init", "-q", "..")
git("add", "-A", "..")
git("commit", "-qm", "1")
id = package.unique_id()
tree, commit = package.git("rev-parse", "HEAD:./", "HEAD").split()
assert not commit.startswith(id), \\
    "unique_id() is that of the commit: one that changes nothing has another id"
assert tree.startswith(id) and len(id) >= 7, \\
    f"unique_id() is {id!r}; the folder's tree is {tree}"
assert len(id) == 7, f"unique_id() has {len(id)} digits, and should have seven"
git("commit", "--allow-empty", "-qm", "another commit of the same contents")
assert package.unique_id() == id, \\
    "after a commit that changes nothing unique_id() is another"
beside.write_text("2")
found = package.unique_id()
assert found == id, f"with a change in another folder unique_id() is {found!r}"
git("commit", "-qam", "a commit of another folder")
found = package.unique_id()
assert found == id, \\
    "after a commit of another folder unique_id() is another, and should be that " \\
    "of this folder's contents"
os.utime(package.SOURCE / "build.toml", (1, 1))
found = package.unique_id()
assert found == id, \\
    f"with a file whose date alone is another unique_id() is {found!r}"
for key, value in {"core.abbrev": "12", "status.branch": "true",
                   "status.short": "true", "color.ui": "always",
                   "status.showUntrackedFiles": "all"}.items():
    git("config", key, value)
    found = package.unique_id()
    assert found == id, \\
        f"where somebody's git has {key} = {value} unique_id() is {found!r}"
(package.SOURCE / "build").mkdir()
(package.SOURCE / "build/made.txt").write_text("by the build")
found = package.unique_id()
assert found == id, \\
    f"beside the folder build, which git does not know, unique_id() is {found!r}"
file = package.SOURCE / "build.toml"
file.write_text(file.read_text() + "# changed")
found = package.unique_id()
assert found == f"{id}_dirty", \\
    "with a changed file unique_id() is " + (
        "still that of the last commit" if found == id else repr(found)) + \\
    ", and should end in _dirty"
git("add", "-u")
found = package.unique_id()
assert found == f"{id}_dirty", \\
    f"with a change that is added, not committed, unique_id() is {found!r}, and " \\
    "should end in _dirty"
git("commit", "-qam", "2")
# Every change that makes another tree, of the files that git knows.
committed = package.unique_id()
def becomes_a_link():
    file.unlink()
    file.symlink_to("package.py")
def is_new():
    (package.SOURCE / "new.txt").write_text("new")
    git("add", "new.txt")
for change, make in {
        "is deleted": file.unlink,
        "is renamed": lambda: git("mv", file.name, "other.toml"),
        "is moved to another folder": lambda: git("mv", file.name, ".."),
        "becomes a link": becomes_a_link,
        "becomes executable": lambda: file.chmod(0o755),
        "is new, and added": is_new}.items():
    make()
    found = package.unique_id()
    assert found == f"{committed}_dirty", \\
        f"with a file that {change} unique_id() is " + (
            "still that of the last commit" if found == committed else
            repr(found)) + ", and should end in _dirty"
    git("reset", "-q", "--hard")
assert package.unique_id() not in (id, f"{id}_dirty"), \\
    "after a commit of other contents unique_id() is the same"
ids = []
for backend in ("cpu", "cu130", "cpu"):
    package.write_id(backend, package.SOURCE / f"{backend}.h")
    ids += (package.SOURCE / f"{backend}.h").read_text().split()[-1:]
    file.write_text(file.read_text() + "# changed again")
    git("commit", "-qam", "3")
assert ids[0].startswith("_activation_cpu_") and \\
    ids[1].startswith("_activation_cuda_"), \\
    f"the ids of the variants for cpu and cu130 are {ids[0]} and {ids[1]}"
assert ids[0] != ids[2], f"built again after a commit, the id is still {ids[0]}"
# As in my/.
(package.SOURCE.parent / ".gitignore").write_text("my/")
tree = package.git("rev-parse", "HEAD^{tree}")
package.SOURCE = package.SOURCE.parent / "my"
package.SOURCE.mkdir()
found = package.unique_id()
assert re.fullmatch("[0-9A-Fa-f]{8}", found) and not tree.startswith(found), \\
    f"for a folder that git ignores unique_id() is {found!r}, and should be eight " \\
    "random digits"
""")
    look_at("CMakeLists.txt", "add_dependencies(activation_")
    # Quoted, if the path has a space.
    assert all(re.search(r"package\.py['\"]? id cpu", commands)
               for commands in builds(build)), \
        "not every build asks package.py for the id: what has changed since CMake " \
        "was run would be built under the id of what was there before"


def named(symbols):
    """As in C++, without parameters and what they are instances of."""
    text = subprocess.run(["c++filt"], input="\n".join(symbols), text=True,
                          capture_output=True, check=True).stdout
    while (less := re.sub(r"\([^()]*\)|<[^<>]*>|\[abi:\w+\]", "", text)) != text:
        text = less
    return ", ".join(text.splitlines())


def test_08_3_symbols_that_every_linux_has(build, library, look_at):
    """every symbol is there on manylinux_2_28, and none is shared with others

    The library's symbols are too new, shared with others, or without a version."""
    def read(*options):
        return subprocess.run(["readelf", "-W", *options, library], text=True,
                              capture_output=True, check=True).stdout

    look_at("CMakeLists.txt", "RPATH")
    dynamic = read("-d")
    assert not re.search(r"\((RPATH|RUNPATH)\)", dynamic), \
        "a path of the build machine is in the library"
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    strange = [n for n in needed if not re.match(NEEDED, n)]
    assert strange == [], \
        f"it needs {', '.join(strange)}, which torch does not bring"
    symbols = read("--dyn-syms")
    too_new = sorted(
        (name, f"{tag}_{version}") for name, tag, version in re.findall(
            r"UND (\w+)@+([A-Z]+)_([\d.]+)", symbols)
        if tag in NEWEST and tuple(map(int, version.split("."))) > NEWEST[tag])
    asked = "; ".join(f"{named([name])} of {version}"
                      for name, version in too_new[:3])
    look_at("CMakeLists.txt", "static-libstdc++")
    assert "libstdc++.so.6" in needed, \
        "libstdc++ is inside, beside torch's copy: this one asks for newer symbols"
    look_at("torch-ext/portable.cpp")
    assert too_new == [], f"manylinux_2_28 has no {asked}"
    look_at("CMakeLists.txt", "link_options")
    needs = re.findall(rf"Name: ((?:{'|'.join(NEWEST)})_[A-Z]\S*)", read("-V"))
    assert needs == [], \
        f"it needs a libc that has {needs[0]}, for no symbol, and an older one " \
        "refuses it: which option of the linker does that?"
    look_at("CMakeLists.txt", "gnu-unique")
    unique = re.findall(r" UNIQUE .* (\S+)$", symbols, re.M)
    assert unique == [], \
        f"one for the whole process (UNIQUE): {named(unique[:1])}"
    # The Hub's own checker reads .symtab, and only names with a version in it.
    from kernel_abi_check import ObjectFile
    look_at("CMakeLists.txt", "fuse-ld")
    assert "@GLIBC" in read("--syms").split("'.symtab'")[1], \
        "the linker left the versions out: the Hub's check would see nothing"
    assert " -fuse-ld=bfd " in next(builds(build)), \
        "-fuse-ld=bfd is not in the command that links: another machine's default " \
        "may be lld"
    refused = ObjectFile(library).check_manylinux("manylinux_2_28")
    assert refused == [], f"the Hub's checker refuses {refused}"


def unsafe_value(library, name):
    """The value of a flag of one byte, if it is not 0."""
    file = ELFFile(io.BytesIO(library.read_bytes()))
    for symbol in file.get_section_by_name(".symtab").get_symbol_by_name(name) or []:
        section = file.get_section(symbol["st_shndx"])
        if section["sh_type"] != "SHT_NOBITS":
            return section.data()[symbol["st_value"] - section["sh_addr"]]
    return 0


# Macros by which code tells where it is compiled, and what of glibc and libstdc++
# says everywhere.
GLIBC = ["-D__GLIBC__=2", "-D__GLIBC_MINOR__=40", "-D__GLIBC_PREREQ(a,b)=1",
         "-D_GLIBCXX_RELEASE=14", "-D__GLIBCXX__=20240801", "-w"]
COMPILED = {
    "by g++": ["-U__clang__", "-U__GNUC__", "-D__GNUC__=14"],
    "by clang++": ["-D__clang__=1", "-D__clang_major__=18", "-U__GNUC__",
                   "-D__GNUC__=4"],
    "for aarch64": ["-U__x86_64__", "-U__x86_64", "-D__aarch64__=1"],
    "for x86_64": ["-U__aarch64__", "-D__x86_64__=1"],
    "with NDEBUG": ["-DNDEBUG", "-D__OPTIMIZE__=1"],
    "without NDEBUG": ["-UNDEBUG", "-U__OPTIMIZE__"]}


def left_out(file, build):
    """What a file defines only under some of those macros, and where not."""
    if not re.search(r"^\s*#\s*if", file.read_text(), re.M):
        return []
    there = {where: set(re.findall(
        r"\bbasic_\w*stringstream(?= *\( *\))|\b__libc_single_threaded\b",
        preprocessed(file, build, *GLIBC, *options)))
        for where, options in COMPILED.items()}
    return [(name, where) for where, names in there.items()
            for name in sorted(set.union(*there.values()) - names)]


def linked_again(build, folder):
    """Whether the library, linked once more, is the same bytes; where an option
    of the linker is not one of those that are known to leave it so."""
    command = next(builds(build)).splitlines()[-1]
    made = re.search(r" -o (\S+)", command)
    options = re.findall(r" -(?:Wl,|Xlinker |z |T|B|flto|fuse-ld=)\S*", command)
    if not made or {option.strip() for option in options} <= {
            "-fuse-ld=bfd", "-Wl,--build-id=none"}:
        return True
    again = folder / "again.so"
    subprocess.run(
        command.replace(f"{build}/{made[1]}", str(again)).replace(
            made[1], str(again)),
        shell=True, cwd=build, capture_output=True, check=True)
    return again.read_bytes() == (build / made[1]).read_bytes()


def configured(source, folder, *options, **environment):
    """The commands of a build that is configured otherwise."""
    subprocess.run(
        ["cmake", "-G", "Ninja", "-S", source, "-B", folder,
         f"-DTORCH_ROOT={torch_root()}", "-DACTIVATION_CUDA=OFF",
         f"-DPython_EXECUTABLE={sys.executable}", *options],
        env={**os.environ, **environment}, capture_output=True, check=True)
    return next(builds(folder))


# Not asked what it is, so that none has to be there.
CLANG = ["-DCMAKE_CXX_COMPILER_FORCED=ON", "-DCMAKE_CXX_COMPILER_ID_RUN=ON",
         "-DCMAKE_CXX_COMPILER_ID=Clang", "-DCMAKE_CXX_COMPILER_VERSION=18",
         "-DCMAKE_CXX_COMPILE_FEATURES=cxx_std_17",
         "-DCMAKE_CXX17_COMPILE_FEATURES=cxx_std_17"]


def test_08_3_what_is_in_it_is_its_own(
        build, source, library, tmp_path, look_at):
    """others find nothing of its own but the module and the list of its calls,
    and it runs on every machine and torch, whoever builds it

    Others would find what is the library's own, or it is one machine's alone."""
    found = elf.read(library.name, library.read_bytes())
    look_at("torch-ext/portable.cpp")
    assert "__libc_single_threaded" not in found.exports, \
        "__libc_single_threaded is visible: others, who look for glibc's, find it"
    text = re.sub(r"//.*", "", (source / "torch-ext/portable.cpp").read_text())
    assert "hidden" in text, \
        "__libc_single_threaded is hidden by this build's flags alone: say it beside " \
        "the variable, for builds without -fvisibility=hidden"
    for name, where in left_out(source / "torch-ext/portable.cpp", build):
        pytest.fail(f"compiled {where} the file leaves {name} out, and the library "
                    "asks for the one that is too new")
    value = unsafe_value(library, "__libc_single_threaded")
    assert value == 0, \
        f"__libc_single_threaded is {value}, that is there are no threads: 0 is safe"
    look_at("CMakeLists.txt", "visibility")
    module = "PyInit_" + library.name.removesuffix(".abi3.so")
    shown = [name for name, bind in found.exports.items() if bind == STRONG or
             re.search("wb|silu|gelu|functional", name)]
    shown = set(shown) - {module, "__bss_start", "_edata", "_end"}
    assert not shown, \
        f"{named(sorted(shown)[:1])} is visible, and others may take it for theirs"
    look_at("torch-ext/portable.cpp")
    inside = [name for name in found.exports if re.search(
        r"basic_[io]?stringstream.*(?<!C1Ev)(?<!C2Ev)$", name)]
    assert inside == [], \
        f"{named(inside[:1])} is of libstdc++, and is visible: instantiate the " \
        "two constructors alone"
    look_at("CMakeLists.txt", "libgcc")
    assert "libgcc_s.so.1" in found.needed, \
        "libgcc is inside, beside the process's own: what throws needs one for all"
    look_at("CMakeLists.txt", "TORCH_TARGET_VERSION")
    newer = {name: version for name, weak in found.shims.items()
             if not weak and (version := surface.since(name))
             and numbers(version) > (2, 10)}
    assert not newer, "torch 2.10 has no " + ", ".join(
        f"{name} (since {version})" for name, version in sorted(newer.items())[:2])
    look_at("CMakeLists.txt", "prefix-map")
    here = [text for text in found.strings for folder in (source, build, torch_root())
            if f"{folder}/" in text]
    assert not here, \
        f"a path of the build machine is in the library: {min(here, default='')}"
    look_at("CMakeLists.txt", "link_options")
    assert linked_again(build, tmp_path), \
        "linked once more the library is of other bytes, under the same id: which " \
        "option of the linker does that?"
    look_at("CMakeLists.txt", "-m")
    flags = re.findall(r" (-m(?:(?:arch|cpu)=(?!x86-64 |armv8-a )|avx|fma|bmi|sse)\S*)",
                       " ".join(re.findall(r"^ +FLAGS =(.*)$", (
                           build / "build.ninja").read_text(), re.M)) + " ")
    assert flags == [], f"{flags[0]}: older processors lack its instructions"
    look_at("CMakeLists.txt", "gnu-unique")
    text = re.sub(r"#.*", "", (source / "CMakeLists.txt").read_text())
    assert re.search(r"GNU|Clang|check_(cxx_)?compiler_flag", text), \
        "-fno-gnu-unique is for every compiler, and Clang stops at it: " \
        "CXX_COMPILER_ID tells which one it is"
    here = next(builds(build))
    if re.search(r"\$<CONFIG|_RELEASE\b|CMAKE_BUILD_TYPE\W+(STREQUAL|MATCHES)", text):
        there = configured(source, tmp_path / "debug", "-DCMAKE_BUILD_TYPE=Debug")
        missing = [flag for flag in ("-fno-gnu-unique", "-fuse-ld=bfd")
                   if flag in here and flag not in there]
        assert missing == [], f"a build of the type Debug lacks {missing[0]}"
    usual = r"\$<\$<AND:\$<COMPILE_LANGUAGE:CXX>,\$<CXX_COMPILER_ID:GNU>>:" \
        "-fno-gnu-unique>"
    if re.search("Clang|_ID|IS_GNUCXX", re.sub(usual, "", text)):
        look_at("CMakeLists.txt", "GNU")
        there = configured(source, tmp_path / "clang", *CLANG)
        missing = [part for part in (
            "-fuse-ld=bfd", "portable.cpp", "-fvisibility=hidden")
            if part in here and part not in there]
        assert missing == [], f"a build by Clang lacks {missing[0]}"
        assert "-fno-gnu-unique" not in there or "compiler_flag" in text, \
            "a build by Clang has -fno-gnu-unique, which stops it"
    if used := re.search(r"\bTIMESTAMP|\bRANDOM|\bENV\{", text):
        look_at("CMakeLists.txt", used[0])
        there = configured(source, tmp_path / "later", SOURCE_DATE_EPOCH="1",
                           USER="another", LOGNAME="another", HOSTNAME="another")
        other = [option for option in re.findall(
            r" (-(?:D|Wl,)\S+)", there.replace(str(tmp_path / "later"), str(build)))
            if option not in here and option != "-DNDEBUG"]
        assert other == [], \
            "built later or by another it is other bytes under the same id: " \
            f"{other[0]}"


def imported(file):
    """The packages that a file imports by name."""
    for node in ast.walk(ast.parse(file.read_text(), feature_version=(3, 9))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.split(".")[0]


# Of what later Pythons brought what is likeliest here.
LATER = {"tomllib": "3.11", "file_digest": "3.11", "pairwise": "3.10",
         "batched": "3.12", "StrEnum": "3.11", "TypeAlias": "3.10"}


def newer_than_3_9(file):
    """What Python 3.9 does not know, line by line."""
    try:
        tree = ast.parse(file.read_text(), feature_version=(3, 9))
    except SyntaxError as error:
        yield f"in line {error.lineno} Python 3.9 says: {error.msg}"
        return
    for node in ast.walk(tree):
        names = {getattr(node, "attr", ""), getattr(node, "module", "")} | {
            alias.name for alias in getattr(node, "names", [])
            if isinstance(alias, ast.alias)}
        yield from (f"{name}, which came with Python {LATER[name]}, in line "
                    f"{node.lineno}" for name in names & set(LATER))
        for part in (getattr(node, "annotation", None),
                     getattr(node, "returns", None)):
            if part and any(isinstance(n, ast.BitOr) for n in ast.walk(part)) and \
                    "import annotations" not in file.read_text():
                yield f"{ast.unparse(part)} in line {part.lineno} is a TypeError " \
                    "before Python 3.10"


# Each function on rows of all kinds, against float64: tests/reference.py of the
# solution has the formulas.
WITH_REFERENCE = os.pathsep.join([
    str(ROOT / "solutions/08_hub_packaging/tests"), ENVIRONMENT["PYTHONPATH"]])
FUNCTIONS_CODE = """
from reference import NUMBERS, REFERENCE, assert_right
def is_right(name, call, x, numbers):
    NUMBERS[name] = numbers
    shape = REFERENCE[name](x.double(), *numbers).shape
    canvas = torch.full((*shape, 2), 9.0, dtype=x.dtype)
    for out in (torch.empty(shape, dtype=x.dtype), canvas[..., 0]):
        returned = call(out, x)
        said = f"{name}, called with x and out of {str(x.dtype)[6:]}, "
        assert returned is out, said + "does not return out" + look
        try:
            assert_right(name, out, x)
        except AssertionError:
            raise AssertionError(
                said + "does not compute what its docstring says: for " +
                (f"x of {list(x.shape)} with strides {list(x.stride())} and "
                 f"out's {list(out.stride())}") + look) from None
    assert canvas[..., 1].eq(9).all(), said + "writes beside out" + look
torch.manual_seed(0)
OTHERS = {"fatrelu_and_mul": {"threshold": 0.25},
          "silu_and_mul_with_clamp": {"limit": 1.5},
          "swigluoai_and_mul": {"alpha": 1.25, "limit": 2.5}}
DEFAULTS = {"fatrelu_and_mul": (0.0,), "swigluoai_and_mul": (1.702, 7.0)}
for name in REFERENCE:
    function, more = getattr(package, name), OTHERS.get(name, {})
    for dtype in (torch.float, torch.half, torch.bfloat16):
        wide = (torch.randn(4, 2, 24) * 5).to(dtype)
        for x in (wide, wide[..., ::2], wide[..., 1:9], wide.permute(2, 1, 0),
                  wide[:0]):
            is_right(name, lambda out, x: function(out=out, x=x, **more), x,
                     tuple(more.values()))
        if name in DEFAULTS:
            is_right(name, function, wide, DEFAULTS[name])
            is_right(name, lambda *tensors: function(*tensors, *more.values()),
                     wide, tuple(more.values()))
"""


# As where the library needs a newer glibc than there is.
NOT_A_LIBRARY = """
import shutil, traceback
copy = Path(sys.argv[3], "copy")
shutil.copytree(folder, copy)
(copy / f"{id}.abi3.so").write_bytes(b"no library" * 100)
spec = importlib.util.spec_from_file_location("copy_", copy / "__init__.py")
package = sys.modules["copy_"] = importlib.util.module_from_spec(spec)
try:
    load()
    said = "nothing"
except Exception as error:
    said = traceback.format_exc()
assert "invalid ELF header" in said, \\
    "where the library cannot be loaded, the import of the package does not say " \\
    f"why; it says {said.strip().splitlines()[-1]}\\n" \\
    "look at torch-ext/activation/_ops.py.in: import"
"""


def test_08_4_a_package_without_a_fixed_name(variant, tmp_path, ask, look_at):
    """the package works under its id alone, and promises what it has

    The package does not reach its ops under its id, or __all__ is not right."""
    look_at("torch-ext/activation/_ops.py.in")
    ask(IMPORT + """
import ctypes, os, types
def process():
    return {"sys.getdlopenflags()": sys.getdlopenflags(), "sys.path": [*sys.path],
            "the folder": os.getcwd(),
            "torch's default dtype": torch.get_default_dtype(),
            "torch's threads": torch.get_num_threads(),
            "torch's grad mode": torch.is_grad_enabled()}
look = "\\nlook at torch-ext/activation/__init__.py: "
before = process()
try:
    load()
finally:
    there = f"{id}::silu_and_mul" in torch._C._dispatch_get_all_op_names()
    _ops = sys.modules.get(f"{id}._ops")
    if _ops and not there:
        raise AssertionError(
            "_ops.py does not import the library beside it: no op is registered"
        ) from None
    ops = getattr(_ops, "ops", None)
    if _ops and ops is not getattr(torch.ops, id):
        raise AssertionError(
            f"ops in _ops.py is {getattr(ops, '__name__', ops)}, and should be "
            "torch.ops.@ID@\\nlook at torch-ext/activation/_ops.py.in: ops ="
        ) from None
other = [what for what, value in process().items() if value != before[what]]
assert not other, f"after the import {other[0]} is another, for the whole process"
assert not hasattr(ctypes.CDLL(None), f"PyInit_{id}"), \\
    "all libraries find the functions of this one: it is not for others, so load it " \\
    "without RTLD_GLOBAL"
for op in ("silu", "silu_of_python"):  # the second is yet to be registered
    try:
        said = f"is {_ops.add_op_namespace_prefix(op)!r}"
    except Exception as error:
        said = f"ends in {type(error).__name__}"
    assert said == f"is {f'{id}::{op}'!r}", \\
        f'add_op_namespace_prefix("{op}") {said}, and should be "@ID@::{op}"' + (
            "" if op == "silu" else ", for an op that Python is to register") + \\
        "\\nlook at torch-ext/activation/_ops.py.in: def add_op_namespace_prefix"
want, have = set(sys.argv[2].split()), set(package.__all__)
assert want == have, "; ".join(
    f"__all__ {says} {', '.join(sorted(names))}" for says, names in
    (("lacks", want - have), ("should not have", have - want)) if names) + look
twice = {n for n in have if package.__all__.count(n) > 1}
assert not twice, f"__all__ has {', '.join(sorted(twice))} twice" + look
out, x = torch.empty(2, 4), torch.randn(2, 8)
assert package.silu_and_mul(out, x) is out, "silu_and_mul does not return out" + look
assert torch._C._dispatch_has_kernel_for_dispatch_key(
    f"{id}::silu_functional", "Autograd"), \\
    "no op has a gradient: does __init__.py import _autograd?" + look + "import _auto"
""" + FUNCTIONS_CODE + """
other = sys.modules["other"] = types.ModuleType("other")
other.__path__ = [str(folder)]
found = importlib.import_module("other._ops").ops
assert found is ops, \\
    f"in a package that is imported as other, ops is {found.__name__}, and should " \\
    "be torch.ops.@ID@ as before\\nlook at torch-ext/activation/_ops.py.in: ops ="
foreign = {m for m in sys.modules if m.split(".")[0] == "activation"}
assert not foreign, "the package was imported by the fixed name activation" + look
""" + NOT_A_LIBRARY, variant, " ".join([*FUNCTIONS, "layers"]), tmp_path,
        PYTHONPATH=WITH_REFERENCE)
    for file in variant.rglob("*.py"):
        look_at(f"torch-ext/activation/{file.relative_to(variant)}")
        newer = [*newer_than_3_9(file)]
        assert newer == [], f"{file.name}: {newer[0]}"
        foreign = set(imported(file)) - {"torch", *sys.stdlib_module_names}
        assert not foreign, \
            f"{file.name} imports {', '.join(foreign)}, which torch does not bring"


# What each layer computes, on Meta too, and each op's gradient.
LAYERS_CODE = """
from reference import NUMBERS, REFERENCE, assert_right, exact, ulps
OTHER_NAMES = {"FastGELU": "gelu_fast", "NewGELU": "gelu_new",
               "QuickGELU": "gelu_quick"}
NUMBERS.update(fatrelu_and_mul=(0.0,))
torch.manual_seed(0)
for layer in sys.argv[2].split():
    name = OTHER_NAMES.get(layer) or re.sub("(?<=.)([A-Z])", r"_\\1", layer).lower()
    x = torch.randn(2, 8, 6).transpose(1, 2).requires_grad_()
    made = getattr(package.layers, layer)()
    got = made(x)
    try:
        assert_right(name, got.detach(), x.detach())
    except AssertionError:
        raise AssertionError(f"{layer} does not compute {name}") from None
    look = "\\nlook at torch-ext/activation/layers.py: class " + layer
    assert got.requires_grad, \\
        f"{layer} says that it has a gradient, and its result has none" + look
    mine, = torch.autograd.grad(got.sum(), x)
    wide = x.detach().double().requires_grad_()
    right, = torch.autograd.grad(exact(name, wide).sum(), wide)
    assert ulps(mine, right, 0.25) <= 64, \\
        f"the gradient of {layer} is not that of {name}" + look
    meta = made(x.detach().to("meta"))
    assert meta.shape == got.shape, \\
        f"{layer} has a result of {list(meta.shape)} on Meta, and should have one " \\
        f"of {list(got.shape)}" + look
ops = sys.modules[f"{id}._ops"].ops
NUMBERS.update(fatrelu_and_mul=(0.25,), swigluoai_and_mul=(1.25, 2.5))
for name in REFERENCE:
    op, numbers = getattr(ops, f"{name}_functional"), NUMBERS.get(name, ())
    for dtype in (torch.float, torch.half, torch.bfloat16):
        # In quarters, so that some equal a threshold or a limit.
        x = (torch.randint(-16, 17, (2, 3, 40)) / 4).to(dtype).requires_grad_()
        got, wide = op(x, *numbers), x.detach().double().requires_grad_()
        weight = torch.randn(got.shape).to(dtype)
        said = f"the gradient of {name}, in {str(dtype)[6:]}, "
        assert got.requires_grad, said + "is missing"
        try:
            mine, = torch.autograd.grad(got, x, weight)
        except RuntimeError as error:
            raise AssertionError(f"{said}is refused: {error}") from None
        right, = torch.autograd.grad(exact(name, wide), wide, weight.double())
        assert ulps(mine, right, 0.25) <= (64 if dtype is torch.float else 0.51), \\
            said + "is not that of what it computes, rounded once"
        meta = op(x.detach().to("meta"), *numbers)
        assert (meta.shape, meta.stride(), meta.dtype) == \\
            (got.shape, got.stride(), dtype), \\
            f"for torch.compile {name} has a result of {list(meta.shape)}, and " \\
            f"should have one of {list(got.shape)}"
gates, ups = [-torch.inf, 0.25, 2.0, -1.0], [3.0, 5.0, torch.inf, torch.inf]
x = torch.tensor([gates + ups], requires_grad=True)
ops.fatrelu_and_mul_functional(x, 0.25).sum().backward()
assert x.grad.tolist() == [[0.0, 0.0, torch.inf, 0.0, 0.0, 0.0, 2.0, 0.0]], \\
    f"the gradient of fatrelu_and_mul is {x.grad.tolist()[0]} for gates {gates} " \\
    f"and ups {ups}: what is not kept has none, though something be infinite"
"""


def test_08_5_layers_without_a_state(variant, ask, look_at):
    """the loader takes all eleven layers, and a replaced one keeps its threshold

    A layer is not one that kernelize can put into every model."""
    look_at("torch-ext/activation/layers.py")
    ask(IMPORT + """
load()
import re
from kernels.layer.layer import _validate_layer
from torch import nn
class Layer(nn.Module):
    def forward(self, x): pass
# A call of an op is one graph. Whether more is, the compiler is asked: its import
# takes a second.
OPS = sys.modules[f"{id}._ops"].ops
PLAIN = {"getattr", "hasattr", "float"}
NAMES = PLAIN | {"ops", "threshold"} | {
    n.split("::")[1] for n in torch._C._dispatch_get_all_op_names()
    if n.startswith(f"{id}::")}
def only_calls_an_op(forward):
    code, known = getattr(forward, "__code__", None), vars(package.layers)
    return code and not code.co_freevars and set(code.co_names) <= NAMES and \\
        not any(isinstance(c, type(code)) for c in code.co_consts) and \\
        forward.__globals__ is known and known.get("ops") is OPS and \\
        not PLAIN & set(known)
for name in sys.argv[2].split():
    layer = getattr(package.layers, name)
    try:
        _validate_layer(check_cls=Layer, cls=layer, repo=name)
    except TypeError as error:
        more = set(dir(layer)) - set(dir(nn.Module)) - {
            "can_torch_compile", "has_backward"}
        members = "members" in str(error)
        raise AssertionError(
            f"the loader says: {error}" +
            (f" They are: {', '.join(more)}." if members else "") +
            "\\nlook at torch-ext/activation/layers.py: " +
            (f"{min(more)} =" if members else "__init__")) from None
    assert getattr(layer, "can_torch_compile", False), \\
        f"{name} has no can_torch_compile: a compiled model keeps its own layer"
    assert not getattr(layer.forward, "_torchdynamo_disable", False), \\
        f"{name} has can_torch_compile, and its forward is kept out of the graph"
    assert getattr(layer, "has_backward", True), \\
        f"{name} says that it has no gradient: a model in training keeps its own"
    layer()(torch.randn(2, 8))
    if only_calls_an_op(layer.forward):
        continue
    try:
        torch.compile(layer(), fullgraph=True, backend="eager")(torch.randn(2, 8))
    except Exception as error:
        raise AssertionError(
            f"{name} has can_torch_compile, and is not one graph: " +
            str(error).strip().partition("\\n")[0] +
            f"\\nlook at torch-ext/activation/layers.py: class {name}") from None
""" + LAYERS_CODE + """
class Fatrelu(nn.Module):  # a model's own layer, which kernelize replaces
    def __init__(self, threshold):
        super().__init__()
        self.threshold = threshold
    forward = package.layers.FatreluAndMul.forward
x = torch.tensor([[0.1, 0.4, 2.0, 2.0]])
assert Fatrelu(0.3)(x).tolist() == [[0.0, torch.tensor(0.4).item() * 2]], \\
    "forward does not take the threshold of the layer that it was put into"
class LayerWithoutThreshold(nn.Module):
    forward = package.layers.FatreluAndMul.forward
small = torch.tensor([[1e-30, -1e-30, 1.0, 1.0]])
assert LayerWithoutThreshold()(small).tolist() == [[small[0, 0].item(), 0.0]], \\
    "forward does not take 0 where the layer has no threshold"
assert torch.equal(LayerWithoutThreshold()(x), x[:, :2] * 2), \\
    "forward does not take 0 where the layer has no threshold"
class OfTheClass(LayerWithoutThreshold):
    threshold = 0.3
class OfAProperty(LayerWithoutThreshold):
    threshold = property(lambda self: 0.3)
for made in (OfTheClass(), OfAProperty(), Fatrelu(0.3)):
    assert torch.equal(made(x)[0, 0], torch.tensor(0.0)), \\
        f"forward does not take the threshold of {type(made).__name__}, which is " \\
        "a layer's, whether its own or its class's"
for threshold, want in ((-0.5, -0.4), (0.0, 0.0), (-0.3, 0.0)):
    got = Fatrelu(threshold)(torch.tensor([[-0.4, 1.0]])).item()
    assert got == torch.tensor(want).item(), \\
        f"with a threshold of {threshold} -0.4 becomes {got:.1f}, and should {want}"
made.threshold = 3.0
assert made(torch.tensor([[2.0, 1.0]])).item() == 0, \\
    "forward keeps the threshold that the layer had in an earlier call"
assert torch.equal(package.layers.FatreluAndMul()(x), x[:, :2] * 2), \\
    "FatreluAndMul() has another threshold than 0"
half = package.layers.FatreluAndMul(0.5)(x)
assert torch.equal(half, torch.tensor([[0.0, 0.0]])), \\
    "FatreluAndMul(0.5) has another threshold than 0.5"
""", variant, " ".join(LAYERS), PYTHONPATH=WITH_REFERENCE)


# Metadata, read and compared with the files by the loader's own parser.
METADATA = """
import json as reader, re, sys
from pathlib import Path
from kernels._rust import Digest, Metadata
def read(json):
    try:
        return Metadata.read_from_file(json)
    except Exception as error:
        said = re.sub(r" at line .*", "", str(error).split(": ")[-1])
        at = re.search(r" at line (\\d+)", str(error))
        line = json.read_text().splitlines()[int(at[1]) - 1].strip() if at else ""
        key = re.match('"[\\\\w-]+"', line)
        raise AssertionError(
            f"the loader cannot read metadata.json: {said}" +
            (f", in the line {line}\\nlook at package.py: {key[0]}" if key else "")
        ) from None
def compare(metadata, folder):
    assert metadata.digest is not None, "there is no digest"
    try:
        metadata.digest.validate(
            Digest.hash_variant(metadata.digest.algorithm, folder))
    except Exception as error:
        json = folder / "metadata.json"
        mine = reader.loads(json.read_text())["digest"]["files"]
        there = {p.relative_to(folder).as_posix() for p in folder.rglob("*")
                 if p.is_file()} - {"metadata.json"}
        lacks, more = sorted(there - set(mine)), sorted(set(mine) - there)
        long = sorted(name for name, text in mine.items() if len(text) != 44)
        raise AssertionError((
            f"the digest leaves out {', '.join(lacks)}" if lacks else
            f"the digest has {', '.join(more)}, which is not there" if more else
            f"the digest of {long[0]} has {len(mine[long[0]])} characters: "
            "base64 of a SHA-256 has 44" if long else
            "the digest is that of other bytes: " +
            ", ".join(re.findall(r"for ([^\\s:]+)", str(error)))) +
            "\\nlook at package.py: def digest") from None
"""

# Of any backend and machine, by the oldest torch; also of one that is older still.
NAMES = """
import platform
def has_name(backend, want, said=""):
    found = package.variant_name(backend)
    want = f"torch-stable-{want}-linux"
    assert found == want, \\
        f'{said}variant_name("{backend}") is {found}, and should be {want}' \\
        "\\nlook at package.py: variant_name("
machine = platform.machine()
for backend, kind in {"cpu": "cpu", "cu130": "cuda", "cu126": "cuda"}.items():
    found = package.kind(backend)
    assert found == kind, f'kind("{backend}") is {found}, and should be {kind}'
    has_name(backend, f"abi210-{backend}-{machine}")
file = package.SOURCE / "build.toml"
sections = file.read_text()
for cpu, cuda in ("2.11", "2.12"), ("2.28", "2.9"), ("3.0", "2.26"):
    file.write_text(re.sub(r"(?m)^cpu = .*", f'cpu = "{cpu}"', re.sub(
        r"(?m)^cuda = .*", f'cuda = "{cuda}"', sections)))
    for backend, oldest in ("cpu", cpu), ("cu126", cuda):
        has_name(backend, f"abi{oldest.replace('.', '')}-{backend}-{machine}",
                 f"with {package.kind(backend)} = {oldest} in build.toml ")
file.write_text(sections)
here, there = os.uname(), "riscv64" if machine == "aarch64" else "aarch64"
own = os.uname, platform.machine, platform.uname
os.uname = lambda: os.uname_result((*here[:4], there))
platform.machine = lambda: there
platform.uname = lambda: platform.uname_result(*here[:4], there)
has_name("cpu", f"abi210-cpu-{there}", f"on a machine of {there} ")
os.uname, platform.machine, platform.uname = own
"""

# A variant for a GPU that is not here, of another version and under another
# licence, with a file in a folder; beside others, of which one is stale.
VARIANT = """
import shutil
file.write_text(re.sub(r"(?m)^version = .*", "version = 7", re.sub(
    r"(?m)^license = .*", 'license = "Apache-2.0"', file.read_text())))
source, build = package.SOURCE / "torch-ext/activation", package.SOURCE / "build"
(source / "_more").mkdir(parents=True)
for name in ("__init__.py", "_more/__init__.py", "_more/_table.txt", "_ops.py.in"):
    (source / name).write_text(f"{name} @ID@")
(source / ".more").mkdir()
for name in (".hidden", ".more/table.bin", "lines.py"):  # of bytes that are no text
    (source / name).write_bytes(b"# \\r\\n" + b"\\xff\\x00" * (name != "lines.py"))
(source / "py.typed").write_bytes(b"")  # which cannot be mapped
(source / "large.bin").write_bytes(bytes(range(256)) * 2**14)  # of several blocks
for number in range(20):  # for each sign of base64
    (source / f"{number}.txt").write_text(str(number))
(package.SOURCE / "CARD.md").write_text("")
(package.SOURCE / "id.h").write_text("#define TORCH_EXTENSION_NAME _activation_cuda_1")
(package.SOURCE / "activation.abi3.so").write_bytes(b"the library")
stale = build / "torch-stable-abi29-cu126-x86_64-linux"
other = build / "torch-stable-abi210-cpu-x86_64-linux"
for folder in (stale, other):
    folder.mkdir(parents=True)
def make():
    package.make_variant(
        "cu126", package.SOURCE / "id.h", package.SOURCE / "activation.abi3.so",
        build, "75-real", "90a", "100")
make()
assert other.exists(), "a build of the variant for cu126 deletes that for cpu"
assert not stale.exists(), \\
    f"{stale.name} is still there after a build: it would be published"
made, = build.glob("*-cu126-*")
assert (made / "_activation_cuda_1.abi3.so").exists(), \\
    "the library is not named by the build's id: " + \\
    ", ".join(p.name for p in made.glob("*.so"))
metadata = read(made / "metadata.json")
compare(metadata, made)
found = reader.loads((made / "metadata.json").read_text())
want = {"id": "_activation_cuda_1", "version": 7, "license": "Apache-2.0",
        "python-depends": [], "backend": {"type": "cuda", "archs": [
            "7.5", "9.0a+PTX", "10.0+PTX"]}}
for key, value in want.items():
    assert found[key] == value, (
        f"with {key} = {value!r} in build.toml" if key in ("version", "license")
        else "for the variant cu126 of the architectures 75-real, 90a and 100"
    ) + f" the metadata's {key} is {found[key]!r}, and should be {value!r}" + \\
        f'\\nlook at package.py: "{key}"'
text, scandir = (made / "metadata.json").read_text(), os.scandir
class Reversed:
    def __init__(self, path="."):
        with scandir(path) as entries:
            self.entries = reversed(sorted(entries, key=lambda entry: entry.name))
    def __iter__(self):
        return self.entries
    def __next__(self):
        return next(self.entries)
    def __enter__(self):
        return self
    def __exit__(self, *error):
        pass
os.scandir = Reversed
make()
os.scandir = scandir
assert (made / "metadata.json").read_text() == text, \\
    "on a disk that lists the files in another order metadata.json is another, " \\
    "for the same contents\\nlook at package.py: def digest"
package.NAME = "gated_acts"
found = package.metadata("_gated_acts_cpu_1", "cpu", [], source)["name"]
assert found == "gated-acts", \\
    f"of a package gated_acts the metadata's name is {found!r}: the Hub has dashes" \\
    '\\nlook at package.py: "name"'
"""

# As a model's code loads it.
LOADER = """
import torch
from kernels import (LocalLayerRepository, Mode, get_kernel, get_local_kernel,
                     kernelize, use_kernel_forward_from_hub, use_kernel_mapping)
from kernels.variants import parse_variant, resolve_variant
folder = Path(sys.argv[3])
name = Path(sys.argv[1]).name
found, trace = resolve_variant([parse_variant(name)], "cpu")
assert found is not None, \\
    f"the loader refuses {name}: {trace[0].reason}" \\
    "\\nlook at package.py: variant_name("
kernel = get_kernel("your-name/activation", version=1, backend="cpu")
assert get_local_kernel(folder, backend="cpu").silu_and_mul
@use_kernel_forward_from_hub("SiluAndMul")
class SiluAndMul(torch.nn.Module):
    def forward(self, x):
        raise AssertionError("kernelize has not replaced the layer")
layer = LocalLayerRepository(folder, layer_name="SiluAndMul")
mapping = {"SiluAndMul": {"cpu": layer}}
model, x = SiluAndMul(), torch.randn(3, 8)
with use_kernel_mapping(mapping, inherit_mapping=False):
    model = kernelize(model, mode=Mode.INFERENCE, device="cpu",
                      use_fallback=False)
torch.testing.assert_close(
    model(x), torch.nn.functional.silu(x[:, :4]) * x[:, 4:])
"""


def test_08_6_metadata_that_the_loader_reads(
        build, source, variant, library, tmp_path, ask_package, look_at):
    """the loader reads the metadata, finds the variant, and uses a layer of it

    The loader refuses metadata.json or its digest, or the variant by its name."""
    look_at("package.py", "metadata(id")
    (tmp_path / "build").symlink_to(build)
    ask_package(METADATA + """
folder, file = map(Path, sys.argv[1:3])
metadata = read(folder / "metadata.json")
assert metadata.id == file.name[:-len(".abi3.so")], \\
    f"the metadata's id is {metadata.id}; the library is {file.name}"
assert (str(metadata.name), metadata.version) == ("activation", 1), \\
    f"the metadata's name and version are {metadata.name} and {metadata.version}"
compare(metadata, folder)
""" + NAMES + VARIANT + LOADER, variant, library, tmp_path,
                LOCAL_KERNELS=f"your-name/activation={tmp_path}")
    look_at("package.py")
    newer = [*newer_than_3_9(source / "package.py")]
    assert newer == [], f"package.py: {newer[0]}"
