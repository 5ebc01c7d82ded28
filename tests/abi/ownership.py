"""The owners after a call, as the test of chapter 03 finds them on a libtorch."""

import os
import subprocess
from xml.etree import ElementTree

from base.project import BUILD

TEST = BUILD / "release/tests/03_stack_conventions_test"
LIBRARY = BUILD / "release/solutions/03_stack_conventions/libprobe.so"


def facts(**environment: str) -> dict:
    """Return what the test notes, each as "what: value"."""
    done = subprocess.run(
        [TEST, f"--library={LIBRARY}", "--reporters=xml"], check=True,
        capture_output=True, env={**os.environ, **environment})
    notes = ElementTree.fromstring(done.stdout).findall(".//Message/Text")
    found = dict((note.text or "").strip().rsplit(": ", 1) for note in notes)
    return {"libtorch": found.pop("libtorch"), "facts": found}
