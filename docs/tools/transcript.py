"""Records a learner's first five minutes: the real ./workbook of a fresh clone
in a pseudo-terminal, one edit, the verdict, a hint and the list.

    TORCH_ROOT=... .venv/bin/python docs/tools/transcript.py

Writes docs/pictures/first_five_minutes.txt and, with rich (pip install rich),
workbook.svg beside it. Paths and figures of the machine are left out."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pexpect

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs/pictures"
CHAPTER = "00_first_extension"
FILE = "first_extension.cpp"
EDIT = """\
    out[i] = in[i] / (1 + std::exp(-in[i]));
"""
READY = "q quit"


def until(terminal: pexpect.spawn, text: str) -> str:
    """What it prints up to the line with `text`, this one included."""
    terminal.expect(re.escape(text) + r"[^\n]*\n")
    return terminal.before + terminal.after


def todo(clone: Path) -> str:
    """The line of the starter that the learner replaces."""
    lines = (clone / "my" / CHAPTER / FILE).read_text().splitlines(True)
    found = [line for line in lines if "TODO(00.1)" in line]
    if len(found) != 1:
        sys.exit(f"{FILE} has {len(found)} lines with TODO(00.1), expected 1")
    return found[0]


def record(clone: Path) -> list[tuple[str, str]]:
    """Scenes: what the learner does, and what the tool prints then."""
    left = ("NO_COLOR", "VIRTUAL_ENV")
    terminal = pexpect.spawn(
        "./workbook", cwd=str(clone), encoding="utf-8", timeout=600,
        dimensions=(40, 80), env={
            **{k: v for k, v in os.environ.items() if k not in left},
            "TERM": "xterm-256color"})
    scenes = [("$ ./workbook", until(terminal, READY))]
    file = clone / "my" / CHAPTER / FILE
    old = todo(clone)
    file.write_text(file.read_text().replace(old, EDIT))
    changed = "".join(f"-{line}\n" for line in old.splitlines()) + \
        "".join(f"+{line}\n" for line in EDIT.splitlines())
    scenes.append((f"# in the editor: my/{CHAPTER}/{FILE}, saved\n{changed}",
                   until(terminal, READY)))
    for key, what, last in (("h", "hint", "More: "), ("l", "list", "Edit "),
                            ("q", "quit", "Go on with")):
        terminal.send(key)
        scenes.append((f"# key {key}: {what}", until(terminal, last)))
    terminal.close()
    return scenes


def tidy(text: str, clone: Path) -> str:
    """As a screen shows it, without what is the machine's: paths and times."""
    text = "\n".join(line.rstrip("\r").rpartition("\r")[2]
                     for line in text.split("\n"))
    for path, name in ((str(clone.resolve()), "~/workbook"),
                       (str(clone), "~/workbook"),
                       (os.environ.get("TORCH_ROOT") or "\0", "~/libtorch")):
        text = text.replace(path, name)
    for figure, name in ((r"\d\d:\d\d:\d\d", "hh:mm:ss"),
                         (r"\d+\.\d s\b", "#.# s")):
        text = re.sub(figure, name, text)
    return text


def plain(text: str) -> str:
    return re.sub(r"\033\[[\d;]*[A-Za-z]| +$", "", text, flags=re.M)


def transcript(scenes: list[tuple[str, str]], clone: Path) -> str:
    return "\n".join(f"{did.rstrip()}\n{plain(tidy(said, clone)).rstrip()}\n"
                     for did, said in scenes)


def picture(scenes: list[tuple[str, str]], clone: Path) -> str:
    """The edit and its verdict, in colour."""
    from rich.console import Console
    from rich.terminal_theme import MONOKAI
    from rich.text import Text
    console = Console(record=True, width=80, file=open(os.devnull, "w"),
                      force_terminal=True, color_system="truecolor",
                      highlight=False)
    start = tidy(scenes[0][1], clone)
    console.print("[bold]~/workbook $[/bold] ./workbook")
    console.print(Text.from_ansi(start[start.index("\nNow yours"):].strip()))
    did, said = scenes[1]
    heading, *lines = did.strip().splitlines()
    console.print(f"\n[dim]{heading}[/dim]")
    for line in lines:
        console.print(Text(line, style="red" if line[0] == "-" else "green"))
    console.print(Text.from_ansi(tidy(said, clone).strip()))
    text = console.export_svg(title="./workbook", theme=MONOKAI,
                              unique_id="workbook")
    # The fonts would come from a network; a system's own will do.
    text = re.sub(r"@font-face \{.*?\}\s*", "", text, flags=re.S)
    return text.replace("Fira Code", "ui-monospace, Menlo, Consolas")


def main() -> int:
    if not os.environ.get("TORCH_ROOT"):
        sys.exit("TORCH_ROOT must name a torch folder or an unpacked libtorch, "
                 "so that nothing is downloaded")
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "workbook"
        subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
        scenes = record(clone)
        PICTURES.mkdir(parents=True, exist_ok=True)
        (PICTURES / "first_five_minutes.txt").write_text(
            transcript(scenes, clone))
        try:
            (PICTURES / "workbook.svg").write_text(picture(scenes, clone))
        except ImportError:
            sys.exit("the transcript is written; the picture needs rich: "
                     "pip install rich")
    return 0


if __name__ == "__main__":
    sys.exit(main())
