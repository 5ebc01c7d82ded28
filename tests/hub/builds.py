"""The commands of a package's build, and what they would be of another."""

import os
import re
import subprocess
import sys

from torch_stable_abi.libtorch.installed import torch_root

# CMake does not ask this Clang what it is, so none has to be there.
CLANG = ["-DCMAKE_CXX_COMPILER_FORCED=ON", "-DCMAKE_CXX_COMPILER_ID_RUN=ON",
         "-DCMAKE_CXX_COMPILER_ID=Clang", "-DCMAKE_CXX_COMPILER_VERSION=18",
         "-DCMAKE_CXX_COMPILE_FEATURES=cxx_std_17",
         "-DCMAKE_CXX17_COMPILE_FEATURES=cxx_std_17"]
# Macros by which code tells where it is compiled, and those of glibc and libstdc++
# that are there everywhere.
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


def read_cache(build, variable):
    """Return a variable of a build's CMake cache."""
    text = (build / "CMakeCache.txt").read_text()
    return re.search(rf"^{variable}:\w+=(.*)$", text, re.M)[1]


def list_commands(build):
    """Return the commands of the library's first build."""
    return _ask_ninja(build, "-t", "commands")


def list_commands_of_next_build(build):
    """Return the commands of a build that would run now."""
    return _ask_ninja(build, "-n", "-v")


def _ask_ninja(build, *options):
    return subprocess.run(
        [read_cache(build, "CMAKE_MAKE_PROGRAM"), "-C", build, *options,
         "activation_cpu_module"], text=True, capture_output=True, check=True).stdout


def configure(source, folder, *options, **environment):
    """Return the commands of the first build in a folder that is configured now."""
    subprocess.run(
        ["cmake", "-G", "Ninja", "-S", source, "-B", folder,
         f"-DTORCH_ROOT={torch_root()}", "-DACTIVATION_CUDA=OFF",
         f"-DPython_EXECUTABLE={sys.executable}", *options],
        env={**os.environ, **environment}, capture_output=True, check=True)
    return list_commands(folder)


def preprocess(file, build, *options):
    """Return what the build's preprocessor makes of a file without its includes."""
    return subprocess.run(
        [read_cache(build, "CMAKE_CXX_COMPILER"), "-E", "-P", "-xc++", *options, "-"],
        input=re.sub(r"^#include.*", "", file.read_text(), flags=re.M),
        text=True, capture_output=True).stdout


def find_namespaces(source, build, *options):
    """Return the namespaces that the ops are registered in."""
    text = preprocess(
        source / "torch-ext/torch_binding.cpp", build,
        "-DTORCH_EXTENSION_NAME=TORCH_EXTENSION_NAME", *options)
    return set(re.findall(r"STABLE_TORCH_LIBRARY\w*\(\s*(\w+)\s*,", text))


def find_left_out(file, build):
    """Return (name, where) for each copy of libstdc++'s or glibc's that a file
    defines, but not everywhere."""
    if not re.search(r"^\s*#\s*if", file.read_text(), re.M):
        return []
    there = {where: set(re.findall(
        r"\bbasic_\w*stringstream(?= *\( *\))|\b__libc_single_threaded\b",
        preprocess(file, build, *GLIBC, *options)))
        for where, options in COMPILED.items()}
    return [(name, where) for where, names in there.items()
            for name in sorted(set.union(*there.values()) - names)]


def links_to_same_bytes(build, folder):
    """Return whether the library, linked once more, is the same bytes. It is linked
    only if the command has another option than those that are known to be safe."""
    command = list_commands(build).splitlines()[-1]
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
