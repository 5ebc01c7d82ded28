"""Another correct solution of each chapter passes too: tests/alternatives.toml."""

import pytest
from conftest import ROOT, Implementation
from workspace import chapters

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib

CHANGES = tomllib.loads((ROOT / "tests/alternatives.toml").read_text())["change"]


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
    assert verdict["class"] == "pass", verdict
