"""The source of the items of `amap`: how far it is read, and how it ends."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import count
from typing import Any

import pytest

from headgate import amap
from support.maps import collected, wait_that_long


async def test_the_source_is_read_as_far_as_the_bounds_allow() -> None:
    read = []

    def source() -> Iterator[int]:
        for item in count():
            read.append(item)
            yield item

    async with amap(wait_that_long, source(), limit=2, buffer=3):
        await asyncio.sleep(100)
        assert 5 == len(read)


async def test_nothing_is_read_before_the_first_step() -> None:
    read = []

    def source() -> Iterator[int]:
        read.append(0)
        yield 0

    results = amap(wait_that_long, source(), limit=2)
    await asyncio.sleep(1)
    del results
    assert [] == read


async def test_an_error_of_the_source_comes_after_the_results_of_all_that_was_started_and_once() -> None:
    async def source() -> AsyncIterator[int]:
        yield 5
        yield 1
        raise OSError("the source")

    async def one_by_one() -> list[object]:
        seen: list[object] = []
        async with amap(wait_that_long, source(), limit=3) as results:
            while len(seen) < 4:
                try:
                    seen.append(await anext(results, "end"))
                except OSError as error:
                    seen.append(str(error))
        return seen

    seen: list[object] = []
    results = amap(wait_that_long, source(), limit=3)
    for _ in range(2):
        try:
            seen += [result async for result in results]
            seen.append("end")
        except OSError as error:
            seen.append(str(error))
    assert ["the source", "end"] == seen
    assert [1, 5, "the source", "end"] == await one_by_one()


async def test_a_source_that_was_closed_by_stop_ends_undisturbed_by_the_end_of_the_block() -> None:
    closed = []

    async def source() -> AsyncIterator[int]:
        try:
            yield 0
            yield await asyncio.sleep(1000, 1)
        finally:
            await asyncio.sleep(10)
            closed.append("closed")

    async with amap(wait_that_long, source(), limit=2) as results:
        assert 0 == await anext(results)
        results.stop()
        await asyncio.sleep(1)
    assert ["closed"] == closed


async def test_an_item_that_ends_the_map_as_it_is_given_does_not_disturb_the_end_of_the_source() -> None:
    closed = []

    async def source() -> AsyncIterator[int]:
        try:
            await asyncio.sleep(1)
            yield 0
        finally:
            await asyncio.sleep(10)
            closed.append("closed")

    unhashable: Any = lambda _: []  # noqa: E731 - a user may give one
    with pytest.raises(TypeError, match="unhashable"):
        await collected(amap(wait_that_long, source(), limit=2, key=unhashable, per_key=1))
    assert ["closed"] == closed


async def test_a_source_that_closes_its_own_map_gets_an_error() -> None:
    async def source() -> AsyncIterator[int]:
        yield 0
        await results.aclose()

    results = amap(wait_that_long, source(), limit=1)
    with pytest.raises(RuntimeError, match="can't wait for its own end"):
        await collected(results)


async def work(item: int) -> int:
    return item


async def takes_nothing() -> None:
    pass


def fails(_item: int) -> int:
    raise ValueError


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (takes_nothing, {}),
        (takes_nothing, {"timeout": 1}),
        (work, {"key": fails, "per_key": 1}),
        (work, {"key": lambda _item: [], "per_key": 1}),
    ],
)
async def test_an_endless_source_whose_items_all_fail_lets_other_tasks_run(
    function: Any, options: dict[str, Any]
) -> None:
    async with amap(function, count(), limit=10, errors="skip", **options) as results:
        consumer = asyncio.ensure_future(anext(results, None))
        for _ in range(5):
            await asyncio.sleep(0)
        results.stop()
        assert None is await consumer
        assert 0 < results.statistics().failed < 10_000
