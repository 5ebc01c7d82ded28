"""The statistic of all benchmarks, on times made by hand."""

import json

import pytest

from learn import ratios
from learn.ratios import Member, Sample


def run(name, label, *, index=0, **more):
    """Return a repetition as Google Benchmark's JSON has it."""
    return {"name": name, "run_name": name, "family_index": index,
            "run_type": "iteration", "real_time": 0.0, "time_unit": "ns",
            "label": label, "bytes": 3e3, "libtorch_threads": 2.0, **more}


def timed(member, role, index, at, nanoseconds):
    return run(f"dram/float/{member}/min_time:0.002/real_time",
               f"{role} | float | 4 x 8 | cold", index=index, at=at,
               real_time=nanoseconds)


MEASURED = {
    "context": {
        "host_name": "a-host", "executable": "/home/somebody/bench",
        "compiler": "clang++ 14.0.6 ",
        "libtorch": "2.13.1", "headers": "2.13.0", "target": "2.10.0"},
    "benchmarks": [  # in the order in which they were done
        timed("solution", "subject", 1, 1.1, 20),
        timed("solution", "subject", 1, 3.1, 60),
        timed("xor", "floor", 0, 1.0, 10), timed("xor", "floor", 0, 2.0, 12),
        timed("xor", "floor", 0, 3.0, 20),
        {**timed("xor", "floor", 0, 2.0, 14), "run_type": "aggregate"}]}


def test_a_repetition_is_divided_by_the_floor_nearest_in_time():
    floor = [Sample(1, 10), Sample(5, 20)]
    assert ratios.pair([Sample(2, 30), Sample(4, 30)], floor) == [3, 1.5]


def test_the_floor_is_divided_by_its_nearest_other_repetition():
    floor = [Sample(1, 10), Sample(2, 20), Sample(9, 40)]
    assert ratios.pair(floor, floor) == [0.5, 2, 2]
    assert ratios.pair(floor[:1], floor[:1]) == [1]


def test_median_and_quartiles_of_a_drifting_machine():
    """Twice as slow in the end: so is the floor, and the ratio stays."""
    floor = Member("xor", "floor", [Sample(t, 1 + t) for t in range(5)], {})
    mine = Member("solution", "subject",
                  [Sample(t + 0.1, 3 * (1 + t)) for t in range(5)], {})
    found = ratios.summary(mine, floor)
    assert (found["low"], found["ratio"], found["high"]) == (3, 3, 3)
    assert (found["seconds"], found["repetitions"]) == (9, 5)
    mine.samples[0] = Sample(0.1, 60)  # an outlier moves neither
    found = ratios.summary(mine, floor)
    assert (found["low"], found["ratio"], found["high"]) == (3, 3, 3)


def test_groups_of_google_benchmarks_json():
    (group,) = ratios.groups(MEASURED)
    assert {k: v for k, v in group.items() if k != "members"} == {
        "name": "dram/float", "dtype": "float", "shape": "4 x 8",
        "cache": "cold", "bytes": 3000, "threads": 2, "floor_gb_per_s": 250}
    floor, solution = group["members"]
    assert (floor["name"], floor["role"], floor["repetitions"]) == \
        ("xor", "floor", 3)
    assert solution == {
        "name": "solution", "role": "subject", "ratio": 2.5, "low": 2.25,
        "high": 2.75, "repetitions": 2, "seconds": 4e-8}


def test_counted_instructions_are_divided_as_they_are():
    def counted(member, role, index, **places):
        return run(f"instructions/call/{member}/iterations:1/repeats:1",
                   f"{role} |  | 2 tensors | warm", index=index, **{
                       f"instructions/{k}": v for k, v in places.items()})
    failed = counted("no valgrind", "peer", 2) | {"error_occurred": True}
    (group,) = ratios.groups({"benchmarks": [
        counted("floor", "floor", 0, op=100.0),
        counted("by hand", "peer", 1, op=100.0, libtorch=50.0), failed]})
    assert (group["name"], group["dtype"]) == ("instructions/call", "")
    assert [m["name"] for m in group["members"]] == ["floor", "by hand"]
    assert group["members"][1] == {
        "name": "by hand", "role": "peer", "ratio": 1.5, "low": 1.5,
        "high": 1.5, "repetitions": 1, "seconds": 0,
        "instructions": {"op": 100.0, "libtorch": 50.0}}
    assert "instructions: op 100, libtorch 50\n" in ratios.table(group)


def test_nothing_names_the_machine():
    text = json.dumps([ratios.software(MEASURED), ratios.groups(MEASURED)])
    assert "a-host" not in text and "somebody" not in text
    assert ratios.software(MEASURED) == {
        "compiler": "clang++ 14.0.6", "libtorch": "2.13.1", "headers": "2.13",
        "target": "2.10"}


@pytest.mark.parametrize("appended", [
    "/min_time:0.002/real_time", "/min_time:0.002/repeats:12/real_time",
    "/iterations:1/repeats:1"])
def test_names_without_what_google_benchmark_appends(appended):
    assert ratios.name_of(f"time/call/ops.h, a C shim{appended}") == \
        ("time/call", "ops.h, a C shim")
    assert ratios.group_names(
        f"a warning/of a library\na/b{appended}\na/c{appended}\nd/e{appended}\n"
        ) == ["a", "d"]


def test_a_table_and_a_line_of_json_for_each_member():
    (group,) = ratios.groups(MEASURED)
    assert ratios.table(group) == """
dram/float: float 4 x 8, cold cache, 2 threads, 0.003 MB
floor: the same bytes moved, 250.0 GB/s
                                     ratio         quartiles     GB/s  repeats
  xor                     floor       1.20     1.02     1.43    250.0        3
  solution                subject     2.50     2.25     2.75     75.0        2
"""
    result = {"schema": 1, "groups": [group]}
    assert json.loads(ratios.text(result)) == result
    assert len(ratios.text(result).splitlines()) == 1 + 1 + 2
