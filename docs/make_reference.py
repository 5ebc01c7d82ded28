"""Parts of the reference pages: the errors, from tests/errors.toml and what
common/errors has recorded; the pitfalls, from tests/mutants.toml and the sheets;
and what is generated from which file.

    make_reference.py OUTPUT_FOLDER RESULTS_FOLDER
"""

import html
import json
import re
import sys
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
WHEN = ["compile", "link", "load", "call", "import", "Hub"]
# Each file in docs/results: what it holds, the page that shows it, what writes it.
GENERATED = {
    "[0-9][0-9]_*.json": ("a chapter's benchmark", "page_01",
                          "./workbook bench 01 --json FILE"),
    "07_cuda_activation_kernel.json": (
        "the benchmark on a GPU", "page_07", "common/cuda/measure.sh"),
    "conversions/*.json": (
        "what converts, on one libtorch", "page_02", "LD_LIBRARY_PATH=TORCH/lib "
        "build/release/tests/conversions_probe > FILE"),
    "ownership/*.json": (
        "who owns a slot, on one libtorch", "faults_03",
        "LD_LIBRARY_PATH=TORCH/lib python3 common/probe/ownership.py TEST "
        "LIBRARY > FILE"),
    "matrix.json": ("solutions and gates on each libtorch", "matrix_06",
                    "./workbook matrix --json FILE"),
    "sass.json": ("instructions of the CUDA kernels", "page_07",
                  "python3 common/cuda/sass.py --json FILE"),
    "faults.json": (
        "what the tool says when something is broken", "page_faults",
        ".venv/bin/python -m pytest "
        "tests/python/test_faults.py --full --faults FILE"),
    "save_to_verdict.json": (
        "from saving a file to its verdict", "page_loop",
        "python3 common/bench/save_to_verdict.py FILE"),
    "limits.json": (
        "chapter 08's kernels from one element to 1.6 GB", "page_08",
        ".venv/bin/python tests/08_hub_packaging_bench.py --limits --json FILE"),
    "test.json": ("the suite: stages, files, minutes", "page_quality",
                  "./workbook test --full --record"),
    "machines.json": ("the workbook on fresh machines", "page_quality",
                      "python3 tests/machines/fresh.py"),
    "fire.json": ("ops under fire", "page_quality",
                  "python3 -m pytest --full tests/meta/test_fire.py"),
    "mutation.json": ("mutation scores", "mutation",
                      "python3 tests/mutation_score.py"),
    "porting.json": ("the steps of a port", "page_porting",
                     "python3 docs/porting/steps.py FOLDER --json FILE"),
    "site.json": ("links and axe-core", "page_quality",
                  "./workbook docs --record"),
    "errors.json": ("what each error says", "page_errors",
                    ".venv/bin/python common/errors --json FILE"),
}
OF = {"compile": "headers", "link": "headers", "import": "torch",
      "Hub": "kernels"}  # else libtorch


def read(name: str) -> list[dict]:
    (entries,) = tomllib.loads((ROOT / "tests" / name).read_text()).values()
    return entries


def bug(name: str) -> str:
    """"pytorch/vision#1" or "pytorch/vision@8d9ccb4" as a link."""
    repository, mark, number = re.fullmatch(
        r"([\w-]+/[\w.-]+)([#@])(\w+)", name).groups()
    kind = {"#": "issues", "@": "commit"}[mark]
    short = repository.split("/")[1] + (" " if mark == "#" else " @") + number
    return f"[{short}](https://github.com/{repository}/{kind}/{number})"


def bugs(entry: dict) -> str:
    return ", ".join(map(bug, entry["bugs"]))


def spans(said: dict[str, dict]) -> list[tuple[str, dict]]:
    """Neighbouring versions that say the same are one: [("2.10 to 2.12", …)]."""
    found: list[tuple[str, dict]] = []
    for version, what in said.items():
        first = last = version.rsplit(".", 1)[0]
        if found and found[-1][1] == what:
            first = found.pop()[0].split(" to ")[0]
        found.append((first if first == last else f"{first} to {last}", what))
    return found


def raw(*lines: str) -> list[str]:
    """HTML that Doxygen shall not read."""
    return ["\\htmlonly", *lines, "\\endhtmlonly"]


def error(entry: dict, said: dict[str, dict], software: dict) -> str:
    what = entry["what"][0].upper() + entry["what"][1:]
    title = re.sub("`(.*?)`", r"<code>\1</code>", html.escape(what))
    lines = raw(f'<h2 id="error_{entry["id"]}">{title}</h2>')
    of = OF.get(entry["when"], "libtorch")
    if of == "kernels":
        said = {software["kernels"] + ".": what for what in said.values()}
    for version, what in spans(said):
        label = "" if "script" in entry else f"{of} {version}"
        if "signal" in what:
            label += f" — the process ends by {what['signal']}"
        message = what["message"] or "(not a word)"
        lines += raw(f'<div class="said"><span>{label}</span>'
                     f"<pre>{html.escape(message)}</pre></div>")
    lines += ["", f"{entry['means']} *Cure:* {entry['cure']} "
              f"More: @ref {entry['page']}."]
    if "bugs" in entry:
        lines[-1] += f" Published: {bugs(entry)}."
    return "\n".join(lines) + "\n"


def finder(entries: list[dict]) -> list[str]:
    """The texts to look for, each a link to its entry."""
    rows = []
    for entry in entries:
        text = entry["text"]
        texts = list(text.values()) if isinstance(text, dict) else [text]
        for one in texts:
            one = one if isinstance(one, str) else one[0]
            one = html.escape(one) or f"({entry['signal']}, not a word)"
            rows.append(f'<tr><td><a href="#error_{entry["id"]}"><code>{one}'
                        f"</code></a></td><td>{entry['when']}</td></tr>")
    return raw('<table class="markdownTable find"><tbody><tr><th>what is said'
               "</th><th>when</th></tr>", *rows, "</tbody></table>")


def errors(result: dict) -> dict[str, str]:
    """{part of the page: its text}."""
    entries, software = read("errors.toml"), result["software"]
    parts = {"found": "\n".join(finder(entries)), "made": (
        f"Provoked on {result['date']} with {software['compiler']}, the headers "
        f"of {software['headers']}, Python {software['python']}, torch "
        f"{software['torch']} and kernels {software['kernels']}. What is loaded or "
        "called was built once, for target 2.10 if nothing else is said, and run "
        "on each libtorch.")}
    for when in WHEN:
        parts[when.lower()] = "\n".join(
            error(e, result["said"][e["id"]], software)
            for e in entries if e["when"] == when)
    return parts


def pitfalls() -> str:
    titles = {}
    for sheet in sorted(ROOT.glob("chapters/*/README.md")):
        titles |= re.findall(r"^## (\d\d\.\d) (.+)$", sheet.read_text(), re.M)
    lines = ["| mistake | report | caught by |", "|---|---|---|"]
    for mutant in sorted(read("mutants.toml"), key=lambda m: m["step"]):
        if "bugs" not in mutant:
            continue
        step = mutant["step"]
        # Without the number in parentheses: the next column has it.
        why = re.sub(r"\s*\([^()]*(?:\d{2,}|[0-9a-f]{7})[^()]*\)", "",
                     mutant["why"]).rstrip(".").replace("|", "\\|")
        lines.append(f"| {why[0].upper()}{why[1:]}. | {bugs(mutant)} | "
                     f"[{step} {titles[step]}](@ref page_{step[:2]}) |")
    return "\n".join(lines) + "\n"


def refused() -> str:
    lines = ["| mistake | report | at |", "|---|---|---|"]
    for entry in read("errors.toml"):
        if "bugs" in entry:
            lines.append(f"| {entry['what'][0].upper()}{entry['what'][1:]} | {bugs(entry)} | "
                         f"[{entry['when']}](page_errors.html#error_"
                         f"{entry['id']}) |")
    return "\n".join(lines) + "\n"


def generated() -> str:
    lines = [f"- `{file}`: {what}, for @ref {page}. Written by `{command}`"
             for file, (what, page, command) in GENERATED.items()]
    lines += ["- No file: the pitfalls, from `tests/mutants.toml`, "
              "`tests/errors.toml` and the sheets, for @ref page_pitfalls; and "
              "the table of chapters in `README.md`, from the sheets"]
    return "\n".join(lines) + "\n"


def main() -> None:
    output, results = map(Path, sys.argv[1:])
    output.mkdir(parents=True, exist_ok=True)
    parts = {"pitfalls_found": pitfalls(), "refused": refused(),
             "generated": generated()}
    for name, text in errors(json.loads(
            (results / "errors.json").read_text())).items():
        parts[f"errors_{name}"] = text
    for name, text in parts.items():
        (output / f"{name}.md").write_text(text + "\n")


if __name__ == "__main__":
    main()
