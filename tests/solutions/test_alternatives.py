"""Another correct solution of each chapter passes too."""

import pytest

from support import Implementation
from workbook.project import ROOT, read_toml
from workbook.sheets import chapters

CHANGES = read_toml(ROOT / "tests/solutions/alternatives.toml")["change"]


@pytest.mark.full
@pytest.mark.parametrize("chapter", chapters(), ids=lambda c: c.number)
def test_alternative_passes(chapter):
    mine = Implementation(chapter).copy_of(chapter.solution)
    changes = [c for c in CHANGES if c["file"].startswith(chapter.name + "/")]
    assert changes
    for change in changes:
        mine.replace(change["file"].split("/", 1)[1], change["old"],
                     change["new"])
    verdict = mine.check()
    assert verdict.passed, verdict
