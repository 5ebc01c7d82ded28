"""The folders of the workbook, and reading a learner's file."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
MINE = ROOT / "my"


def read_source(path: Path) -> str:
    """Return the text of a learner's file, to look at. Bytes that are no UTF-8, such as
    those of a Latin-1 comment, become U+FFFD."""
    return path.read_text(encoding="utf-8", errors="replace")
