"""Parts of the reference pages: the errors, from tests/errors.toml and what
common/errors has recorded; the pitfalls, from tests/mutants.toml and the sheets.

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
WHEN = {
    "compile": "The compiler says", "link": "The linker says",
    "load": "At load", "call": "At a call", "import": "At an import",
    "Hub": "From the Kernel Hub's loader"}
OF = {"compile": "headers", "Hub": "kernels"}  # else libtorch


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
    found: list[list] = []
    for version, what in said.items():
        minor = version.rsplit(".", 1)[0]
        if found and found[-1][2] == what:
            found[-1][1] = minor
        else:
            found.append([minor, minor, what])
    return [(first if first == last else f"{first} to {last}", what)
            for first, last, what in found]


def error(entry: dict, said: dict[str, dict], software: dict) -> str:
    lines = [f"\\anchor error_{entry['id']}",
             f"**{entry['what'][0].upper()}{entry['what'][1:]}**"
             if entry["what"][0] != "`" else f"**{entry['what']}**", ""]
    of = OF.get(entry["when"], "libtorch")
    if of == "kernels":
        said = {software["kernels"] + ".": what for what in said.values()}
    parts = spans(said)
    for version, what in parts:
        ends = {"SIGSEGV": "the process crashes", "SIGABRT": "the process ends",
                None: ""}[what.get("signal")]
        label = "" if "script" in entry else f"{of} {version}"
        label = " — ".join(filter(None, [label, ends and f"{ends} "
                                         f"({what['signal']})"]))
        message = what["message"] or "(not a word)"
        lines += [f'<div class="said"><span>{label}</span>'
                  f"<pre>{html.escape(message)}</pre></div>"]
    lines += ["", f"{entry['means']} *Cure:* {entry['cure']} "
              f"More: @ref {entry['page']}."]
    if "bugs" in entry:
        lines[-1] += f" Published: {bugs(entry)}."
    return "\n".join(lines) + "\n"


def finder(entries: list[dict]) -> list[str]:
    """The texts to look for, each a link to its entry."""
    lines = ["| text | when |", "|---|---|"]
    for entry in entries:
        text = entry["text"]
        texts = list(text.values()) if isinstance(text, dict) else [text]
        for one in texts:
            one = one if isinstance(one, str) else one[0]
            one = one or entry["signal"] + ", not a word"
            lines.append(f'| <a href="#error_{entry["id"]}"><code>'
                         f"{html.escape(one)}</code></a> | {entry['when']} |")
    return lines


def errors(result: dict) -> str:
    entries, software = read("errors.toml"), result["software"]
    lines = [*finder(entries), ""]
    for when, title in WHEN.items():
        lines += [f"## {title} {{#errors_{when.lower()}}}", ""]
        lines += [error(e, result["said"][e["id"]], software)
                  for e in entries if e["when"] == when]
    lines += [f"Provoked on {result['date']} with {software['compiler']}, the "
              f"headers of {software['headers']}, Python {software['python']}, "
              f"torch {software['torch']} and kernels {software['kernels']}."]
    return "\n".join(lines) + "\n"


def pitfalls() -> str:
    titles = {}
    for sheet in sorted(ROOT.glob("chapters/*/README.md")):
        text = sheet.read_text()
        titles |= dict(re.findall(r"^## (\d\d\.\d) (.+)$", text, re.M))
        titles[sheet.parent.name[:2]] = re.search(r"^# \d\d (.+)$", text, re.M)[1]
    lines, chapter = [], ""
    published = [m for m in read("mutants.toml") if "bugs" in m]
    for mutant in sorted(published, key=lambda m: m["step"]):
        if mutant["step"][:2] != chapter:
            chapter = mutant["step"][:2]
            lines += ["", f"## Chapter {chapter}: {titles[chapter]} "
                      f"{{#pitfalls_{chapter}}}", "",
                      "| what goes wrong | published | caught by |",
                      "|---|---|---|"]
        why = re.sub(r"\s*\((?!\))[^()]*(?:#?\d{2,}|[0-9a-f]{7})[^()]*\)", "",
                     mutant["why"]).rstrip(".")
        why = why.replace("|", "\\|")
        lines.append(f"| {why[0].upper()}{why[1:]}. | {bugs(mutant)} | "
                     f"[{mutant['step']} {titles[mutant['step']]}]"
                     f"(@ref page_{chapter}) |")
    lines += ["", "## Refused before anything runs {#pitfalls_refused}", "",
              "| what goes wrong | published | what is said |", "|---|---|---|"]
    for entry in read("errors.toml"):
        if "bugs" in entry:
            what = entry["what"]
            lines.append(f"| {what[0].upper()}{what[1:]} | {bugs(entry)} | "
                         f"@ref error_{entry['id']} \"{entry['when']}\" |")
    return "\n".join(lines) + "\n"


def main() -> None:
    output, results = map(Path, sys.argv[1:])
    output.mkdir(parents=True, exist_ok=True)
    (output / "errors_found.md").write_text(
        errors(json.loads((results / "errors.json").read_text())))
    (output / "pitfalls_found.md").write_text(pitfalls())


if __name__ == "__main__":
    main()
