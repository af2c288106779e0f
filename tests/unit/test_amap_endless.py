"""Sources without end of which no item can be worked on: others have their turn; a limit that cannot serve tells so."""

import asyncio
from itertools import count, repeat
from typing import Any

import pytest

from headgate import ConcurrencyLimit, amap, as_completed
from support.virtual_clock import run_on_virtual_clock


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
        (takes_nothing, {"timeout_s": 1}),
        (work, {"key": fails, "per_key": 1}),
        (work, {"key": lambda _item: [], "per_key": 1}),
    ],
)
def test_a_source_without_end_whose_items_all_fail_leaves_the_loop_to_others(
    function: Any, options: dict[str, Any]
) -> None:
    async def main() -> int:
        async with amap(function, count(), limit=10, errors="skip", **options) as results:
            consumer = asyncio.ensure_future(anext(results, None))
            for _ in range(5):
                await asyncio.sleep(0)
            results.stop()
            assert None is await consumer
            return results.statistics().failed

    assert 0 < run_on_virtual_clock(main()) < 10_000


def test_a_future_that_is_given_without_end_leaves_the_loop_to_others() -> None:
    async def main() -> list[str]:
        task = asyncio.create_task(asyncio.sleep(1, "given"))
        async with as_completed(repeat(task), limit=3) as futures:
            return [(await anext(futures)).result() for _ in range(5)]

    assert ["given"] * 5 == run_on_virtual_clock(main())


def test_a_limit_that_is_in_use_in_another_event_loop_is_raised_and_not_skipped() -> None:
    limit = ConcurrencyLimit(1)
    other = asyncio.new_event_loop()

    async def wait_for_it() -> None:
        await limit.acquire()
        waiting = asyncio.ensure_future(limit.acquire())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="in use in another event loop"):
            await asyncio.to_thread(use_it)
        waiting.cancel()

    def use_it() -> None:
        async def main() -> None:
            async with amap(work, range(3), limit=limit, errors="skip") as results:
                assert [] == [result async for result in results]

        run_on_virtual_clock(main())

    try:
        other.run_until_complete(wait_for_it())
        other.run_until_complete(other.shutdown_default_executor())
    finally:
        other.close()
