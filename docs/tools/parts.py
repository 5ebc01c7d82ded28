"""The parts of the pages that are made: code from solutions/, tables from
docs/results and the sheets, pictures from both. A page has them as ordinary
Markdown between two marks,

    <!-- begin: snippet solutions/03_stack_conventions/stack.h to_values -->
    <!-- end -->

so that it reads the same on GitHub and on the site. The first word is a name
in KINDS, the others are what its function is given.

    parts.py           writes what has drifted, and names it
    parts.py --check   names it only; exit status 1 then
"""

import difflib
import re
import shlex
import sys
import textwrap
from pathlib import Path

import cost_tables
import migration
import names
import pictures
import reports
import tables
from base.project import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PART = re.compile(r"^<!-- begin: (.+?) -->\n(.*?)^<!-- end -->$", re.M | re.S)
SNIPPET_MARK = re.compile(r"^\s*(?://|#)! \[(\w+)\]\n", re.M)
LANGUAGES = {".py": "python", ".toml": "toml", ".cmake": "cmake", ".txt": "text"}


def fenced(code: str, path: str) -> str:
    language = "cmake" if path.endswith("CMakeLists.txt") else \
        LANGUAGES.get(Path(path.removesuffix(".in")).suffix, "cpp")
    code = textwrap.dedent(SNIPPET_MARK.sub("", code)).strip("\n")
    return f"```{language}\n{code}\n```\n"


def marked(path: str, name: str) -> str:
    """Return what stands between two lines `//! [name]`, or `#! [name]` in Python."""
    text = (ROOT / path).read_text()
    marks = [m for m in SNIPPET_MARK.finditer(text) if m[1] == name]
    if len(marks) != 2:
        raise SystemExit(f"{path} has {len(marks)} marks [{name}], expected 2")
    return text[marks[0].end():marks[1].start()]


def snippet(path: str, name: str) -> str:
    return fenced(marked(path, name), path)


def diff(old: str, new: str, name: str) -> str:
    """Return what changes of a snippet from one file to another. A TODO in the new
    one is left out."""
    before, after = [[line for line in marked(path, name).splitlines()
                      if not line.lstrip().startswith("// TODO")]
                     for path in (old, new)]
    lines = list(difflib.unified_diff(before, after, n=99, lineterm=""))[3:]
    return "```diff\n" + "\n".join(f"{line[0]} {line[1:]}".rstrip()
                                   for line in lines) + "\n```\n"


def lines(path: str, first: str, last: str) -> str:
    """Return, as a block of code, the lines of a file from the only one that has
    `first` to the next that has `last`."""
    text = (ROOT / path).read_text()
    if text.count(first) != 1 or last not in text.partition(first)[2]:
        raise SystemExit(f"{path}: expected {first!r} once, then {last!r}")
    start = text.rfind("\n", 0, text.index(first)) + 1
    end = text.index("\n", text.index(last, text.index(first)))
    return fenced(text[start:end], path)


def file(path: str) -> str:
    return fenced((ROOT / path).read_text(), path)


KINDS = {
    "snippet": snippet, "lines": lines, "file": file,
    "benchmark": tables.benchmark, "conversions": tables.conversions,
    "ownership": tables.ownership, "matrix": tables.matrix,
    "audits": tables.audits, "port_extensions": tables.port_extensions,
    "gates": tables.gates, "compiled": tables.compiled,
    "loop": tables.loop, "bound": tables.bound,
    "at_work": tables.at_work, "trace": tables.trace, "cost": cost_tables.cost,
    "trace_wheels": tables.trace_wheels, "sass": tables.sass, "plot": pictures.plot,
    "gpu": tables.gpu,
    "names": names.names,
    "migration": migration.group, "ops": migration.ops, "diff": diff,
    "chapters": reports.chapter_table,
    "errors": reports.errors, "pitfalls": reports.pitfalls,
    "refused": reports.refused, "results": reports.results}


def made(page: str) -> str:
    """The page with its parts as they are made now."""
    def part(match: re.Match) -> str:
        kind, *arguments = shlex.split(match[1])
        if kind not in KINDS:
            raise SystemExit(f"no part is called {kind!r}: {match[0][:80]}")
        return f"<!-- begin: {match[1]} -->\n{KINDS[kind](*arguments)}<!-- end -->"
    return PART.sub(part, page)


def main() -> int:
    check = "--check" in sys.argv[1:]
    drifted = pictures.drifted()
    if not check:
        pictures.draw(drifted)
    for page in PAGES:
        text = page.read_text()
        now = made(text)
        if now != text:
            drifted.append(page)
            if not check:
                page.write_text(now)
    for path in drifted:
        print(f"{'has drifted' if check else 'written'}: {path.relative_to(ROOT)}")
    return 1 if check and drifted else 0


if __name__ == "__main__":
    sys.exit(main())
