"""Reads the public names of PyTorch's stable surface from its headers.

libclang parses every header of the stable C++ API (torch/csrc/stable), of what is
header-only (torch/headeronly) and of the C shim (stable/c, aoti_torch/c and
aoti_torch/generated) as one file, once for each version of the headers and, with
the newest, once for each target. So a name is where the preprocessor and the
grammar put it, not where a pattern saw it.
"""

import re
import subprocess
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

FOLDERS = ("torch/csrc/stable", "torch/headeronly",
           "torch/csrc/inductor/aoti_torch/c",
           "torch/csrc/inductor/aoti_torch/generated")
LEFT_OUT = {"win32-headers.h", "missing_vld1_neon.h", "missing_vst1_neon.h"}
OLDEST_TARGET = 9  # 2.9; what it has may be older
# What some declarations are under; all are defined, but for finding out which.
DEFINES = ("USE_CUDA", "USE_XPU", "USE_MPS", "__CUDACC__")
KINDS = {"FUNCTION_DECL": "function", "FUNCTION_TEMPLATE": "function",
         "CLASS_DECL": "type", "STRUCT_DECL": "type", "CLASS_TEMPLATE": "type",
         "TYPEDEF_DECL": "type", "TYPE_ALIAS_DECL": "type",
         "TYPE_ALIAS_TEMPLATE_DECL": "type", "ENUM_DECL": "type",
         "VAR_DECL": "constant", "MACRO_DEFINITION": "macro",
         "USING_DECLARATION": "name"}  # torch::headeronly::Half is c10::Half
MACHINERY = re.compile(
    r"THO_(AP|PRIVATE).*|.*_H_?|(?!STABLE_TORCH)\w+_IMPL|"
    r"(STABLE_)?(CONCATENATE|UID).*|C10_(UID|"
    r"CONCATENATE|ANONYMOUS).*|(DEFINE|SPECIALIZE)_.*|AOTI_TORCH_SHIM.*|"
    r"(STABLE_TORCH|AOTI_TORCH)_(SHIM|EXPORT)|\w+Opaque|StableTorchLibraryInit|"
    r"delete_device_guard|C10_(EXPORT|IMPORT|API)\w*|TORCH\w*_API")
# Headers of CUDA, of the compiler and of ATen that these headers include. The
# names in them do not matter here; what is missing is skipped.
STAND_INS = {
    "cuda.h": "", "cuda_bf16.h": "", "cuda_fp16.h": "", "immintrin.h": "",
    "cuda_runtime.h": "typedef struct CUstream_st* cudaStream_t;"
                      "typedef int cudaError_t; enum { cudaSuccess };",
    "ATen/Config.h": "#define AT_MKLDNN_ENABLED() 1\n"
                     "#define AT_MKL_ENABLED() 1\n",
    "c10/util/BFloat16.h": "", "c10/util/Half.h": "",
    "c10/util/complex.h": "namespace c10 { template <class T> struct complex {"
                          "  T real; }; }\n"}
OPTIONS = 0x01 | 0x40 | 0x200  # record macros, skip bodies, keep going


@dataclass(frozen=True, order=True)
class Name:
    name: str  # qualified: "torch::stable::Tensor::sizes"
    kind: str
    header: str


@dataclass(frozen=True)
class Entry:
    """A public name and the first version that has it: `headers` and `target` are
    minor versions, such as 10, and 9 stands for all before 10. `define` is the
    macro without which the headers do not declare it, or ""."""
    name: str
    kind: str
    header: str
    headers: int
    target: int
    define: str


def read_surface(roots: dict[int, Path]) -> list[Entry]:
    """Return the names in `roots`, {minor version: TORCH_ROOT}, in order. A name
    that a later version dropped is among them."""
    newest = max(roots)
    tasks = [(minor, minor, DEFINES) for minor in sorted(roots)] + \
        [(newest, target, DEFINES) for target in range(OLDEST_TARGET, newest)] + \
        [(newest, newest, (*one,)) for one in ((), *zip(DEFINES))]
    with ProcessPoolExecutor(2) as pool:
        found = dict(zip(tasks, pool.map(partial(_parse_task, roots), tasks)))
    first: dict[tuple[str, str], tuple[int, str]] = {}
    for minor in sorted(roots):
        for name in sorted(found[minor, minor, DEFINES]):
            first.setdefault((name.name, name.kind), (minor, name.header))
    keys = {task: {(n.name, n.kind) for n in names}
            for task, names in found.items()}
    entries = []
    for key, (minor, header) in first.items():
        targets = [t for t in range(OLDEST_TARGET, newest + 1)
                   if key in keys[newest, t, DEFINES]]
        without = key in keys[newest, newest, ()] or not targets
        define = "" if without else next(
            (d for d in DEFINES if key in keys[newest, newest, (d,)]), "")
        entries.append(Entry(*key, header, minor, (targets or [minor])[0], define))
    return sorted(_drop_twins(entries), key=lambda e: (e.header, e.name, e.kind))


def _drop_twins(entries: list[Entry]) -> list[Entry]:
    """Drop c10::Half, since torch::headeronly::Half is the same."""
    again = {e.name.removeprefix("torch::headeronly::") for e in entries
             if e.kind == "name"}
    return [e for e in entries if e.kind == "name" or not (
        e.name.startswith("c10::") and e.name.removeprefix("c10::") in again)]


def _parse_task(roots, task) -> set[Name]:
    minor, target, defines = task
    return parse(roots[minor] / "include", target, defines)


def parse(include: Path, target: int, defines: Iterable[str] = ()) -> set[Name]:
    """Return the names that the headers in `include` declare for target
    2.`target` with the macros `defines`."""
    from clang.cindex import Index
    headers = sorted(path.relative_to(include) for folder in FOLDERS
                     for path in (include / folder).rglob("*.h")
                     if path.name not in LEFT_OUT)
    builtin = subprocess.run(["gcc", "-print-file-name=include"], text=True,
                             capture_output=True, check=True).stdout.strip()
    arguments = [
        "-std=c++17", "-ferror-limit=0", "-I/stand-ins",
        "-isystem", str(include), "-isystem", builtin,
        f"-DTORCH_TARGET_VERSION=0x02{target:02x}000000000000",
        *(f"-D{name}" for name in defines),
        *(f"-D__{word}__=" for word in ("device", "host", "global")),
        "-D__forceinline__=inline"]
    unit = Index.create().parse("/all.cpp", args=arguments, unsaved_files=[
        ("/all.cpp", "".join(f"#include <{path}>\n" for path in headers)),
        *((f"/stand-ins/{name}", text) for name, text in STAND_INS.items())],
        options=OPTIONS)
    return set(_names(unit.cursor, include, [], in_c=False))


def _names(parent, include: Path, scope: list[str], in_c: bool) -> Iterator[Name]:
    for cursor in parent.get_children():
        kind = cursor.kind.name
        if kind == "NAMESPACE":
            yield from _names(cursor, include, [*scope, cursor.spelling], in_c)
            continue
        if kind == "LINKAGE_SPEC":
            yield from _names(cursor, include, scope, True)
            continue
        header, word = _header(cursor, include), KINDS.get(kind)
        if not header or not word or _is_member(cursor):
            continue
        if word == "function" and in_c:
            word = "C function"
        name = [cursor.spelling.partition("<")[0]]
        if word != "macro":
            name = [*scope, *name]
        if is_public("::".join(name)):
            yield Name("::".join(name), word, header)
        if word == "type" and cursor.is_definition():
            yield from _members(cursor, name, header)


def _members(cursor, name: list[str], header: str) -> Iterator[Name]:
    for member in cursor.get_children():
        word = {"ENUM_CONSTANT_DECL": "enumerator", "CXX_METHOD": "method",
                "FUNCTION_TEMPLATE": "method"}.get(member.kind.name)
        text = "::".join([*name, member.spelling])
        hidden = member.access_specifier.name in ("PRIVATE", "PROTECTED")
        if word and not hidden and is_public(text):
            yield Name(text, word, header)


def _header(cursor, include: Path) -> str:
    """Return the header of the stable surface that the cursor is in, or ""."""
    file = cursor.location.file
    path = file.name.removeprefix(f"{include}/") if file else ""
    return path if path.startswith(FOLDERS) else ""


def _is_member(cursor) -> bool:
    """Return whether this is the definition of a member, which stands outside of its
    class."""
    parent = cursor.semantic_parent
    return parent is not None and KINDS.get(parent.kind.name) == "type"


def is_public(name: str) -> bool:
    """Return whether an author may write this name. The headers' own machinery is in a
    namespace `detail` or `impl`, begins with an underscore, or matches MACHINERY."""
    words = name.split("::")
    if name.startswith("torch::stable::detail::") and \
            words[3] in ("StableLibrary", "from", "to"):
        words = words[3:]
    return "" not in words and not MACHINERY.fullmatch(words[-1]) and not any(
        word in ("detail", "impl", "internal", "std", "guts") for word in words[:-1]
    ) and not any(word.startswith(("_", "~", "operator", "(")) for word in words)
