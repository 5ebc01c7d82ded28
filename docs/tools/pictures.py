"""The pictures of the pages: docs/pictures/NAME.svg, drawn by Graphviz from
NAME.dot or from a result, or by plots.py from a result. They are in git, so
that GitHub shows them. Each holds a fingerprint of what it was drawn from:
whoever changes nothing of that needs neither Graphviz nor matplotlib. In the
dark a picture is dark."""

import hashlib
import html
import re
import subprocess
from pathlib import Path

from base.project import ROOT
from tables import RESULTS, measured, of, read

PICTURES = ROOT / "docs/pictures"
HERE = Path(__file__).parent
# Light is what a picture is drawn with, dark is what stands for it. A card
# behind it all, for a page may be dark where the system is light.
PAPER, INK = "#ffffff", "#000000"
DARK = {PAPER: "#131416", INK: "#e4e8ec", "#777777": "#8d96a0",
        "#f4f4f4": "#2a2f36", "#dbe9f7": "#1d3f63", "#fde9d9": "#61391a",
        "#dff0d8": "#24502b"}
HEAD = """
  bgcolor="#ffffff"; pad=0.1; nodesep=0.2; ranksep=0.35;
  node [fontname="sans-serif", fontsize=11, fontcolor="#000000",
        color="#777777", fillcolor="#f4f4f4", height=0.3, margin="0.12,0.06"];
  edge [fontname="sans-serif", fontsize=10, fontcolor="#000000",
        color="#777777"];
"""
BOX = 'shape=box, style="filled,rounded"'


def one_binary() -> str:
    """The chapters' libraries, built once, above each libtorch."""
    result = read("matrix")
    once, versions = result["built_once_with"], result["versions"]
    runs = [r["runs"] for r in result["builds"]
            if r["headers"] == once and r["target"] == "2.10"
            and r["needs_libtorch"]]
    refusing = sorted({r["torch"] for r in result["refused"]})
    lines = ["rankdir=LR; nodesep=0.08; ranksep=0.5;",
             f'binary [{BOX}, fillcolor="#fde9d9", '
             f'label="one binary\\nheaders {once}\\ntarget 2.10"];']
    for version in [*refusing, *versions]:
        passed = sum(r.get(version) == "pass" for r in runs)
        fits = passed == len(runs)
        text = "refused" if version in refusing else \
            "passes" if fits else f"{passed} of {len(runs)}"
        lines += [
            f'"{version}" [{BOX}, label="libtorch {version}: {text}", '
            f'fillcolor="{"#dbe9f7" if fits else PAPER}"];',
            f'binary -> "{version}"'
            + ("" if fits else " [style=dashed, arrowhead=tee]") + ";"]
    return "digraph one_binary {\n" + "\n".join(lines) + "\n}\n"


MADE = {"one_binary": one_binary}


def graph(name: str) -> str:
    """In Graphviz's language, with the looks that all have in common."""
    text = MADE[name]() if name in MADE else (PICTURES / f"{name}.dot").read_text()
    return text.replace("{\n", "{" + HEAD, 1)


def sources() -> dict[str, str]:
    """{picture: what it is drawn from}."""
    graphs = [*MADE, *(path.stem for path in PICTURES.glob("*.dot"))]
    plots = [path for path in RESULTS.glob("*.json")  # a table alone has few bars
             if re.match(r"0[014-8]_|cost|limits|sass", path.name) and measured(path)]
    how = (HERE / "plots.py").read_text()
    return {name: graph(name) for name in graphs} | {
        path.stem: path.read_text() + how for path in plots}


def fingerprint(text: str) -> str:
    return "<!-- drawn from " + hashlib.sha256(
        (text + str(DARK)).encode()).hexdigest()[:12] + " -->"


def drifted() -> list[Path]:
    """The pictures that are not drawn from what is there now."""
    return [path for name, text in sorted(sources().items())
            for path in [PICTURES / f"{name}.svg"]
            if not path.exists() or fingerprint(text) not in path.read_text()]


def themed(svg: str, source: str) -> str:
    svg = svg[svg.index("<svg"):]
    rules = "".join(
        f'[fill="{light}"], [style*="fill: {light}"] {{ fill: {dark} !important }} '
        f'[stroke="{light}"], [style*="stroke: {light}"] '
        f"{{ stroke: {dark} !important }}\n" for light, dark in DARK.items())
    style = f"<style>text {{ fill: {INK} }}\n@media (prefers-color-scheme: dark) " \
        f"{{\ntext {{ fill: {DARK[INK]} !important }}\n{rules}}}</style>\n"
    svg = svg.replace(' fill="white"', f' fill="{PAPER}"')
    head, mark, rest = svg.partition(">")
    return f"{fingerprint(source)}\n{head}{mark}\n{style}{rest}"


def draw(paths: list[Path]) -> None:
    for path in paths:
        source = sources()[path.stem]
        if source.startswith("digraph"):
            svg = subprocess.run(["dot", "-Tsvg"], input=source, text=True,
                                 stdout=subprocess.PIPE, check=True).stdout
        else:
            import plots
            svg = plots.svg(path.stem)
        path.write_text(themed(svg, source))


def plot(name: str) -> str:
    """The picture, if there is a result; its text is the alternative text."""
    picture = PICTURES / f"{name}.svg"
    if name not in sources() or not picture.exists():
        return ""
    alt = re.search("<title>(.*?)</title>", picture.read_text(), re.S)
    text = f"![{html.unescape(alt[1]) if alt else ''}](pictures/{name}.svg)\n"
    # The others have a table beside them, which says on what.
    return text + (f"\n{of(read(name))}\n" if name == "limits" else "")
