"""./workbook audit, on wheels and Hub variants that are right, or have one fault."""

import base64
import hashlib
import json
import shutil
import sys
import zipfile

import pytest

from audited import DELETE, FAULTS, ID, MODULE, STABLE
from torch_stable_abi.libtorch.installed import torch_root
from torch_stable_abi.programs import CannotRun

# --- wheels, variants -----------------------------------------------------------


def test_a_wheel(audit, stable, wheel):
    said = audit(wheel(stable))
    assert not [s for lines in said.values() for s in lines if "FAIL" in s]
    assert "requires torch>=2.10" in str(said["wheel"])


@pytest.mark.parametrize("change, said", [
    ({"requires": "torch>=2.9"}, "FAIL requires torch>=2.9, but the libraries"),
    ({"requires": "torch"}, "warn requires torch of any version"),
    ({"requires": "torch>=2.4,<2.6"}, "FAIL requires torch<2.6,>=2.4, but the librar"),
    ({"requires": "torch==2.13.*"}, "load on 2.10, 2.11, 2.12, 2.14, 2.15 too"),
    ({"requires": "numpy"}, "does not require torch"),
    ({"tags": "py3-none-manylinux_2_5_x86_64"}, "FAIL says manylinux_2_5_x86_64"),
    ({"tags": "py3-none-manylinux_2_40_aarch64"}, "holds libraries for x86_64")])
def test_a_wheel_that_says_otherwise(audit, stable, wheel, change, said):
    assert said in str(audit(wheel(stable, **change)))


@pytest.mark.parametrize("requires, said", [
    ("numpy", "FAIL does not require torch in its metadata; one/libone.so is bound to "
              "one"),
    ("torch>=2.13", "FAIL requires torch>=2.13, which admits 2.13, 2.14, 2.15, all "
                    "to come; one/libone.so is bound to one of them")])
def test_a_bound_wheel_that_does_not_pin_torch(audit, unstable, wheel, requires, said):
    assert said in str(audit(wheel(unstable, requires=requires))["wheel"])


def test_a_wheel_says_abi3(audit, build, wheel):
    for fault, said in [
            ("not of the limited API", "FAIL one build for each Python"),
            ("the limited API of 3.11", "for PyBuffer_Release, though the wheel "
                                        "says cp310")]:
        library = build(*FAULTS[fault])
        path = wheel(library, "cp310-abi3-linux_x86_64")
        assert said in str(audit(path)["Python"])


@pytest.mark.parametrize("end, level", [
    ("cpython-311-x86_64-linux-gnu", ""), ("cpython-311-aarch64-linux-gnu", "FAIL"),
    ("cpython-311-x86_64-linux-musl", "FAIL"), ("cpython-311-x86_64-linux", "FAIL")])
def test_a_module_for_another_machine_by_its_name(findings, module, wheel, end, level):
    path = wheel(module, "cp311-cp311-manylinux_2_40_x86_64", name=f"two.{end}.so")
    assert [f.level for f in findings(path) if f.rule == "one-python-by-name"] == [
        level] * bool(level)


@pytest.mark.parametrize("tag, said", [
    ("cp313-cp313t", "though the wheel says cp313t"), ("cp313-cp313", ""),
    ("cp315-cp315t", "")])
def test_the_limited_api_without_the_gil(findings, module, wheel, tag, said):
    path = wheel(module, f"{tag}-manylinux_2_40_x86_64", name="two.abi3.so")
    found = [f.text for f in findings(path) if f.rule == "newer-python"]
    assert said in str(found) and len(found) == bool(said)


@pytest.mark.parametrize("tag", ["cp310-abi3", "py3-none"])
def test_a_module_that_one_python_finds(audit, build, wheel, tag):
    library = build(FAULTS["the limited API of 3.11"][0] + MODULE % "one")
    name = "one.cpython-310-x86_64-linux-gnu.so"
    path = wheel(library, f"{tag}-linux_x86_64", name=name)
    assert "FAIL CPython 3.10 alone imports a module of this name" in \
        str(audit(path)["Python"])
    path = wheel(library, "cp310-cp310-linux_x86_64", name=name)
    assert "FAIL" not in str(audit(path)["Python"])


def test_a_wheel_says_more_or_less_of_python_than_is_so(
        audit, build, stable, wheel):
    assert "but the wheel says cp311-cp311, where py3-none would do" in \
        str(audit(wheel(stable, "cp311-cp311-manylinux_2_40_x86_64"))["Python"])
    private = build(*FAULTS["not of the limited API"])
    assert "FAIL one build for each Python: _PyLong_Sign are not of the limited API, " \
        "though the wheel says py3-none" in str(audit(wheel(private))["Python"])


# --- what a wheel says of itself ---------------------------------------------------


@pytest.mark.parametrize("requires", [
    'torch>=2.10; python_version >= "3.9"', 'torch>=2.10; platform_system == "Linux"',
    "Torch>=2.10", "torch >=2.10", 'torch>=2.9; sys_platform == "win32"\ntorch>=2.10'])
def test_a_requirement_in_any_spelling(findings, stable, wheel, requires):
    found, = [f for f in findings(wheel(stable, requires=requires))
              if f.rule == "torch-requirement"]
    assert (found.level, found.text) == ("ok", "requires torch>=2.10")


@pytest.mark.parametrize("requires, said", [
    ("torch>>2.10", "FAIL requires 'torch>>2.10', which pip cannot read"),
    ("torch @ https://example.org/torch.whl", "note requires torch from https://exam"),
    ('torch>=2.10; extra == "gpu"', "does not require torch"),
    ('torch>=2.10; platform_system == "linux"', "warn does not require torch in its "
     'metadata, since platform_system == "linux" does not hold'),
    ('torch>=2.8; python_version < "3.12"\ntorch>=2.10; python_version >= "3.12"',
     "FAIL requires torch>=2.8 on Python 3.10, 3.11, but the libraries need 2.10"),
    ('torch>=2.10; python_version >= "3.12"', "warn does not require torch on Python "
     '3.10, 3.11, since python_version >= "3.12" does not hold; the libraries need 2.'),
    ("torch-geometric>=2", "does not require torch")])
def test_a_requirement_that_is_odd(audit, stable, wheel, requires, said):
    assert said in str(audit(wheel(stable, requires=requires))["wheel"])


@pytest.mark.parametrize("tag, python", [
    ("cp312-cp312", ""), ("cp312-abi3", ""),
    ("py3-none", "Requires-Python: >=3.12\n")])
def test_a_requirement_for_pythons_that_the_wheel_is_not_for(findings, stable, wheel,
                                                             tag, python):
    requires = "\n".join(f"torch>={version}; python_version {which} '3.12'"
                         for version, which in [("2.8", "<"), ("2.10", ">=")])
    found, = [f for f in findings(wheel(
        stable, tags=f"{tag}-manylinux_2_40_x86_64", requires=requires,
        metadata=f"Name: one\nVersion: 1.0\n{python}"))
        if f.rule == "torch-requirement"]
    assert (found.level, found.text) == ("ok", "requires torch>=2.10")


WRONG = {  # what is said: what makes it so
    "FAIL says manylinux1_x86_64": {"tags": "py3-none-manylinux1_x86_64"},
    "FAIL says manylinux2014_x86_64": {"tags": "py3-none-manylinux2014_x86_64"},
    "FAIL says musllinux_1_2_x86_64; one/libone.so needs glibc": {
        "tags": "py3-none-musllinux_1_2_x86_64"},
    "FAIL has no .dist-info": {"change": lambda files: [
        files.pop(n) for n in list(files) if ".dist-info/" in n]},
    "FAIL its .dist-info says two 1.0": {"folder": "two-1.0.dist-info"},
    "FAIL METADATA says one 1.1, and the file's name one 1.0: pip refuses it, unless": {
        "metadata": "Name: one\nVersion: 1.1\n"},
    "warn its .dist-info says one 1.1, and the file's name one 1.0\"": {
        "folder": "one-1.1.dist-info"},
    "FAIL METADATA lacks a name or a version": {"metadata": "Name: one\n"},
    "warn its file WHEEL says cp311-cp311-any": {"says": ["cp311-cp311-any"]},
    "FAIL has no RECORD": {"change": lambda files: files.pop(
        "one-1.0.dist-info/RECORD")},
    "one/libone.so is another one than RECORD says": {"change": lambda files:
        files.update({"one/libone.so": files["one/libone.so"] + b"0"})},
    "FAIL has ../two.py, /one.py, outside of it: pip refuses it": {
        "change": lambda files: files.update({"/one.py": b"", "../two.py": b""})},
    "warn its file WHEEL says Root-Is-Purelib: true": {"change": lambda files:
        files.update({"one-1.0.dist-info/WHEEL": files["one-1.0.dist-info/WHEEL"]
                      + b"Root-Is-Purelib: true\n"})},
    "FAIL no Python installs it: it is for cp311-cp311, and Requires-Python is >=": {
        "tags": "cp311-cp311-manylinux_2_40_x86_64",
        "metadata": "Name: one\nVersion: 1.0\nRequires-Python: >=3.12\n"},
    "FAIL no Python installs it: it is for cp312-abi3, and Requires-Python is <3.12": {
        "tags": "cp312-abi3-manylinux_2_40_x86_64",
        "metadata": "Name: one\nVersion: 1.0\nRequires-Python: <3.12\n"},
    "FAIL no Python installs it: py3-abi3 is no tag that pip knows": {
        "tags": "py3-abi3-manylinux_2_40_x86_64"},
    "FAIL no Python installs it: cp311-cp310 is no tag that pip knows": {
        "tags": "cp311-cp310-manylinux_2_40_x86_64"},
    "FAIL no Python installs it: it is for py3-none, and Requires-Python is >=3": {
        "metadata": "Name: one\nVersion: 1.0\nRequires-Python: >=3.13,<3.10\n"},
    "FAIL says manylinux2_40_x86_64, which is no tag that pip knows": {
        "tags": "py3-none-manylinux2_40_x86_64"},
    "warn says manylinux_2_40, which is no tag that pip knows": {
        "tags": "py3-none-manylinux_2_40.manylinux_2_40_x86_64"},
    "FAIL says musllinux_1_2_x86_64; one/libone.so needs glibc', 'ok says": {
        "tags": "py3-none-manylinux_2_40_x86_64.musllinux_1_2_x86_64"},
    "note RECORD has sha512 of files, which is not compared": {"change": lambda files:
        files.update({"one-1.0.dist-info/RECORD": files[
            "one-1.0.dist-info/RECORD"].replace(b"sha256", b"sha512", 1)})},
    "warn RECORD has md5 of files, which is not compared: its format asks for": {
        "change": lambda files: files.update({"one-1.0.dist-info/RECORD": files[
            "one-1.0.dist-info/RECORD"].replace(b"sha256", b"md5", 1)})},
    "FAIL Requires-Python is 'new', which pip cannot read": {
        "metadata": "Name: one\nVersion: 1.0\nRequires-Python: new\n"},
    "FAIL holds libraries for Linux, where nobody installs macosx_11_0_x86_64": {
        "tags": "py3-none-macosx_11_0_x86_64"},
    "FAIL says manylinux_2_40_aarch64, and has no library for it": {
        "tags": "py3-none-manylinux_2_40_x86_64.manylinux_2_40_aarch64"},
    "FAIL has wrong in its .data: pip knows purelib": {"change": lambda files:
        files.update({"one-1.0.data/wrong/x.txt": b""})},
    "FAIL METADATA is no UTF-8": {"change": lambda files: files.update(
        {"one-1.0.dist-info/METADATA": b"Name: one\nVersion: 1.0\nSummary: \xe4\n"})},
    "FAIL its file WHEEL says Wheel-Version 2.0": {"change": lambda files: files.update(
        {"one-1.0.dist-info/WHEEL": files["one-1.0.dist-info/WHEEL"].replace(
            b"Version: 1", b"Version: 2")})},
    "FAIL requires 'numpy (>=1.0.*,', which pip cannot read": {
        "requires": "torch>=2.10\nnumpy (>=1.0.*,"},
    "RECORD does not have one/new.txt": {"change": lambda files: files.update(
        {"one/new.txt": b""})},
}


def test_a_path_that_another_library_lends_or_has_used(findings, build, wheel):
    """libone.so needs libtwo.so, and that libdep.so, to which no path of its own
    leads."""
    def link(name, needs, *options):
        return build(f"int {name};", f"-Wl,-soname,lib{name}.so", *options, *(
            f"-Wl,--no-as-needed,{one}" for one in needs), linked=False)
    dep = link("dep", [])
    two = link("two", [dep])
    aside = link("two", [dep], "-Wl,--enable-new-dtags,-rpath,$ORIGIN/lib")
    for options, needs, quiet in (
            (("-Wl,--disable-new-dtags,-rpath,$ORIGIN/../one.libs",), [two], True),
            (("-Wl,--enable-new-dtags,-rpath,$ORIGIN/../one.libs",), [two, dep], True),
            (("-Wl,--enable-new-dtags,-rpath,$ORIGIN/../one.libs",), [two], False),
            (("-Wl,--disable-new-dtags,-rpath,$ORIGIN/../one.libs",), [aside], False)):
        for place in ("one", "one-1.0.data/platlib/one"):
            found = [f.text for f in findings(wheel({
                f"{place}/libone.so": link("one", needs, *options).read_bytes(),
                "one.libs/libtwo.so": needs[0].read_bytes(),
                "one.libs/libdep.so": dep.read_bytes()}))
                if f.rule == "library-is-not-found"]
            assert bool(found) != quiet, (options, needs, place, found)


def test_a_loaded_library_that_pip_puts_elsewhere(findings, stable, wheel):
    found = findings(wheel({
        "one-1.0.data/data/one/libone.so": stable.read_bytes(),
        "one/__init__.py": b"import os, torch\ntorch.ops.load_library(os.path.join("
                           b"os.path.dirname(__file__), 'libone.so'))\n"}))
    assert "loads-no-library" in {f.rule for f in found}


def test_a_library_of_another_system(findings, stable, wheel):
    data = bytearray(stable.read_bytes())
    data[7] = 9  # FreeBSD
    found = findings(wheel({"one/libone.so": bytes(data)}))
    assert [f.level for f in found if "another system (its byte 7 is 9)" in f.text] == [
        "FAIL"]


def test_a_replacement_character_is_utf_8(findings, stable, wheel):
    found = findings(wheel(
        stable, metadata="Name: one\nVersion: 1.0\nSummary: \ufffd\n"))
    assert not [f for f in found if "UTF-8" in f.text]


def test_a_python_file_with_a_byte_order_mark(findings, stable, wheel):
    found = findings(wheel({
        "one/libone.so": stable.read_bytes(),
        "one/__init__.py": b"\xef\xbb\xbfimport torch\n"}))
    assert "FAIL" not in {f.level for f in found} and "U+FEFF" not in str(found)


@pytest.mark.parametrize("said", WRONG)
def test_what_a_wheel_says_of_itself(audit, stable, wheel, said):
    assert said in str(audit(wheel(stable, **WRONG[said]))["wheel"])


def test_names_of_the_same_meaning(findings, stable, wheel):
    path = wheel(stable, metadata="Name: One\nVersion: 1.0.0\n")
    assert not [f for f in findings(path) if f.rule == "wheel-metadata"]


def test_python_beside_is_read(audit, build, stable, wheel):
    """The module that Python imports uses no libtorch, as is usual."""
    module = build(*FAULTS["not of the limited API"], linked=False)
    files = {"one/libone.so": stable.read_bytes(),
             "one/_C.abi3.so": module.read_bytes()}
    said = audit(wheel(files, "cp310-abi3-manylinux_2_40_x86_64"))
    assert "FAIL one build for each Python: _PyLong_Sign" in str(said["Python"])


def test_a_module_for_another_python(audit, stable, module, wheel):
    name = "_C.cpython-311-x86_64-linux-gnu.so"
    said = audit(wheel(module, "cp312-cp312-manylinux_2_40_x86_64", name=name))
    assert "FAIL CPython 3.11 alone imports a module of" in str(said["Python"])
    said = audit(wheel(module, "cp311-cp311t-manylinux_2_40_x86_64", name=name))
    assert "FAIL CPython 3.11 with the GIL alone imports" in str(said["Python"])
    said = audit(wheel(stable, name=name))
    assert "note CPython 3.11 alone imports a module of" in str(said["Python"])
    files = {f"one/_C.cpython-3{n}-x86_64-linux-gnu.so": stable.read_bytes()
             for n in (11, 12)}
    assert "FAIL" not in str(audit(wheel(files))["Python"])  # one for each


def test_a_module_that_an_older_build_left(audit, module, wheel):
    files = {f"one/_C.{end}": module.read_bytes()
             for end in ("abi3.so", "cpython-311-x86_64-linux-gnu.so")}
    said = audit(wheel(files, "cp310-abi3-manylinux_2_40_x86_64"))
    assert "FAIL CPython 3.11 imports this in place of _C.abi3.so, which lies" in \
        str(said["Python"])


def test_a_library_that_is_missing_or_not_found(findings, build, stable, wheel,
                                                tmp_path):
    helper = build("void help() {}", "-Wl,-soname,libhelp.so.2", linked=False)
    folder = helper.rename(helper.with_name("libhelp.so.2")).parent
    code = "void help(); void f() { help(); }"
    options = ["-Wl,--no-as-needed", f"-L{folder}", "-l:libhelp.so.2"]
    needs = build(code, *options, linked=False)
    leads = build(code, *options, "-Wl,-rpath,$ORIGIN", linked=False)
    elsewhere = build(code, *options, "-Wl,-rpath,$ORIGIN/../lib", linked=False)

    def rules(*, library, beside):
        files = {"one/libone.so": stable.read_bytes(),
                 "one/libneeds.so": library.read_bytes()}
        if beside:
            files[beside] = (folder / "libhelp.so.2").read_bytes()
        return {f.rule for f in findings(wheel(files))} & {
            "needs-other-library", "library-is-not-found", "undefined-symbols"}

    assert rules(library=needs, beside="") == {"needs-other-library"}
    assert rules(library=needs, beside="one/libhelp.so.2") == {"library-is-not-found"}
    assert rules(library=elsewhere, beside="one/libhelp.so.2") == {
        "library-is-not-found"}
    assert rules(library=leads, beside="one/libhelp.so") == {"library-is-not-found"}
    assert rules(library=leads, beside="one/libhelp.so.2") == set()
    assert rules(library=elsewhere, beside="lib/libhelp.so.2") == set()


def test_a_libtorch_that_auditwheel_packed(findings, build, wheel):
    packed = build("int g;", "-Wl,-soname,libtorch_cpu-1a2b3c4d.so", linked=False)
    library = build("int f;", f"-Wl,--no-as-needed,{packed}", linked=False)
    assert ("brings-libtorch", "FAIL") in {
        (f.rule, f.level) for f in findings(wheel(library))}


@pytest.mark.parametrize("packed", [True, False])
def test_a_driver_that_auditwheel_packed(findings, build, wheel, packed):
    name = "libcuda-1a2b3c4d.so.1" if packed else "libcuda.so.1"
    driver = build("int g;", f"-Wl,-soname,{name}", linked=False)
    files = {"one/libone.so": build(
        "int f;", f"-Wl,--no-as-needed,{driver},-rpath,$ORIGIN").read_bytes()}
    if packed:
        files[f"one/{name}"] = driver.read_bytes()
    assert [f.level for f in findings(wheel(files)) if f.rule == "needs-driver"] == [
        "FAIL" if packed else "note"]


@pytest.mark.parametrize("requires, said", [
    ("nvidia-cuda-runtime-cu12", ["requires nvidia-cuda-runtime-cu12, and needs "
                                  "libcudart.so.13"]),
    ('nvidia-cublas-cu12; extra == "cu12"', []), ("nvidia-cudnn-cu13>=9", [])])
def test_packages_for_another_cuda(findings, build, wheel, requires, said):
    other = build("int g;", "-Wl,-soname,libcudart.so.13", linked=False)
    library = build("int f;", f"-Wl,--no-as-needed,{other}")
    found = findings(wheel(library, requires=f"torch>=2.10\n{requires}"))
    assert [f.text for f in found if f.rule == "cuda-major"
            and f.level == "warn"] == said


def test_the_name_of_a_module(findings, build, wheel):
    library = build(MODULE % "_C")
    for name, level in [("_C.abi3.so", set()), ("_D.abi3.so", {"FAIL"})]:
        path = wheel(library, "cp310-abi3-manylinux_2_40_x86_64", name=name)
        assert {f.level for f in findings(path) if f.rule == "module-name"} == level


def test_a_library_that_pip_puts_elsewhere(findings, stable, wheel):
    for place, there in [("data/one", False), ("headers/one", False),
                         ("platlib/one", True), ("purelib/one", True)]:
        found = findings(wheel({
            f"one-1.0.data/{place}/libone.so": stable.read_bytes(),
            "one/__init__.py": b"from . import libone\n"}))
        assert there != ("imports-no-module" in {f.rule for f in found})


def test_a_module_whose_function_is_one_of_cpp(findings, build):
    library = build((MODULE % "one").replace('extern "C" __attr', "__attr"))
    path = library.rename(library.parent / "one.abi3.so")
    assert "PyInit_one is a name of C++" in str(
        [f.text for f in findings(path) if f.rule == "module-name"])


def test_a_module_that_python_imports(findings, build, stable, wheel):
    hidden = build((MODULE % "_C").replace("default", "hidden"))
    for library, name, said in [
            (hidden, "_C.abi3.so", "PyInit__C is hidden"),
            (stable, "_C.so", "it looks for PyInit__C, and there is none; "
                              "one/__init__.py imports it")]:
        path = wheel({f"one/{name}": library.read_bytes(),
                      "one/__init__.py": b"from . import _C\n"})
        assert said in str([f.text for f in findings(path) if f.rule == "module-name"])


@pytest.mark.parametrize("path, said", [
    ("HERE / 'libone.so'", []), ("HERE.parent / '../one' / 'libone.so'", []),
    ("os.environ.get('ONE', 'libone.so')", []), ("join(HERE, f'{name}.so')", []),
    ("HERE / 'libuno.so'", ["libuno.so, and there is one/libone.so"]),
    ("HERE / 'lib' / 'libone.so'", ["lib/libone.so, and there is one/libone.so"]),
    ("join(HERE, 'lib', 'libone.so')", ["lib/libone.so, and there is one/libone.so"]),
    ("HERE + '/libone.so'", []), ("PLACE", ["libtwo.so, and there is one/libone.so"]),
    ("PLACE if os.path.exists(PLACE) else 'libone.so'", []),
    ("\n  str(join(dirname(HERE),\n    'lib',  # there\n'libone.so'))\n", [
        "lib/libone.so, and there is one/libone.so"]),
    ("f'{HERE}/libone.so'", []),
    ("f'{HERE}/lib/libone.so'", ["lib/libone.so, and there is one/libone.so"]),
    ("'/home/me/libone.so'", ["/home/me/libone.so, and there is one/libone.so"]),
    ("'one/libone.so'", ["one/libone.so, which is sought in the current folder: begin "
                         "with that of __file__"])])
def test_a_library_that_python_loads(findings, stable, wheel, path, said):
    found = findings(wheel({
        "one/libone.so": stable.read_bytes(),
        "one/__init__.py": f"PLACE = HERE / 'libtwo.so'\n"
                           f"torch.ops.load_library({path})\n".encode()}))
    assert [f.text for f in found if f.rule == "loads-no-library"] == [
        f"one/__init__.py loads {text}" for text in said]


@pytest.mark.parametrize("file, code, missing", [
    ("__init__", "from . import _C", "._C"),
    ("__init__", "from one import (  # the library\n  libone, _C as c)", "one._C"),
    ("__init__", "from .two import f", ".two"),
    ("__init__", "import one.two.three", "one.two.three"),
    ("__init__", "from . import libone, there, sub\nfrom .libone.inner import x", ""),
    ("__init__", "from . import f\nf = 1", ""),
    ("__init__", "from . import f\n__all__ = ['f']", ".f"),
    ("__init__", "from . import f\nglobals()['f'] = 1", ""),
    ("__init__", "try:\n  from . import _C\nexcept ImportError: pass", ""),
    ("__init__", "'\\\n\nfrom .two import f\n'", ""),
    ("__init__", "text = \"\"\"\nfrom .two import f\n\"\"\"", ""),
    ("there", "from ..nowhere import f", "..nowhere"),  # above the wheel
    ("there", "from .sub.deep import x\nfrom .sub import deep", ""),
    ("sub/__init__", "from ..there import x\nfrom ..three import y", "..three"),
    ("alone", "from . import _C", "")])  # nothing imports it
def test_modules_that_python_imports(findings, stable, wheel, file, code, missing):
    files = {"one/__init__.py": "from . import there, sub", "one/there.py": "",
             "one/sub/__init__.py": "", "one/sub/deep.py": "",
             f"one/{file}.py": code}
    found = findings(wheel({"one/libone.so": stable.read_bytes(), **{
        name: text.encode() for name, text in files.items()}}))
    assert [f.text.partition(" imports ")[2] for f in found
            if f.rule == "imports-no-module"] == (
                [f"{missing}, which is not here"] if missing else [])


def test_a_folder_that_hides_a_library(findings, stable, wheel):
    for name, hidden in (("_C/__init__.py", 1), ("_C/__init__.pyi", 0)):
        found = findings(wheel({"one/_C.abi3.so": stable.read_bytes(),
                                "one/__init__.py": b"", f"one/{name}": b""}))
        assert len([f for f in found if f.rule == "imports-no-module"]) == hidden


@pytest.mark.parametrize("code, early", [
    ("from . import _C", 1), ("import os\nfrom .two import f", 1),
    ("import torch\nfrom . import _C", 0), ("import numpy\nfrom . import _C", 0),
    ("from .three import f\nfrom . import _C", 0),
    ("try:\n  import torch\nfinally: pass\nfrom . import _C", 0),
    ("import ctypes\nl = ctypes.CDLL(f'{__path__[0]}/_C.abi3.so')", 1),
    ("import ctypes, torch\nl = ctypes.CDLL(f'{__path__[0]}/_C.abi3.so')", 0),
    ("import ctypes\nl = ctypes.CDLL('libm.so.6')", 0)])
def test_a_library_that_is_imported_before_torch(findings, stable, wheel, code, early):
    files = {"one/_C.abi3.so": stable.read_bytes(), "one/__init__.py": code.encode(),
             "one/two.py": b"from . import _C", "one/three.py": b"import torch"}
    found = [f.text for f in findings(wheel(files)) if f.rule == "before-torch"]
    assert len(found) == early and all("_C.abi3.so, which needs" in t for t in found)


@pytest.mark.parametrize("code, lacks", [
    ("__all__ = ['f', 'g']\ndef f(): pass", ["g"]), ("__all__ = ['sub']", []),
    ("from os import path as p\n__all__ = ('p', 'path')", ["path"]),
    ("__all__: list[str] = ['g']", ["g"]), ("__all__ = []\n__all__ += ['g']", ["g"]),
    ("from os import *\n__all__ = ['walk']", []), ("__all__ = ['f']\nf = 1", [])])
def test_names_of_all(findings, stable, wheel, code, lacks):
    files = {"one/libone.so": stable.read_bytes(), "one/__init__.py": code.encode(),
             "one/sub.py": b""}
    found = [f.text for f in findings(wheel(files)) if f.rule == "all-names-nothing"]
    assert len(found) == len(lacks) and all(
        f"one/__init__.py has {name!r} in __all__, and no such name" in text
        for name, text in zip(lacks, found))


@pytest.mark.parametrize("changed, rule, said", [
    ({"metadata": "Metadata-Version: 2.1\nName: one\nVersion: 1.0\n"
      "License-Expression: MIT\n"}, "wheel-metadata", "METADATA has License-Expr"),
    ({"metadata": "Metadata-Version: 2.1\nName: one\nVersion: 1.0\n"
      "Dynamic: Summary\n"}, "wheel-metadata", "METADATA has Dynamic, which"),
    ({"requires": "torch==2.13.0+cpu"}, "torch-requirement", "a version with a + is"),
    ({"library": {"tests/__init__.py": b""}}, "wheel-metadata", "has a package tests")])
def test_what_an_index_refuses_or_another_wheel_has(findings, stable, wheel, changed,
                                                    rule, said):
    files = {"one/libone.so": stable.read_bytes(), **changed.pop("library", {})}
    assert any(f.rule == rule and f.level == "warn" and said in f.text
               for f in findings(wheel(files, **changed)))


def test_a_version_of_another_index_is_that_version(findings, stable, wheel):
    for requires in ("torch==2.13.0+cpu", "torch===2.10.0+cu130"):
        found = findings(wheel(stable, requires=requires))
        assert [f.level for f in found if f.rule == "torch-requirement"] == [
            "warn", "note"]


def test_a_package_with_its_module_beside_it(findings, module, wheel):
    files = {"_C.abi3.so": module.read_bytes()}
    for code, missing in (("import _C", []), ("from . import _C", ["._C"])):
        found = findings(wheel({**files, "one/__init__.py": code.encode()}))
        assert [f.text for f in found if f.rule == "imports-no-module"] == [
            f"one/__init__.py:1 imports {name}, which is not here" for name in missing]


@pytest.mark.parametrize("code, requires, said", [
    ("def f(x):\n  return x", "", []),
    ("<<<<<<< HEAD", "", ["warn python-cannot-read"]),
    ("x = f'{d[\"eps\"]}' + f'{f\"{d}\"}'", "Requires-Python: >=3.9\n", []),
    ("x = f'{d['eps']}'", "Requires-Python: >=3.10\n", [
        f"{'warn' if sys.version_info >= (3, 12) else 'FAIL'} python-cannot-read"]),
    ("<<<<<<< HEAD", "Requires-Python: >=3.9\n", ["FAIL python-cannot-read"]),
    ("match x:\n  case 1: pass", "", []),  # it does not say which Pythons it is for
    ("match x:\n  case 1: pass", "Requires-Python: >=3.10\n", []),
    ("match x:\n  case 1: pass", "Requires-Python: >=3.9\n", [
        "warn python-cannot-read"]),
    ("import numpy as np", "", ["warn requires-no-package"]),
    ("from numpy import zeros", "Requires-Dist: NumPy>=1.2\n", []),
    ("import numpy", "Requires-Dist: transformers\n", ["note requires-no-package"]),
    ("import numpy", 'Requires-Dist: numpy; extra == "all"\n', [
        "warn requires-no-package"]),
    ("try:\n  import numpy\nexcept ImportError: pass", "", []),
    ("def f():\n  import numpy", "", [])])
def test_what_a_package_asks_of_python(findings, stable, wheel, code, requires, said):
    metadata = "Name: one\nVersion: 1.0\n" + requires
    found = findings(wheel({
        "one/libone.so": stable.read_bytes(), "one/__init__.py": b"from . import two",
        "one/two.py": code.encode()}, metadata=metadata))
    assert [f"{f.level} {f.rule}" for f in found if f.rule in (
        "python-cannot-read", "requires-no-package")] == said


def test_a_helper_of_c_that_is_declared_as_cpp(findings, build, wheel):
    helper = build('extern "C" void help() {}', "-Wl,-soname,libhelp.so", linked=False)
    library = build("void help(); void f() { help(); }",
                    f"-Wl,--no-as-needed,{helper},-rpath,$ORIGIN")
    found = findings(wheel({"one/libone.so": library.read_bytes(),
                            "one/libhelp.so": helper.read_bytes()}))
    assert [f.text for f in found if f.rule == "undefined-symbols"] == [
        'nothing that it needs brings help(): help of C is here: extern "C"?']


@pytest.mark.parametrize("name, parameter, said", [
    ("twice", "Tensor x", []),
    ("twice", "Tensor x, int64_t", ["the kernel of audited::twice for CPU has 2 "]),
    ("twice", "double x", ["the kernel of audited::twice for CPU has C++"]),
    ("twise", "Tensor x", ["one/kernels.so has a kernel for audited::twise, and not"])])
def test_kernels_whose_schema_another_library_has(findings, build, wheel, name,
                                                  parameter, said):
    code, block = STABLE.split("STABLE_TORCH_LIBRARY(")
    schemas, kernels = f"{code}STABLE_TORCH_LIBRARY({block}".split(
        "STABLE_TORCH_LIBRARY_IMPL")
    kernels = f"{code}STABLE_TORCH_LIBRARY_IMPL{kernels}".replace(
        "twice(Tensor x) { return torch::stable::subtract(x, x, -1); }",
        f"twice({parameter}) {{ return Tensor(); }}").replace('"twice"', f'"{name}"')
    found = findings(wheel({"one/schemas.so": build(schemas).read_bytes(),
                            "one/kernels.so": build(kernels).read_bytes()}))
    texts = [f.text for f in found if f.rule in (
        "kernel-of-another-shape", "kernels-for-other-ops")]
    assert len(texts) == len(said) and all(map(str.startswith, texts, said)), texts


def test_an_op_that_two_fragments_define(findings, build, wheel):
    fragment = STABLE.replace("LIBRARY(", "LIBRARY_FRAGMENT(")
    found = findings(wheel({
        "one/one.so": build(fragment).read_bytes(),
        "one/two.so": build(fragment).read_bytes(),
        "one/three.so": build(fragment.replace("twice", "half")).read_bytes()}))
    assert [(f.level, f.text) for f in found if f.rule == "defined-twice"] == [
        ("warn", "the schema of audited::twice is in one/one.so, one/two.so: one "
                 "process can load one of them")]


def test_a_name_of_libtorch_python_in_c(findings, build):
    found = findings(build(
        'extern "C" { extern void* THPVariableClass; extern void* ParameterClass; }'
        "void* f() { return THPVariableClass == nullptr ? ParameterClass : nullptr; }",
        f"-Wl,--no-as-needed,{torch_root()}/lib/libtorch_python.so"))
    rules = [f.rule for f in found if f.level == "FAIL"]
    assert rules == ["bound-to-one-libtorch", "unstable-symbols"]


def test_a_namespace_that_two_libraries_define(findings, stable, wheel):
    data = stable.read_bytes()
    for other, levels in [("one/libtwo.so", ["warn"]), ("one/libone2.so", []),
                          ("one/torch-2.13/libone.so", ["note"])]:
        found = findings(wheel({"one/libone.so": data, other: data}))
        assert [f.level for f in found if f.rule == "defined-twice"] == levels


@pytest.fixture(scope="session")
def three_ops(build):
    return build(STABLE.replace("-> Tensor\"); }", """-> Tensor");
      m.def("more.int(Tensor  x, int m, *, int\\n n) -> Tensor");
      m.def("more.out(Tensor x, *, Tensor! out) -> ()"); }"""))


BACKWARD = "def b(ctx, g):\n  {}\nregister_autograd('audited::more.int', b)"


@pytest.mark.parametrize("code, said", [
    ("torch.ops.audited.twice(x); torch.ops.audited.twice.default(x)", ""),
    ("torch.ops.audited.twcie(x)", "py:2 uses torch.ops.audited.twcie, which no"),
    ("# torch.ops.audited.twcie\ntorch.ops.other.f(x)", ""),
    ("torch.library.define('audited::mine', '(Tensor x) -> Tensor')\n"
     "torch.ops.audited.mine(x)", ""),
    ("torch.library.register_fake('audited::twcie')", "py adds to audited::twcie, "
                                                      "which no library"),
    ("torch.library.register_fake('audted::twice')", "py adds to audted::twice, where "
     "no library here defines an op. Is audited meant?"),
    ("torch.ops.audted.twice(x)", "py:2 uses torch.ops.audted, where no library here "
                                  "defines an op. Is audited meant?"),
    ("torch.ops.Audited.twice(x)", "py:2 uses torch.ops.Audited, where no library "),
    ("torch.ops.daudite.twice(x)", "py:2 uses torch.ops.daudite, where no library "),
    ("torch.library.register_autocast('audited::twice', 'cuda', torch.half)\n"
     "torch.library.opcheck('audited::twice', x)\n"
     "torch.ops.audited.twcie(x)", "py:4 uses torch.ops.audited.twcie, which no"),
    ("torch.library.register_autocast('audited::twcie', 'cuda', torch.half)",
     "py adds to audited::twcie, which no library"),
    ("torch.ops.audited.twice.over(x)", "py:2 uses torch.ops.audited.twice.over, an "
                                        "overload that no"),
    ("ops = torch.ops.audited; ops.twice(x)", ""),
    ("if hasattr(torch.ops.audited, 'twcie'): torch.ops.audited.twcie(x)", ""),
    ("torch.library.impl('audited::twice', 'cuda')(f)\ntorch.ops.audited.twcie(x)",
     "py:3 uses torch.ops.audited.twcie, which no"),
    ("register_fake('audited::twice')(lambda: 1)", "py:2 adds to audited::twice a "
     "function that takes 0 arguments by place"),
    ("def f(): pass\nregister_fake('audited::twice', f)", "py:2 adds to "
     "audited::twice a function that takes 0"),
    ("register_fake('audited::twice', lambda x: x)", ""),
    ("def f(ops): ops.twcie(x)\nops = torch.ops.audited", ""),
    ("ops = torch.ops.audited; ops.twcie(x)", "py:2 uses torch.ops.audited.twcie, "),
    ("f = torch.ops.audited.twice; f(x)", ""),
    ("torch.ops.audited.more.out(x, out=y); torch.ops.audited.more(x, 1, n=2)", ""),
    ("torch.ops.audited.more(*x); torch.ops.audited.more(**x)", ""),
    ("torch.ops.audited.more.overloads(); torch.ops.audited.more._schemas", ""),
    ("torch.ops.audited.more(x)", "py:2 uses torch.ops.audited.more with no m: "),
    ("torch.ops.audited.more.out(x)", "py:2 uses torch.ops.audited.more with no out"),
    ("torch.ops.audited.twice(x, y)", "py:2 uses torch.ops.audited.twice with 2 "
                                      "arguments by place, and there are 1: twice("),
    ("torch.ops.audited.twice(x=x, m=1)", "py:2 uses torch.ops.audited.twice with m=, "
                                          "which it does not have: twice("),
    ("@register_fake('audited::twice')\ndef f(x): pass", ""),
    ("f = torch.ops.audited.twice\ntorch.ops.load_library(PLACE)",
     "py:2 uses torch.ops.audited.twice before the line that loads a library"),
    ("from . import first\nf = torch.ops.audited.twice\ntorch.ops.load_library(PLACE)",
     ""),
    ("def f(): torch.ops.audited.twice(x)\ntorch.ops.load_library(PLACE)", ""),
    ("@register_fake('audited::twice')\n@without_x\ndef f(): pass", ""),
    ("@register_fake('audited::more.out')\ndef f(x, *, out): pass", ""),
    ("@register_fake('audited::more.out')\ndef f(*x, **y): pass", ""),
    ("@register_fake('audited::twice')\ndef f(): pass", "py:3 adds to audited::twice a "
     "function that takes 0 arguments by place, and gets 1: twice("),
    ("@register_fake('audited::twice')\ndef f(x, n): pass", "py:3 adds to "
     "audited::twice a function that wants n, which is not given"),
    ("@register_fake('audited::more.out')\ndef f(x): pass", "py:3 adds to "
     "audited::more.out a function that does not take out"),
    (BACKWARD.format("return g,"), "py:3: b returns 1 gradient, one for each of 2 "
                                   "arguments is wanted: more"),
    (BACKWARD.format("return g, None, g"), "py:3: b returns 3 gradients, one for each "
                                           "of 2 arguments is wanted: more"),
    (BACKWARD.format("return g, None, None"), ""), (BACKWARD.format("return *g,"), ""),
    (BACKWARD.format("return g\n  def other(): return g,"), ""),
    ("register_autograd('audited::more.int', lambda ctx, g: (g,))",
     "py:2: the lambda returns 1 gradient, one for each of 2 arguments is wanted"),
    ("register_autograd('audited::more.int', lambda ctx, g: (g, None))", ""),
    ("L = Library('audited', 'IMPL')\nL.impl('twcie', f, 'Meta')",
     "py:3 adds to audited::twcie, which no library here defines"),
    ("L = Library('audited', 'IMPL')\nL.impl('audited::more.out', f, 'Meta')", ""),
    ("L = torch.library.Library('audited', 'IMPL')\nL._register_fake('twcie', f)",
     "py:3 adds to audited::twcie, which no library here defines"),
    ("L = Library('audited', 'IMPL')\n@impl(L, 'twcie', 'Meta')\ndef f(x): pass",
     "py:3 adds to audited::twcie, which no library here defines"),
    ("L = Library('audited', 'IMPL')\nregister_fake('audited::twcie')(f)",
     "py adds to audited::twcie, which no library"),
    ("L = Library('audited', 'FRAGMENT')\nL.define('mine() -> ()')\n"
     "L.impl('mine', f, 'Meta')", ""),
    ("def s(ctx, inputs, out): pass\ndef b(ctx, g): return g\n"
     "register_autograd('audited::twice', b, setup_context=s)",
     "py:2: s does not take output, by whose name it gets that: twice("),
    ("def s(ctx, inputs, output): pass\ndef b(ctx, g): return g\n"
     "register_autograd('audited::twice', b, setup_context=s)", ""),
    ("y = torch.ops.audited.more.out(x, out=z)", ""),  # another overload returns
    ])
def test_ops_that_python_uses(findings, three_ops, wheel, code, said):
    files = {"one/libone.so": three_ops.read_bytes(),
             "one/__init__.py": f"import torch\n{code}\n".encode()}
    found = [f.text for f in findings(wheel(files)) if f.rule == "calls-no-op"]
    assert len(found) == bool(said) and "".join(found).startswith(
        f"one/__init__.{said}" if said else ""), found


@pytest.fixture(scope="session")
def writing_ops(build):
    return build(STABLE.replace("-> Tensor\"); }", """-> Tensor");
      m.def("fill_(Tensor x) -> Tensor");
      m.def("into(Tensor x, Tensor(a!) out) -> ()"); }"""))


@pytest.mark.parametrize("code, rule, said", [
    ("", "in-place-name", "has a schema that does not say so: fill_(Tensor x)"),
    ("torch.library.register_autograd('audited::into', b)", "refused-by-torch",
     "py:2: register_autograd takes no op that writes to an argument: into("),
    ("torch.library.register_kernel('audited::twice', ['cpu', 'gpu'], f)",
     "refused-by-torch", "py:2: register_kernel knows no device 'gpu'. Is cuda meant?"),
    ("torch.library.register_kernel('audited::twice', 'cuda', f)",
     "refused-by-torch", ""),
    ("torch.library.impl('audited::twice', 'gpu')(f)", "refused-by-torch",
     "py:2: impl knows no device 'gpu'. Is cuda meant?"),
    ("torch.library.register_kernel('audited::twice', 'cuda:0', f)",
     "refused-by-torch", "knows no device 'cuda:0'. Is cuda meant?"),
    ("torch.library.register_autocast('audited::twice', 'gpu', torch.half)",
     "refused-by-torch", "py:2: register_autocast knows no device 'gpu'."),
    ("y = torch.ops.audited.into(x, z)", "calls-no-op",
     "py:2 takes what torch.ops.audited.into returns, which is None: into("),
    ("torch.ops.audited.into(x, z)", "calls-no-op", ""),
    ("L = torch.library.Library('audited', 'DEF')", "defined-twice",
     'Library("audited", "DEF") in one/__init__.py opens the namespace a second'),
    ("L = torch.library.Library('audited', 'FRAGMENT')", "defined-twice", ""),
    ("@torch.library.custom_op('audited::twice', mutates_args=())\ndef f(x): pass",
     "defined-twice", "one/__init__.py:3 defines audited::twice, and so does a lib"),
    ("L = torch.library.Library('audited', 'FRAGMENT')\n"
     "L.define('twice(Tensor x) -> Tensor')", "defined-twice",
     "one/__init__.py:3 defines audited::twice, and so does a library"),
    ("torch.library.define('audited::twice.two', '(Tensor x, int n) -> Tensor')",
     "defined-twice", ""),
    ("try: torch.ops.load_library(HERE)\nexcept OSError:\n"
     "  torch.library.define('audited::twice', '(Tensor x) -> Tensor')",
     "defined-twice", "")])
def test_what_python_adds_to_ops(findings, writing_ops, wheel, code, rule, said):
    found = [f.text for f in findings(wheel({
        "one/libone.so": writing_ops.read_bytes(),
        "one/__init__.py": f"import torch\n{code}\n".encode()})) if f.rule == rule]
    assert said in "".join(found) and len(found) == bool(said)


@pytest.mark.parametrize("namespace, said", [("one", 1), ("torchvision", 0)])
def test_ops_that_the_linker_dropped(findings, build, wheel, namespace, said):
    files = {"one/libone.so": build(DELETE).read_bytes(), "one/__init__.py":
             f"import torch\ntorch.ops.{namespace}.f(x)\n".encode()}
    assert [f.text for f in findings(wheel(files)) if f.rule == "calls-no-op"] == [
        "one/__init__.py:2 uses torch.ops.one, where no library here defines an op"
    ][:said]


def test_a_library_for_each_torch(findings, unstable, wheel):
    files = {f"one/torch-2.{n}/lib/libone.so": unstable.read_bytes() for n in (12, 13)}
    found = findings(wheel(files, requires="torch>=2.12"))
    assert "FAIL" not in {f.level for f in found}, found
    assert "library-for-each-torch" in {f.rule for f in found}


def test_one_bound_library_among_stable_ones(findings, stable, unstable, wheel):
    files = {"one/libone.so": stable.read_bytes(), "one/two.so": unstable.read_bytes()}
    found, = [f for f in findings(wheel(files)) if f.rule == "torch-requirement"]
    assert found.level == "FAIL" and "one/two.so is bound to one of them" in found.text


def test_a_wheel_of_python_alone_or_of_another_system(findings, wheel):
    found = findings(wheel({"one/__init__.py": b""}, "py3-none-any"))
    assert [(f.rule, f.level) for f in found] == [("not-read", "note")]
    found = findings(wheel({
        "one/_C.pyd": b"MZ" + bytes(99),
        "one/__init__.py": b"register_fake('one_ops::f')\ntorch.ops.one.f(x)"},
        "cp310-abi3-win_amd64"))
    assert [(f.rule, f.level) for f in found] == [("not-read", "note")]
    assert "is a library of Windows" in found[0].text
    found = findings(wheel({"one/_C.so": b"\x7fELF" + bytes(99)}))
    assert ("damaged-library", "FAIL") in [(f.rule, f.level) for f in found]


# --- Hub variants ---------------------------------------------------------------------


def test_a_right_variant(findings, variant):
    found = findings(variant())
    # This compiler's libstdc++ is newer than the Hub takes.
    assert {f.rule for f in found if f.level not in ("ok", "note")} <= {
        "variant-manylinux"}, found


def remove(key):
    return lambda files, metadata: metadata.pop(key)


def put(**entries):
    return lambda files, metadata: metadata.update(
        {key.replace("_", "-"): value for key, value in entries.items()})


def write(name, text):
    return lambda files, metadata: files.update({name: text.encode()})


WRONG_VARIANTS = {
    "FAIL metadata.json: it lacks license": {"change": remove("license")},
    "FAIL metadata.json: it lacks id": {"change": remove("id")},
    "FAIL metadata.json: kernels-minver is '0.17', where three numbers": {
        "change": lambda files, metadata: metadata.update({"kernels-minver": "0.17"})},
    "FAIL __init__.py:1 imports .layers, which is not here": {
        "change": lambda files, metadata: files.update(
            {"__init__.py": b"from .layers import Layer\n"})},
    "FAIL sub/x.py:1 imports ..._ops, which is not here": {
        "change": lambda files, metadata: files.update(
            {"sub/__init__.py": b"", "sub/x.py": b"from ..._ops import ops\n"})},
    "FAIL there is no __init__.py, and none in one/": {
        "change": lambda files, metadata: files.update(
            {"two/__init__.py": files.pop("__init__.py")})},
    "FAIL metadata.json: version is '1', where int": {"change": put(version="1")},
    "FAIL metadata.json: the name 'One' is not": {"change": put(name="One")},
    "FAIL metadata.json: backend.type is 'mps'": {"change": put(
        backend={"type": "mps"})},
    "FAIL metadata.json: python-depends has 'scipy'": {"change": put(
        python_depends=["scipy"])},
    "python-depends has 'nki', which the Hub does not admit for cpu": {"change": put(
        python_depends=["nki"])},
    "FAIL the folder says cpu, and metadata.json cuda": {"change": put(
        backend={"type": "cuda"})},
    "FAIL metadata.json is no JSON": {"after": lambda folder: (
        folder / "metadata.json").write_text('{"id":')},
    "FAIL metadata.json is no JSON: id stands in it twice": {"after": lambda folder: (
        folder / "metadata.json").write_text('{"id": "a", "id": "b"}')},
    "FAIL metadata.json is no JSON: it begins with a byte order mark": {
        "after": lambda folder: (folder / "metadata.json").write_text("\ufeff{}")},
    "FAIL metadata.json holds list": {"after": lambda folder: (
        folder / "metadata.json").write_text("[]")},
    "FAIL there is no metadata.json": {"after": lambda folder: (
        folder / "metadata.json").unlink()},
    "warn metadata.json has no digest": {"digest": False},
    "FAIL the digest is not of these files: _ops.py is another one": {
        "after": lambda folder: (folder / "_ops.py").write_text("")},
    "FAIL the digest is not of these files: it does not have new.py": {
        "after": lambda folder: (folder / "new.py").write_text("")},
    "FAIL the digest is not of these files: _ops.py is not here": {
        "after": lambda folder: (folder / "_ops.py").unlink()},
    "FAIL says cu130, and no library in it has code for a GPU": {
        "name": "torch-stable-abi210-cu130-x86_64-linux",
        "change": put(backend={"type": "cuda"})},
    "FAIL says aarch64, and holds x86_64": {
        "name": "torch-stable-abi210-cpu-aarch64-linux"},
    "FAIL says libtorch 2.9, and needs 2.10": {
        "name": "torch-stable-abi29-cpu-x86_64-linux"},
    "FAIL says libtorch 2.9, and needs 2.10', 'FAIL the Hub": {
        "name": "torch29-cxx11-cpu-x86_64-linux"},
    "FAIL says aarch64, and holds x86_64', 'FAIL the Hub": {
        "name": "torch210-cxx11-cpu-aarch64-linux"},
    "FAIL says cu128, and no library in it has code for a GPU": {
        "name": "torch210-cxx11-cu128-x86_64-linux"},
    "FAIL torch-stable-210-cpu-x86_64-linux is no name of a variant": {
        "name": "torch-stable-210-cpu-x86_64-linux"},
    f"FAIL there is no {ID}.abi3.so, which Python imports; there is act.so": {
        "change": lambda files, m: files.update(
            {"act.so": files.pop(f"{ID}.abi3.so")})},
    f"has no PyInit_other but PyInit_{ID}": {"change": lambda files, m: (
        m.update(id="other"), files.update(
            {"other.abi3.so": files.pop(f"{ID}.abi3.so")}))},
    "FAIL __init__.py:1 imports _ops by its name": {"change": write(
        "__init__.py", "from _ops import ops\n")},
    "FAIL __init__.py:2 imports scipy, which is not of the": {"change": write(
        "__init__.py", "import os\nimport scipy.linalg\n")},
    "FAIL there is no __init__.py": {"change": lambda files, m: files.pop(
        "__init__.py")},
    "FAIL layers.py: Python cannot read it": {"change": write("layers.py", "def")},
}


@pytest.mark.parametrize("said", WRONG_VARIANTS)
def test_a_wrong_variant(audit, variant, said):
    assert said in str(audit(variant(**WRONG_VARIANTS[said]))["variant"])


def test_a_module_of_an_older_build_in_a_variant(findings, variant, build):
    old = build(MODULE % "_one_cpu_old").read_bytes()
    for text, times in [("", 1), ("from . import _one_cpu_old\n", 0)]:
        path = variant(change=lambda files, metadata, text=text: files.update(
            {"_one_cpu_old.abi3.so": old, "old.py": text.encode()}))
        assert [f.text for f in findings(path) if f.rule == "variant-module"] == [
            "_one_cpu_old.abi3.so is a module that no Python file names: was it left "
            "by an older build?"] * times


@pytest.mark.parametrize("archs, lacking", [
    (["7.5", "8.0+PTX"], ""), (["9.0a"], ""), (["7.5", "10.0"], "10.0"),
    (["9.0"], "9.0")])
def test_the_archs_of_a_variant(archs, lacking):
    from base.requirements import install
    install("audit")
    from torch_stable_abi.audit import elf, findings, hub, subject
    library = elf.Library("one.so", cuda=["sm_75", "compute_80", "sm_90a"])
    report = findings.Report([])
    hub._check_backend(subject.Subject("", [library], metadata={
        "backend": {"type": "cuda", "archs": archs}}), "cu130", report)
    assert [f.text for f in report.findings] == [
        f"metadata.json lists the archs {lacking}, and the libraries have code for "
        "7.5, 8.0, 9.0a"] * bool(lacking)


def test_the_namespace_of_a_variant(audit, variant):
    said = audit(variant(change=put(id="_two_cpu_0123456")))
    assert "FAIL the Hub wants the namespace _two_cpu_0123456" in str(said["defines"])


def test_a_package_in_a_folder_of_its_name(findings, variant):
    def move(files, metadata):
        files |= {f"one/{name}": files.pop(name) for name in list(files)}
    assert {f.rule for f in findings(variant(change=move)) if f.level == "FAIL"} <= {
        "variant-manylinux"}  # this machine's glibc is newer


def test_the_namespace_in_the_python_of_a_variant(findings, variant):
    path = variant(change=lambda files, metadata: files.update({
        "_ops.py": files["_ops.py"].replace(b"torch.ops._one", b"torch.ops._uno")}))
    assert any(f.rule == "namespace-of-the-hub" and f.text.startswith(
        "_ops.py:3 uses torch.ops._uno_cpu_0123456") for f in findings(path))


@pytest.mark.parametrize("file, code, said", [
    ("_ops.py", 'register_fake("one::twice")', "_ops.py adds to one::twice, and "),
    ("_ops.py", 'register_fake(f"{NAME}::twice")', ""),
    ("_ops.py", "@torch.library.custom_op('one::mine', mutates_args=())\n"
     "def f(x): pass", "_ops.py defines in one, and metadata.json has the id"),
    ("_ops.py", "L = Library('one', 'DEF')", "_ops.py defines in one, and metadata"),
    ("_ops.py", '# register_fake("one::twice")', ""),
    ("layers.py", "class A(nn.Module):\n  def __init__(self): pass",
     "layers.py:2: A has a constructor, so that kernelize refuses it"),
    ("layers.py", "class A(nn.Module):\n  def forward(self, x): return x\n"
     "  def inner(self): pass", "layers.py:3: A has inner, which nn.Module has not"),
    ("layers.py", "class A(nn.Module):\n  can_torch_compile = True\n"
     "  def forward(self, x): return x\n  def extra_repr(self): return ''", ""),
    ("layers.py", "class A(nn.Module):\n  factor: float = 2.0",
     "layers.py:2: A has factor, which nn.Module has not"),
    ("layers.py", "class B(nn.Module):\n  def __init__(self): pass\nclass A(B): pass",
     "layers.py:2: A has a constructor"),
    ("layers.py", "class _Rows(nn.Module):\n  def __init__(self): pass", ""),
    ("__init__.py", "from ._ops import ops", "no file imports layers.py: the loader")])
def test_python_of_a_variant(findings, variant, file, code, said):
    path = variant(change=lambda files, metadata: files.update({
        "layers.py": b"", "__init__.py": b"from . import layers\nfrom ._ops import ops",
        file: code.encode()}))
    found = [f.text for f in findings(path) if f.rule in (
        "namespace-of-the-hub", "variant-layer")]
    assert (said in "".join(found)) if said else found == []


def test_members_of_modules_are_those_of_the_torch_that_is_here():
    module = pytest.importorskip("torch").nn.Module
    from torch_stable_abi.audit.hub import OF_MODULES
    assert {name for name in dir(module) if not name.startswith("__")} == \
        OF_MODULES - {"has_backward", "can_torch_compile"}


def test_a_library_in_a_variant_for_every_machine(findings, variant):
    assert any(f.rule == "variant-machine" and "torch-cpu is for every machine, and "
               "holds" in f.text for f in findings(variant("torch-cpu")))


def test_what_a_variant_may_import(findings, variant):
    code = b"""import triton
from typing import TYPE_CHECKING
if TYPE_CHECKING:
  import numpy
from . import layers, _ops
"""
    for type, said in [("cuda", []), ("cpu", ["triton"])]:
        def change(files, metadata, type=type):
            files |= {"__init__.py": code, "layers.py": b""}
            metadata["backend"] = {"type": type}
        found = [f.text for f in findings(variant(change=change))
                 if f.rule == "variant-imports" and "imports" in f.text]
        assert [text.split(" imports ")[1].partition(",")[0] for text in found] == said


def test_a_digest_of_another_kind(findings, variant):
    def spell(folder):
        file = folder / "metadata.json"
        said = json.loads(file.read_text())
        said["digest"] = {"algorithm": "sha512", "files": {
            name: base64.b64encode(hashlib.sha512(
                (folder / name).read_bytes()).digest()).decode()
            for name in said["digest"]["files"]}}
        file.write_text(json.dumps(said))
    assert not [f for f in findings(variant(after=spell)) if f.rule == "variant-digest"]


def test_a_digest_in_hex(findings, variant):
    def spell(folder):
        file = folder / "metadata.json"
        said = json.loads(file.read_text())
        said["digest"]["files"] = {n: base64.b64decode(sum).hex() for n, sum
                                   in said["digest"]["files"].items()}
        file.write_text(json.dumps(said))
    assert any(f.rule == "variant-digest" and "has its hash in hex, where the loader "
               "wants base64" in f.text for f in findings(variant(after=spell)))


def test_a_repository_is_its_variants(findings, variant, workbook):
    folder = variant(under="build")
    variant("torch-stable-abi29-cpu-x86_64-linux", under="build")
    for path in (folder.parent, folder.parent.parent):
        done = workbook("audit", path)
        assert done.returncode == 1
        assert done.stdout.startswith("torch-stable-abi210-cpu-x86_64-linux\n")
        assert "says libtorch 2.9, and needs 2.10" in done.stdout


def damage_wheel(path, how):
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        info, = (i for i in archive.infolist() if i.filename.endswith(".so"))
    begin, entry = 30 + len(info.filename), data.index(b"PK\1\2")
    if how == "bad bytes":
        data[begin:begin + 99] = b"\xff" * 99
    elif how == "encrypted":
        data[6] |= 1
        data[entry + 8] |= 1
    else:  # a compression that zipfile does not know
        data[8] = data[entry + 10] = 77
    path.write_bytes(data)


@pytest.mark.parametrize("command", ["audit", "matrix"])
@pytest.mark.parametrize("how", ["bad bytes", "encrypted", "unknown"])
def test_a_damaged_wheel(workbook, stable, tmp_path, how, command):
    path = tmp_path / "one-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(stable, "libone.so")
    damage_wheel(path, how)
    done = workbook(command, path)
    assert done.returncode == 2
    said = "has encrypted files" if (how, command) == ("encrypted", "audit") else \
        "is damaged, or was cut off"
    assert f"{path.name} {said}" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


def test_wheels_that_are_none(findings, stable, wheel, tmp_path):
    good = wheel(stable)
    cut = tmp_path / "cut-1.0-py3-none-any.whl"
    cut.write_bytes(good.read_bytes()[:-500])
    shutil.copy(good, tmp_path / "name.whl")
    for path, said in [(cut, "is damaged, or was cut off"),
                       (tmp_path / "name.whl", "is no name of a wheel"),
                       (tmp_path / "nonesuch.so", "there is no")]:
        with pytest.raises(CannotRun, match=said):
            findings(path)


def test_a_wheel_that_unpacks_to_more_than_a_disk(findings, tmp_path):
    path = tmp_path / "one-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("one/libone.so", b"\x7fELF")
        archive.infolist()[0].file_size = 2**40  # as its directory will say
    with pytest.raises(CannotRun, match="unpacked it has more than .* 16 GiB"):
        findings(path)
