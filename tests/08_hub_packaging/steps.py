"""The steps of chapter 08, on the variant that an implementation's build made."""

import re
import sys

import pytest

from hub.builds import (
    CLANG,
    configure,
    find_left_out,
    find_namespaces,
    links_to_same_bytes,
    list_commands,
    list_commands_of_next_build,
)
from hub.python_files import find_imports, find_newer_than_3_9
from hub.symbols import (
    NEEDED,
    NEWEST,
    STRONG,
    demangle,
    find_slot,
    find_too_new,
    list_symbols,
    read_byte,
    read_elf,
)
from torch_stable_abi.libtorch import surface
from torch_stable_abi.libtorch.installed import torch_root
from torch_stable_abi.libtorch.versions import numbers

# --- 08.1 A module that is not Python's -------------------------------------------


def test_08_1_a_function_that_python_finds(library):
    """Python finds a module in the library

    Python finds no module in the library, or the module needs more of Python."""
    symbols = list_symbols(library, "--defined-only")
    wanted = "PyInit_" + library.name.removesuffix(".abi3.so")
    found = re.search(r" ([Tt]) (\w*PyInit_\w*)", symbols)
    if found and found[1] == "t":
        pytest.fail(f"{found[2]} is there, but hidden: Python does not see it")
    if found and re.match("_Z[0-9]+PyInit_", found[2]):
        pytest.fail("the function has C++'s linkage: the library calls it "
                    f"{found[2]}")
    if found and found[2] != wanted:
        pytest.fail(f"the function is {found[2]}; Python looks for {wanted}, after "
                    "the file's name")


def test_08_1_a_module_for_every_python(library, tmp_path, run_probe):
    """the module needs one function of Python's, and can be imported twice

    Python finds no module in the library, or the module needs more of Python."""
    from kernel_abi_check import ObjectFile
    needed = re.findall(r"\b_?Py\w+",
                        list_symbols(library, "-D", "--undefined-only"))
    assert needed, \
        "it needs nothing of Python: who calls PyModule_Create2, in which function?"
    assert needed == ["PyModule_Create2"], \
        f"of Python it needs {', '.join(needed)}; PyModule_Create2 is enough"
    run_probe("check_module.py", library, tmp_path,
              find_slot(library, "PyModule_Create2"),
              died="the process ended in the import")
    later = ObjectFile(library).check_python_abi("3.9")
    assert later == [], f"not in Python's stable ABI of 3.9: {later}"


# --- 08.2 An id for every build ---------------------------------------------------


def test_08_2_the_namespace_is_the_id(build, source, library, run_probe, look_at):
    """the ops are in a namespace that has the build's id

    Two builds that differ share a name, or two that are the same do not."""
    look_at("torch-ext/torch_binding.cpp", "#define OPS")
    run_probe("check_namespace.py", library,
              died="the process ended: another kernel has opened the namespace "
                   "activation")
    for device, options in ("CPU", []), ("CUDA", ["-DCUDA_KERNEL"]):
        shared = find_namespaces(source, build, *options) - {"TORCH_EXTENSION_NAME"}
        assert not shared, \
            f"for {device} the ops are in {', '.join(sorted(shared))}, a name that " \
            "every build has; TORCH_EXTENSION_NAME is this build's own"


def test_08_2_without_git_ids_differ(run_package_probe, look_at):
    """without git each build has an id of its own

    Two builds that differ share a name, or two that are the same do not."""
    look_at("package.py", "unique_id")
    run_package_probe("check_ids_without_git.py")


def test_08_2_same_contents_same_id(package_in_git, run_package_probe, look_at):
    """the same contents of the folder have one id, whatever else has changed

    Two builds that differ share a name, or two that are the same do not."""
    look_at("package.py", "unique_id")
    run_package_probe("check_ids_of_same_contents.py")


def test_08_2_other_contents_another_id(package_in_git, run_package_probe, look_at):
    """other contents have another id, and those that are not committed are dirty

    Two builds that differ share a name, or two that are the same do not."""
    look_at("package.py", "unique_id")
    run_package_probe("check_ids_of_changes.py")


def test_08_2_the_header_has_the_id(package_in_git, run_package_probe, look_at):
    """the header that a build reads has the id of its variant

    Two builds that differ share a name, or two that are the same do not."""
    look_at("package.py", "unique_id")
    run_package_probe("check_ids_in_headers.py")


def test_08_2_an_ignored_folder_has_its_own_id(
        package_in_git, run_package_probe, look_at):
    """so has a folder that git ignores

    Two builds that differ share a name, or two that are the same do not."""
    look_at("package.py", "unique_id")
    run_package_probe("check_id_of_ignored_folder.py")


def test_08_2_every_build_asks_for_the_id(build, look_at):
    """every build asks for the id

    Two builds that differ share a name, or two that are the same do not."""
    look_at("CMakeLists.txt", "add_dependencies(activation_")
    for list_them in (list_commands, list_commands_of_next_build):
        # Quoted, if the path has a space.
        assert re.search(r"package\.py['\"]? id cpu", list_them(build)), \
            "not every build asks package.py for the id: what has changed since " \
            "CMake was run would be built under the id of what was there before"


# --- 08.3 Symbols that every Linux has --------------------------------------------


def test_08_3_symbols_that_every_linux_has(library, dynamic_symbols, look_at):
    """every library that it needs comes with torch, and every symbol is there on
    manylinux_2_28

    The library's symbols are too new, shared with others, or without a version."""
    look_at("CMakeLists.txt", "RPATH")
    dynamic = read_elf(library, "-d")
    assert not re.search(r"\((RPATH|RUNPATH)\)", dynamic), \
        "a path of the build machine is in the library"
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    strange = [n for n in needed if not re.match(NEEDED, n)]
    assert strange == [], \
        f"it needs {', '.join(strange)}, which torch does not bring"
    look_at("CMakeLists.txt", "static-libstdc++")
    assert "libstdc++.so.6" in needed, \
        "libstdc++ is inside, beside torch's copy: this one asks for newer symbols"
    look_at("torch-ext/core/portable.cpp")
    too_new = find_too_new(dynamic_symbols)
    asked = "; ".join(f"{demangle([name])} of {version}"
                      for name, version in too_new[:3])
    assert too_new == [], f"manylinux_2_28 has no {asked}"
    look_at("CMakeLists.txt", "link_options")
    needs = re.findall(rf"Name: ((?:{'|'.join(NEWEST)})_[A-Z]\S*)",
                       read_elf(library, "-V"))
    assert needs == [], \
        f"it needs a libc that has {needs[0]}, for no symbol, and an older one " \
        "refuses it: which option of the linker does that?"


def test_08_3_no_symbol_is_shared(dynamic_symbols, look_at):
    """none is shared with others

    The library's symbols are too new, shared with others, or without a version."""
    look_at("CMakeLists.txt", "gnu-unique")
    unique = re.findall(r" UNIQUE .* (\S+)$", dynamic_symbols, re.M)
    assert unique == [], \
        f"one for the whole process (UNIQUE): {demangle(unique[:1])}"


def test_08_3_versions_that_the_checker_reads(build, library, look_at):
    """the Hub's checker sees their versions

    The library's symbols are too new, shared with others, or without a version."""
    # It reads .symtab, and only names with a version in it.
    from kernel_abi_check import ObjectFile
    look_at("CMakeLists.txt", "fuse-ld")
    assert "@GLIBC" in read_elf(library, "--syms").split("'.symtab'")[1], \
        "the linker left the versions out: the Hub's check would see nothing"
    assert " -fuse-ld=bfd " in list_commands(build), \
        "-fuse-ld=bfd is not in the command that links: another machine's default " \
        "may be lld"
    refused = ObjectFile(library).check_manylinux("manylinux_2_28")
    assert refused == [], f"the Hub's checker refuses {refused}"


def test_08_3_a_hidden_flag_that_is_safe(build, source, library, contents, look_at):
    """the flag of glibc's is hidden, is safe, and is there whoever compiles it

    Others would find what is the library's own, or it is one machine's alone."""
    look_at("torch-ext/core/portable.cpp")
    assert "__libc_single_threaded" not in contents.exports, \
        "__libc_single_threaded is visible: others, who look for glibc's, find it"
    file = source / "torch-ext/core/portable.cpp"
    assert "hidden" in re.sub(r"//.*", "", file.read_text()), \
        "__libc_single_threaded is hidden by this build's flags alone: say it beside " \
        "the variable, for builds without -fvisibility=hidden"
    for name, where in find_left_out(file, build):
        pytest.fail(f"compiled {where} the file leaves {name} out, and the library "
                    "asks for the one that is too new")
    value = read_byte(library, "__libc_single_threaded")
    assert value == 0, \
        f"__libc_single_threaded is {value}, that is there are no threads: 0 is safe"


def test_08_3_what_is_visible(library, contents, look_at):
    """others find nothing of its own but the module and the list of its calls

    Others would find what is the library's own, or it is one machine's alone."""
    look_at("CMakeLists.txt", "visibility")
    module = "PyInit_" + library.name.removesuffix(".abi3.so")
    shown = [name for name, bind in contents.exports.items() if bind == STRONG or
             re.search("wb|silu|gelu|functional", name)]
    shown = set(shown) - {module, "__bss_start", "_edata", "_end"}
    assert not shown, \
        f"{demangle(sorted(shown)[:1])} is visible, and others may take it for theirs"
    look_at("torch-ext/core/portable.cpp")
    inside = [name for name in contents.exports if re.search(
        r"basic_[io]?stringstream.*(?<!C1Ev)(?<!C2Ev)$", name)]
    assert inside == [], \
        f"{demangle(inside[:1])} is of libstdc++, and is visible: instantiate the " \
        "two constructors alone"


def test_08_3_one_for_every_machine(build, source, contents, tmp_path, look_at):
    """it runs on every machine and torch

    Others would find what is the library's own, or it is one machine's alone."""
    look_at("CMakeLists.txt", "libgcc")
    assert "libgcc_s.so.1" in contents.needed, \
        "libgcc is inside, beside the process's own: what throws needs one for all"
    look_at("CMakeLists.txt", "TORCH_TARGET_VERSION")
    newer = {name: version for name, weak in contents.shims.items()
             if not weak and (version := surface.since(name))
             and numbers(version) > (2, 10)}
    assert not newer, "torch 2.10 has no " + ", ".join(
        f"{name} (since {version})" for name, version in sorted(newer.items())[:2])
    look_at("CMakeLists.txt", "prefix-map")
    here = [text for text in contents.strings
            for folder in (source, build, torch_root()) if f"{folder}/" in text]
    assert not here, \
        f"a path of the build machine is in the library: {min(here, default='')}"
    look_at("CMakeLists.txt", "link_options")
    assert links_to_same_bytes(build, tmp_path), \
        "linked once more the library is of other bytes, under the same id: which " \
        "option of the linker does that?"
    look_at("CMakeLists.txt", "-m")
    flags = re.findall(r" (-m(?:(?:arch|cpu)=(?!x86-64 |armv8-a )|avx|fma|bmi|sse)\S*)",
                       " ".join(re.findall(r"^ +FLAGS =(.*)$", (
                           build / "build.ninja").read_text(), re.M)) + " ")
    assert flags == [], f"{flags[0]}: older processors lack its instructions"


def test_08_3_flags_of_every_build(build, source, cmake_lists, tmp_path, look_at):
    """so does what is built in another type, or by another compiler

    Others would find what is the library's own, or it is one machine's alone."""
    look_at("CMakeLists.txt", "gnu-unique")
    assert re.search(r"GNU|Clang|check_(cxx_)?compiler_flag", cmake_lists), \
        "-fno-gnu-unique is for every compiler, and Clang stops at it: " \
        "CXX_COMPILER_ID tells which one it is"
    here = list_commands(build)
    if re.search(r"\$<CONFIG|_RELEASE\b|CMAKE_BUILD_TYPE\W+(STREQUAL|MATCHES)",
                 cmake_lists):
        there = configure(source, tmp_path / "debug", "-DCMAKE_BUILD_TYPE=Debug")
        missing = [flag for flag in ("-fno-gnu-unique", "-fuse-ld=bfd")
                   if flag in here and flag not in there]
        assert missing == [], f"a build of the type Debug lacks {missing[0]}"
    usual = r"\$<\$<AND:\$<COMPILE_LANGUAGE:CXX>,\$<CXX_COMPILER_ID:GNU>>:" \
        "-fno-gnu-unique>"
    if re.search("Clang|_ID|IS_GNUCXX", re.sub(usual, "", cmake_lists)):
        look_at("CMakeLists.txt", "GNU")
        there = configure(source, tmp_path / "clang", *CLANG)
        missing = [part for part in (
            "-fuse-ld=bfd", "portable.cpp", "-fvisibility=hidden")
            if part in here and part not in there]
        assert missing == [], f"a build by Clang lacks {missing[0]}"
        assert "-fno-gnu-unique" not in there or "compiler_flag" in cmake_lists, \
            "a build by Clang has -fno-gnu-unique, which stops it"


def test_08_3_the_same_at_any_time(build, source, cmake_lists, tmp_path, look_at):
    """what is built later, or by somebody else, is the same

    Others would find what is the library's own, or it is one machine's alone."""
    if used := re.search(r"\bTIMESTAMP|\bRANDOM|\bENV\{", cmake_lists):
        look_at("CMakeLists.txt", used[0])
        here = list_commands(build)
        there = configure(source, tmp_path / "later", SOURCE_DATE_EPOCH="1",
                          USER="another", LOGNAME="another", HOSTNAME="another")
        other = [option for option in re.findall(
            r" (-(?:D|Wl,)\S+)", there.replace(str(tmp_path / "later"), str(build)))
            if option not in here and option != "-DNDEBUG"]
        assert other == [], \
            "built later or by another it is other bytes under the same id: " \
            f"{other[0]}"


# --- 08.4 A package without a fixed name ------------------------------------------


def test_08_4_a_package_without_a_fixed_name(variant, tmp_path, run_probe, look_at):
    """the package works under its id alone, and promises what it has

    The package does not reach its ops under its id, or __all__ is not right."""
    look_at("torch-ext/activation/_ops.py.in")
    run_probe("check_package.py", variant, tmp_path)


def test_08_4_nothing_that_torch_does_not_bring(variant, look_at):
    """it needs torch and Python 3.9, and nothing else

    The package does not reach its ops under its id, or __all__ is not right."""
    for file in variant.rglob("*.py"):
        look_at(f"torch-ext/activation/{file.relative_to(variant)}")
        newer = [*find_newer_than_3_9(file)]
        assert newer == [], f"{file.name}: {newer[0]}"
        foreign = set(find_imports(file)) - {"torch", *sys.stdlib_module_names}
        assert not foreign, \
            f"{file.name} imports {', '.join(foreign)}, which torch does not bring"


# --- 08.5 Layers without a state --------------------------------------------------


def test_08_5_layers_without_a_state(variant, run_probe, look_at):
    """the loader takes all eleven layers, and a replaced one keeps its threshold

    A layer is not one that kernelize can put into every model."""
    look_at("torch-ext/activation/layers.py")
    run_probe("check_layers.py", variant)


# --- 08.6 What is read before the import ------------------------------------------


def test_08_6_metadata_that_the_loader_reads(
        build, variant, library, tmp_path, run_package_probe, look_at):
    """the loader reads the metadata, finds the variant, and uses a layer of it

    The loader refuses metadata.json or its digest, or the variant by its name."""
    look_at("package.py", "metadata(id")
    (tmp_path / "build").symlink_to(build)
    run_package_probe("check_metadata.py", variant, library, tmp_path,
                      LOCAL_KERNELS=f"your-name/activation={tmp_path}")


def test_08_6_package_py_runs_on_python_3_9(source, look_at):
    """package.py runs on Python 3.9

    The loader refuses metadata.json or its digest, or the variant by its name."""
    look_at("package.py")
    newer = [*find_newer_than_3_9(source / "package.py")]
    assert newer == [], f"package.py: {newer[0]}"
