"""hint, diff, reset: the learner's copy, the hints, the solution."""

import difflib
import errno
import re
import shutil
import time
from pathlib import Path

from base.hunks import hunks, replace_places
from base.project import BUILD, MINE, ROOT, SOURCE_BYTES, read_source
from base.sheets import Chapter, open_chapter, refuse_odd_files, source_files
from learn import screen
from torch_stable_abi.files import (
    leads_nowhere,
    read_json,
    refuse_odd_folder,
    refuse_special,
    write_file,
    write_json,
)
from torch_stable_abi.programs import sentence


def hints(chapter: Chapter, id: str) -> list[str]:
    """Return the hints of a step: those of hints.md, then the solution's lines."""
    text = (chapter.exercise / "hints.md").read_text()
    section = re.findall(rf"^## {id} .*?(?=^## |\Z)", text, re.M | re.S)[0]
    texts = re.findall(r"^### Hint \d\n\s*(.*?)\s*(?=^### |\Z)",
                       section, re.M | re.S)
    lines = []
    for hunk in hunks(chapter):
        if hunk.step == id:
            to = f" to {hunk.end}" if hunk.end > hunk.begin + 1 else ""
            lines += [f"{hunk.file}, in place of line {hunk.begin + 1}{to} of the "
                      "starter:", "".join(hunk.new)]
    return [re.sub(r"^```\w*\n?", "", t, flags=re.M) for t in texts] + \
        ["\n".join(lines).rstrip()]


def hint(chapter: Chapter, id: str, again: str) -> None:
    """Show the next hint of a step; after the last, all begins again."""
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
    try:
        write_json(seen_file, seen)
    except OSError as error:  # such as on a disk that can only be read
        print(f"(The next time begins here: {sentence(error, ROOT)})")
    if not last:
        print(f"More: {again}" +
              (" (it shows the solution)" if n == len(texts) - 2 else ""))


def diff(chapter: Chapter, steps: set[str]) -> bool:
    """Print how the learner's files differ from the solution's in these steps, and
    return whether they do."""
    open_chapter(chapter)
    names = {p.relative_to(folder) for folder in
             (chapter.mine, chapter.solution) for p in source_files(folder)}
    differs = False
    for name in sorted(names):
        yours, solution = (
            read_source(folder / name).splitlines()
            if (folder / name).exists() else []
            for folder in (chapter.mine, chapter.solution))
        hidden = [(h.at, h.at + len(h.new)) for h in hunks(chapter)
                  if h.file == str(name) and h.step not in steps]
        shown = replace_places(yours, solution, hidden, others=True)
        for line in difflib.unified_diff(yours, shown, f"yours/{name}",
                                         f"solution/{name}", lineterm=""):
            differs = True
            code = {"+": "32", "-": "31", "@": "36"}.get(line[:1])
            print(screen.paint(line, code) if code else line)
    if not differs and steps:
        what = chapter.number if len(steps) == len(chapter.steps) else \
            ", ".join(sorted(steps))
        print(f"yours is the solution of {what}, to the letter")
    return differs


def reset(chapter: Chapter, step: str | None = None) -> None:
    """Bring the starter back, or its lines of one step. What was there is kept, and
    where is said."""
    keep(chapter, step)
    open_chapter(chapter)
    if step is None:
        print(f"my/{chapter.name} is the starter again")
        return
    for name, lines in exchange(chapter, step, chapter.exercise).items():
        write_file(chapter.mine / name, "".join(
            line for line in lines if line.strip() != mark_of_given(name, step)))
        print(f"Step {step} of my/{chapter.name}/{name} is the starter's again")


def give(chapter: Chapter, step: str) -> None:
    """Write the solution's lines of a step into the learner's files, with a mark that
    says so. What was there is kept, and where is said."""
    keep(chapter, step)
    open_chapter(chapter)
    for name, lines in exchange(chapter, step, chapter.solution).items():
        mark = mark_of_given(name, step)
        text = "".join(lines)
        if mark not in map(str.strip, lines):
            text += "\n" * (text[-1:] != "\n") + mark + "\n"
        write_file(chapter.mine / name, text)
        print(f"Step {step} of my/{chapter.name}/{name} is the solution's")


def mark_of_given(name: str, step: str) -> str:
    """Return the comment that stands at the end of a file in which a step was given."""
    comment = "//" if Path(name).suffix in (".h", ".cpp", ".cu") else "#"
    return f"{comment} {step} was given"


def find_given(folder: Path) -> set[str]:
    """Return the steps that were given in an implementation."""
    return {step for path in source_files(folder)
            if path.stat().st_size <= SOURCE_BYTES
            for step in re.findall(r"^(?://|#) (\d\d\.\d) was given\s*$",
                                   read_source(path), re.M)}


def exchange(chapter: Chapter, step: str, folder: Path) -> dict[str, list[str]]:
    """Return the lines of the learner's files with those of a step as they are in
    `folder`, the exercise or the solution."""
    places: dict[str, list[tuple[int, int]]] = {}
    for hunk in hunks(chapter):
        if hunk.step == step:
            places.setdefault(hunk.file, []).append(
                (hunk.begin, hunk.end) if folder == chapter.exercise
                else (hunk.at, hunk.at + len(hunk.new)))
    found = {}
    for name, there in sorted(places.items()):
        other, yours = (
            (at / name).read_text(encoding="utf-8", errors="surrogateescape")
            .splitlines(keepends=True) for at in (folder, chapter.mine))
        found[name] = replace_places(yours, other, there)
    return found


def keep(chapter: Chapter, step: str | None) -> None:
    """Move the learner's files into my/.backup, or copy them there if it is for one
    step."""
    kept = MINE / ".backup" / f"{chapter.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    for folder in (MINE, kept.parent, chapter.mine):
        refuse_odd_folder(folder)
    if step:
        refuse_odd_files(chapter, chapter.mine)
    if not chapter.mine.exists():
        return
    kept.parent.mkdir(parents=True, exist_ok=True)
    while kept.exists():
        kept = kept.with_name(kept.name + "+")
    if step or has_relative_link(chapter.mine) or not moved(chapter.mine, kept):
        keep_copy(chapter.mine, kept)
        if not step:
            remove(chapter.mine)
    print(f"Yours is kept in {kept.relative_to(MINE.parent)}")


def has_relative_link(folder: Path) -> bool:
    """Return whether the folder is, or holds, a link that would lead elsewhere from
    another place."""
    return any(path.is_symlink() and not path.readlink().is_absolute()
               for path in (folder, *folder.rglob("*")))


def moved(folder: Path, kept: Path) -> bool:
    """Move a folder, and return True; or False where it can only be copied: to another
    disk, and in a container if it is a part of its image."""
    try:
        folder.rename(kept)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        return False
    return True


def remove(folder: Path) -> None:
    """Remove a folder, or a link to one: what it leads to stays."""
    if folder.is_symlink():
        folder.unlink()
    else:
        shutil.rmtree(folder)


def keep_copy(folder: Path, kept: Path) -> None:
    """Copy a folder whole or not at all. Of a link the copy has the file that it
    leads to, or the link if that is not there."""
    part = kept.with_name(kept.name + ".part")
    paths = list(folder.rglob("*"))
    for path in paths:
        refuse_special(path)
    try:
        shutil.copytree(folder, part, ignore=lambda place, names: {
            name for name in names if leads_nowhere(Path(place, name))})
        for path in filter(leads_nowhere, paths):
            (part / path.relative_to(folder)).symlink_to(path.readlink())
        part.rename(kept)
    finally:
        shutil.rmtree(part, ignore_errors=True)
