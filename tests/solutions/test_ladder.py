"""For every k: the starter with the hunks 1 ... k passes the steps 1 ... k and
stops at step k + 1 by its TODO, not by a crash."""

import pytest

from base.hunks import starter_with
from base.sheets import chapters
from support import Implementation

QUICK = chapters()[:5]  # of these the first rung is tried without --full, too
RUNGS = [(chapter, done) for chapter in chapters() for done in
         [*[""] * (chapter not in QUICK), *(step.id for step in chapter.steps)]]


def climb(chapter, done):
    mine = Implementation(chapter).become(starter_with(chapter, done))
    verdict = mine.check()
    assert verdict.passed_up_to(done), verdict
    following = [s.id for s in chapter.steps if s.id > done]
    if following:
        assert (verdict.kind, verdict.step) == ("todo", following[0]), verdict
        assert f"TODO({following[0]})" in verdict.message[0]
    else:
        assert verdict.passed, verdict


@pytest.mark.parametrize("chapter", QUICK, ids=lambda c: c.number)
def test_untouched_starter_stops_at_its_first_step(chapter):
    climb(chapter, "")


@pytest.mark.full
@pytest.mark.parametrize(
    "chapter, done", RUNGS,
    ids=lambda x: x if isinstance(x, str) else x.number)
def test_ladder(chapter, done):
    climb(chapter, done)
