"""Every solution, built once, runs on every libtorch since 2.10, and compiles with the
headers of each. With --record, what the pages' tables are made from is written."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

import recording
from base.sheets import chapters
from matrix import Matrix
from torch_stable_abi.libtorch import runtimes
from torch_stable_abi.libtorch.versions import in_order, listed

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def matrix(request):
    found = Matrix(in_order(*listed(), runtimes.installed()))
    record = request.config.getoption("--record")
    assert not (record and found.missing), \
        f"--record is of every version: {found.missing}"
    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        result = found.run(pool)
    if record:
        recording.record(result)
    return found


def test_every_version_is_here(matrix):
    assert matrix.missing == []


@pytest.mark.parametrize("chapter", chapters(), ids=lambda c: c.number)
def test_solution(matrix, chapter):
    assert matrix.problems[chapter.number] == []


def test_what_libtorch_does(matrix):
    assert matrix.problems["facts"] == []


def test_a_bad_schema_is_refused_since_2_13(matrix):
    assert matrix.problems["bad schema"] == []
