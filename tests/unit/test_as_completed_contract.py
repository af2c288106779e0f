"""The tests that CPython 3.13 has for `asyncio.as_completed`, applied to ours; then the differences of ours."""

import asyncio
import inspect
from collections.abc import Awaitable, Iterator
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from headgate import as_completed
from support.as_completed import (
    Collect,
    Take,
    a_moment,
    by_async_for,
    now_s,
    one,
    taking_from_either_iterator,
    with_either_iterator,
)
from support.quiet import Spy

# -- as in the standard library


async def test_async_for_yields_the_very_tasks_that_were_given_and_new_ones_for_coroutines() -> None:
    tasks = {asyncio.create_task(one("a")), asyncio.create_task(one("b"))}
    coroutines = {one("c"), one("d")}
    given: set[Any] = tasks | coroutines
    came = {future async for future in as_completed(given, limit=4)}
    assert tasks == came & given
    assert 4 == len(came)
    assert all(future.done() for future in came)
    assert {"a", "b", "c", "d"} == {future.result() for future in came}


async def test_a_plain_for_gives_coroutines() -> None:
    task = asyncio.create_task(one("a"))
    for awaitable in as_completed([task], limit=1):
        assert inspect.iscoroutine(awaitable)
        assert "a" == await awaitable


@with_either_iterator
async def test_the_timeout_is_raised_after_what_was_done_by_then(collect: Collect) -> None:
    with pytest.raises(TimeoutError):
        await collect([asyncio.sleep(0.1, "a"), asyncio.sleep(0.15, "b")], limit=2, timeout=0.12)
    assert 0.12 == now_s()


@with_either_iterator
async def test_the_timeout_may_be_a_timedelta(collect: Collect) -> None:
    with pytest.raises(TimeoutError, match=r"not all were done within timeout=0\.12"):
        await collect([asyncio.sleep(0.15)], limit=2, timeout=timedelta(milliseconds=120))


async def test_a_plain_for_continues_to_its_end_when_the_timeout_is_caught_in_it() -> None:
    came: list[object] = []
    for awaitable in as_completed([asyncio.sleep(0.1, "a"), asyncio.sleep(0.15, "b")], limit=2, timeout=0.12):
        try:
            came.append(await awaitable)
        except TimeoutError:
            came.append(now_s())
    assert ["a", 0.12] == came


@with_either_iterator
async def test_a_timeout_that_was_not_needed_leaves_no_timer(collect: Collect) -> None:
    assert ["a"] == await collect([asyncio.sleep(0.01, "a")], limit=1, timeout=1)
    loop: Any = asyncio.get_running_loop()
    assert all(timer.cancelled() for timer in loop._scheduled)  # noqa: SLF001 - there is no public way to list timers


@taking_from_either_iterator
async def test_a_loop_that_was_left_can_be_resumed(take: Take) -> None:
    futures = as_completed([one(n) for n in range(4)], limit=4)
    assert ([0, 1], [2, 3]) == (await take(futures, 2), await take(futures, 9))


async def test_the_first_that_is_awaited_gets_the_first_that_is_done_whichever_was_given_first(spy: Spy) -> None:
    awaitables = list(as_completed({spy.sleep("a", 0.05), spy.sleep("b", 0.1)}, limit=2))
    assert 2 == len(awaitables)
    assert ("a", 0.05) == (await awaitables[1], now_s())
    assert ("b", 0.1) == (await awaitables[0], now_s())


async def test_the_first_one_can_be_had_without_a_loop(spy: Spy) -> None:
    assert "b" == await next(as_completed([spy.sleep("a", 2), spy.sleep("b", 1)], limit=2))
    await a_moment()
    assert ["a"] == spy.cancelled


async def test_several_results_of_a_plain_for_can_be_awaited_at_once() -> None:
    awaitables = list(as_completed([asyncio.sleep(0.05, "a"), asyncio.sleep(0.05, "b")], limit=2))
    assert {"a", "b"} == set(await asyncio.gather(*awaitables))
    assert 0.05 == now_s()


async def test_the_futures_of_async_for_can_be_awaited_once_more() -> None:
    futures = [f async for f in as_completed([asyncio.sleep(0.05, "a"), asyncio.sleep(0.05, "b")], limit=2)]
    done, _ = await asyncio.wait(futures)
    assert {"a", "b"} == {future.result() for future in done}


@with_either_iterator
def test_without_an_event_loop_it_is_refused(collect: Collect) -> None:
    coroutine = one(1)
    driver = collect([coroutine], limit=1)
    try:
        with pytest.raises(RuntimeError, match="no running event loop"):
            driver.send(None)
    finally:
        driver.close()
        coroutine.close()


@with_either_iterator
async def test_an_error_is_raised_where_its_result_would_be(collect: Collect) -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await collect([one(1), fail()], limit=2)


@with_either_iterator
async def test_a_child_that_other_code_cancelled_raises_that_where_its_result_would_be(
    spy: Spy, collect: Collect
) -> None:
    task = asyncio.create_task(spy.sleep("a", 10))
    asyncio.get_running_loop().call_later(1, task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await collect([task], limit=2)
    assert 1 == now_s()


# -- the differences, point by point as in the docstring


@with_either_iterator
async def test_difference_a_future_that_is_given_twice_is_yielded_twice(collect: Collect) -> None:
    task = asyncio.create_task(one(1))
    assert [1, 1] == await collect([task, task], limit=1)


@with_either_iterator
async def test_difference_a_future_that_is_given_twice_while_it_is_in_flight_counts_twice(
    spy: Spy, collect: Collect
) -> None:
    task = asyncio.create_task(spy.sleep("given", 1))
    assert ["2", "given", "given", "given"] == sorted(map(str, await collect([task, task, one(2), task], limit=2)))


async def test_leaving_a_loop_leaves_a_future_that_was_given_twice_running() -> None:
    task = asyncio.create_task(asyncio.sleep(5, "given"))
    async with as_completed([task, task, one(1)], limit=3) as futures:
        assert 1 == (await anext(futures)).result()
    assert not task._callbacks  # noqa: SLF001 - the task must not refer to the iterator that was left
    assert "given" == await task


async def test_difference_a_coroutine_that_is_given_twice_is_an_error() -> None:
    coroutine = one(1)
    futures = [future async for future in as_completed([coroutine, coroutine], limit=1)]
    assert 1 == futures[0].result()
    with pytest.raises(RuntimeError, match="already awaited"):
        futures[1].result()


async def test_difference_the_time_of_the_timeout_begins_with_the_first_step(spy: Spy) -> None:
    futures = as_completed([spy.sleep(1, 5)], limit=1, timeout=10)
    await asyncio.sleep(1000)
    assert [1] == [future.result() async for future in futures]


async def test_difference_the_time_of_the_timeout_begins_with_the_block(spy: Spy) -> None:
    async with as_completed([spy.sleep(1, 15)], limit=1, timeout=10) as futures:
        await asyncio.sleep(5)
        with pytest.raises(TimeoutError):
            await anext(futures)
        assert 10 == now_s()


async def test_difference_the_timeout_cancels_running_tasks_and_waits_until_they_have_ended(spy: Spy) -> None:
    aws = (spy.sleep(n, 3, last_words_s=5) for n in count())
    with pytest.raises(TimeoutError):
        await by_async_for(aws, limit=2, timeout=10)
    assert ([0, 1, 2, 3, 4, 5], [6, 7]) == (spy.returned, sorted(spy.cancelled))
    assert 15 == now_s()


@pytest.mark.parametrize("is_plain", [False, True])
async def test_difference_the_timeout_is_raised_once_after_what_was_done_and_ends_the_iteration(
    spy: Spy, is_plain: bool
) -> None:
    async with as_completed([spy.sleep(n, n) for n in (1, 2, 30)], limit=3, timeout=10) as futures:
        await asyncio.sleep(20)
        if is_plain:
            assert [1, 2] == [await next(futures), await next(futures)]
            with pytest.raises(TimeoutError):
                await next(futures)
            assert [] == list(futures)
        else:
            assert [1, 2] == [(await anext(futures)).result() for _ in range(2)]
            with pytest.raises(TimeoutError):
                await anext(futures)
            with pytest.raises(StopAsyncIteration):
                await anext(futures)


async def test_what_is_done_and_not_collected_at_the_timeout_is_no_reason_to_raise_it(spy: Spy) -> None:
    async with as_completed([spy.sleep(n, n) for n in (1, 2)], limit=3, timeout=10) as futures:
        await asyncio.sleep(20)
        assert [1, 2] == [future.result() async for future in futures]


@with_either_iterator
async def test_difference_futures_that_were_given_run_on_after_the_timeout(spy: Spy, collect: Collect) -> None:
    task = asyncio.create_task(spy.sleep("given", 20))
    with pytest.raises(TimeoutError):
        await collect([task, spy.sleep("ours", 20)], limit=2, timeout=10)
    assert ["ours"] == spy.cancelled
    assert "given" == await task


async def test_difference_a_plain_for_that_awaits_nothing_raises_when_the_limit_runs(spy: Spy) -> None:
    def source() -> Iterator[Awaitable[int]]:
        for n in range(9):
            yield spy.sleep(n)

    futures = as_completed(source(), limit=2)
    awaitables = [next(futures) for _ in range(3)]
    with pytest.raises(RuntimeError, match=r"3 results of as_completed\(limit=2\) were asked for"):
        await next(futures)
    for awaitable in awaitables:
        assert await awaitable in range(3)
    await futures.aclose()
    assert 7 >= len(spy.made)


async def test_a_coroutine_that_a_plain_for_read_ahead_is_closed_at_the_end_of_the_block(spy: Spy) -> None:
    async with as_completed((spy.sleep(n) for n in count()), limit=2) as futures:
        for awaitable in [next(futures) for _ in range(3)]:
            awaitable.close()
    assert [0, 1, 2] == spy.made
