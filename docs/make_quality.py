"""Writes docs/quality.md: what stands behind the workbook, each proof with its
figure and its command, from docs/results and from the repository.

    python3 docs/make_quality.py

Run it when a result was recorded; a test compares the page with the results."""

import json
import re
import sys
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests/machines"))
from fresh import MACHINES  # noqa: E402

NOT_YET = "not measured yet"
FULL = "./workbook test --full --record"


class Result(dict):
    """A file of docs/results; it is false where no command has written it."""

    def __init__(self, path: Path):
        super().__init__(json.loads(path.read_text()) if path.exists() else {})


def of_tests(results: Path) -> list[tuple]:
    """What is counted in the repository, and what the last recorded run of its
    tests says of it."""
    recorded = Result(results / "test.json")
    full = recorded.get("full", {})

    def passed(file: str, what: str) -> str:
        found = full.get("files", {}).get(file)
        return f"{found['passed']} {what}" if found else NOT_YET

    def stage(word: str) -> str:
        for found in full.get("stages", []):
            if word in found["title"]:
                return f"{found['passed']} passed, {found['failed']} failed"
        return NOT_YET

    sheets = "".join(p.read_text() for p in
                     ROOT.glob("chapters/[0-9][0-9]_*/README.md"))
    steps = len(re.findall(r"^## \d\d\.\d ", sheets, re.M))
    cases = sum(len(re.findall(r"^ *TEST_CASE(?:_TEMPLATE)?\(", p.read_text(),
                               re.M)) for p in ROOT.glob("tests/**/*_test.cpp"))
    mutants = tomllib.loads((ROOT / "tests/mutants.toml").read_text())["mutant"]
    rows = [
        ("Steps with a test of their own", "./workbook check", f"{steps}"),
        ("Test cases in C++", "ctest --preset release", f"{cases}"),
        ("Solutions under AddressSanitizer, UBSan and LeakSanitizer",
         "ctest --preset learn", stage("Sanitizer")),
        ("Ladders: a starter with the first k steps done stops at the next",
         FULL, passed("tests/meta/test_ladder.py", "rungs")),
        ("Mutants: wrong solutions, each caught by the step that it names",
         FULL, passed("tests/meta/test_mutants.py", "tests passed") +
         f"; {len(mutants)} mutants"),
        ("Verifier of calls by name, right and wrong", FULL,
         passed("tests/python/test_05_schemas.py", "tests passed"))]
    for mode, command in (("quick", "./workbook test --record"),
                          ("full", FULL)):
        run = recorded.get(mode)
        rows.append((f"The suite, {mode}", command, NOT_YET if not run else
                     f"{run['passed']} passed, {run['failed']} failed, "
                     f"{run['skipped']} skipped; {run['seconds'] / 60:.1f} "
                     f"minutes on {run['hardware']['cores']} cores, "
                     f"{run['cpu_seconds'] / 60:.0f} CPU minutes"))
    return rows


def of_matrix(results: Path) -> list[tuple]:
    matrix = Result(results / "matrix.json")
    runs = [text for row in matrix.get("builds", [])
            for text in row.get("runs", {}).values()]
    return [
        ("Matrix: builds × run-times of libtorch", "./workbook matrix --record",
         f"{len(matrix['builds'])} builds, {len(runs)} runs on "
         f"{len(matrix['versions'])} versions: {runs.count('pass')} pass, "
         f"{runs.count('loads')} load, "
         f"{sum('undefined symbol' in t for t in runs)} are refused as they "
         "must be" if matrix else NOT_YET),
        ("What must not compile, each with a control",
         "./workbook matrix --record",
         f"{len(matrix['gates'])} APIs" if matrix else NOT_YET)]


def of_mutation(results: Path) -> list[tuple]:
    rows = Result(results / "mutation.json").get("chapters", {}).values()
    ignored = ("invalid", "equal", "device")  # no mutant that a test could see
    counted = sum(n for row in rows for kind, n in row.items()
                  if isinstance(n, int) and
                  kind not in ("generated", "tried", "seed", *ignored))
    survived = sum(row.get("survived", 0) for row in rows)
    return [("Mutation score: random changes of the solutions",
             "python3 tests/mutation_score.py",
             f"{counted - survived} of {counted} caught "
             f"({(counted - survived) / counted:.0%}), {len(rows)} chapters"
             if counted else NOT_YET)]


def of_fire(results: Path) -> list[tuple]:
    fire = Result(results / "fire.json")
    command = fire.get("command", "python3 -m pytest --full "
                       "tests/meta/test_fire.py")
    return [(proof["what"][0].upper() + proof["what"][1:].replace("<", "&lt;"),
             command,
             f"{proof['figure']:,} {proof['unit']}")
            for proof in fire.get("proofs", [])] or \
        [("Ops under fire: random input, threads, many calls", command, NOT_YET)]


def of_machines(results: Path) -> list[tuple]:
    rows = {row["machine"]: row["passed"] for row in
            Result(results / "machines.json").get("machines", [])}
    told = {"passes": [m for m in MACHINES if rows.get(m)],
            "fails": [m for m in MACHINES if rows.get(m) is False],
            NOT_YET: [m for m in MACHINES if m not in rows]}
    return [("Fresh machines", "python3 tests/machines/fresh.py", "; ".join(
        f"{what}: {', '.join(names)}" for what, names in told.items() if names)
        if rows else NOT_YET)]


def of_faults(results: Path) -> list[tuple]:
    faults = Result(results / "faults.json")
    rows = faults.get("rows", [])
    command = ".venv/bin/python -m pytest tests/python/test_faults.py --full " \
        "--faults docs/results/faults.json"
    return [("Faults brought about, each with the line that cures it", command,
             f"{len(rows)} faults" if rows else NOT_YET)]


def of_saving(results: Path) -> list[tuple]:
    found = Result(results / "save_to_verdict.json")
    return [("From saving a file to its verdict, beside torch/extension.h",
             "python3 common/bench/save_to_verdict.py "
             "docs/results/save_to_verdict.json",
             ", ".join(f"{row['chapter']}: {row['median']:.2f} s"
                       for row in found["chapters"]) +
             f"; that loop: {found['torch/extension.h']['median']:.1f} s"
             if found else NOT_YET)]


def of_sizes(results: Path) -> list[tuple]:
    groups = Result(results / "limits.json").get("groups", [])
    slower = [g for g in groups
              if next(m["seconds"] for m in g["members"]
                      if m["role"] == "subject") >
              min(m["seconds"] for m in g["members"] if m["role"] == "peer")]
    return [("silu_and_mul on CPU, from one element to 1.6 GB: dtypes, sizes and "
             "threads where a peer is faster",
             ".venv/bin/python tests/08_hub_packaging_bench.py --limits --json "
             "docs/results/limits.json",
             f"{len(slower)} of {len(groups)}" if groups else NOT_YET)]


def of_pages(results: Path) -> list[tuple]:
    site = Result(results / "site.json")
    links, axe = site.get("links"), site.get("axe")
    return [
        ("Links of the pages and of the Markdown files",
         "./workbook docs --record",
         f"{links['followed']} followed in {links['files']} files, "
         f"{links['broken']} broken" if links else NOT_YET),
        ("axe-core on each page, desktop and phone, light and dark",
         "python3 docs/look.py build/docs/docs/html build/pictures --record",
         f"{axe['rules']} rules violated in {axe['views']} views" if axe
         else NOT_YET)]


PROOFS = {
    "Tests": (of_tests, of_mutation),
    "Versions": (of_matrix,),
    "Ops under fire": (of_fire,),
    "Machines and faults": (of_machines, of_faults),
    "Speed": (of_sizes, of_saving),
    "Pages": (of_pages,)}
HEAD = """\
# What is proved, and how {#page_quality}

Each row is a proof, its figure and the command that repeats it, from a clone and
without a GPU. `docs/make_quality.py` writes this page from `docs/results` and
from the repository; no figure is typed. A proof that no command has recorded yet
is shown as not measured.

The benchmarks are on the pages of their chapters, as ratios with hardware and
versions beside them. Chapter 07's kernels are compiled everywhere, and run only
where there is a GPU: `common/cuda/measure.sh`.
"""


def table(rows: list[tuple]) -> list[str]:
    """A command that proves all rows stands above them, and once."""
    commands = {command for _, command, _ in rows}
    if len(rows) > 1 and len(commands) == 1:
        return [f"`{rows[0][1]}`", "", "| proof | figure |", "|---|---|",
                *(f"| {what} | {figure} |" for what, _, figure in rows)]
    return ["| proof | figure | command |", "|---|---|---|",
            *(f"| {what} | {figure} | `{command}` |"
              for what, command, figure in rows)]


def page(results: Path) -> str:
    text = [HEAD]
    for title, proofs in PROOFS.items():
        text += [f"## {title}", "",
                 *table([row for rows in proofs for row in rows(results)]), ""]
    return "\n".join(text).rstrip() + "\n"


def main() -> None:
    (ROOT / "docs/quality.md").write_text(page(ROOT / "docs/results"))


if __name__ == "__main__":
    main()
