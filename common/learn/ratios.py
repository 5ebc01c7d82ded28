"""The measurements of Google Benchmark, as ratios.

A group's members are timed in turn, in random order, and each repetition is
divided by the floor's that is nearest to it in time: whatever slows the machine
down slows down both. The statistic is the median of these ratios, with the
quartiles. A repetition of the floor is divided by the nearest other one, which
shows how much of a spread is noise."""

import json
import re
import statistics
from typing import NamedTuple

# What Google Benchmark appends to a name.
APPENDED = re.compile(r"(/(min_time|iterations|repeats):[^/]+)+(/real_time)?$")


class Sample(NamedTuple):
    """One repetition."""

    at: float  # seconds, of a clock that all members share
    seconds: float  # of one call


class Member(NamedTuple):
    """One way to do what its group does; either timed or counted."""

    name: str
    role: str  # floor, subject or peer
    samples: list[Sample]
    instructions: dict[str, float]  # by the place that they are in


def _round(value: float) -> float:
    """Round to six digits, which are more than any of these is good for."""
    return float(f"{value:.6g}")


def pair(samples: list[Sample], floor: list[Sample]) -> list[float]:
    """Divide each sample by the nearest other sample of the floor."""
    def nearest(sample: Sample) -> Sample:
        return min((f for f in floor if f.at != sample.at),
                   key=lambda f: abs(f.at - sample.at), default=sample)
    return [s.seconds / nearest(s).seconds for s in samples]


def summary(member: Member, floor: Member) -> dict:
    if member.instructions:  # the same in every repetition
        ratios = [sum(member.instructions.values()) /
                  sum(floor.instructions.values())]
    else:
        ratios = pair(member.samples, floor.samples)
    low, ratio, high = ratios * 3 if len(ratios) == 1 else \
        statistics.quantiles(ratios, n=4, method="inclusive")
    result = {"name": member.name, "role": member.role, "ratio": _round(ratio),
              "low": _round(low), "high": _round(high),
              "repetitions": len(ratios), "seconds": 0}
    if member.instructions:
        result["instructions"] = member.instructions
    else:
        result["seconds"] = _round(
            statistics.median(s.seconds for s in member.samples))
    return result


def make_group(name: str, dtype: str, shape: str, cache: str, size: int,
               threads: int, members: list[Member]) -> dict:
    """Return a group as it is written. `size` bytes are what a call has to read and
    write; 0: whatever it is."""
    floor = next(m for m in members if m.role == "floor")
    summaries = [summary(member, floor) for member in members]
    seconds = summaries[members.index(floor)]["seconds"]
    return {"name": name, "dtype": dtype, "shape": shape, "cache": cache,
            "bytes": size, "threads": threads,
            "floor_gb_per_s": _round(size / seconds / 1e9) if seconds else 0,
            "members": summaries}


def name_of(benchmark: str) -> tuple[str, str]:
    """Return the names of the group and the member."""
    group_name, _, member = APPENDED.sub("", benchmark).rpartition("/")
    return group_name, member


def group_names(listed: str) -> list[str]:
    """Return the groups in what --benchmark_list_tests prints."""
    return list(dict.fromkeys(name_of(line)[0] for line in listed.splitlines()
                              if APPENDED.search(line)))


def groups(measured: dict) -> list[dict]:
    """Return the groups in Google Benchmark's JSON, and their members, in the order of
    their registration."""
    found: dict[str, dict[str, Member]] = {}
    about: dict[str, tuple[str, str, str, int, int]] = {}
    unit = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}
    for run in sorted(measured["benchmarks"], key=lambda r: r["family_index"]):
        if run["run_type"] != "iteration" or run.get("error_occurred"):
            continue
        group_name, name = name_of(run["run_name"])
        role, dtype, shape, cache = run["label"].split(" | ")
        about[group_name] = (dtype, shape, cache, int(run["bytes"]),
                             int(run["libtorch_threads"]))
        counted = {key.partition("/")[2]: count for key, count in run.items()
                   if key.startswith("instructions/")}
        member = found.setdefault(group_name, {}).setdefault(
            name, Member(name, role, [], counted))
        if not counted:
            member.samples.append(Sample(
                run["at"], run["real_time"] * unit[run["time_unit"]]))
    return [make_group(name, *about[name], list(members.values()))
            for name, members in found.items()]


def software(measured: dict) -> dict:
    """Return the facts of the build that only the program knows. The rest of Google
    Benchmark's context is left out, since it names the machine and paths on it."""
    context = measured["context"]
    return {"compiler": context["compiler"].strip(),
            "libtorch": context["libtorch"],
            "headers": context["headers"].rpartition(".")[0],
            "target": context["target"].rpartition(".")[0]}


def heading(result: dict) -> str:
    hardware = result["hardware"]
    return (f"{result['chapter']}, {result['date']}, libtorch "
            f"{result['software']['libtorch']}\n{hardware['cpu']}, "
            f"{hardware['cores']} cores, {hardware['isa']}\nTime over the "
            "floor's: the median of the repetitions and the quartiles.\n")


def floor_of(group: dict) -> str:
    name, = (m["name"] for m in group["members"] if m["role"] == "floor")
    return "the same bytes moved" if name == "xor" else name


def table(group: dict) -> str:
    size, threads = group["bytes"], group["threads"]
    title = f"\n{group['name']}: {group['dtype']} {group['shape']}, " \
        f"{group['cache']} cache, {threads} thread{'s' * (threads != 1)}"
    if size:
        title += f", {size / 1e6:.3g} MB\nfloor: {floor_of(group)}, " \
            f"{group['floor_gb_per_s']:.1f} GB/s"
    lines = [title, f"  {'':32}{'ratio':>8}{'quartiles':>18}{'GB/s':>9}"
             f"{'repeats':>9}"]
    for m in group["members"]:
        rate = f"{size / m['seconds'] / 1e9:.1f}" \
            if size and m["seconds"] else "-"
        lines.append(f"  {m['name']:24}{m['role']:8}{m['ratio']:8.2f}"
                     f"{m['low']:9.2f}{m['high']:9.2f}{rate:>9}"
                     f"{m['repetitions']:9}")
        if "instructions" in m:
            lines.append("    instructions: " + ", ".join(
                f"{place} {count:.0f}"
                for place, count in m["instructions"].items()))
    return "\n".join(lines) + "\n"


def text(result: dict) -> str:
    """Return a result as JSON, a line a member, so that a diff shows which ratios have
    changed."""
    return re.sub(r' ?(\{"name")', r"\n\1", json.dumps(result)) + "\n"
