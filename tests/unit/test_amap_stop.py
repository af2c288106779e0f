"""`stop()` starts nothing new, delivers what has begun, and returns the items that never started."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import count
from typing import Any

import pytest

from headgate import ConcurrencyLimit, Rate, Retry, amap
from support.as_completed import one
from support.maps import Calls, collected, from_afar, wait_s, wait_that_long


async def test_stop_starts_nothing_new_and_delivers_what_has_begun() -> None:
    async with amap(wait_that_long, count(1), limit=3) as results:
        await asyncio.sleep(0)
        assert ([], [1, 2, 3]) == (results.stop(), [result async for result in results])


async def test_stop_may_be_called_by_the_function_itself_and_twice() -> None:
    async def stop_at_2(item: int) -> int:
        if item == 2:
            results.stop()
            results.stop()
        return item

    results = amap(stop_at_2, count(), limit=1)
    assert [0, 1, 2] == await collected(results)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
async def test_a_map_that_was_stopped_before_it_began_has_no_results(*, is_async: bool, ordered: bool) -> None:
    results = amap(one, from_afar(1) if is_async else [1], limit=2, ordered=ordered)
    assert [] == results.stop()
    assert [] == [result async for result in results]


# -- items that wait to be started


async def test_stop_returns_waiting_items_that_never_started_in_their_order() -> None:
    calls = Calls(10)
    items = ["a1", "a2", "b1", "b2", "a3"]
    async with amap(calls, items, limit=3, key=lambda item: item[0], per_key=1) as results:
        await asyncio.sleep(1)
        unstarted = results.stop()
        delivered, now = [result async for result in results], results.statistics()
    assert (["a2", "b2", "a3"], ["a1", "b1"]) == (unstarted, delivered)
    assert (5, 2, 0, 3, 0) == (now.taken, now.succeeded, now.cancelled, now.unstarted, now.waiting)


@pytest.mark.parametrize("waits_for", [{"rate": Rate(1, per=1000)}, {"limit": ConcurrencyLimit(1)}])
async def test_stop_returns_the_item_that_waits_for_a_limit(waits_for: dict[str, Any]) -> None:
    async with amap(Calls(10), count(), **({"limit": 1} | waits_for)) as results:
        await asyncio.sleep(1)
        unstarted, delivered = results.stop(), [result async for result in results]
    assert [0] == delivered
    assert unstarted in ([], [1])


@pytest.mark.parametrize("key", [{}, {"key": lambda _: 0, "per_key": 1}])
async def test_after_stop_a_retried_item_is_finished_also_behind_one_that_is_returned(
    key: dict[str, Any],
) -> None:
    calls = Calls(failures={0: 1})
    retry, rate = Retry(2, wait_s(1)), Rate(1, per=100)
    async with amap(calls, [0, 1], limit=1, retry=retry, rate=rate, **key) as results:
        await asyncio.sleep(50)
        assert ([1], [0]) == (results.stop(), [result async for result in results])


async def test_stop_returns_an_item_that_was_read_ahead_of_a_limit() -> None:
    given = []

    async def source() -> AsyncIterator[int]:
        for item in range(9):
            await asyncio.sleep(1)
            given.append(item)
            yield item

    async with amap(Calls(0.5), source(), limit=3, rate=Rate(1, per=100)) as results:
        await asyncio.sleep(50)
        unstarted, delivered = results.stop(), [result async for result in results]
    assert given == delivered + unstarted
    assert [0] == delivered


async def test_an_item_that_the_source_yields_after_stopping_the_map_has_its_timeout() -> None:
    def source() -> Iterator[int]:
        yield 0
        results.stop()
        yield 1

    results = amap(asyncio.sleep, source(), limit=1, timeout=0.5, errors="yield")
    assert ["NoneType", "TimeoutError"] == [type(outcome.error).__name__ for outcome in await collected(results)]


async def test_a_cost_that_stops_the_map_gives_its_item_back() -> None:
    calls = Calls()
    unstarted: list[int] = []

    def cost(item: int) -> float:
        if item == 1:
            unstarted.extend(results.stop())
        return 1

    results = amap(calls, range(4), limit=4, rate=Rate(1, burst=4), cost=cost, ordered=True)
    assert [0] == await collected(results)
    assert ([1], [(0, 0)]) == (unstarted, calls.starts)


async def test_an_error_that_stop_brings_to_the_head_ends_the_map() -> None:
    async def work(item: str) -> str:
        if item == "fails":
            raise ValueError
        await asyncio.sleep(10 if item == "x1" else 1000)
        return item

    keys = {"x1": 0, "x2": 0, "fails": 1, "x3": 0}
    seen: list[str] = []
    async with amap(work, keys, limit=4, ordered=True, key=lambda item: keys[item], per_key=1) as results:
        await asyncio.sleep(5)
        unstarted = results.stop()
        with pytest.raises(ValueError, match="raised for the item 'fails'"):  # noqa: PT012 - the results before it come from the same block
            async for result in results:
                seen.append(result)  # noqa: PERF401 - the list is used after the error
    assert (["x2"], ["x1"]) == (unstarted, seen)


async def test_an_error_that_is_at_the_head_when_stop_is_called_ends_the_map() -> None:
    async def work(item: str) -> str:
        if item == "fails":
            raise ValueError
        await asyncio.sleep(0 if item == "first" else 1000)
        return item

    keys = {"first": 0, "held": 0, "fails": 1, "runs": 2, "held too": 0}
    rate = Rate(1, per=1000, burst=3)
    async with amap(work, keys, limit=4, rate=rate, ordered=True, key=lambda item: keys[item], per_key=1) as results:
        assert "first" == await anext(results)
        await asyncio.sleep(1)
        unstarted = results.stop()
        with pytest.raises(ValueError, match="raised for the item 'fails'"):
            await anext(results)
    assert ["held"] == unstarted
