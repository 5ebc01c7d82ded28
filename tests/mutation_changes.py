"""The changes that mutation_score.py judges. As a program, in an environment of
its own: what universalmutator makes of a C++ file, as JSON: [[line, its new
text], ...].

Left out is what hardly ever compiles: break and continue outside of loops, a
changed digit within a name, and <, >, & and * without spaces around them, which
are brackets of templates, references and pointers. So are comments, directives
of the preprocessor, and changes within a text other than to remove it."""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HERE = ROOT / "build/mutation"
WANTED = ROOT / "tests/requirements-mutation.txt"
EXPLAINED = ROOT / "tests/survivors.toml"
RULES = ["universal.rules", "c_like.rules", "cpp.rules"]


def in_loop(lines: list[str], at: int) -> bool:
    indent = len(lines[at]) - len(lines[at].lstrip())
    for line in reversed(lines[:at]):
        here = len(line) - len(line.lstrip())
        if line.strip() and here < indent:
            indent = here
            if re.match(r" *(for|while|switch) ", line):
                return True
    return False


def likely(lines: list[str], at: int, new: str, rule: str) -> bool:
    old = lines[at]
    if re.search(r"(break|continue);\n$", new) and "\n" in new[:-1]:
        return old.endswith(";\n") and in_loop(lines, at)
    place = len(os.path.commonprefix([old, new]))
    if r"\d" in rule:
        return not any(m.start() < place <= m.end()
                       for m in re.finditer(r"[A-Za-z_]\w*", old))
    if len(rule) >= 16:
        return True
    return all(old[m.start() - 1] + old[m.end()] == "  "
               for m in re.finditer(r"[<>&*]+", old)
               if m.start() <= place <= m.end())


def changes_of(chapter) -> list[dict]:
    """Every change of the chapter's C++. A file that an earlier chapter has to
    the byte is judged there."""
    python = HERE / "venv/bin/python"
    if not python.exists():
        venv.create(HERE / "venv", with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "-r", WANTED],
                       check=True)
    from workspace import chapters, source_files
    earlier = {(p.name, p.read_bytes()) for c in chapters()
               if c.number < chapter.number for p in source_files(c.solution)}
    changes = []
    for path in source_files(chapter.solution):
        if path.suffix in (".h", ".cpp") and \
                (path.name, path.read_bytes()) not in earlier:
            lines = path.read_text().splitlines()
            done = subprocess.run(
                [python, __file__, path], text=True,
                check=True, stdout=subprocess.PIPE)
            changes += [{"file": str(path.relative_to(chapter.solution)),
                         "line": n, "old": lines[n - 1].strip(), "new": new}
                        for n, new in json.loads(done.stdout)]
    return sorted(changes, key=lambda c: (c["file"], c["line"], c["new"]))


def reasons(chapter, survivor: dict) -> dict:
    """With what is known of it: whether it changes a text only; from
    tests/survivors.toml, why no test can tell it from the solution."""
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        from pip._vendor import tomli as tomllib
    old, new = (re.sub(r'"(\\.|[^"\\])*"', '""', survivor[key])
                for key in ("old", "new"))
    why = [e["why"] for e in tomllib.loads(EXPLAINED.read_text())["survivor"]
           if all(e[key] == survivor[key] for key in ("old", "new"))
           and e["file"] == f"{chapter.name}/{survivor['file']}"]
    return {**survivor, "of": "text" if old == new else "code",
            **({"why": why[0]} if why else {})}


def main() -> None:
    from universalmutator.mutator import mutants_regexp
    with open(sys.argv[1]) as file:
        lines = file.readlines()
    with contextlib.redirect_stdout(io.StringIO()):
        found = mutants_regexp(lines, RULES, ignorePatterns=[r"^\s*(//|#)"],
                               ignoreStringOnly=True)
    changes = []
    for line, new, _, (rule, _) in found:
        if likely(lines, line - 1, new, rule.pattern):
            if "//" not in new:  # the lines below keep their numbers
                new = re.sub(r"\s+", " ", new)
            changes.append([line, new.strip()])
    print(json.dumps(changes))


if __name__ == "__main__":
    main()
