"""Lists what a port changes in a build and in Python, line by line. It rewrites nothing
there."""

import re
from pathlib import Path

from torch_stable_abi.port.naming import YOURS, Finding

# The page port_build.md has the whole of each.
_PYTHON = (
    (r"^(?!\s*(from|import)\b).*\b(CUDA|Cpp)Extension\b", "flags: "
     "TORCH_TARGET_VERSION for the compiler *and* nvcc, USE_CUDA for nvcc; "
     "py_limited_api=True. CUDAExtension adds --expt-relaxed-constexpr to nvcc without "
     "a word: name it, if you leave it"),
    (r"\bload_inline\s*\(|\bcpp_extension\.load\s*\(|"
     r"\bcpp_extension\s+import\b.*\bload\b", "built at import: extra_cflags "
     "with -DTORCH_TARGET_VERSION"),
    (r"-lc10\b|['\"]c10['\"]|['\"]torch_python['\"]|['\"]c10_cuda['\"]",
     "a library that a stable extension does not link"),
    (r"CXX11_ABI", "no longer of interest: no C++ type crosses"),
    (r"[-+]?(cu|torch)\{|torch\.(__version__|version\.\w+)", "one file per torch: a "
     "stable wheel fits every torch from the target on"),
    (r"install_requires|['\"]torch\s*[<=>~!]=?", "torch>=2.10, or the target that is "
     "reached; no upper bound"),
    (r"\bcustom_op\s*\(", "a layer above the op: it keeps the version counter, makes "
     "fakes of ops that return nothing, and reads flags at each call. Decide whether "
     "it stays"),
    (r"^\s*from\s+[\w.]*\b(_C|\w*_(cuda|cpp|ext))\s+import\b|"
     r"\bimport\s+[\w., ]*\b(_C|\w*_(cuda|cpp|ext))\b|import_module\(.*\b_C\b",
     "a library without PyInit is loaded by torch.ops.load_library; tell who imports "
     "it by name"),
    (r"deterministic_algorithms", "a flag: read it in Python where it is not traced, "
     "and pass a bool"))
_CMAKE = (
    (r"find_package\s*\(\s*Torch", "brings libc10, libtorch_python and an RPATH: link "
     "libtorch and its include folder alone"),
    (r"TORCH_(LIBRARIES|CXX_FLAGS|INCLUDE_DIRS)|\bc10(_cuda)?\b|torch_(python|cpu|cuda)",
     "a stable library links libtorch alone"),
    (r"find_package\s*\(\s*(pybind11|Python3?)\b", "no Python in the library: one file "
     "for every Python"),
    (r"add_library|pybind11_add_module|Python_add_library", "compile with "
     "-DTORCH_TARGET_VERSION=0x020a000000000000, device code as well, and -DUSE_CUDA "
     "where it calls CUDA"))


def read_build(path: Path) -> list[Finding]:
    """Return what a Python file or a CMakeLists.txt says that a port changes."""
    rules = _PYTHON if path.suffix == ".py" else _CMAKE
    lines: dict[str, list[tuple[int, str]]] = {}
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        code = line.partition("#")[0]
        for pattern, advice in rules:
            if re.search(pattern, code, re.I if rules is _CMAKE else 0):
                lines.setdefault(advice, []).append((number, line.strip()[:60]))
                break
    return [Finding(found[0][0], YOURS, found[0][1], None, advice + (
        f" (lines {', '.join(str(number) for number, _ in found[1:])} as well)"
        if len(found) > 1 else ""))
        for advice, found in lines.items()]


def is_build(path: Path, within: Path) -> bool:
    """Return whether a file is of a build or of the Python layer. Tests and examples
    are neither, but for those of a folder `within` which they were named."""
    if any(part in ("test", "tests", "benchmark", "benchmarks", "docs", "examples")
           for part in path.relative_to(within).parts[:-1]):
        return False
    return path.suffix in (".py", ".cmake") or path.name == "CMakeLists.txt"
