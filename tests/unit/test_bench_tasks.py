"""The arithmetic and the checks of bench/tasks.py. The libraries it compares need not be there."""

import dataclasses
from typing import Any

import pytest

from bounded import cost, memory, runs
from bounded.runs import Run, median_ratio, mistakes, tasks_for
from bounded.spy import Seen, Spy
from bounded.ways import AMAP, AS_COMPLETED, FLOOR, GATHER, LIBRARIES, OPTIONS, WAYS, Way, named, recipes
from bounded.workloads import AT_ONCE, SLEEPS, YIELDS
from support.virtual_clock import run_on_virtual_clock

SEEN = Seen(tasks=400, finished=400, each_once=True, order="completion", most_running=100, most_taken=101)


def run(way: Way, round_: int, us: float, **other: Any) -> Run:
    found: dict[str, Any] = {"workload": YIELDS, "limit": 100, "tasks": 1_000, "cpu_us_per_task": us} | other
    return Run(way=way.name, round=round_, **found)


def test_a_ratio_pairs_the_runs_of_each_round() -> None:
    # each round finds another machine; the ratio of the medians would be 20 / 10
    made = [run(AMAP, 1, 20), run(AMAP, 2, 12), run(AMAP, 3, 300)]
    made += [run(FLOOR, 1, 5), run(FLOOR, 2, 10), run(FLOOR, 3, 100)]
    assert 3 == median_ratio(made, AMAP, FLOOR)


def test_wrong_runs_have_no_part_in_a_ratio() -> None:
    made = [run(AMAP, 1, 9, wrong="lost"), run(FLOOR, 1, 1), run(AMAP, 2, 4), run(FLOOR, 2, 2)]
    assert 2 == median_ratio(made, AMAP, FLOOR)
    assert median_ratio(made[:2], AMAP, FLOOR) is None


def test_a_run_lasts_as_long_for_a_slow_candidate_as_for_a_fast_one() -> None:
    slow = Way(name="slow", where="", guess_per_s=10_000)
    fast = Way(name="fast", where="", guess_per_s=100_000)
    assert [5_000, 50_000] == [tasks_for(way, YIELDS, 100, 0.5) for way in (slow, fast)]
    assert 17_000 == tasks_for(fast, SLEEPS, 100, 0.5)
    # and never so short that its beginning and its end are all there is
    assert 5_000 == tasks_for(slow, YIELDS, 1_000, 0.01)


def test_a_candidate_is_checked_for_what_it_promises() -> None:
    assert [] == mistakes(AMAP, 100, SEEN)
    assert ["101 tasks ran at once"] == mistakes(AMAP, 100, dataclasses.replace(SEEN, most_running=101))
    assert ["not every result was handed out once"] == mistakes(AMAP, 100, dataclasses.replace(SEEN, each_once=False))
    assert ["399 of 400 tasks ran to their end"] == mistakes(FLOOR, 100, dataclasses.replace(SEEN, finished=399))
    assert ["results came in the order of neither, not of completion"] == mistakes(
        AS_COMPLETED, 100, dataclasses.replace(SEEN, order="neither")
    )
    assert ["results came in the order of completion, not of input"] == mistakes(OPTIONS[0], 100, SEEN)


def test_a_candidate_is_not_checked_for_what_it_does_not_promise() -> None:
    unbounded = LIBRARIES[-1]
    assert "anyio amap" == unbounded.name
    assert [] == mistakes(unbounded, 100, dataclasses.replace(SEEN, most_running=400))
    assert [] == mistakes(GATHER, 100, dataclasses.replace(SEEN, order="input"))
    assert [] == mistakes(FLOOR, 100, dataclasses.replace(SEEN, order="dropped", each_once=False))


# not limited_as_completed of 2017: it never lets the loop wait, and so time never passes
@pytest.mark.parametrize(
    ("way", "most_taken", "order"),
    [
        ("floor", 10, "dropped"),
        ("fixed_workers", 10, "completion"),
        ("semaphore_and_gather", 60, "input"),
        ("wait_refill", 10, "completion"),
        ("task_group_and_semaphore", 11, "completion"),
    ],
)
def test_the_spy_sees_what_each_recipe_does(way: str, most_taken: int, order: str) -> None:
    expected = Seen(
        tasks=60, finished=60, each_once=order != "dropped", order=order, most_running=10, most_taken=most_taken
    )
    assert expected == run_on_virtual_clock(Spy(60).watch(getattr(recipes, way), 10))


def test_every_target_says_whether_it_was_met_or_not_measured() -> None:
    made = [run(FLOOR, 1, 10), run(AMAP, 1, 11.9), run(AS_COMPLETED, 1, 12.1), run(LIBRARIES[0], 1, 60)]
    made += [run(FLOOR, 1, 10, workload=AT_ONCE), run(AMAP, 1, 13.9, workload=AT_ONCE)]
    found = {target.promise: target for target in cost.targets(made, [100])}
    met = {promise: target.met for promise, target in found.items() if target.measured is not None}
    assert met == {
        "headgate as_completed / the floor, yields once, limit 100: at most 1.2 times": False,
        "headgate amap / the floor, yields once, limit 100: at most 1.2 times": True,
        "headgate amap / the floor, returns at once, limit 100: at most 1.4 times": True,
        "aiometer amap / headgate as_completed, the lowest of all: at least 5": False,
        "aiometer amap / headgate amap, the lowest of all: at least 5": True,
    }
    assert 12 == len(found)


def test_beside_a_library_the_lowest_ratio_counts() -> None:
    made = [run(AMAP, 1, 10), run(LIBRARIES[0], 1, 100)]
    made += [run(AMAP, 1, 10, workload=AT_ONCE), run(LIBRARIES[0], 1, 49, workload=AT_ONCE)]
    target = next(
        target for target in cost.targets(made, [100]) if target.promise.startswith("aiometer amap / headgate amap")
    )
    assert 4.9 == target.measured
    assert not target.met


def test_growth_is_that_of_the_rounds() -> None:
    made = [run(AMAP, round_, 1, tasks=10, peak_rss_bytes=mb * 1_000_000) for round_, mb in ((1, 20), (2, 30), (3, 20))]
    made += [
        run(AMAP, round_, 1, tasks=1_000, peak_rss_bytes=mb * 1_000_000) for round_, mb in ((1, 21), (2, 32), (3, 29))
    ]
    assert 2 == memory.growth_mb(made, AMAP, 10, 1_000)


def test_every_candidate_has_a_name_of_its_own() -> None:
    everyone = (*WAYS, *OPTIONS)
    assert list(everyone) == [named(way.name) for way in everyone]


def test_a_candidate_without_its_library_says_how_to_get_it() -> None:
    way = Way(name="x", where="x.run", guess_per_s=1, package="no_such_library")
    assert "no package no_such_library; run: pip install -r requirements/bench.txt" == way.missing()
    assert FLOOR.missing() is None


def test_runs_that_do_not_count_are_listed() -> None:
    made = [run(AMAP, 1, 1), run(AMAP, 2, 1, wrong="the sum of the results is 1, not 2")]
    assert ["headgate amap, yields once, limit 100, round 2: the sum of the results is 1, not 2"] == runs.wrong_list(
        made
    )
    assert "**1 of 2 WRONG**" in runs.cost_table(made, [AMAP], FLOOR)
