"""For every k: the starter with the hunks 1 ... k passes the steps 1 ... k and
stops at step k + 1 by its TODO, not by a crash."""

import pytest
from conftest import Implementation
from hunks import starter_with, write_tree
from workspace import chapters

RUNGS = [(chapter, step) for chapter in chapters()
         for step in ("", *(s.id for s in chapter.steps))]


@pytest.mark.full
@pytest.mark.parametrize(
    "chapter, done", RUNGS,
    ids=lambda x: x if isinstance(x, str) else x.number)
def test_ladder(chapter, done):
    mine = Implementation(chapter)
    write_tree(mine.folder, starter_with(chapter, done))
    verdict = mine.check()
    following = [s.id for s in chapter.steps if s.id > done]
    assert all(verdict["steps"][s.id] == "pass"
               for s in chapter.steps if s.id <= done), verdict
    if following:
        assert verdict["class"] == "todo", verdict
        assert verdict["step"] == following[0]
        assert f"TODO({following[0]})" in verdict["message"][0]
    else:
        assert verdict["class"] == "pass", verdict


@pytest.mark.parametrize("chapter", chapters(), ids=lambda c: c.number)
def test_untouched_starter_stops_at_its_first_step(chapter):
    mine = Implementation(chapter)
    write_tree(mine.folder, starter_with(chapter, ""))
    verdict = mine.check()
    assert (verdict["class"], verdict["step"]) == ("todo", chapter.steps[0].id)
