"""Counts the machine instructions that each version of chapter 07's kernel takes
for one element, from cuobjdump.

    PYTHONPATH=common:tests sass.py FOLDER      with the kernels that are there

Static counts: every instruction of the kernel, of a loop's body where it has
one, divided by the elements that go through it. The slow paths of an
exact division, and of one of 64 bits, are not counted: each is a call, and the
branch around it is nearly always taken.
"""

import datetime
import re
import sys
import tempfile
from pathlib import Path

from base import nvcc
from base.project import ROOT
from support import passes

SOLUTION = ROOT / "solutions/07_cuda_activation_kernel"
# What it is called, the kernel's name in C++, elements that one thread computes
# (in one turn of the loop), and what has changed.
VERSIONS = [
    ("plain", r"plain<wb::cuda::BFloat16,.*Usual", 1,
     "an element a thread, 64-bit division, `expf` and `/`"),
    ("32 bits", r"vectorized<wb::cuda::BFloat16, 1,.*Usual", 1,
     "the division is a multiplication"),
    ("16 bytes", r"vectorized<wb::cuda::BFloat16, 8,.*Usual", 8,
     "a vector of 8 a thread"),
    ("fast arithmetic", r"vectorized<wb::cuda::BFloat16, 8,.*SiluAndMul", 8,
     "`ex2` and `rcp`"),
    ("same traffic", r"same_traffic", 8, "XOR instead of arithmetic"),
    ("vLLM style", r"row_a_block<false, true, wb::cuda::BFloat16, false", 8,
     "a block for each row, `expf` and `/`"),
    ("FlashInfer style", r"row_a_block<true, false, wb::cuda::BFloat16, false", 8,
     "a block for each row, `__expf` and `/`"),
    ("sglang style", r"::flat<wb::cuda::BFloat16, false", 8, "flat, `expf` and `/`"),
]


def program(name: str) -> str:
    found = nvcc.find(name)
    assert found, f"no {name}: ./workbook nvcc {name} --fetch"
    return found


def disassemble(source: Path, include: list[Path], arch: str) -> dict[str, str]:
    """Return {kernel's name in C++: its machine code, as cuobjdump writes it}."""
    with tempfile.TemporaryDirectory() as made:
        cubin = Path(made) / "code.cubin"
        passes(program("nvcc"), "-std=c++17", "-O3", "-DNDEBUG", "-cubin",
               f"-arch={arch}", *(f"-I{folder}" for folder in include), source,
               "-o", cubin)
        text = passes(program("cuobjdump"), "-sass", cubin)
    return {passes("c++filt", name.strip()).strip(): code for name, _, code in (
        part.partition("\n") for part in re.split(r"\n\s+Function : ", text)[1:])}


def list_instructions(code: str) -> list[tuple[int, str, str]]:
    """Return [(address, mnemonic, operands)] of a kernel's machine code."""
    return [(int(address, 16), word, rest) for address, word, rest in re.findall(
        r"/\*([0-9a-f]{4,5})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)(.*?);", code)
        if word != "NOP"]


def release() -> str:
    """Return nvcc's version."""
    found, = re.findall(r"V(\d+\.\d+\.\d+)", passes(program("nvcc"), "--version"))
    return found


def without_slow_paths(instructions: list[tuple[int, str, str]]
                       ) -> list[tuple[int, str, str]]:
    """Without what a branch skips, if a call is in it."""
    left = set()
    for address, word, rest in instructions:
        target = re.search(r"\b0x([0-9a-f]+)\b", rest)
        if word.startswith("BRA") and target:
            skipped = {a: w for a, w, _ in instructions
                       if address < a < int(target[1], 16)}
            if any(w.startswith("CALL") for w in skipped.values()) and \
                    not any(w.startswith(("STG", "LDG", "EXIT"))
                            for w in skipped.values()):
                left |= set(skipped)
    return [i for i in instructions if i[0] not in left]


def count(instructions: list[tuple[int, str, str]]) -> int:
    """Count the last loop's body, else all. Behind the last EXIT are only slow
    paths that are called, and a branch to itself."""
    end = max(a for a, word, _ in instructions if word == "EXIT")
    code = without_slow_paths([i for i in instructions if i[0] <= end])
    for address, word, rest in reversed(code):
        target = re.search(r"\b0x([0-9a-f]+)\b", rest)
        if word.startswith("BRA") and target and int(target[1], 16) < address \
                and int(target[1], 16) > code[0][0]:
            begin = int(target[1], 16)
            if any(w.startswith("STG") for a, w, _ in code
                   if begin <= a <= address):
                return sum(begin <= a <= address for a, _, _ in code)
    return len(code)


def counted(folder: Path = SOLUTION, arch: str = "sm_90") -> dict:
    code = disassemble(ROOT / "tests/gpu/versions.cu", [folder, folder / "core"], arch)
    rows = []
    for version, pattern, elements, what in VERSIONS:
        names = [name for name in code if re.search(pattern, name)]
        assert len(names) == 1, (version, names)
        instructions = list_instructions(code[names[0]])
        words = [word.split(".")[0] for _, word, _ in instructions]
        rows.append({
            "version": version, "what": what, "elements": elements,
            "instructions": count(instructions),
            "per_element": round(count(instructions) / elements, 1),
            "loads": [w for _, w, _ in instructions if w.startswith("LDG")],
            "branches": words.count("BRA")})
    return {"date": str(datetime.date.today()), "arch": arch, "nvcc": release(),
            "rows": rows}


if __name__ == "__main__":
    for row in counted(Path(sys.argv[1]))["rows"]:
        print(f"{row['per_element']:6.1f}  {row['version']}: {row['what']}")
