"""The table of chapters in README.md, made from the sheets. As a program it
writes the table; with --check it only compares, and exits with 1."""

import re
import sys

from workspace import ROOT, chapters

_PLACE = re.compile(r"(<!-- chapters -->\n).*?(<!-- end -->)", re.S)


def chapter_table() -> str:
    rows = ["| chapter | steps | minutes | torch | needs |",
            "|---|---|---|---|---|"]
    for chapter in chapters():
        rows.append(
            f"| [{chapter.number} {chapter.title}]"
            f"(chapters/{chapter.name}/README.md) | {len(chapter.steps)} | "
            f"{chapter.minutes} | ≥ {chapter.torch} | {chapter.needs} |")
    return "\n".join(rows) + "\n"


def in_readme() -> str:
    text = (ROOT / "README.md").read_text()
    return _PLACE.search(text)[0].split("\n", 1)[1].rsplit("<!-- end", 1)[0]


if __name__ == "__main__":
    readme = ROOT / "README.md"
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(f"expected --check or nothing, got {' '.join(sys.argv[1:])}")
    if not sys.argv[1:]:
        readme.write_text(_PLACE.sub(
            lambda m: m[1] + chapter_table() + m[2], readme.read_text()))
    elif in_readme() != chapter_table():
        sys.exit("README.md: its table is not what the sheets say; "
                 "python3 common/tool/tables.py makes it")
