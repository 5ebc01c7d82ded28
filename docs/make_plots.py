"""Plots for the pages, from docs/results. Each shows ratios, and says on which
hardware and with which versions they were measured. Text takes the page's
colour, so it reads in light and in dark; the figure's text is its alt text.

    make_plots.py OUTPUT_FOLDER RESULTS_FOLDER
"""

import html
import io
import json
import re
import sys
from pathlib import Path

from matplotlib.figure import Figure
from plots import plot, plt


def svg(figure: Figure, salt: str, alt: str, stamp: str) -> str:
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
    return (f'<div class="plot">{text}<div class="caption">'
            f"{html.escape(stamp)}</div></div>\n")


def stamp(result: dict) -> str:
    if "nvcc" in result:
        return f"Counted in the machine code of nvcc {result['nvcc']} for " \
            f"{result['arch']}, bfloat16; {result['date']}."
    hardware, software = result["hardware"], result["software"]
    parts = [hardware.get("gpu") or f"{hardware['cpu']}, {hardware['cores']} "
             f"cores, {hardware['isa']}"]
    if re.search(r" \d", software.get("compiler", "")):
        parts.append(software["compiler"])
    parts += [f"libtorch {software.get('libtorch') or software.get('torch')}",
              result["date"]]
    timed = not any("instructions" in m for g in result["groups"]
                    for m in g["members"])
    if not timed:
        return "; ".join(parts) + "."
    sizes = result["groups"][0]["name"].startswith("limits/")
    return "; ".join(parts) + ". Median of the repetitions" + (
        "." if sizes else ", with quartiles.")


def main() -> None:
    output, results = map(Path, sys.argv[1:])
    output.mkdir(parents=True, exist_ok=True)
    for name in ("07_cuda_activation_kernel", "limits"):
        (output / f"{name}.html").write_text("")  # until it is measured
    for path in sorted([*results.glob("[0-9][0-9]_*.json"),
                        results / "sass.json", *results.glob("limits.json")]):
        result = json.loads(path.read_text())
        figure, alt = plot(result)
        (output / f"{path.stem}.html").write_text(
            svg(figure, path.stem, alt, stamp(result)))


if __name__ == "__main__":
    main()
