"""What one solution builds, a later one carries byte for byte, or calls; it is
not written a second time in other words."""

import itertools
import re

from base.project import ROOT
from upkeep.commands import carry

RUN = 6  # equal lines that are no coincidence
SUFFIXES = {".h", ".cpp", ".cu", ".py"}

# Two files that may be alike, and why.
ALLOWED = {
    frozenset(["__init__.py"]): "each loads a library of its own name",
    frozenset(["silu_and_mul_row.cpp", "activation_row.cpp"]):
        "08's row is 01's, for any formula and layout",
    frozenset(["error_text.h"]): "the Hub's checker refuses 03's weak symbol",
    frozenset(["test_silu_and_mul.py"]): "07 tests 04's op, and its CUDA kernel",
}


def code(path):
    """Return the lines that say something: (number, text without blanks)."""
    lines = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        text = re.sub(r"\s+", "", re.sub(r"(//|#(?!include|if|e|d)).*", "", line))
        if len(text) > 2 and not text.startswith(("#include", "import", "from")):
            lines.append((number, text))
    return lines


def functions(path):
    """C++ definitions at the left margin, normalised: {text: line}."""
    found = {}
    text = path.read_text()
    for match in re.finditer(r"^\w[^\n;]*\([^;{}]*\)[^;{}]*\{\n(.*?)^\}$",
                             text, re.M | re.S):
        body = re.sub(r"//.*|\s+", "", match[1])
        if match[1].count("\n") > 1:
            found[body] = text.count("\n", 0, match.start()) + 1
    return found


def files():
    """One path for each content, with the solutions that hold it."""
    by_content = {}
    for path in sorted(ROOT.glob("solutions/*/**/*")):
        if path.suffix in SUFFIXES and path.is_file():
            by_content.setdefault(path.read_bytes(), []).append(path)
    return list(by_content.values())


def solution(path):
    return path.relative_to(ROOT / "solutions").parts[0]


def apart(one, other):
    """Return True if no solution holds both."""
    return not {solution(p) for p in one} & {solution(p) for p in other} and \
        frozenset((one[0].name, other[0].name)) not in ALLOWED


def place(path, line):
    return f"{path.relative_to(ROOT)}:{line}"


def test_no_solution_repeats_another():
    seen = {}
    repeated = {}
    held = files()
    for index, paths in enumerate(held):
        lines = code(paths[0])
        for window in zip(*(lines[n:] for n in range(RUN))):
            seen.setdefault(tuple(text for _, text in window), []).append(
                (index, window[0][0]))
        if paths[0].suffix != ".py":
            for body, line in functions(paths[0]).items():
                seen.setdefault(body, []).append((index, line))
    for places in seen.values():
        for (i, a), (j, b) in itertools.combinations(places, 2):
            if i != j and apart(held[i], held[j]):
                repeated.setdefault((i, j), f"{place(held[i][0], a)} and "
                                            f"{place(held[j][0], b)}")
    assert not repeated, "\n".join(repeated.values())
    assert len(ALLOWED) <= 5


def test_a_file_that_is_carried_keeps_its_bytes():
    changed = [f"{path} differs from {owner}, which owns it: ./workbook carry"
               for owner, copies in carry.find_carried() for path in copies
               if path.read_bytes() != owner.read_bytes()]
    assert not changed, changed
