"""The owners after a call, as the facts of libtorch tell them on a version."""

import os
import subprocess
from xml.etree import ElementTree

from base.project import BUILD

TEST = BUILD / "release/tests/libtorch_facts_test"


def facts(**environment: str) -> dict:
    """Return what the test notes, each as "what: value"."""
    done = subprocess.run(
        [TEST, "--reporters=xml"], check=True,
        capture_output=True, env={**os.environ, **environment})
    notes = ElementTree.fromstring(done.stdout).findall(".//Message/Text")
    texts = [(note.text or "").strip() for note in notes]  # also what others remark
    found = dict(text.rsplit(": ", 1) for text in texts if ": " in text)
    return {"libtorch": found.pop("libtorch"), "facts": found}
