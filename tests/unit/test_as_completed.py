"""What `as_completed` starts, when, and in what order it gives what is done."""

import asyncio
import heapq
from itertools import count

import pytest

from headgate import as_completed, limited_as_completed
from support.faces import Collect, either_face, now_s
from support.quiet import Spy, run_quietly


def ends_of_sleepers(seconds: list[float], limit: int) -> list[tuple[float, int]]:
    """When each of some sleepers ends, and which one it is, if the next starts whenever one ends."""
    ends: list[tuple[float, int]] = []
    running: list[float] = []
    for index, duration_s in enumerate(seconds):
        began_s = heapq.heappop(running) if len(running) == limit else 0.0
        heapq.heappush(running, began_s + duration_s)
        ends.append((began_s + duration_s, index))
    return sorted(ends)


@either_face
async def test_a_hundred_sleepers_of_one_nth_of_a_second_ten_at_once(spy: Spy, collect: Collect) -> None:
    coroutines = (spy.sleep(n, 1 / n) for n in range(1, 101))
    results, took_s = await collect(coroutines, limit=10), now_s()
    assert pytest.approx(1.0) == took_s
    assert [10, 9, 8, 7, 6, 11, 12, 5] == results[:8]
    assert 1 == results[-1]
    assert list(range(1, 101)) == sorted(results)
    assert 10 == spy.peak


@either_face
async def test_the_sleepers_come_when_they_are_due(collect: Collect) -> None:
    durations_s = [1 / n for n in range(1, 101)]
    came_s: list[float] = []

    async def sleep(duration_s: float) -> None:
        await asyncio.sleep(duration_s)
        came_s.append(now_s())

    await collect(map(sleep, durations_s), limit=10)
    assert [pytest.approx(end_s) for end_s, _ in ends_of_sleepers(durations_s, 10)] == came_s


def test_the_first_name_gives_awaitables_of_the_results_in_order_of_completion() -> None:
    async def main() -> list[int]:
        coroutines = (spy.sleep(n, 1 / n) for n in range(1, 8))
        return [await awaitable for awaitable in limited_as_completed(coroutines, 3)]

    spy = Spy()
    ends = ends_of_sleepers([1 / n for n in range(1, 8)], 3)
    assert [index + 1 for _, index in ends] == run_quietly(main())
    assert 3 == spy.peak


@either_face
@pytest.mark.parametrize("limit", [1, 2, 7, 20, 21, 1000])
def test_the_limit_is_reached_and_never_passed(collect: Collect, limit: int) -> None:
    spy = Spy()
    results = run_quietly(collect((spy.sleep(n, 1 + n % 3) for n in range(20)), limit=limit))
    assert list(range(20)) == sorted(results)
    assert min(limit, 20) == spy.peak


@either_face
def test_with_a_limit_of_one_they_run_one_after_another(collect: Collect) -> None:
    spy = Spy()
    assert [0, 1, 2, 3] == run_quietly(collect((spy.sleep(n, 4 - n) for n in range(4)), limit=1))


async def test_the_next_one_starts_when_one_is_done_and_not_when_it_is_collected(spy: Spy) -> None:
    async with as_completed((spy.sleep(n, 1 + n) for n in range(6)), limit=2) as futures:
        await asyncio.sleep(0.5)
        assert [0, 1] == spy.started
        await asyncio.sleep(1)
        assert [0, 1, 2] == spy.started
        assert [0, 1, 2, 3, 4, 5] == [future.result() async for future in futures]


@pytest.mark.parametrize(("limit", "buffer", "started"), [(2, None, 4), (2, 0, 2), (2, 1, 3), (2, 5, 7), (3, 0, 3)])
async def test_a_loop_that_collects_nothing_stops_the_starts(
    spy: Spy, limit: int, buffer: int | None, started: int
) -> None:
    async with as_completed((spy.sleep(n) for n in count()), limit=limit, buffer=buffer) as futures:
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


@either_face
def test_without_a_buffer_nothing_is_lost(collect: Collect) -> None:
    spy = Spy()
    assert list(range(10)) == sorted(run_quietly(collect((spy.sleep(n) for n in range(10)), limit=3, buffer=0)))
    assert 3 == spy.peak


async def test_async_for_takes_nothing_ahead_of_what_runs(spy: Spy) -> None:
    async for _ in as_completed((spy.sleep(n, 1 + n % 2) for n in range(30)), limit=4):
        await asyncio.sleep(0)  # what was made a task has run its first step
        assert len(spy.made) == len(spy.started)
    assert 30 == len(spy.returned)


async def test_a_plain_for_takes_one_ahead_of_what_runs_when_it_must_know_whether_there_is_one(spy: Spy) -> None:
    awaitables = iter(as_completed((spy.sleep(n) for n in range(30)), limit=4))
    promised = [next(awaitables) for _ in range(4)]
    assert (4, 0) == (len(spy.made), len(spy.started))
    promised.append(next(awaitables))
    assert 5 == len(spy.made)
    assert 5 == len([await awaitable for awaitable in promised])
    assert 25 == len([await awaitable for awaitable in awaitables])
    assert 4 == spy.peak


async def test_nothing_is_taken_before_the_loop_begins(spy: Spy) -> None:
    futures = as_completed((spy.sleep(n) for n in count()), limit=3)
    await asyncio.sleep(1000)
    assert [] == spy.made
    await anext(futures)
    assert [0, 1, 2, 3, 4, 5] == spy.made  # three ran, and each was followed by the next
    await futures.aclose()


async def test_as_completed_can_be_made_where_no_loop_runs(spy: Spy) -> None:
    futures = as_completed([spy.sleep(n) for n in range(3)], limit=2)
    assert [0, 1, 2] == [future.result() async for future in futures]


@pytest.mark.parametrize("is_plain", [False, True])
async def test_an_input_without_end_can_be_left(spy: Spy, is_plain: bool) -> None:
    results = []
    futures = as_completed((spy.sleep(n) for n in count()), limit=3)
    async with futures:
        if is_plain:
            for awaitable in futures:
                results.append(await awaitable)
                if len(results) == 10:
                    break
        else:
            async for future in futures:
                results.append(future.result())
                if len(results) == 10:
                    break
    assert 0 == spy.running
    assert list(range(10)) == results
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
