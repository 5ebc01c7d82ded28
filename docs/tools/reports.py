"""Parts of the reference pages: the errors, from tests/abi/snippets.toml and what
tests/abi has recorded; the pitfalls, from each mistakes.toml and the sheets;
which result is written by which command; and the README's table of chapters."""

import re

import snippets
from base.project import ROOT
from base.sheets import chapters
from tables import RECORD, read, table
from torch_stable_abi.files import read_toml

# Each file in docs/results: what it holds, the page that shows it, what writes it.
RESULTS = {
    "[0-9][0-9]_*.json": ("a chapter's benchmark", "01_headeronly_types.md",
                          "./workbook bench 01 --json FILE"),
    "07_cuda_activation_kernel.json": (
        "the benchmark on a GPU", "07_cuda_activation_kernel.md",
        "tests/gpu/measure.py"),
    "conversions/*.json": (
        "what converts, on one libtorch", "02_stableivalue_conversions.md",
        RECORD),
    "ownership/*.json": (
        "who owns a slot, on one libtorch", "03_stack_conventions.md",
        RECORD),
    "loop.json": ("how long a verdict takes", "testing.md",
                  "PYTHONPATH=common:tests .venv/bin/python tests/tool/loop_bench.py "
                  "--json docs/results/loop.json"),
    "matrix.json": ("solutions and gates on each libtorch",
                    "06_version_gating.md", RECORD),
    "sass.json": ("instructions of the CUDA kernels",
                  "07_cuda_activation_kernel.md",
                  "./workbook test -- tests/gpu/test_sass.py --record"),
    "machine_code.json": (
        "which kernels the tree makes", "07_cuda_activation_kernel.md",
        "./workbook test -- tests/gpu/test_measure.py --record"),
    "limits.json": (
        "chapter 08's kernels from one element to 1.6 GB", "08_hub_packaging.md",
        "./workbook bench 08 --limits --peer LIBRARY --json FILE"),
    "bound.json": (
        "how near chapter 08's loops come to what the processor can do",
        "08_hub_packaging.md",
        "TORCH_ROOT=$(cat .venv/torch-root) PYTHONPATH=common .venv/bin/python "
        "docs/tools/bound.py"),
    "audit.*": ("what an audit says of public wheels", "audit.md",
                "PYTHONPATH=common .venv/bin/python docs/tools/audits.py FOLDER"),
    "port.txt": ("an old library, and what `port` says of it", "port.md",
                 "./workbook test -- tests/port/test_port.py --record"),
    "port.json": ("public extensions, ported", "port.md",
                  "PYTHONPATH=common .venv/bin/python docs/tools/port_extensions.py "
                  "FOLDER"),
    "compare.txt": ("the library before and after its port", "port.md",
                    "./workbook test -- tests/port/test_compare.py --record"),
    "print.txt": ("an op's schema, with the call by name that it wants",
                  "05_torch_call_dispatcher.md",
                  "./workbook test -- tests/abi/test_schemas.py --record"),
    "demo_[0-9][0-9].txt": ("a chapter's failure on real versions",
                            "00_first_extension.md",
                            "./workbook demo 00 --record"),
    "library.txt": ("a library of one's own on each libtorch", "matrix.md",
                    "./workbook test -- tests/tool/test_extension.py --record"),
    "trace.txt": ("a wrong op, traced", "trace.md",
                  "./workbook test -- tests/tool/test_trace.py --record"),
    "asan.txt": ("a fault that AddressSanitizer sees", "errors.md",
                 "./workbook test -- tests/tool/test_trace.py --record"),
    "trace.json": ("what a trace costs", "trace.md",
                   "PYTHONPATH=common .venv/bin/python docs/tools/trace_cost.py"),
    "trace_wheels.json": (
        "public wheels, traced", "trace.md",
        "PYTHONPATH=common .venv/bin/python docs/tools/trace_wheels.py"),
    "cost.json": ("what each crossing of the boundary costs", "cost.md",
                  "PYTHONPATH=common .venv/bin/python docs/tools/cost.py"),
    "compiled.json": (
        "what torch.compile makes of each shape of schema", "port_python.md",
        "PYTHONPATH=common:tests/abi .venv/bin/python docs/tools/compiled/record.py"),
    "errors.json": ("what each error says", "errors.md",
                    "./workbook test -- tests/abi/test_snippets.py --record"),
}
OF = {"compile": "headers", "link": "headers", "import": "torch",
      "hub": "kernels"}  # else libtorch


def mistakes() -> list[dict]:
    return [mistake for chapter in chapters()
            for mistake in read_toml(chapter.tests / "mistakes.toml")["mistake"]]


def slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def link(target: str) -> str:
    """"page.md#anchor" as a link that is called like the heading."""
    page, _, anchor = target.partition("#")
    text = (ROOT / "docs" / page).read_text()
    for heading in re.findall(r"^#+ (.+)$", text, re.M):
        if not anchor or slug(heading) == anchor:
            return f"[{heading}]({target})"
    raise SystemExit(f"docs/{page} has no heading #{anchor}")


def sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def code(text: str) -> str:
    """Also in a table, and with backticks in it."""
    return (f"`` {text} ``" if "`" in text else f"`{text}`").replace("|", r"\|")


def bug(name: str) -> str:
    """An issue, a pull request or a commit as a link: "pytorch/vision#1",
    "pytorch/vision/pull/2" or "pytorch/vision@8d9ccb4"."""
    found = re.fullmatch(r"([\w-]+/[\w.-]+)(#|/pull/|@)(\w+)", name)
    if not found:
        raise SystemExit(f"not a report: {name}")
    repository, mark, number = found.groups()
    kind = {"#": "issues", "/pull/": "pull", "@": "commit"}[mark]
    short = repository.split("/")[1] + (" @" if mark == "@" else " ") + number
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


def cases(entry: dict, said: dict) -> list[tuple[dict, str, dict]]:
    """List the provoked cases of an entry, in order: its keys, the compiler if it
    is not g++, {version: what was said}. The ids are "id", "id.2", "id nvcc"."""
    found = []
    for id, by_version in said.items():
        name, _, by = id.partition(" ")
        name, _, number = name.partition(".")
        if name == entry["id"]:
            more = entry["also"][int(number) - 2] if number else {}
            found.append(({"when": entry["when"], **(more or entry)}, by, by_version))
    return found


def blocks(entry: dict, result: dict) -> list[tuple[str, str]]:
    """List the messages of an entry, each after the label above it."""
    found = []
    for case, by, said in cases(entry, result["said"]):
        of = OF.get(case["when"].lower(), "libtorch")
        if of == "kernels":
            version = result["software"]["kernels"]
            if "packages" in case:
                version = case["packages"][0].split("==")[1]
            said = {version + ".": next(iter(said.values()))}
        for version, what in spans(said):
            label = "" if "script" in case else f"{of} {version}"
            if by:
                label += f", {by}"
            if "signal" in what:
                label += f" — the process ends by {what['signal']}"
            found.append((label.removeprefix(" — "),
                          what["message"] or "(not a word)"))
    return found + [(f"not provoked here: {case['unprovoked']}", case["text"])
                    for case in [entry, *entry.get("also", [])]
                    if "unprovoked" in case]


def error(entry: dict, result: dict) -> str:
    text = f"### {sentence(entry['what'])}\n\n"
    said: dict[str, list[str]] = {}
    for label, message in blocks(entry, result):
        said.setdefault(label, []).append(message)
    for label, messages in said.items():
        text += (f"*{label}*\n\n" if label else "") + \
            "```console\n" + "\n".join(messages) + "\n```\n\n"
    text += f"{entry['means']} *Cure:* {entry['cure']} More: {link(entry['page'])}."
    return text + (f" Published: {bugs(entry)}." if "bugs" in entry else "") + "\n"


def texts(case: dict) -> list[tuple[str, str]]:
    """List the texts to look for, each with its compiler if that is not g++."""
    text = case.get("text", [])
    if isinstance(text, dict):
        text = list(text.values())
    elif isinstance(text, list):
        text = text[:1]  # one of them
    found = [(one if isinstance(one, str) else one[0], "") for one in
             ([text] if isinstance(text, str) else text)]
    found += [(one, "") for one in case.get("lines", [])]
    for by in ("clang", "nvcc"):
        said = case.get(by, [])
        found += [(one, by) for one in ([said] if isinstance(said, str) else said)]
    return found


def found() -> str:
    """The texts to look for, each a link to its entry."""
    rows = []
    for entry in snippets.read("error"):
        for case in [entry, *entry.get("also", [])]:
            when = case.get("when", entry["when"])
            for one, by in texts(case):
                shown = code(one) if one else f"({case['signal']}, not a word)"
                row = [f"[{shown}](#{slug(entry['what'])})",
                       f"{when}, {by}" if by else when]
                if row not in rows:
                    rows.append(row)
    return table(["what is said", "when"], rows)


def errors(part: str) -> str:
    """"found", "made", or when they are said: compile, link, load, ..."""
    if part == "found":
        return found()
    result = read("errors")
    software = result["software"]
    if part == "made":
        return f"Provoked on {result['date']} with {software['compiler']}, clang++ " \
            f"{software['clang']} and nvcc {software['nvcc']}, the " \
            f"headers of {software['headers']}, Python {software['python']}, " \
            f"torch {software['torch']} and kernels {software['kernels']}. What " \
            "is loaded or called was built once, for target 2.10 if nothing " \
            "else is said, and run on each libtorch.\n"
    return "\n".join(error(entry, result) for entry in snippets.read("error")
                     if entry["when"].lower() == part)


def pitfalls() -> str:
    steps = {step.id: f"[{step.id} {step.title}](../chapters/{chapter.name}/"
             f"README.md#{slug(f'{step.id} {step.title}')})"
             for chapter in chapters() for step in chapter.steps}
    caught: dict[tuple[str, str], list[str]] = {}  # one mistake may be in two chapters
    for mistake in mistakes():
        if "bugs" in mistake:
            # Without the number in parentheses: the next column has it.
            why = re.sub(r"\s*\([^()]*(?:\d{2,}|[0-9a-f]{7})[^()]*\)", "",
                         mistake["what"]).rstrip(".").replace("|", "\\|")
            caught.setdefault((sentence(why) + ".", bugs(mistake)), []).append(
                steps[mistake["step"]])
    return table(["mistake", "report", "caught by"],
                 ([*mistake, ", ".join(at)] for mistake, at in caught.items()))


def refused() -> str:
    return table(["mistake", "report", "at"], (
        [sentence(e["what"]), bugs(e),
         f"[{e['when']}](errors.md#{slug(e['what'])})"]
        for e in snippets.read("error") if "bugs" in e))


def results() -> str:
    return "".join(
        f"- `{file}`: {what}, for {'each chapter, as ' * ('[' in file)}{link(page)}. "
        f"Written by `{command}`\n"
        for file, (what, page, command) in RESULTS.items())


def chapter_table() -> str:
    return table(["chapter", "steps", "minutes", "torch", "needs"], (
        [f"[{c.number} {c.title}](chapters/{c.name}/README.md)", len(c.steps),
         c.minutes, f"≥ {c.torch}", c.needs] for c in chapters()))
