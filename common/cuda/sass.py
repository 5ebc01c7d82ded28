"""Counts the machine instructions that each version of chapter 07's kernel takes
for one element, from cuobjdump, and writes docs/results/sass.json.

    sass.py [--arch sm_90] [--folder solutions/07_cuda_activation_kernel]
            [--json FILE]

Static counts: every instruction of the kernel, of a loop's body where it has
one, divided by the elements that go through it. The slow path of an exact
division, a call that is hardly ever made, is not counted.
"""

import argparse
import datetime
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import nvcc

ROOT = Path(__file__).resolve().parents[2]

# What it is called, the kernel's name in C++, elements that one thread computes
# (in one turn of the loop), and what has changed.
VERSIONS = [
    ("naive", r"step<1, 1u,.*SiluPrecise", 1,
     "an element a thread, `expf` and `/`"),
    ("16 bytes", r"step<8, 1u,.*SiluPrecise", 8, "a vector of 8 a thread"),
    ("in flight", r"step<8, 2u,.*SiluPrecise", 16,
     "two vectors, read before use; `shaped` is the same code"),
    ("fast arithmetic", r"step<8, 2u, activation::SiluAndMul", 16,
     "`ex2` and `rcp`: the solution"),
    ("same traffic", r"same_traffic<2u>", 16, "XOR instead of arithmetic"),
    ("vLLM style", r"row_a_block<false, true>", 8,
     "a block for each row, `expf` and `/`"),
    ("FlashInfer style", r"row_a_block<true, false>", 8,
     "a block for each row, `__expf` and `/`"),
    ("sglang style", r"::flat\(", 8, "flat, `expf` and `/`"),
]


def program(name: str) -> str:
    found = nvcc.find(name)
    if found is None:
        sys.exit(f"no {name}: python3 common/cuda/nvcc.py --fetch {name}")
    return found


def run(*command) -> str:
    done = subprocess.run(list(map(str, command)), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        sys.exit(done.stdout)
    return done.stdout


def kernels(folder: Path, arch: str) -> dict[str, list[tuple[int, str, str]]]:
    """{name in C++: [(address, mnemonic, operands)]}."""
    with tempfile.TemporaryDirectory() as made:
        cubin = Path(made) / "versions.cubin"
        run(program("nvcc"), "-std=c++17", "-O3", "-cubin", f"-arch={arch}",
            "-I", folder, ROOT / "common/cuda/versions.cu", "-o", cubin)
        text = run(program("cuobjdump"), "-sass", cubin)
    found = {}
    for part in re.split(r"\n\s+Function : ", text)[1:]:
        name = run("c++filt", part.split("\n", 1)[0].strip()).strip()
        found[name] = [
            (int(address, 16), word, rest) for address, word, rest in re.findall(
                r"/\*([0-9a-f]{4,5})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)(.*?);",
                part) if word != "NOP"]
    return found


def count(instructions: list[tuple[int, str, str]]) -> int:
    """Of the last loop's body, else of all. Behind the last EXIT are only slow
    paths that are called, and a branch to itself."""
    end = max(a for a, word, _ in instructions if word == "EXIT")
    code = [i for i in instructions if i[0] <= end]
    for address, word, rest in reversed(code):
        target = re.search(r"\b0x([0-9a-f]+)\b", rest)
        if word.startswith("BRA") and target and int(target[1], 16) < address \
                and int(target[1], 16) > code[0][0]:
            begin = int(target[1], 16)
            if any(w.startswith("STG") for a, w, _ in code
                   if begin <= a <= address):
                return sum(begin <= a <= address for a, _, _ in code)
    return len(code)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--folder", type=Path,
                        default=ROOT / "solutions/07_cuda_activation_kernel")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    code = kernels(options.folder, options.arch)
    rows = []
    for version, pattern, elements, what in VERSIONS:
        names = [name for name in code if re.search(pattern, name)]
        assert len(names) == 1, (version, names)
        instructions = code[names[0]]
        words = [word.split(".")[0] for _, word, _ in instructions]
        rows.append({
            "version": version, "what": what, "elements": elements,
            "instructions": count(instructions),
            "per_element": round(count(instructions) / elements, 1),
            "loads": [w for _, w, _ in instructions if w.startswith("LDG")],
            "branches": words.count("BRA")})
        print(f"{version:16} {rows[-1]['instructions']:4} / {elements:2} = "
              f"{rows[-1]['per_element']:5}")
    if options.json:
        release = re.search(r"V(\d+\.\d+\.\d+)", run(program("nvcc"),
                                                     "--version"))[1]
        options.json.write_text(json.dumps({
            "date": str(datetime.date.today()), "arch": options.arch,
            "nvcc": release, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
