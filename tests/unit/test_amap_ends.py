"""How `amap` ends: its block or loop is left, or it is closed."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from headgate import amap
from support.faces import now_s, one
from support.maps import collected, wait_that_long


async def test_leaving_the_block_cancels_what_runs_and_waits_until_it_has_ended() -> None:
    ended = []

    async def work(item: int) -> int:
        try:
            await asyncio.sleep(item)
        finally:
            await asyncio.sleep(10)
            ended.append(item)
        return item

    async with amap(work, [0, 1000, 2000], limit=3) as results:
        assert 0 == await anext(results)
    assert [0, 1000, 2000] == ended


async def test_a_loop_without_a_block_that_is_left_cancels_what_runs() -> None:
    ended = []

    async def work(item: int) -> None:
        try:
            await asyncio.sleep(item)
        finally:
            ended.append(item)

    async for _ in amap(work, [0, 1000, 2000], limit=3):
        break
    await asyncio.sleep(1)
    assert [0, 1000, 2000] == ended


@pytest.mark.parametrize("in_block", [False, True])
async def test_a_cancelled_loop_waits_until_everything_has_ended(in_block: bool) -> None:
    ended = []

    async def work(item: int) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(10)
            ended.append(item)

    async def consume() -> None:
        results = amap(work, range(2), limit=3)
        if in_block:
            await collected(results)
        else:
            async for _ in results:
                pass

    consumer = asyncio.create_task(consume())
    asyncio.get_running_loop().call_later(5, consumer.cancel)
    with pytest.raises(asyncio.CancelledError):
        await consumer
    assert ([0, 1], 15) == (ended, now_s())


async def test_what_a_source_gives_when_it_has_just_let_go_of_the_map_is_cancelled_too() -> None:
    held: list[Any] = []

    def source() -> Iterator[int]:
        yield 0
        yield 1
        held.clear()
        yield 1000

    held.append(amap(wait_that_long, source(), limit=1, buffer=5))
    await anext(held[0])
    await asyncio.sleep(10)
    assert not held


async def test_aclose_drops_what_was_not_collected_and_ends_the_iteration() -> None:
    results = amap(wait_that_long, [0, 1000], limit=2)
    assert 0 == await anext(results)
    await results.aclose()
    await results.aclose()
    assert [] == [result async for result in results]


async def test_a_call_cannot_wait_for_the_end_of_its_own_map() -> None:
    async def close(_item: int) -> None:
        await results.aclose()

    results = amap(close, [1], limit=1)
    with pytest.raises(RuntimeError, match=r"close it from outside, or call stop\(\)"):
        await collected(results)


async def test_what_was_collected_once_is_not_given_again() -> None:
    results = amap(wait_that_long, [2, 1], limit=2)
    assert ([1, 2], []) == ([result async for result in results], [result async for result in results])


async def test_two_loops_over_one_map_share_its_results() -> None:
    async with amap(wait_that_long, range(6), limit=2) as results:

        async def consume() -> list[float]:
            return [result async for result in results]

        first, second = list(await asyncio.gather(consume(), consume()))
    assert [0, 1, 2, 3, 4, 5] == sorted(first + second)
    assert first
    assert second


def test_without_an_event_loop_a_map_says_so() -> None:
    step = amap(wait_that_long, [1], limit=1).__anext__()
    with pytest.raises(RuntimeError, match="no running event loop"):
        step.send(None)


async def from_afar() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_map_that_was_closed_before_it_began_has_no_results(*, is_async: bool) -> None:
    results = amap(one, from_afar() if is_async else [1], limit=2)
    await results.aclose()
    assert [] == [result async for result in results]
