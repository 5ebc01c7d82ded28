"""Pictures for \\dotfile that show results: which libtorch one binary runs on,
and how much each version of the CUDA kernel has in flight.

    make_pictures.py OUTPUT_FOLDER RESULTS_FOLDER
"""

import json
import sys
from pathlib import Path

HEAD = """digraph picture {
  bgcolor=transparent; pad=0.1; nodesep=0.08; ranksep=0.5;
  node [fontname="sans-serif", fontsize=11, color="#777777"];
  edge [fontname="sans-serif", fontsize=10, color="#777777"];
"""
BOX = 'shape=box, style="filled,rounded", height=0.3, margin="0.1,0.06"'


def one_binary(result: dict) -> str:
    """The chapters' libraries, built once, above each libtorch."""
    once, versions = result["built_once_with"], result["versions"]
    runs = [r["runs"] for r in result["builds"]
            if r["headers"] == once and r["target"] == "2.10"
            and r["needs_libtorch"]]
    refusing = sorted({r["torch"] for r in result["refused"]})
    lines = [HEAD, "  rankdir=LR;", f'  binary [{BOX}, fillcolor="#fde9d9", '
             f'label="one binary\\nheaders {once}\\ntarget 2.10"];']
    for version in [*refusing, *versions]:
        passed = sum(r.get(version) == "pass" for r in runs)
        fits = passed == len(runs)
        text = "refused" if version in refusing else \
            "passes" if fits else f"{passed} of {len(runs)}"
        lines += [
            f'  "{version}" [{BOX}, label="libtorch {version}: {text}", '
            f'fillcolor="{"#dbe9f7" if fits else "#ffffff"}"];',
            f'  binary -> "{version}"'
            + ("" if fits else " [style=dashed, arrowhead=tee]") + ";"]
    return "\n".join([*lines, "}\n"])


def ladder(result: dict) -> str:
    """A row a version: what a thread reads before it first uses any of it."""
    cell = '<TD WIDTH="{}" BGCOLOR="{}">{} B</TD>'
    rows = ['<TR><TD BORDER="0"></TD><TD BORDER="0" COLSPAN="4">a thread reads'
            '</TD><TD BORDER="0"><B>bytes in<BR/>flight</B></TD></TR>']
    for row in result["rows"]:
        if row["version"] not in ("naive", "16 bytes", "in flight"):
            continue
        sizes = [int(load.rsplit(".", 1)[1].lstrip("U")) // 8
                 for load in row["loads"]]
        boxes = "".join(cell.format(12 if size < 16 else 42,
                                    ("#dbe9f7", "#fde9d9")[i % 2], size)
                        for i, size in enumerate(sizes))
        boxes += f'<TD BORDER="0" COLSPAN="{4 - len(sizes)}"></TD>' \
            if len(sizes) < 4 else ""
        rows.append(f'<TR><TD BORDER="0" ALIGN="RIGHT">{row["version"]}</TD>'
                    f'{boxes}<TD BORDER="0"><B>{sum(sizes)}</B></TD></TR>')
    table = "\n    ".join(rows)
    return f"""{HEAD}  table [shape=plain, label=<
    <TABLE BORDER="0" CELLBORDER="1" CELLSPACING="3" CELLPADDING="4"
           COLOR="#777777">
    {table}
    </TABLE>>];\n}}\n"""


def main() -> None:
    output, results = map(Path, sys.argv[1:])
    output.mkdir(parents=True, exist_ok=True)
    for name, picture, source in (("one_binary", one_binary, "matrix"),
                                  ("ladder", ladder, "sass")):
        result = json.loads((results / f"{source}.json").read_text())
        (output / f"{name}.dot").write_text(picture(result))


if __name__ == "__main__":
    main()
