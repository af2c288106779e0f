"""The inputs of `as_completed`: those that it takes, those that it refuses, and sources that raise."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import repeat
from typing import Any

import pytest

from headgate import as_completed
from support.as_completed import Collect, Later, by_async_for, by_for, now_s, one, with_either_iterator
from support.quiet import Spy, run_quietly


@with_either_iterator
@pytest.mark.parametrize("kind", [list, tuple, set, frozenset, deque, iter, lambda coroutines: (c for c in coroutines)])
async def test_any_iterable_will_do(collect: Collect, kind: Callable[[list[Any]], Any]) -> None:
    assert [0, 1, 2, 3, 4] == sorted(await collect(kind([one(n) for n in range(5)]), limit=2))


@with_either_iterator
@pytest.mark.parametrize("kind", [list, tuple, set, iter, lambda coroutines: (c for c in coroutines)])
def test_of_nothing_comes_nothing(collect: Collect, kind: Callable[[list[Any]], Any]) -> None:
    assert [] == run_quietly(collect(kind([]), limit=2, timeout=1))


async def test_an_async_iterable_will_do_and_its_pauses_delay_nothing(spy: Spy) -> None:
    came_s: list[float] = []

    async def source() -> AsyncIterator[Awaitable[int]]:
        for n in range(4):
            yield spy.sleep(n, 1)
            await asyncio.sleep(10)

    results = []
    async for future in as_completed(source(), limit=2):
        came_s.append(now_s())
        results.append(future.result())
    assert [0, 1, 2, 3] == results
    assert [1, 11, 21, 31] == came_s


@with_either_iterator
async def test_futures_tasks_coroutines_and_other_awaitables_may_be_mixed(collect: Collect) -> None:
    future = asyncio.get_running_loop().create_future()
    future.set_result("future")
    task = asyncio.create_task(one("task"))
    assert ["coroutine", "future", "other", "task"] == sorted(
        await collect([Later("other"), future, task, one("coroutine")], limit=2)
    )


@with_either_iterator
async def test_futures_that_were_given_count_against_the_limit(spy: Spy, collect: Collect) -> None:
    task = asyncio.create_task(spy.sleep("given", 5))
    assert ["given", 0] == await collect((task, spy.sleep(0, 1)), limit=1)
    assert 6 == now_s()


# -- refused


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"limit": 0}, ValueError, "limit must be at least 1, not 0"),
        ({"limit": -3}, ValueError, "limit must be at least 1, not -3"),
        ({"limit": 1.5}, TypeError, "limit must be an int, not float"),
        ({"limit": True}, TypeError, "limit must be an int, not bool"),
        ({"limit": None}, TypeError, "limit must be an int, not None"),
        ({"limit": 1, "buffer": -1}, ValueError, "buffer must be at least 0, not -1"),
        ({"limit": 1, "buffer": 0.5}, TypeError, "buffer must be an int, not float"),
        ({"limit": 1, "timeout": 0}, ValueError, "timeout must be more than 0 seconds, not 0"),
        ({"limit": 1, "timeout": float("nan")}, ValueError, "timeout must be more than 0 seconds"),
        ({"limit": 1, "timeout": "1"}, TypeError, "timeout must be a number of seconds, not str"),
    ],
)
async def test_a_wrong_argument_is_refused_at_once_and_leaves_no_coroutine_unawaited(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        as_completed([one(1), one(2)], **options)


@with_either_iterator
@pytest.mark.parametrize("wrong", [1, None, "text", one])
async def test_a_value_that_cannot_be_awaited_raises_after_finished_results_and_ends_the_rest(
    spy: Spy, collect: Collect, wrong: object
) -> None:
    with pytest.raises(TypeError, match=r"aws must give awaitables, and gave .*: call the function"):
        await collect([spy.sleep(0, 0.5), spy.sleep(1, 10), wrong, spy.sleep(3)], limit=2)
    assert ([0, 1], [1]) == (spy.started, spy.cancelled)


async def test_a_plain_loop_over_an_async_iterable_is_refused(spy: Spy) -> None:
    async def source() -> AsyncIterator[Awaitable[int]]:
        yield spy.sleep(1)

    with pytest.raises(TypeError, match=r"aws is an async iterable.*use `async for`"):
        await by_for(source(), limit=1)
    assert [] == spy.made


# -- a source that raises


@pytest.mark.parametrize("good", [0, 1, 2, 5])
@pytest.mark.parametrize("collect", [by_for, by_async_for, None])
async def test_an_error_of_the_source_comes_once_after_the_results_of_started_calls(
    spy: Spy, good: int, collect: Collect | None
) -> None:
    def source() -> Iterator[Awaitable[int]]:
        for n in range(good):
            yield spy.sleep(n)
        raise ZeroDivisionError

    async def source_async() -> AsyncIterator[Awaitable[int]]:
        for coroutine in source():
            yield coroutine

    futures = as_completed(source_async() if collect is None else source(), limit=2)
    ask: Callable[[], Any] = (lambda: next(futures)) if collect is by_for else futures.__anext__
    for _ in range(good):
        await ask()
    with pytest.raises(ZeroDivisionError):
        await ask()
    with pytest.raises((StopIteration, StopAsyncIteration)):
        await ask()
    assert list(range(good)) == spy.returned


class Trap:
    """An iterator and async iterator that raises the `StopIteration` of the other kind."""

    def __iter__(self) -> Iterator[Awaitable[int]]:
        return self

    def __next__(self) -> Awaitable[int]:
        raise StopAsyncIteration("not the end")


class AsyncTrap:
    def __aiter__(self) -> AsyncIterator[Awaitable[int]]:
        return self

    async def __anext__(self) -> Awaitable[int]:
        raise StopIteration("not the end")


@pytest.mark.parametrize(("collect", "source"), [(by_for, Trap), (by_async_for, Trap), (by_async_for, AsyncTrap)])
async def test_a_source_that_raises_the_wrong_end_does_not_end_silently(
    collect: Collect, source: Callable[[], Any]
) -> None:
    with pytest.raises(RuntimeError, match=r"StopAsyncIteration was raised|raised StopIteration"):
        await collect(source(), limit=2)


@with_either_iterator
async def test_a_child_that_raises_the_end_of_an_async_iteration_does_not_end_the_loop(collect: Collect) -> None:
    async def child() -> None:
        raise StopAsyncIteration("not the end")

    with pytest.raises((RuntimeError, StopAsyncIteration), match=r"not the end|raised StopAsyncIteration"):
        await collect([child(), one(1)], limit=2)


async def test_a_future_that_is_given_without_end_lets_other_tasks_run() -> None:
    task = asyncio.create_task(asyncio.sleep(1, "given"))
    async with as_completed(repeat(task), limit=3) as futures:
        assert ["given"] * 5 == [(await anext(futures)).result() for _ in range(5)]
