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
    found = dict((note.text or "").strip().rsplit(": ", 1) for note in notes)
    return {"libtorch": found.pop("libtorch"), "facts": found}
