"""Tables for the pages, from docs/results: one of each benchmark; by version,
the conversions and the ownership that the probes have printed; what
tests/abi/test_matrix.py found; the instructions of the CUDA kernels; and what
./workbook audit said of public wheels."""

import json
import re
from collections.abc import Iterable
from pathlib import Path

import snippets
from base.project import ROOT
from torch_stable_abi.libtorch.versions import listed, supported

RESULTS = ROOT / "docs/results"
RECORD = "./workbook test -- tests/abi/test_matrix.py --record"


def read(name: str) -> dict:
    return json.loads((RESULTS / f"{name}.json").read_text())


def table(head: list[str], rows: Iterable[list]) -> str:
    return "".join(f"| {' | '.join(map(str, row))} |\n"
                   for row in [head, ["---"] * len(head), *rows])


def spread(member: dict) -> str:
    return f"{member['ratio']:.2f} ({member['low']:.2f} to {member['high']:.2f})"


def of(result: dict) -> str:
    """The machine and the versions."""
    hardware, software = result["hardware"], result["software"]
    if "gpu" in hardware:
        return f"{hardware['gpu']}, {hardware['multiprocessors']} " \
            f"multiprocessors; torch {software['torch']}, driver " \
            f"{software['driver']}; {result['date']}."
    libtorch = software.get("libtorch") or software["torch"]
    return f"{hardware['cpu']}, {hardware['cores']} cores, {hardware['isa']}; " \
        f"{software['compiler']}; libtorch {libtorch}; {result['date']}."


def measured(path: Path) -> dict | None:
    """Return a result of the code as it is. One of a GPU identifies the kernels that
    it was measured with; machine_code.json has what the tree makes."""
    if not path.exists():
        return None
    result = json.loads(path.read_text())
    if "machine_code" in result and result["machine_code"] != \
            json.loads((RESULTS / "machine_code.json").read_text()):
        return None
    return result


NOT_MEASURED = "Not measured yet. On a machine with a GPU, " \
    "`tests/gpu/measure.py` measures it and writes\n" \
    "`docs/results/07_cuda_activation_kernel.json`.\n"


def benchmark(name: str) -> str:
    result = measured(RESULTS / f"{name}.json")
    if result is None:
        return NOT_MEASURED
    groups = result["groups"]
    if any("instructions" in m for g in groups for m in g["members"]):
        return calls(result)
    text = "Time over the floor's, median of the repetitions"
    if "gpu" in result["hardware"]:
        return f"Time over that of the same traffic. {of(result)}\n\n" + \
            on_gpu(groups)
    rows = []
    for group in groups:
        rate = f"{group['floor_gb_per_s']:.0f}" if group["bytes"] else "-"
        for member in group["members"]:
            if member["role"] == "floor":
                continue
            bold = "**" if member["role"] == "subject" else ""
            rows.append([f"{group['dtype']} {group['shape']}", group["cache"],
                         group["threads"], rate, member["name"],
                         f"{bold}{spread(member)}{bold}"])
    return f"{text} (first to third quartile). {of(result)}\n\n" + table(
        ["shape", "cache", "threads", "floor GB/s", "member", "ratio"], rows)


def loop() -> str:
    """Return the table of the seconds from a save to a verdict."""
    result = read("loop")
    return f"{result['cpu']}, {result['cores']} cores, {result['system']}; " \
        f"{result['compiler']}, which takes {result['yardstick']} s for a file that " \
        "includes `<regex>` alone.\n\n" + table(
            ["chapter", "verdict", "p90", "of the processors", "all steps",
             "first check", "other work (load)"],
            [[c["chapter"], c["median"], c["p90"], c["cpu"], c["all"], c["first"],
              f"{c['load']:.0f}"] for c in result["chapters"]])


def bound() -> str:
    """Return a table of the cycles that an element of each loop takes: those that its
    instructions need, and those that were measured."""
    result = read("bound")
    return f"{of(result)}\n\n" + table(
        ["loop", "instructions", "for elements", "cycles each, at least", "measured"],
        [[row["loop"], row["instructions"], row["elements"],
          f"{row['bound']:.2f}", f"**{row['cycles']:.2f}**"]
         for row in result["rows"]])


GPU_PEERS = ["ATen", "torch.compile", "vLLM style", "FlashInfer style",
             "FlashInfer style, PDL", "sglang style", "sglang style, PDL"]
GPU_STEPS = ["plain", "32 bits", "16 bytes", "fast arithmetic"]


def over_traffic(group: dict) -> dict[str, float]:
    """Return {member: its time over that of the same traffic}. Where the floor is an
    empty kernel, both were measured over that."""
    ratios = {m["name"]: m["ratio"] for m in group["members"]}
    return {name: ratio / ratios["same traffic"] for name, ratio in ratios.items()}


def by_size(groups: list[dict], dtypes: Iterable[str]) -> list[dict]:
    return sorted((g for g in groups if g["dtype"] in dtypes),
                  key=lambda g: (list(dtypes).index(g["dtype"]), g["bytes"]))


def amount(size: float) -> str:
    """Return a number of bytes as 4.2 KB or 88 MB."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if size >= factor:
            return f"{size / factor:.{1 if size < 10 * factor else 0}f} {unit}"
    return f"{size:.0f} B"


def on_gpu(groups: list[dict]) -> str:
    rows = []
    for group in by_size(groups, ("bfloat16", "float")):
        over = over_traffic(group)
        empty = f"{over['solution'] / over['empty']:.2f}" if "empty" in over else ""
        rows.append([
            f"{group['dtype']} {group['shape']}", amount(group["bytes"]),
            f"{group['floor_gb_per_s']:.0f}", f"**{over['solution']:.3f}**",
            *(f"{over[name]:.2f}" if name in over else "" for name in GPU_PEERS),
            empty])
    return table(["rows x d", "moved", "GB/s", "solution", *GPU_PEERS,
                  "solution over empty"], rows)


def gpu(what: str) -> str:
    """Return what else was measured of chapter 07: steps, variants or networks."""
    result = measured(RESULTS / "07_cuda_activation_kernel.json")
    if result is None:
        return NOT_MEASURED
    title, text = {"steps": of_steps, "variants": of_variants,
                   "networks": of_networks}[what](result)
    return f"{title}. {of(result)}\n\n{text}"


def of_steps(result: dict) -> tuple[str, str]:
    rows = [[group["shape"], amount(group["bytes"]), *(
        f"{over_traffic(group)[name]:.2f}" for name in GPU_STEPS)]
        for group in by_size(result["groups"], ("bfloat16",))]
    return "Time over that of the same traffic, bfloat16", \
        table(["rows x d", "moved", *GPU_STEPS], rows)


def of_variants(result: dict) -> tuple[str, str]:
    groups = result["variants"]
    found = [{m["name"]: f"{m['ratio']:.2f}" for m in g["members"]} for g in groups]
    names = dict.fromkeys(name for group in found for name in group)
    return "Time over the solution's, bfloat16", table(
        ["variant", *(amount(g["bytes"]) for g in groups)],
        [[name, *(group.get(name, "") for group in found)]
         for name in names if name != "solution"])


def of_networks(result: dict) -> tuple[str, str]:
    found = [{m["name"]: m for m in g["members"]} for g in result["networks"]]

    def cell(group, name):
        member = group[name]
        return f"{member['ratio']:.3f} ({member['seconds'] * 1e6:.1f} µs)"
    names = [n for n in found[0] if not n.startswith("launched: ")]
    return ("A layer's time over that with the solution in a graph, run beside it (the "
            "median of such ratios); in brackets, the median of its own time"), table(
        ["between the products"] + [
            f"{g['shape']}, {how}" for g in result["networks"]
            for how in ("graph", "launched")],
        [[name] + [cell(group, how + name) for group in found
                   for how in ("", "launched: ")] for name in names])


def calls(result: dict) -> str:
    """Return the tables of what a call costs without data: a row for each member, with
    its instructions in each library and the ratio of the times."""
    groups = {g["name"]: g for g in result["groups"]}
    text = of(result) + "\n"
    for name, group in groups.items():
        if not name.startswith("instructions/"):
            continue
        timed = groups["time/" + name.split("/")[1]]["members"]
        places = sorted({p for m in group["members"] for p in m["instructions"]})
        rows = []
        for member, time in zip(group["members"], timed):
            counts = [member["instructions"].get(p, 0) for p in places]
            rows.append([member["name"], *(f"{c:.0f}" for c in counts),
                         f"{sum(counts):.0f}", f"**{member['ratio']:.2f}**",
                         spread(time)])
        text += f"\n**{group['shape']}**\n\n" + table(
            ["op", *places, "all", "ratio", "time"], rows)
    return text


def at_work(name: str) -> str:
    """Groups of two members, named "shape/pass/dtype": a row a shape and dtype."""
    result = read(name)
    rows: dict[tuple, dict[str, str]] = {}
    for group in result["groups"]:
        if group["bytes"]:
            [subject] = [m for m in group["members"] if m["role"] == "subject"]
            row = (group["dtype"], group["shape"], group["cache"], group["threads"])
            rows.setdefault(row, {})[group["name"].split("/")[1]] = spread(subject)
    passes = list(next(iter(rows.values())))
    return of(result) + "\n\n" + table(
        ["shape", "cache", "threads", *passes],
        [[f"{dtype} {shape}", *rest, *(f"**{row[p]}**" for p in passes)]
         for (dtype, shape, *rest), row in rows.items()])


def by_version(versions: list[str], cells: list[str]) -> str:
    """Cells in the order of versions; neighbours that agree are one."""
    runs: list[list[str]] = []  # [text, first version, last version]
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


def of_each_version(folder: str) -> list[dict]:
    """What a probe printed on each version that the matrix runs."""
    missing = [v for v in supported()
               if not (RESULTS / folder / f"{v}.json").exists()]
    if missing:
        raise SystemExit(f"docs/results/{folder} holds no result of "
                         f"{', '.join(missing)}: run {RECORD}")
    return [read(f"{folder}/{v}") for v in supported()]


def verdict(row: dict) -> str:
    there, back = row["to_libtorch"], row["from_libtorch"]
    if there == back == "converts":
        leak = row.get("leaked_bytes", 0)
        return f"converts, **leaks** {leak} bytes" if leak else "converts"
    if "unknown type" in row.get("to_libtorch_reason", ""):
        return "no such schema"
    return there if back in (there, "only from Python") else f"{there}, {back}"


def conversions() -> str:
    results = of_each_version("conversions")
    versions = [r["libtorch"] for r in results]
    rows = []
    for of_version in zip(*(r["rows"] for r in results)):
        row = of_version[0]
        rows.append([f"`{row['schema']}`",
                     f"`{row['extension']}`" if row["extension"] else "none",
                     row["slot"], by_version(versions, [*map(verdict, of_version)])])
    return table(["schema", "in the extension", "the slot",
                  f"libtorch {versions[0]} to {versions[-1]}"], rows)


def ownership() -> str:
    results = of_each_version("ownership")
    versions = [r["libtorch"] for r in results]
    return table(
        ["after a call", f"libtorch {versions[0]} to {versions[-1]}"],
        ([what, by_version(versions, [r["facts"][what] for r in results])]
         for what in results[0]["facts"]))


def grid(corner: str, columns: list[str], rows: dict) -> str:
    """Return {row: {column: cell}} as a table."""
    return table([corner, *columns],
                 ([row, *(cells.get(c, "") for c in columns)]
                  for row, cells in rows.items()))


def matrix() -> str:
    result, versions = read("matrix"), supported()
    once = result["built_once_with"]
    missing = [v for v in versions if v not in result["versions"]]
    if missing:
        raise SystemExit(f"matrix.json holds no {', '.join(missing)}: run "
                         f"{RECORD}")
    on: dict = {}
    headers: dict = {}
    targets: dict = {}
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
    text = f"Built once, with the headers of {once} and target 2.10, and run " \
        f"on each libtorch ({result['date']}):\n\n{grid('chapter', versions, on)}\n"
    for version in (v for v in listed() if v not in versions):
        rows = [r for r in result["refused"] if r["torch"] == version]
        if rows:
            text += f"{version} refuses chapters " \
                f"{', '.join(r['chapter'] for r in rows)}, the last with " \
                f"`{rows[-1]['message']}`.\n\n"
    return text + (
        "Built with the headers of each, at target 2.10, and run on the oldest, "
        "on the headers' own and on the newest libtorch:\n\n"
        f"{grid('chapter', versions, headers)}\n"
        "Chapter 06 once more, at the target of its headers:\n\n") + grid(
        "target", versions, dict(sorted(
            targets.items(), key=lambda t: int(t[0].split(".")[1]))))


def gates() -> str:
    return table(
        ["API", "headers", "target", "the message", "what it means"],
        ([f"`{g['api']}`", g["headers"], g["target"], f"`{g['message']}`",
          g["means"].replace("#if", "`#if`")] for g in snippets.GATES))


def compiled() -> str:
    """Show how opcheck, torch.compile and export take each shape of schema."""
    versions = read("compiled")["versions"]
    shapes = {name: shape for found in versions.values()
              for name, shape in found.items()}

    def cell(name: str, column: str) -> str:
        return by_version(list(versions), [
            found[name][column].partition(":")[0] if name in found else "no such tag"
            for found in versions.values()])
    return table(
        ["schema", "opcheck", "torch.compile", "export"],
        ([f"`{shape['schema']}`" + (f", tagged `{shape['tag']}`"
                                    if shape["tag"] else "")
          + (", opcheck is given None" if name == "unmarked_optional" else ""),
          *(cell(name, column) for column in ("opcheck", "inductor", "export"))]
         for name, shape in shapes.items()))


def sass() -> str:
    result = read("sass")
    return f"nvcc {result['nvcc']}, {result['arch']}, bfloat16; " \
        f"{result['date']}.\n\n" + table(
            ["version", "what it is", "instructions", "elements", "per element"],
            ([row["version"], row["what"], row["instructions"], row["elements"],
              f"**{row['per_element']}**"] for row in result["rows"]))


def audits() -> str:
    result = read("audit")
    rows, agree = [], 0
    for wheel in result["wheels"]:
        newest = wheel["floors"][-1:]
        verdict, *floor = wheel["torch_abi_audit"].split()
        # The libraries of one torch each, which the other tool does not tell apart.
        each = verdict == "unstable" and not newest and not wheel["unstable"]
        agree += verdict == "unstable" if wheel["unstable"] or each else \
            [v.removesuffix(".0") for v in floor] == newest
        rows.append([
            f"{wheel['name']} {wheel['version']}",
            " and ".join([*newest, *["its own"] * wheel["unstable"],
                          *["a library for each torch"] * each]),
            f"`{wheel['requires']}`" if wheel["requires"] else "-",
            "; ".join(dict.fromkeys(map(in_short, wheel["FAIL"]))) or "-",
            "; ".join(dict.fromkeys(map(in_short, wheel["warn"]))) or "-"])
    return f"Wheels for x86_64 from PyPI, {result['date']}. torch-abi-audit " \
        f"{result['torch_abi_audit']} says the same of the libtorch of " \
        f"{agree} of {len(rows)}.\n\n" + table(
            ["wheel", "needs libtorch", "requires", "failed", "warned of"], rows)


def port_extensions() -> str:
    rows = []
    for name, one in read("port")["extensions"].items():
        left = one["yours"] + one["no counterpart"] + one["unknown"]
        theirs = one.get("finished")
        shares = [
            f"{100 * theirs['done'] // theirs['changed']} %",
            f"{100 * (theirs['done'] + theirs['named']) // theirs['changed']} %",
            f"{100 * theirs['needless'] // theirs['left']} %"] if theirs else ["-"] * 3
        rows.append([name, one["files"], one["lines"], one["done"], left,
                     f"{one['headers']}, {one['target']}", *shares])
    return table(["extension", "files", "lines", "done", "left", "headers, target",
                  "of theirs done", "done or named", "named needlessly"], rows)


def trace() -> str:
    result = read("trace")
    return "The time with `--summary` over the time without it: the median of " \
        f"{result['repeats']} pairs of\nprocesses, and the smallest and the largest " \
        f"ratio. {result['hardware']['cpu']},\ntorch {result['torch']}, " \
        "one thread.\n\n" \
        + table(["what", "microseconds without", "ratio", "from", "to"], (
            [row["what"], row["microseconds"], row["ratio"], row["low"], row["high"]]
            for row in result["rows"]))


def trace_wheels() -> str:
    result = read("trace_wheels")
    wheels = result["wheels"]
    same = sum(w["same_output"] for w in wheels)
    return f"Wheels from PyPI, torch {result['torch']}. The output was the same " \
        f"with the tracer for {same} of {len(wheels)}.\nSeconds are the " \
        "processor's, of one run without it and one with `--summary`.\n\n" + table(
            ["wheel", "its ops", "kernels run", "calls by name", "shim functions",
             "seconds", "errors", "notes", "PyTorch's"],
            ([f"{w['name']} {w['version']}", len(w["ops"]), w["kernels"], w["calls"],
              w["functions"], " and ".join(map(str, w["seconds"])), len(w["error"]),
              len(w["note"]), len(w["pytorch"])] for w in wheels)) + \
        "\nMegabytes that 50 calls of `create_wav_decoder_from_file` lose, without " \
        "the tracer,\nwith a name of a megabyte: " + ", ".join(
            f"{n} with {name}" for name, n in result["lost_megabytes"].items()) + ".\n"


def in_short(text: str) -> str:
    """A line of an audit, without numbers and examples."""
    text = re.sub(r"^\d+ are not", "symbols that are not", text)
    text = re.sub(r"^(does not require torch).*", r"\1", text)
    text = re.sub(r"^nothing that it needs brings.*", "names that nothing brings", text)
    text = re.sub(r"^runs on the libtorch that it was built with.*",
                  "bound to one libtorch", text)
    return re.sub(r"^\d+ (gnu-unique symbol)s?", r"\1s", re.split(
        r": |, such as|, which", text)[0])
