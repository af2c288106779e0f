"""When `as_completed` starts awaitables, and in what order it yields results."""

import asyncio
import heapq
from itertools import count

import pytest

from headgate import as_completed, limited_as_completed
from support.as_completed import Collect, Take, now_s, taking_from_either_iterator, with_either_iterator
from support.quiet import Source, Spy, run_quietly


def ends_of_sleepers(seconds: list[float], limit: int) -> list[tuple[float, int]]:
    """Returns when each sleeper ends, and its name, if the next one starts whenever one ends."""
    ends: list[tuple[float, int]] = []
    running: list[float] = []
    for index, duration_s in enumerate(seconds):
        began_s = heapq.heappop(running) if len(running) == limit else 0.0
        heapq.heappush(running, began_s + duration_s)
        ends.append((began_s + duration_s, index))
    return sorted(ends)


@with_either_iterator
async def test_a_hundred_sleepers_of_one_nth_of_a_second_ten_at_once_come_when_they_are_due(
    spy: Spy, collect: Collect
) -> None:
    async def sleep(n: int) -> tuple[float, int]:
        await spy.sleep(n, 1 / n)
        return now_s(), n - 1

    ends = ends_of_sleepers([1 / n for n in range(1, 101)], 10)
    came = await collect(map(sleep, range(1, 101)), limit=10)
    assert [index for _, index in ends] == [index for _, index in came]
    assert [pytest.approx(end_s) for end_s, _ in ends] == [came_s for came_s, _ in came]
    assert ([10, 9, 8, 7, 6, 11, 12, 5], 1) == (spy.returned[:8], spy.returned[-1])
    assert pytest.approx(1.0) == now_s()
    assert 10 == spy.peak


async def test_the_first_name_gives_awaitables_of_the_results_in_order_of_completion(spy: Spy) -> None:
    coroutines = (spy.sleep(n, 1 / n) for n in range(1, 8))
    came = [await awaitable for awaitable in limited_as_completed(coroutines, 3)]
    assert [index + 1 for _, index in ends_of_sleepers([1 / n for n in range(1, 8)], 3)] == came
    assert 3 == spy.peak


@with_either_iterator
@pytest.mark.parametrize("limit", [1, 2, 7, 20, 21, 1000])
def test_the_limit_is_reached_and_never_passed(collect: Collect, limit: int) -> None:
    spy = Spy()
    results = run_quietly(collect((spy.sleep(n, 1 + n % 3) for n in range(20)), limit=limit))
    assert list(range(20)) == sorted(results)
    assert min(limit, 20) == spy.peak


@pytest.mark.parametrize(("limit", "buffer", "started"), [(2, None, 4), (2, 0, 2), (2, 1, 3), (2, 5, 7), (3, 0, 3)])
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_loop_that_collects_nothing_stops_the_starts(
    spy: Spy, limit: int, buffer: int | None, started: int, *, is_async: bool
) -> None:
    aws = Source(spy) if is_async else (spy.sleep(n) for n in count())
    async with as_completed(aws, limit=limit, buffer=buffer) as futures:
        await asyncio.sleep(1000)
        assert started == len(spy.started) == len(spy.made) == len(spy.returned)
        for collected in range(1, 4):
            await anext(futures)
            await asyncio.sleep(1000)
            assert started + collected == len(spy.started) == len(spy.made)
    assert limit == spy.peak


async def test_a_plain_loop_that_is_slow_stops_the_starts_too(spy: Spy) -> None:
    futures = as_completed((spy.sleep(n) for n in range(20)), limit=2, buffer=1)
    for collected, awaitable in enumerate(futures, start=1):
        await awaitable
        await asyncio.sleep(1000)
        assert min(20, collected + 3) == len(spy.started)


async def test_a_plain_for_reads_one_awaitable_ahead_when_it_must_know_whether_there_is_one(spy: Spy) -> None:
    awaitables = iter(as_completed((spy.sleep(n) for n in range(30)), limit=4))
    promised = [next(awaitables) for _ in range(4)]
    assert (4, 0) == (len(spy.made), len(spy.started))
    promised.append(next(awaitables))
    assert 5 == len(spy.made)
    assert 5 == len([await awaitable for awaitable in promised])
    assert 25 == len([await awaitable for awaitable in awaitables])
    assert 4 == spy.peak


async def test_as_completed_can_be_made_where_no_loop_runs(spy: Spy) -> None:
    futures = as_completed([spy.sleep(n) for n in range(3)], limit=2)
    assert [0, 1, 2] == [future.result() async for future in futures]


@taking_from_either_iterator
async def test_an_input_without_end_can_be_left(spy: Spy, take: Take) -> None:
    async with as_completed((spy.sleep(n) for n in count()), limit=3) as futures:
        assert list(range(10)) == await take(futures, 10)
    assert 0 == spy.running
    assert 16 >= len(spy.made)


async def test_its_representation_says_how_far_it_is() -> None:
    futures = as_completed([asyncio.sleep(1), asyncio.sleep(2)], limit=2)
    seen = [repr(futures)]
    async for _future in futures:
        seen.append(repr(futures))  # noqa: PERF401 - one line for each step
    assert [
        "<CompletedFutures: not begun>",
        "<CompletedFutures: 1 running, 0 uncollected>",
        "<CompletedFutures: 0 running, 0 uncollected, over>",
    ] == seen
