"""Records a learner's first five minutes: the real ./workbook of a fresh clone
in a pseudo-terminal, one edit, the verdict, a hint and the list.

    TORCH_ROOT=... python3 common/workshop/transcript.py

Writes docs/pictures/first_five_minutes.txt and, with rich (pip install rich),
workbook.svg beside it. Paths and figures of the machine are left out."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs/pictures"
CHAPTER = "01_headeronly_types"
FILE = "numerics.h"
EDIT = """\
      STD_TORCH_CHECK(
          false, "dtype must be Float, Half or BFloat16, got ", dtype);
"""
READY = "q quit"


class Terminal:
    """./workbook in a clone, on a terminal of 80 columns."""

    def __init__(self, clone: Path):
        self.text = ""
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            os.chdir(clone)
            environment = {k: v for k, v in os.environ.items()
                           if k not in ("NO_COLOR", "VIRTUAL_ENV")}
            os.execve("./workbook", ["./workbook"],
                      {**environment, "TERM": "xterm-256color"})
        fcntl.ioctl(self.file, termios.TIOCSWINSZ,
                    struct.pack("HHHH", 40, 80, 0, 0))

    def until(self, text: str, seconds: int = 600) -> str:
        """What it prints up to the line with `text`, this one included."""
        end = time.monotonic() + seconds
        while not re.search(re.escape(text) + r".*\n", self.text):
            if time.monotonic() > end:
                sys.exit(f"no {text!r} within {seconds} s in:\n{self.text}")
            if select.select([self.file], [], [], 0.2)[0]:
                try:
                    data = os.read(self.file, 65536)
                except OSError:  # what Linux says when the other end is closed
                    data = b""
                if not data:
                    sys.exit(f"it ended before {text!r}:\n{self.text}")
                self.text += data.decode(errors="replace")
        at = re.search(re.escape(text) + r".*\n", self.text).end()
        seen, self.text = self.text[:at], self.text[at:]
        return seen

    def press(self, key: str) -> None:
        os.write(self.file, key.encode())

    def close(self) -> None:
        os.close(self.file)
        os.waitpid(self.pid, 0)


def todo(clone: Path) -> str:
    """The line of the starter that the learner replaces."""
    lines = (clone / "my" / CHAPTER / FILE).read_text().splitlines(True)
    found = [line for line in lines if "TODO(01.1)" in line]
    if len(found) != 1:
        sys.exit(f"{FILE} has {len(found)} lines with TODO(01.1), expected 1")
    return found[0]


def record(clone: Path) -> list[tuple[str, str]]:
    """Scenes: what the learner does, and what the tool prints then."""
    terminal = Terminal(clone)
    scenes = [("$ ./workbook", terminal.until(READY))]
    file = clone / "my" / CHAPTER / FILE
    old = todo(clone)
    file.write_text(file.read_text().replace(old, EDIT))
    changed = "".join(f"-{line}\n" for line in old.splitlines()) + \
        "".join(f"+{line}\n" for line in EDIT.splitlines())
    scenes.append((f"# in the editor: my/{CHAPTER}/{FILE}, saved\n{changed}",
                   terminal.until(READY)))
    for key, what, last in (("h", "hint", "More: "), ("l", "list", "Edit "),
                            ("q", "quit", "Go on with")):
        terminal.press(key)
        scenes.append((f"# key {key}: {what}", terminal.until(last)))
    terminal.close()
    return scenes


def tidy(text: str, clone: Path) -> str:
    """As a screen shows it, without what is the machine's: paths, times,
    ratios, shapes."""
    text = "\n".join(line.rstrip("\r").rpartition("\r")[2]
                     for line in text.split("\n"))
    for path, name in ((str(clone.resolve()), "~/workbook"),
                       (str(clone), "~/workbook"),
                       (os.environ.get("TORCH_ROOT") or "\0", "~/libtorch")):
        text = text.replace(path, name)
    for figure, name in ((r"\d\d:\d\d:\d\d", "hh:mm:ss"),
                         (r"\d+\.\d s\b", "#.# s"),
                         (r"(measured )\S+( x .*\().*(\))",
                          r"\g<1>#.#\2...\3"),
                         (r"\b\w+ \d+ x \d+, \d+ threads?, \d+ GB/s",
                          "dtype, shape, threads, GB/s of the floor")):
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
