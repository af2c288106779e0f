"""`amap`: the order of its results, the functions that it takes, and its statistics."""

import asyncio
from collections.abc import Awaitable
from functools import partial
from itertools import count
from typing import Any

import pytest

from headgate import TaskStatistics, amap
from support.maps import all_of, collected, fail_if_odd, wait_that_long

# -- the order


@pytest.mark.parametrize(("items", "expected"), [([3, 1, 2], [1, 2, 3]), ([], [])])
def test_results_come_as_they_finish_or_in_the_order_of_the_items(items: list[int], expected: list[int]) -> None:
    assert expected == all_of(wait_that_long, items, limit=3)
    assert items == all_of(wait_that_long, items, limit=3, ordered=True)


@pytest.mark.parametrize(
    ("options", "expected"), [({"window": 0}, 1), ({"window": 1}, 2), ({"window": 4}, 5), ({"buffer": 4}, 7)]
)
async def test_a_slow_head_stops_the_starts(options: dict[str, Any], expected: int) -> None:
    begun = []

    async def begin(item: int) -> None:
        begun.append(item)
        await asyncio.sleep(0 if item else 100)

    async with amap(begin, count(), limit=3, ordered=True, **options):
        await asyncio.sleep(50)
        assert expected == len(begun)


# -- the function


def test_the_function_may_be_anything_that_returns_an_awaitable() -> None:
    class Waiting:
        async def __call__(self, seconds: float) -> float:
            return await wait_that_long(seconds)

        async def method(self, seconds: float) -> float:
            return await wait_that_long(seconds)

    async def wait(factor: float, seconds: float) -> float:
        return await wait_that_long(factor * seconds)

    def future(seconds: float) -> "asyncio.Future[float]":
        return asyncio.ensure_future(wait_that_long(seconds))

    for function in (Waiting(), Waiting().method, partial(wait, 1), lambda item: wait_that_long(item), future):  # noqa: PLW0108 - a lambda that returns a coroutine
        assert [1, 2] == all_of(function, [2, 1], limit=2), function


@pytest.mark.parametrize("errors", ["raise", "yield", "skip"])
def test_a_sync_function_is_refused_however_errors_are_treated(errors: Any) -> None:
    with pytest.raises(TypeError, match=r"the function returned 1, which can't be awaited: give an `async def`"):
        all_of(lambda item: item, [1, 2], limit=1, errors=errors)


def test_a_function_that_takes_something_else_fails_for_its_item() -> None:
    async def no_arguments() -> None:
        pass

    function: Any = no_arguments
    with pytest.raises(TypeError, match="takes 0 positional arguments but 1 was given") as raised:
        all_of(function, [7], limit=1)
    assert ["raised for the item 7"] == raised.value.__notes__
    (outcome,) = all_of(function, [7], limit=1, errors="yield")
    assert isinstance(outcome.error, TypeError)


def test_the_function_may_use_a_map_itself() -> None:
    async def sum_below(item: int) -> float:
        below: list[float] = await collected(amap(wait_that_long, range(item), limit=2))
        return sum(below)

    assert [0, 0, 1, 3] == all_of(sum_below, range(4), limit=3)


@pytest.mark.parametrize("end", [StopIteration, StopAsyncIteration])
def test_a_function_that_raises_stop_iteration_is_not_silent(end: type[Exception]) -> None:
    class Source:
        def __aiter__(self) -> "Source":
            return self

        async def __anext__(self) -> int:
            return 1

    def give(_item: int) -> Awaitable[int]:
        raise end

    with pytest.raises(RuntimeError):
        all_of(give, Source(), limit=1)


# -- statistics


async def test_statistics_tell_how_far_it_is() -> None:

    def stand(**figures: int) -> TaskStatistics:
        none = dict.fromkeys(TaskStatistics.__slots__, 0)
        return TaskStatistics(**(none | figures))

    async with amap(fail_if_odd, [0, 2, 3, 4], limit=2, errors="skip") as results:
        seen = [results.statistics()]
        await asyncio.sleep(1)
        seen.append(results.statistics())
        await asyncio.sleep(100)
        seen.append(results.statistics())
        await anext(results)
        seen.append(results.statistics())
    assert [
        stand(taken=2, running=2),
        stand(taken=3, running=2, uncollected=1, succeeded=1),
        stand(taken=4, uncollected=3, succeeded=3, failed=1),
        stand(taken=4, uncollected=2, succeeded=3, failed=1),
        stand(taken=4, uncollected=0, succeeded=3, failed=1),
    ] == [*seen, results.statistics()]


async def test_cancelled_calls_are_counted_as_cancelled() -> None:
    async with amap(wait_that_long, [0, 10, 20], limit=3) as results:
        await anext(results)
    now = results.statistics()
    assert (3, 1, 2, 0) == (now.taken, now.succeeded, now.cancelled, now.running)


def test_without_an_event_loop_a_map_says_so() -> None:
    step = amap(wait_that_long, [1], limit=1).__anext__()
    with pytest.raises(RuntimeError, match="no running event loop"):
        step.send(None)
