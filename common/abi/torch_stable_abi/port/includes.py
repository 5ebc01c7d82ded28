"""Puts the includes into a source that its code wants: those of the stable ABI, and
those of CUDA and of C++ that the old ones had brought along."""

import re

from torch_stable_abi.port.table import headers_of_names

# Of C++: what a name needs. ATen.h brings all of these.
STANDARD = {
    "algorithm":
        r"std::(max|min|sort|stable_sort|fill|fill_n|copy|copy_n|find|"
        r"find_if|any_of|all_of|none_of|transform|reverse|unique|"
        r"lower_bound|upper_bound|clamp|swap_ranges|iter_swap|shuffle|"
        r"nth_element)\b",
    "any": r"std::any(_cast)?\b",
    "array": r"std::array\b",
    "atomic": r"std::atomic\b",
    "bitset": r"std::bitset\b",
    "cfloat": r"\b(FLT|DBL)_(MAX|MIN|EPSILON)\b",
    "chrono": r"std::chrono\b",
    "climits": r"\b(CHAR|SHRT|INT|UINT|LONG|ULONG)_(MAX|MIN|BIT)\b",
    "cmath":
        r"std::(sqrt|cbrt|exp|exp2|expm1|log|log2|log10|log1p|pow|abs|fabs|floor|ceil|"
        r"trunc|round|lround|isnan|isinf|isfinite|signbit|copysign|fmax|fmin|fmod|"
        r"hypot|a?(sin|cos|tan)h?|atan2|erf|erfc|lgamma|tgamma)\b",
    "condition_variable": r"std::condition_variable\b",
    "cstdint": r"\bu?int(8|16|32|64)_t\b",
    "cstring": r"\b(std::)?mem(set|cpy|move|cmp)\(",
    "deque": r"std::deque\b",
    "functional": r"std::(function|hash|less|greater|plus|minus|multiplies|bind|ref)\b",
    "future": r"std::(future|async|promise)\b",
    "iostream": r"std::(cout|cerr)\b",
    "limits": r"std::numeric_limits\b",
    "list": r"std::list\b",
    "map": r"std::(multi)?map\b",
    "memory": r"std::(unique_ptr|shared_ptr|make_unique|make_shared)\b",
    "mutex": r"std::(mutex|lock_guard|unique_lock|call_once|once_flag)\b",
    "numeric": r"std::(accumulate|inner_product|iota|partial_sum|gcd|lcm)\b",
    "optional": r"std::(optional|nullopt|make_optional)\b",
    "queue": r"std::(queue|priority_queue)\b",
    "random": r"std::(mt19937|uniform_\w+_distribution|random_device)\b",
    "set": r"std::(multi)?set\b",
    "sstream": r"std::[io]?stringstream\b",
    "stack": r"std::stack\b",
    "stdexcept": r"std::(runtime_error|invalid_argument|out_of_range|logic_error)\b",
    "string": r"std::(string|to_string)\b",
    "string_view": r"std::string_view\b",
    "thread": r"std::thread\b",
    "tuple": r"std::(tuple|make_tuple|tie|get)\b",
    "type_traits":
        r"std::(is_same|conditional|enable_if|decay|is_floating_point|"
        r"is_integral)(_[vt])?\b",
    "unordered_map": r"std::unordered_map\b",
    "unordered_set": r"std::unordered_set\b",
    "utility": r"std::(move|pair|forward|swap|make_pair|exchange)\b",
    "variant": r"std::(variant|visit|monostate)\b",
    "vector": r"std::vector\b",
    "cublas_v2.h": r"\bcublas[A-Z]\w*|\bCUBLAS_\w+",
    "cusolverDn.h": r"\bcusolver(Dn|Status)\w*|\bCUSOLVER_\w+",
    "cusparse.h": r"\bcusparse[A-Z]\w*|\bCUSPARSE_\w+",
    "cuda_runtime.h":
        r"\bcuda(Stream_t|Error_t|Get\w+|Memcpy\w*|Memset\w*|Func\w+|"
        r"Launch\w+|Device\w+|Occupancy\w+|Event\w+)\b",
}
_TOKEN = re.compile(
    r"(?:torch|c10|at)(?:::\w+)+|\b[A-Z][A-Z0-9]+_[A-Z0-9_]+\b|\b(?:aoti|aten)_\w+|"
    r"\btorch_(?!stable|headeronly)\w+|\bgpuAtomic\w+|\bStableIValue\b|\bAtenTensorHandle\b")
_SHARED = {"torch::headeronly::IntHeaderOnlyArrayRef":
           "torch/headeronly/util/HeaderOnlyArrayRef.h",
           "StableIValue": "torch/csrc/stable/library.h",
           "torch::stable::accelerator": "torch/csrc/stable/accelerator.h"}


def strip(text: str) -> str:
    """Return code without its comments, strings and includes."""
    text = re.sub(r'"(\\.|[^"\\\n])*"', '""', text)
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S)
    return re.sub(r"(?m)^\s*#\s*include[^\n]*", "", text)


def names_in(text: str) -> set[str]:
    """Return the names of the stable surface that the code uses."""
    known, found = headers_of_names(), set()
    for token in set(_TOKEN.findall(strip(text))):
        parts = token.split("::")
        for length in range(len(parts), 1 if len(parts) > 1 else 0, -1):
            whole = "::".join(parts[:length])
            if whole in _SHARED or whole in known:
                found.add(whole)
                break
    return found


def needed_by(text: str, name: str) -> list[str]:
    """Return the headers whose names the code uses: first those of torch. nvcc brings
    those of CUDA itself."""
    code, known = strip(text), headers_of_names()
    found = {_SHARED.get(one) or known[one] for one in names_in(text)}
    standard = {header for header, uses in STANDARD.items() if re.search(uses, code)}
    if name.endswith((".cu", ".cuh")):
        standard.discard("cuda_runtime.h")
    return [f"#include <{header}>" for header in [*sorted(found), *sorted(standard)]]


def place(text: str, mark: str, bare: bool, name: str) -> str:
    """Return the text with the includes that it lacks at the first mark that is in no
    #if, or in the fewest; without a mark, behind its last include or at its head. Those
    of C++ come only to a file that is `bare`: it had them from includes that went."""
    wanted = [line for line in needed_by(text, name)
              if not re.search(rf"(?m)^\s*#\s*include\s*{re.escape(line[9:])}", text)]
    if not bare:
        wanted = [line for line in wanted if line.startswith("#include <torch/")]
    end = "\r\n" if "\r\n" in text else "\n"
    block = "".join(line + end for line in wanted)
    marks = find_outermost(text, re.escape(mark))
    if marks:
        text = text[:marks[0][0]] + block + text[marks[0][1]:]
        return text.replace(mark, "")
    if not block:
        return text
    places = find_outermost(text, r"(?m)^\s*#\s*(include|pragma once)[^\n]*\n")
    at = places[-1][1] if places else 0
    return text[:at] + block + text[at:]


def find_outermost(text: str, pattern: str) -> list[tuple[int, int]]:
    """Return where a pattern matches within the fewest #if."""
    found: dict[int, list[tuple[int, int]]] = {}
    depth = at = 0
    for match in re.finditer(pattern, text):
        for line in re.findall(r"(?m)^[ \t]*#[ \t]*(if|endif)", text[at:match.start()]):
            depth += 1 if line == "if" else -1
        at = match.start()
        found.setdefault(depth, []).append(match.span())
    return found[min(found)] if found else []
