"""Tables for the pages, from docs/results: one of each benchmark; by version,
the conversions and the ownership that common/probe has printed; what
./workbook matrix found; and the tables of migrating and porting.

    make_tables.py OUTPUT_FOLDER RESULTS_FOLDER
"""

import html
import json
import sys
from pathlib import Path

import migration

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "common/matrix"))
sys.path.append(str(Path(__file__).resolve().parent / "porting"))
import diffs  # noqa: E402
from versions import listed, supported  # noqa: E402


def benchmark(result: dict) -> str:
    hardware, software = result["hardware"], result["software"]
    if any("instructions" in m for g in result["groups"] for m in g["members"]):
        return calls(result)
    lines = [
        "Time over the floor's, median (first to third quartile) of the "
        f"repetitions. {hardware['cpu']}, {hardware['cores']} cores, "
        f"{hardware['isa']}; {software['compiler']}; libtorch "
        f"{software['libtorch']}; {result['date']}.", "",
        "| shape | cache | threads | floor GB/s | member | ratio |",
        "|---|---|---|---|---|---|"]
    for group in result["groups"]:
        rate = f"{group['floor_gb_per_s']:.0f}" if group["bytes"] else "-"
        for member in group["members"]:
            if member["role"] == "floor":
                continue
            ratio = f"{member['ratio']:.2f} ({member['low']:.2f} to " \
                    f"{member['high']:.2f})"
            if member["role"] == "subject":
                ratio = f"**{ratio}**"
            lines.append(
                f"| {group['dtype']} {group['shape']} | {group['cache']} | "
                f"{group['threads']} | {rate} | "
                f"{member['name']} | {ratio} |")
    return "\n".join(lines) + "\n"


def verdict(row: dict) -> str:
    there, back = row["to_libtorch"], row["from_libtorch"]
    if there == back == "converts":
        leak = row.get("leaked_bytes", 0)
        return f"converts, **leaks** {leak} bytes" if leak else "converts"
    if "unknown type" in row.get("to_libtorch_reason", ""):
        return "no such schema"
    return there if back in (there, "only from Python") else f"{there}, {back}"


def by_version(versions: list[str], cells: list[str]) -> str:
    """Cells in the order of versions; neighbours that agree are one."""
    runs = []  # [text, first version, last version]
    for version, text in zip(versions, cells):
        minor = version.rsplit(".", 1)[0]
        if runs and runs[-1][0] == text:
            runs[-1][2] = minor
        else:
            runs.append([text, minor, minor])
    if len(runs) == 1:
        return runs[0][0]
    return "; ".join(
        (first if first == last else f"{first} to {last}") + f": {text}"
        for text, first, last in runs)


def of_each_version(folder: Path) -> list[dict]:
    """What a probe printed on each version that the matrix runs."""
    missing = [v for v in supported() if not (folder / f"{v}.json").exists()]
    if missing:
        raise SystemExit(f"{folder} holds no result of {', '.join(missing)}: "
                         "run ./workbook matrix --record")
    return [read(folder / f"{v}.json") for v in supported()]


def conversions(results: list[dict]) -> str:
    versions = [r["libtorch"] for r in results]
    lines = ["| schema | in the extension | the slot | libtorch "
             f"{versions[0]} to {versions[-1]} |", "|---|---|---|---|"]
    for rows in zip(*(r["rows"] for r in results)):
        first = rows[0]
        extension = f"`{first['extension']}`" if first["extension"] else "none"
        lines.append(f"| `{first['schema']}` | {extension} | {first['slot']} | "
                     f"{by_version(versions, [*map(verdict, rows)])} |")
    return "\n".join(lines) + "\n"


def ownership(results: list[dict]) -> str:
    versions = [r["libtorch"] for r in results]
    lines = [f"| after a call | libtorch {versions[0]} to {versions[-1]} |",
             "|---|---|"]
    for what in results[0]["facts"]:
        cells = [r["facts"][what] for r in results]
        lines.append(f"| {what} | {by_version(versions, cells)} |")
    return "\n".join(lines) + "\n"


def grid(corner: str, columns: list, rows: dict) -> list[str]:
    """{row: {column: cell}} as a table."""
    return [f"| {corner} | " + " | ".join(columns) + " |",
            "|---" * (1 + len(columns)) + "|",
            *(f"| {row} | " + " | ".join(cells.get(c, "") for c in columns) + " |"
              for row, cells in rows.items()), ""]


def matrix(result: dict) -> str:
    versions, once = supported(), result["built_once_with"]
    missing = [v for v in versions if v not in result["versions"]]
    if missing:
        raise SystemExit(f"matrix.json holds no {', '.join(missing)}: run "
                         "./workbook matrix --record")
    on, headers, targets = {}, {}, {}
    for row in result["builds"]:
        if row["headers"] not in versions:
            continue
        name = f"{row['chapter']} {row['title']}"
        runs = {v: "refused" if "undefined symbol" in text else text
                for v, text in row.get("runs", {}).items()}
        if row["target"] != "2.10" or "loads" in runs.values():
            targets[row["target"]] = runs
            continue
        if row["headers"] == once:
            on[name] = runs if row["needs_libtorch"] else \
                dict.fromkeys(versions, "needs none")
        passes = runs and set(runs.values()) == {"pass"}
        headers.setdefault(name, {})[row["headers"]] = \
            "passes" if passes else "fails"
    lines = [f"Built once, with the headers of {once} and target 2.10, and run "
             f"on each libtorch ({result['date']}):", "",
             *grid("chapter", versions, on)]
    for version in (v for v in listed() if v not in versions):
        rows = [r for r in result["refused"] if r["torch"] == version]
        if rows:
            lines += [f"{version} refuses chapters "
                      f"{', '.join(r['chapter'] for r in rows)}: "
                      f"`{rows[-1]['message']}`.", ""]
    lines += ["Built with the headers of each, at target 2.10, and run on the "
              "oldest, on the headers' own and on the newest libtorch:", "",
              *grid("chapter", versions, headers),
              "Chapter 06 once more, at the target of its headers:", "",
              *grid("target", versions, dict(sorted(
                  targets.items(), key=lambda t: int(t[0].split(".")[1]))))]
    return "\n".join(lines) + "\n"


def gates(result: dict) -> str:
    lines = ["| API | headers | target | the message | what it means |",
             "|---|---|---|---|---|"]
    for gate in result["gates"]:
        means = gate["means"].replace("#if", "`#if`")
        # Two backticks: a ' would end what one begins.
        lines.append(f"| `{gate['api']}` | {gate['headers']} | {gate['target']} "
                     f"| ``{gate['message']}`` | {means} |")
    return "\n".join(lines) + "\n"


def sass(result: dict) -> str:
    lines = [f"nvcc {result['nvcc']}, {result['arch']}, bfloat16; "
             f"{result['date']}.", "",
             "| version | what it is | instructions | elements | per element |",
             "|---|---|---|---|---|"]
    for row in result["rows"]:
        lines.append(f"| {row['version']} | {row['what']} | "
                     f"{row['instructions']} | {row['elements']} | "
                     f"**{row['per_element']}** |")
    return "\n".join(lines) + "\n"


UNCOUNTED = {"invalid": "do not compile", "equal": "same object code",
             "device": "GPU only"}


def mutation(result: dict) -> str:
    lines = [f"{result['tool']}; {result['compiler']}, {result['machine']}; "
             f"libtorch {result['libtorch']}.", "",
             "| chapter | changes | tried | " + " | ".join(UNCOUNTED.values()) +
             " | count | caught | survived, explained | survived | date, seed |",
             "|---" * 11 + "|"]
    for name, row in result["chapters"].items():
        counted = row["tried"] - sum(row.get(k, 0) for k in UNCOUNTED)
        left = len(row["survivors"])
        explained = sum("why" in s for s in row["survivors"])
        lines.append(
            f"| {name[:2]} | {row['generated']} | {row['tried']} | " +
            " | ".join(str(row.get(k, 0)) for k in UNCOUNTED) +
            f" | {counted} | **{counted - left}** "
            f"({100 * (counted - left) / counted:.0f} %) | {explained} | "
            f"{left - explained} | {row['date']}, {row['seed']} |")
    return "\n".join(lines) + "\n"


def survivors(result: dict) -> str:
    """As HTML, since Doxygen would make links of the code."""
    lines = ['<table class="markdownTable"><tr><th>where</th><th>the line</th>'
             "<th>survives as</th><th>why it is not caught</th></tr>"]
    for name, row in result["chapters"].items():
        for s in row["survivors"]:
            why = s.get("why") or ("The text of a message" if s["of"] == "text"
                                   else "No test yet")
            old, new = (f"<code>{html.escape(s[k])}</code>"
                        for k in ("old", "new"))
            lines.append(
                f"<tr><td>{name[:2]} {s['file']}:{s['line']}</td><td>{old}</td>"
                f"<td>{new}</td><td>{html.escape(why)}</td></tr>")
    return "\n".join([*lines, "</table>"]) + "\n"


def device(path: Path) -> str:
    """The benchmark of chapter 07, if a machine with a GPU has measured it."""
    if not path.exists():
        return "Not measured yet. On a machine with a GPU, " \
            "`common/cuda/measure.sh` measures it and writes\n" \
            f"`docs/results/{path.name}`.\n"
    result = read(path)
    hardware, software = result["hardware"], result["software"]
    names = dict.fromkeys(m["name"] for g in result["groups"]
                          for m in g["members"] if m["role"] != "floor")
    lines = [f"Time over the floor's, median of the repetitions. "
             f"{hardware['gpu']}; clocks ({hardware['clocks']['of']}) before: "
             f"{hardware['clocks']['before']}, after: "
             f"{hardware['clocks']['after']}; torch {software['torch']}, driver "
             f"{software['driver']}; {result['date']}.", "",
             "| bfloat16 | floor | GB/s | " + " | ".join(names) + " |",
             "|---|---|---|" + "---|" * len(names)]
    for group in result["groups"]:
        ratios = {m["name"]: f"{m['ratio']:.2f}" for m in group["members"]}
        lines.append(f"| {group['shape']} | {group['floor']} | "
                     f"{group['floor_gb_per_s']:.0f} | " +
                     " | ".join(ratios.get(name, "") for name in names) + " |")
    return "\n".join(lines) + "\n"


def faults(result: dict) -> str:
    lines = [f"{result['system']}, {result['cores']} cores, libtorch "
             f"{result['libtorch']}; {result['date']}.", "",
             "| fault | exit status | the sentence | kept |", "|---|---|---|---|"]
    for row in result["rows"]:
        sentence = row["sentence"].replace("|", "\\|")
        lines.append(f"| {row['fault']} | {row['status']} | `{sentence}` | "
                     f"{row['kept']} |")
    return "\n".join(lines) + "\n"


def loop(path: Path) -> str:
    """Save to verdict, once a quiet machine has measured it."""
    if not path.exists():
        return "Not measured yet: `common/bench/save_to_verdict.py` writes\n" \
            f"`docs/results/{path.name}`.\n"
    result = read(path)
    hardware, theirs = result["hardware"], result["torch/extension.h"]
    lines = [f"{hardware['cpu']}, {hardware['cores']} cores, load before "
             f"{hardware['load']}; {result['compiler']}, libtorch "
             f"{result['libtorch']}; {result['date']}.", "",
             "| chapter | edited | seconds, median (least to most) | of that "
             "build, test | CPU seconds | beside torch/extension.h |",
             "|---|---|---|---|---|---|"]
    for row in result["chapters"]:
        lines.append(
            f"| {row['chapter']} | `{row['edited']}` | **{row['median']:.2f}** "
            f"({min(row['all']):.2f} to {max(row['all']):.2f}) | "
            f"{row['build']:.2f}, {row['test']:.2f} | {row['cpu']:.2f} | "
            f"1/{theirs['median'] / row['median']:.0f} |")
    lines += ["", f"The loop with `torch/extension.h`: {theirs['median']:.1f} s."]
    return "\n".join(lines) + "\n"


def read(path: Path) -> dict:
    return json.loads(path.read_text())


def calls(result: dict) -> str:
    """Calls without bytes: a row a member, instructions by place, then time."""
    hardware, software = result["hardware"], result["software"]
    lines = [f"{hardware['cpu']}, {software['compiler']}, "
             f"{software['os']}; libtorch {software['libtorch']}; "
             f"{result['date']}."]
    groups = {g["name"]: g for g in result["groups"]}
    for name, group in groups.items():
        if not name.startswith("instructions/"):
            continue
        timed = groups["time/" + name.split("/")[1]]["members"]
        places = sorted({p for m in group["members"]
                         for p in m["instructions"]})
        lines += ["", f"**{group['shape']}**", "",
                  f"| op | {' | '.join(places)} | all | ratio | time |",
                  "|---" * (len(places) + 4) + "|"]
        for member, time in zip(group["members"], timed):
            counts = [member["instructions"].get(p, 0) for p in places]
            lines.append(
                f"| {member['name']} | " +
                " | ".join(f"{c:.0f}" for c in counts) +
                f" | {sum(counts):.0f} | **{member['ratio']:.2f}** | "
                f"{time['ratio']:.2f} ({time['low']:.2f} to "
                f"{time['high']:.2f}) |")
    return "\n".join(lines) + "\n"


def main() -> None:
    output, results = map(Path, sys.argv[1:])
    output.mkdir(parents=True, exist_ok=True)
    chapter_07 = results / "07_cuda_activation_kernel.json"
    (output / f"{chapter_07.stem}.md").write_text(device(chapter_07))
    (output / "faults.md").write_text(faults(read(results / "faults.json")))
    (output / "loop.md").write_text(loop(results / "save_to_verdict.json"))
    (output / "sass.md").write_text(sass(read(results / "sass.json")))
    for path in results.glob("[0-9][0-9]_*.json"):
        if path == chapter_07:
            continue
        (output / f"{path.stem}.md").write_text(benchmark(read(path)))
    (output / "conversions.md").write_text(
        conversions(of_each_version(results / "conversions")))
    (output / "ownership.md").write_text(
        ownership(of_each_version(results / "ownership")))
    (output / "matrix.md").write_text(matrix(read(results / "matrix.json")))
    scores = read(results / "mutation.json")
    (output / "mutation.md").write_text(mutation(scores))
    (output / "survivors.html").write_text(survivors(scores))
    (output / "gates.md").write_text(gates(read(results / "matrix.json")))
    for group in migration.groups():
        (output / f"{migration.name(group)}.html").write_text(
            migration.table(group))
    for step in diffs.STEPS[1:]:
        (output / f"porting_{step.name}.html").write_text(diffs.page(step))
    (output / "porting.md").write_text(
        diffs.table(read(results / "porting.json")))


if __name__ == "__main__":
    main()
