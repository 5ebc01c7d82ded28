"""hint, diff, reset: the learner's copy, the sheet's hints, the solution."""

import difflib
import re
import time

import screen
from hunks import hunks
from workspace import (BUILD, MINE, Chapter, open_chapter, read_json,
                       source_files, write_json)


def hints(chapter: Chapter, id: str) -> list[str]:
    """Two from the sheet, then the solution's lines."""
    sheet = (chapter.starter / "README.md").read_text()
    section = re.search(rf"^## {id} .*?(?=^## |\Z)", sheet, re.M | re.S)[0]
    texts = re.findall(r"<summary>Hint \d</summary>\s*(.*?)\s*</details>",
                       section, re.S)
    lines = []
    for hunk in hunks(chapter):
        if hunk.step == id:
            lines += [f"{hunk.file}, in place of line {hunk.begin + 1} to "
                      f"{hunk.end} of the starter:", "".join(hunk.new)]
    return [re.sub(r"^```\w*\n?", "", t, flags=re.M) for t in texts] + \
        ["\n".join(lines).rstrip()]


def hint(chapter: Chapter, id: str) -> None:
    """The next hint of a step; after the last, all begins again."""
    seen_file = BUILD / "hints.json"
    seen = read_json(seen_file)
    texts = hints(chapter, id)
    n = seen.get(id, 0) % len(texts)
    last = n == len(texts) - 1
    print(screen.bold(f"{id} {chapter.step(id).title}: " + (
        "the solution" if last else f"hint {n + 1} of {len(texts) - 1}")))
    print("\n".join("  " + line if line else "" for line in
                    texts[n].splitlines()))
    seen[id] = n + 1
    write_json(seen_file, seen)
    if not last:
        print(f"More: ./workbook hint {id}" +
              (" (it shows the solution)" if n == len(texts) - 2 else ""))


def diff(chapter: Chapter) -> bool:
    """Prints how the learner's files differ from the solution's."""
    open_chapter(chapter)
    names = {p.relative_to(folder) for folder in
             (chapter.mine, chapter.solution) for p in source_files(folder)}
    differs = False
    for name in sorted(names):
        texts = [(folder / name).read_text(errors="replace").splitlines()
                 if (folder / name).exists() else []
                 for folder in (chapter.mine, chapter.solution)]
        for line in difflib.unified_diff(*texts, f"yours/{name}",
                                         f"solution/{name}", lineterm=""):
            differs = True
            code = {"+": "32", "-": "31", "@": "36"}.get(line[:1])
            print(screen.paint(line, code) if code else line)
    if not differs:
        print(f"yours is the solution of {chapter.number}, to the letter")
    return differs


def reset(chapter: Chapter) -> None:
    """The starter again. What was there is kept, and where is said."""
    kept = MINE / ".backup" / f"{chapter.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    if chapter.mine.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        while kept.exists():
            kept = kept.with_name(kept.name + "+")
        chapter.mine.rename(kept)
        print(f"Yours is kept in {kept.relative_to(MINE.parent)}")
    open_chapter(chapter)
    print(f"my/{chapter.name} is the starter again")
