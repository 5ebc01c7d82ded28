"""Plots for the pages, from docs/results: a picture for each benchmark that
moves bytes. Text takes the page's colour, so it reads in light and in dark.

    make_plots.py OUTPUT_FOLDER RESULTS_FOLDER
"""

import html
import io
import json
import re
import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plt  # noqa: E402

# Told apart in light, in dark and without colour (the markers differ too).
STYLES = [("#3d85c8", "o"), ("#d9822b", "s"), ("#5a9e4b", "^"),
          ("#b45fbd", "D"), ("#c0504d", "v"), ("#8a8a3c", "P"),
          ("#4aa5a5", "X"), ("#a0785a", "<")]


def label(group: dict) -> str:
    return f"{group['dtype']} {group['shape']}"


def plot(groups: list[dict]) -> plt.Figure:
    """Rows: shapes and dtypes. A mark a member: its time over the floor's."""
    names = list(dict.fromkeys(m["name"] for g in groups for m in g["members"]
                               if m["role"] != "floor"))
    figure, axes = plt.subplots(figsize=(7.2, 1.3 + 0.3 * len(groups)))
    for name, (colour, marker) in zip(names, STYLES):
        points = [(row, m) for row, g in enumerate(groups)
                  for m in g["members"] if m["name"] == name]
        x = [m["ratio"] for _, m in points]
        spread = [[max(0, m["ratio"] - m["low"]) for _, m in points],
                  [max(0, m["high"] - m["ratio"]) for _, m in points]]
        axes.errorbar(x, [row for row, _ in points], xerr=spread, fmt=marker,
                      color=colour, markersize=6, capsize=2, label=name)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    high = max(m["high"] for g in groups for m in g["members"])
    ticks = [t for t in (1, 2, 5, 10, 20, 50, 100, 200, 500) if t <= 2 * high]
    axes.set_xticks(ticks, [f"{t} ×" for t in ticks])
    axes.minorticks_off()
    axes.set_yticks(range(len(groups)), [label(g) for g in groups])
    axes.invert_yaxis()
    axes.set_xlabel("time over the floor's (1 × is the same traffic alone)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=4,
                frameon=False)
    return figure


def svg(figure: plt.Figure, salt: str, alt: str) -> str:
    """As an element for a page: without a size, ids that repeat, or black."""
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True,
                       bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    text = text.getvalue()
    text = text[text.index("<svg"):]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r' id="[\w.]+_\d+"', "", text)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = text.replace("#000000", "currentColor")
    # Text that names no colour is black, not the page's.
    text = text.replace("<svg", '<svg fill="currentColor" role="img" '
                        f'aria-label="{html.escape(alt)}"', 1)
    return f'<div class="plot">{text}</div>\n'


def describe(groups: list[dict]) -> str:
    return "Times over the floor's. " + " ".join(
        f"{label(g)}: " + ", ".join(
            f"{m['name']} {m['ratio']:.2f}" for m in g["members"]
            if m["role"] != "floor") + "." for g in groups)


def main() -> None:
    output, results = map(Path, sys.argv[1:])
    output.mkdir(parents=True, exist_ok=True)
    for path in sorted(results.glob("[0-9][0-9]_*.json")):
        groups = [g for g in json.loads(path.read_text()).get("groups", [])
                  if g["bytes"]]
        if groups:
            (output / f"{path.stem}.html").write_text(
                svg(plot(groups), path.stem, describe(groups)))


if __name__ == "__main__":
    main()
