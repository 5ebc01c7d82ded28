"""Writes the files of ours around sources: schemas, what builds them, and the tests."""

import re
import textwrap

from torch_stable_abi.programs import CannotRun
from torch_stable_abi.schemas import calling
from torch_stable_abi.schemas.schema import Argument, read
from upkeep.wrapping.devices import Devices
from upkeep.wrapping.registering import TODO, Op

_BINDING = "torch-ext/torch_binding.cpp"  # of template 08
_FLAGS = f"""\
# {TODO} add the flags, macros and libraries of the sources' own build, as in
# target_compile_options({{name}} PRIVATE
#   $<$<COMPILE_LANGUAGE:CUDA>:--use_fast_math>)
"""


def write_files(number: str, files: dict[str, str], name: str, ops: list[Op],
                devices: Devices) -> None:
    """Complete the template's files in `files`, and add the schemas, tests and lists of
    sources that the kernels need."""
    space, place = name, f"{name}.cpp"
    if number == "08":
        space, place = "TORCH_EXTENSION_NAME", _BINDING
        write_package(files, name, ops, devices)
    else:
        write_build(files, name, devices)
        write_loading(files, name)
    files[place] = write_schemas(space, name, ops, place)
    files["tests/test_ops.py"] = write_tests(files["tests/test_ops.py"], ops)


def write_schemas(space: str, name: str, ops: list[Op], place: str) -> str:
    """Return the C++ of schemas and kernels for Meta. `space` is the ops' namespace,
    `name` that of the C++ code; `place` is this file."""
    returning = [op for op in ops if op.is_known() and read(op.schema)[1]]
    expand = "_EXPAND" if space != name else ""
    lines = ["// The ops of this package: schemas, and kernels for Meta of those that",
             "// return tensors. csrc/ registers the kernels, beside the functions.",
             '#include "checked_box.h"']
    lines += ['#include "registration.h"'] * bool(expand)
    lines += ["", "#include <torch/csrc/stable/library.h>"]
    lines += ["#include <torch/csrc/stable/ops.h>",
              "#include <torch/csrc/stable/tensor.h>",
              "#include <torch/headeronly/util/Exception.h>", "", "#include <cstdint>",
              "#include <optional>", "#include <string>", "#include <tuple>",
              "#include <vector>"] * bool(returning)
    lines += ["", f"STABLE_TORCH_LIBRARY{expand}({space}, m) {{"]
    if not ops:
        lines.append(f"  // {TODO} no function that takes tensors was found: write one "
                     "in csrc/, its schema here, and register it beside the function.")
    for op in ops:
        lines += [f"  // {TODO} {mark}" for mark in op.marks]
        if op.is_known():
            lines += _define(op.schema)
        else:
            lines.append(f"  // {TODO} complete this schema, and make it code.")
            lines += [f"  // {line.strip()}" for line in _define(op.schema)]
    lines.append("}")
    if returning:
        lines += ["", f"namespace {name} {{", "namespace {", ""]
        for op in returning:
            lines += [*_meta_kernel(op, place), ""]
        lines += ["} // namespace", f"}} // namespace {name}", "",
                  f"STABLE_TORCH_LIBRARY_IMPL{expand}({space}, Meta, m) {{",
                  *(f'  m.impl("{op.name}", CHECKED_BOX(&{name}::{_meta_name(op)}));'
                    for op in returning), "}"]
    lines += ["", f"REGISTER_EXTENSION({space})"] * bool(expand)
    return "\n".join(lines) + "\n"


def _define(schema: str) -> list[str]:
    if len(schema) < 66:
        return [f'  m.def("{schema}");']
    parts = textwrap.wrap(schema, 70, drop_whitespace=False, break_long_words=False)
    return ["  m.def(", *(f'      "{part}"' for part in parts[:-1]),
            f'      "{parts[-1]}");']


def _meta_name(op: Op) -> str:
    return op.name.replace(".", "_") + "_meta"


def _meta_kernel(op: Op, place: str) -> list[str]:
    """Return a kernel that says that it is still to be written."""
    arguments, returns = read(op.schema)
    results = [_type(one) for one in returns]
    result = results[0] if len(results) == 1 else f"std::tuple<{', '.join(results)}>"
    like = next((one.name for one in arguments if one.type == "Tensor"), "")
    parts = ", ".join(
        (f"const {_type(one)}&" if re.search(r"Tensor|std::", _type(one))
         else _type(one)) + f" /*{one.name}*/" for one in arguments)
    hint = f" torch::stable::empty_like({like}) is one like {like}." if like else ""
    return [f"// {TODO} return the result of {op.name} without its elements: sizes, "
            f"dtype and device.{hint}", f"{result} {_meta_name(op)}({parts}) {{",
            f'  STD_TORCH_CHECK(false, "{op.name} has no kernel for Meta yet: see '
            f'{TODO[:-1]} in {place}");', "}"]


def _type(one: Argument) -> str:
    """Return the type in C++. What cannot cross stays: the compiler refuses it."""
    text = calling.name_type(one.type) or one.type
    for space, names in (("stable", "Tensor|Device"),
                         ("headeronly", "ScalarType|MemoryFormat|Layout")):
        text = re.sub(rf"\b({names})\b", rf"torch::{space}::\1", text)
    return text


def write_tests(template: str, ops: list[Op]) -> str:
    """Return the tests: of each op one, whose inputs are still to be written."""
    lines = ["INPUTS = {"]
    for op in ops:
        lines += [f"    # {line}" for line in textwrap.wrap(
            op.schema, 80, break_long_words=False)]
        lines.append(f'    "{op.name}": None,  # {TODO} inputs of {op.name}')
    lines.append("}")
    cuda = sorted(op.name for op in ops if op.keys == ("CUDA",))
    names = "".join(f'    "{name}",\n' for name in cuda)
    return template.replace("INPUTS = {}\n", "\n".join(lines) + "\n").replace(
        "FOR_CUDA: set[str] = set()\n",
        f"FOR_CUDA = {{\n{names}}}\n" if cuda else "FOR_CUDA: set[str] = set()\n")


# --- what builds them ---------------------------------------------------------------


def _replace(text: str, pattern: str, new: str) -> str:
    """Replace what the template is known to have."""
    text, count = re.subn(pattern, lambda _: new, text, flags=re.S | re.M)
    if count != 1:
        raise CannotRun(f"the template has changed: {pattern} fits {count} times")
    return text


def _listed(places: list[str]) -> str:
    return "".join(f"\n  {_quote(place)}" for place in places)


def _quote(place: str) -> str:
    return place if re.fullmatch(r"[\w./+-]+", place) else \
        '"' + re.sub(r'([\\"$;])', r"\\\1", place) + '"'


def write_build(files: dict[str, str], name: str, devices: Devices) -> None:
    """Put the sources into the build files of template 04 or 07."""
    text = files["CMakeLists.txt"]
    text = _replace(text, r"^# The files with a loop.*?\$\{rows\}\)\n",
                    f"# The wrapped sources; cuda.cmake adds those for CUDA.\n"
                    f"add_library({name} SHARED {name}.cpp"
                    f"{_listed(devices.compiled(False))})\n")
    text = re.sub(rf"^target_include_directories\({name} PRIVATE core\)\n", "", text,
                  flags=re.M)
    text = _replace(text, rf"^target_include_directories\({name}(?=\s+SYSTEM)",
                    f"target_include_directories({name} PRIVATE core"
                    f"{_listed(devices.folders())})\ntarget_include_directories({name}")
    text = _replace(  # warnings are for what is ours
        text, r"^ +(\$<\$<COMPILE_LANGUAGE:CXX>:)?-Wall[^\n]*\n", "")
    text = _replace(text, r"^# Python's torch is loaded first",
                    f'set_source_files_properties({name}.cpp PROPERTIES\n'
                    f'  COMPILE_OPTIONS "-Wall;-Wextra;-Wpedantic;-Wconversion")\n'
                    f"{_FLAGS.format(name=name)}# Python's torch is loaded first")
    cuda = devices.compiled(True)
    if cuda:
        files["cuda.cmake"] = _replace(
            files["cuda.cmake"], r"^file\(GLOB kernels.*?\$\{kernels\}\)\n",
            f"target_sources({name} PRIVATE{_listed(cuda)})\n"
            "# With USE_CUDA the stable headers declare what they have for CUDA.\n"
            f"target_compile_definitions({name} PRIVATE USE_CUDA)\n"
            f"target_include_directories({name} SYSTEM PRIVATE\n"
            "  ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})\n")
    else:
        files.pop("cuda.cmake", None)
        text = text.replace("include(cuda.cmake)\n", "").replace(
            "; cuda.cmake adds those for CUDA", "")
    files["CMakeLists.txt"] = text


def write_loading(files: dict[str, str], name: str) -> None:
    """Take the gradient of the template's op out of what loads the library."""
    path = f"python/{name}/__init__.py"
    files[path] = _replace(
        files[path], r'^_register_gradient\("\w+"\)\n',
        '# _register_gradient("NAME"), where there is an op NAME_backward\n')


# --- a package for the Hub --------------------------------------------------------


def write_package(files: dict[str, str], name: str, ops: list[Op], devices: Devices
                  ) -> None:
    """Put the sources into the files of template 08."""
    _write_variants(files, name, devices)
    _write_kernel_builder(files, devices)
    called = sorted({op.name.partition(".")[0] for op in ops})
    files[f"torch-ext/{name}/__init__.py"] = "\n".join([
        '"""What users of the kernel call. `__all__` is what they may rely on."""', "",
        "from ._ops import ops", "", *(f"{one} = ops.{one}" for one in called),
        f"__all__ = [{', '.join(map(repr, called))}]".replace("'", '"'), ""])
    files["CARD.md"] = _replace(
        files["CARD.md"], r"^x = torch.randn.*?(?=^```)",
        "".join(f"# {name}.{op.schema}\n" for op in ops))


def _write_variants(files: dict[str, str], name: str, devices: Devices) -> None:
    text, module = files["CMakeLists.txt"], f"{name}_${{cuda}}_module"
    flags = _FLAGS.format(name="settings").replace("PRIVATE", "INTERFACE")
    text = _replace(text, r"(?<=^target_include_directories\(settings INTERFACE)\s[^)]*"
                    r"(?=\) # as in build.toml)",
                    f"\n  torch-ext torch-ext/core{_listed(devices.folders())}")
    text = _replace(text, r"(?<=:)-Wall;-Wextra;-Wpedantic;-Wconversion;\\\n", "")
    text = _replace(text, r"^# --- the kernels, once.*?(?=^# --- a variant)",
                    f"set_source_files_properties({_BINDING} PROPERTIES\n"
                    '  COMPILE_OPTIONS "-Wall;-Wextra;-Wpedantic;-Wconversion")\n'
                    f"{flags}\n"
                    "# The wrapped sources, and those of them for CUDA.\n"
                    f"set(sources torch-ext/core/portable.cpp"
                    f"{_listed(devices.compiled(False))})\n"
                    f"set(kernels{_listed(devices.compiled(True))})\n\n")
    text = _replace(text, rf"^    \$<TARGET_OBJECTS:{name}_cpu> \$\{{ARGN\}}\)",
                    "    ${sources} ${ARGN})")
    text = _replace(text, r"\$<\$<COMPILE_LANGUAGE:CXX>:-include;\$\{header\}>",
                    "-include ${header}")
    text = _replace(text, r"^file\(GLOB kernels [^)]*\)\n", "")
    text = _replace(text, r" PRIVATE CUDA_KERNEL\)",
                    " PRIVATE USE_CUDA)\n"
                    f"  target_include_directories({module} SYSTEM PRIVATE\n"
                    "    ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})")
    files["CMakeLists.txt"] = text


def _write_kernel_builder(files: dict[str, str], devices: Devices) -> None:
    cuda = devices.compiled(True)
    headers = sorted(set(devices.texts) - {*cuda, *devices.compiled(False)})
    include = ", ".join(f'"{one}"' for one in (
        "torch-ext", "torch-ext/core", *devices.folders()))

    def listed(places: list[str]) -> str:
        return "".join(f'  "{place}",\n' for place in places)

    text = _replace(files["build.toml"], r"^include = \[[^]]*\]",
                    f"include = [{include}]")
    text = _replace(text, r'^src = \[\n  "torch-ext/torch_binding.cpp",[^]]*\]',
                    "src = [\n" + listed([
                        _BINDING, "torch-ext/core/checked_box.h",
                        *devices.compiled(False), *headers]) + "]")
    if cuda:
        text = _replace(text, r'^backends = \["cpu"\]', 'backends = ["cpu", "cuda"]')
        text = _replace(text, r'^cpu = "2.10"$', 'cpu = "2.10"\ncuda = "2.10"')
        text += ('\n[kernel.portable_beside_cuda]\nbackend = "cuda"\n'
                 'depends = ["torch"]\nsrc = ["torch-ext/core/portable.cpp"]\n'
                 '\n[kernel.csrc]\ncxx-flags = ["-fvisibility=hidden", "-DUSE_CUDA"]\n'
                 'cuda-flags = [\n  "-Xcompiler=-fvisibility=hidden", "-DUSE_CUDA",\n'
                 '  "--expt-relaxed-constexpr",\n]\nbackend = "cuda"\n'
                 f'depends = ["torch"]\ninclude = [{include}]\nsrc = [\n'
                 + listed([*cuda, *headers, "torch-ext/core/checked_box.h"]) + "]\n")
    files["build.toml"] = text
