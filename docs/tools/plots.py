"""Plots of ratios, from docs/results. Each function gives a figure, and a
sentence that says what it shows: the values are in the table beside it."""

import html
import io
import re

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plt

from tables import GPU_PEERS, GPU_STEPS, by_size, over_traffic, read

WIDTH = 5.6  # inches; a phone shows the text at about 10 px
plt.rcParams["font.size"] = 11
# Told apart in light, in dark and without colour (the markers differ too).
STYLES = [("#d9822b", "o"), ("#3d85c8", "s"), ("#5a9e4b", "^"),
          ("#b45fbd", "D"), ("#c0504d", "v"), ("#8a8a3c", "P"),
          ("#4aa5a5", "X"), ("#a0785a", "<")]
MINE, OTHER = STYLES[0][0], STYLES[1][0]

# What an H200 can issue for each element of bfloat16 that its memory delivers:
# multiprocessors x lanes x clock, over 6 bytes an element at 4.3 TB/s.
H200_PER_ELEMENT = 132 * 128 * 1.98e9 / (4.3e12 / 6)


def label(group: dict) -> str:
    return f"{group['dtype']} {group['shape']}".strip()


def axes_for(rows: int, panels: int = 1):
    figure, axes = plt.subplots(
        panels, figsize=(WIDTH, panels * (1 + 0.28 * rows)), squeeze=False)
    for one in axes[:, 0]:
        one.invert_yaxis()
        one.spines[["top", "right"]].set_visible(False)
        one.axvline(1, color="black", linewidth=1)
    return figure, list(axes[:, 0])


def legend(figure, axes, columns: int) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=columns,
                  bbox_to_anchor=(0.5, 1), frameon=False)
    figure.tight_layout()


def name_rows(axes, names: list[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0)


def name_ratios(axes, low: float, high: float) -> None:
    axes.set_xscale("log")
    ticks = [t for t in ((0.5, 1, 2, 5, 10, 20, 50) if high < 50 else
                         (1, 3, 10, 30, 100, 300, 1000))
             if low / 1.6 <= t <= 2 * high]
    axes.set_xticks(ticks, [f"{t:g} ×" for t in ticks])
    axes.minorticks_off()


def spread(members: list[dict]) -> list[list[float]]:
    return [[max(0, m["ratio"] - m["low"]) for m in members],
            [max(0, m["high"] - m["ratio"]) for m in members]]


def traffic(groups: list[dict]) -> tuple[plt.Figure, str]:
    """Rows: shapes and dtypes. A mark a member: its time over the floor's."""
    names = list(dict.fromkeys(
        m["name"] for g in groups for m in g["members"]
        if m["role"] in ("subject", "peer")))
    figure, (axes,) = axes_for(len(groups))
    for name, (colour, marker) in zip(names, STYLES):
        points = [(row, m) for row, g in enumerate(groups)
                  for m in g["members"] if m["name"] == name]
        axes.errorbar([m["ratio"] for _, m in points],
                      [row for row, _ in points],
                      xerr=spread([m for _, m in points]), fmt=marker,
                      color=colour, markersize=6, capsize=2, label=name)
    measured = [m for g in groups for m in g["members"]]
    name_ratios(axes, min(m["low"] for m in measured),
                max(m["high"] for m in measured))
    name_rows(axes, [label(g) for g in groups])
    axes.set_xlabel("time over the floor's (1 × is the same traffic alone)")
    legend(figure, axes, 3)
    return figure, "Times over the floor's, as in the table"


def bars(rows: list[tuple[str, float, bool]], line: float, sign: str):
    """(name, value, is it ours), and a line to compare with."""
    figure, (axes,) = axes_for(len(rows))
    axes.lines[0].set_xdata([line] * 2)
    for row, (_, value, mine) in enumerate(rows):
        axes.barh(row, value, 0.6, color=MINE if mine else OTHER)
        axes.annotate(f"{value:.4g}{sign}", (value, row), (10, 0),
                      textcoords="offset points", va="center")
    name_rows(axes, [name for name, _, _ in rows])
    return figure, axes


def times(groups: list[dict]) -> tuple[plt.Figure, str]:
    """Draw a bar for each member: its time, divided by the floor's."""
    (group,) = groups
    members = group["members"]
    floor = next(m["name"] for m in members if m["role"] == "floor")
    figure, axes = bars([(m["name"], round(m["ratio"], 2), m["role"] == "subject")
                         for m in members], 1, " ×")
    high = max(m["high"] for m in members)
    if high > 8:
        name_ratios(axes, min(m["low"] for m in members), high)
    axes.errorbar([m["ratio"] for m in members], range(len(members)), fmt="none",
                  xerr=spread(members), color="black", capsize=2)
    axes.set_xlim(right=high * (2.5 if high > 8 else 1.2))
    axes.set_xlabel(f"time over that of “{floor}”")
    figure.tight_layout()
    return figure, f"Times over that of {floor}, as in the table"


def instructions(groups: list[dict]) -> tuple[plt.Figure, str]:
    """Draw a panel for each group and a bar for each member: its instructions, by the
    place where they are spent, divided by all of the floor's."""
    places = sorted({p for g in groups for m in g["members"]
                     for p in m["instructions"]},
                    key=lambda p: -sum(m["instructions"].get(p, 0)
                                       for g in groups for m in g["members"]))
    groups = sorted(groups, key=lambda g: g["members"][-1]["ratio"])
    figure, panels = axes_for(len(groups[0]["members"]), len(groups))
    for axes, group in zip(panels, groups):
        members = group["members"]
        floor = next(m for m in members if m["role"] == "floor")
        whole = sum(floor["instructions"].values())
        left = [0.0] * len(members)
        for place, (colour, _) in zip(places, STYLES):
            part = [m["instructions"].get(place, 0) / whole for m in members]
            axes.barh(range(len(members)), part, 0.6, left, color=colour,
                      label=place)
            left = [a + b for a, b in zip(left, part)]
        for row, m in enumerate(members):
            axes.annotate(f"{m['ratio']:.2f} ×", (left[row], row), (4, 0),
                          textcoords="offset points", va="center")
        axes.set_xlim(0, max(left) * 1.15)
        name_rows(axes, [m["name"] for m in members])
        axes.set_title(group["shape"], loc="left", fontsize=11)
        axes.set_xlabel(f"instructions over those of {floor['name']}")
    legend(figure, panels[0], 3)
    return figure, "Instructions over the floor's, as in the table"


def sass(result: dict) -> tuple[plt.Figure, str]:
    figure, axes = bars(
        [(r["version"], r["per_element"], r["version"] == "fast arithmetic")
         for r in result["rows"]], H200_PER_ELEMENT, "")
    axes.set_xlabel("instructions an element; the line: what an H200 can issue\n"
                    f"while its memory delivers one, {H200_PER_ELEMENT:.1f}")
    figure.tight_layout()
    return figure, "Instructions for each element, as in the table; an H200 can " \
        f"issue {H200_PER_ELEMENT:.1f}"


def over_best_peer(group: dict) -> float:
    mine, = (m for m in group["members"] if m["role"] == "subject")
    return mine["seconds"] / min(
        m["seconds"] for m in group["members"] if m["role"] == "peer")


def sizes(groups: list[dict]) -> tuple[plt.Figure, str]:
    """A panel a number of threads, a line a dtype: the solution's time over that
    of its fastest peer, by the bytes that are moved."""
    threads = sorted({g["threads"] for g in groups})
    figure, panels = plt.subplots(
        len(threads), figsize=(WIDTH, 2.4 * len(threads)), squeeze=False,
        sharex=True)
    told = []
    for axes, count in zip(panels[:, 0], threads):
        how_many = f"{count} thread{'s' * (count > 1)}"
        for dtype, (colour, marker) in zip(
                ("float", "half", "bfloat16"), STYLES):
            line = [(g["bytes"], over_best_peer(g)) for g in groups
                    if g["threads"] == count and g["dtype"] == dtype]
            axes.plot(*zip(*line), marker + "-", color=colour, markersize=5,
                      label=dtype)
            told.append(f"{dtype} {min(r for _, r in line):.2f} to "
                        f"{max(r for _, r in line):.2f} with {how_many}")
        axes.spines[["top", "right"]].set_visible(False)
        axes.axhline(1, color="black", linewidth=1)
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.set_title(how_many, loc="left", fontsize=11)
        axes.set_ylabel("over fastest peer")
    axes.set_xlabel("bytes read and written")
    legend(figure, axes, 3)
    return figure, "Time over that of the fastest peer, from the smallest to the " \
        "largest tensor: " + ", ".join(told) + "."


def on_gpu(groups: list[dict]) -> tuple[plt.Figure, str]:
    """Draws the time of the chapter's steps, and of the peers, over that of the same
    traffic, by the bytes that are moved. bfloat16."""
    groups = by_size(groups, ("bfloat16",))
    figure, panels = plt.subplots(2, figsize=(WIDTH, 7), squeeze=False, sharex=True)
    peers = [n for n in GPU_PEERS if "PDL" not in n]
    for axes, names in zip(panels[:, 0], (GPU_STEPS, ["solution", *peers])):
        for name, (colour, marker) in zip(names, STYLES):
            axes.plot([g["bytes"] for g in groups],
                      [over_traffic(g)[name] for g in groups], marker + "-",
                      color=colour, markersize=5, label=name)
        axes.spines[["top", "right"]].set_visible(False)
        axes.axhline(1, color="black", linewidth=1)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_yticks([1, 1.5, 2, 3, 4], ["1 ×", "1.5 ×", "2 ×", "3 ×", "4 ×"])
        axes.minorticks_off()
        axes.legend(frameon=False, fontsize=9, ncols=3, loc="lower left",
                    bbox_to_anchor=(0, 1))
    panels[-1, 0].set_xlabel("bytes read and written")
    figure.supylabel("time over that of the same traffic", fontsize=11)
    figure.tight_layout()
    return figure, "Time over that of the same traffic by size, of the steps and " \
        "of other kernels, as in the tables"


def costs(groups: dict) -> tuple[plt.Figure, str]:
    """A panel a group, a row a crossing, a mark for each side of the boundary."""
    panels = {"arguments": "an op that takes", "inside": "in a kernel",
              "calls": "from Python",
              "gradients": "with a gradient that is not needed"}
    rows = {name: {what: {how.replace(" op", ""): one for how, one in ways.items()}
                   for what, ways in groups[name].items()}
            for name in ("arguments", "inside", "calls")}
    rows["gradients"] = {
        how: {"stable" if "unstable" not in how else "unstable": one}
        for how, one in groups["gradients"]["no gradient needed"].items()}
    figure, axes = plt.subplots(
        4, figsize=(WIDTH, 1.2 + 0.25 * sum(map(len, rows.values())) + 4 * 0.4),
        sharex=True, height_ratios=[len(one) + 0.8 for one in rows.values()])
    for one, (name, of_group) in zip(axes, rows.items()):
        one.invert_yaxis()
        one.spines[["top", "right"]].set_visible(False)
        one.axvline(1, color="black", linewidth=1)
        for how, (colour, marker) in zip(("stable", "unstable", "pybind11"), STYLES):
            points = [(row, ways[how]) for row, ways in enumerate(of_group.values())
                      if how in ways]
            one.errorbar([m["ratio"] for _, m in points], [row for row, _ in points],
                         xerr=spread([m for _, m in points]), fmt=marker,
                         color=colour, markersize=5, label=how)
        name_rows(one, [what.replace("`", "") for what in of_group])
        one.set_ylim(len(of_group) - 0.5, -0.5)
        one.set_title(panels[name], loc="left", fontsize=11)
        one.set_xscale("log")
        ticks = (0.01, 0.1, 1, 10, 100)
        one.set_xticks(ticks, [f"{t:g}" for t in ticks])
        one.minorticks_off()
    axes[-1].set_xlabel("time over that of the empty boxed op")
    legend(figure, axes[2], 3)
    return figure, "Times over that of an empty boxed op, as in the tables"


def plot(result: dict) -> tuple[plt.Figure, str]:
    if result.get("what") == "cost":
        return costs(result["groups"])
    if "rows" in result:
        return sass(result)
    groups = result["groups"]
    if "gpu" in result["hardware"]:
        return on_gpu(groups)
    if groups[0]["name"].startswith("limits/"):
        return sizes(groups)
    counted = [g for g in groups
               if any("instructions" in m for m in g["members"])]
    moved = [g for g in groups if g["bytes"]]
    return instructions(counted) if counted else \
        traffic(moved) if moved else times(groups)


def svg(name: str) -> str:
    """Without a size and ids that repeat; its title says what it shows."""
    figure, says = plot(read(name))
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        file = io.StringIO()
        figure.savefig(file, format="svg", facecolor="#ffffff",
                       bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    text = re.sub(r"<metadata>.*?</metadata>", "", file.getvalue(), flags=re.S)
    text = re.sub(r' id="[\w.]+_\d+"', "", text)
    return re.sub(r"(<svg[^>]*>)", rf"\1\n<title>{html.escape(says)}</title>", text,
                  count=1)
