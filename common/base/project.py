"""The folders of the workbook, and reading a learner's file."""

from pathlib import Path

from torch_stable_abi.programs import CannotRun

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
MINE = ROOT / "my"


SOURCE_BYTES = 2**24  # a file that is larger is no source


def read_source(path: Path) -> str:
    """Return the text of a learner's file, to look at. Bytes that are no UTF-8, such as
    those of a Latin-1 comment, become U+FFFD. Raise CannotRun if it is too large."""
    if path.stat().st_size > SOURCE_BYTES:
        raise CannotRun(f"{path} has more than {SOURCE_BYTES >> 20} MiB, which no "
                        "source has: take it away")
    return path.read_text(encoding="utf-8", errors="replace")
