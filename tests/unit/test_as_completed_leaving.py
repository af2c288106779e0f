"""Leaving `as_completed` early, however it is done, leaves nothing running and causes no warning."""

import asyncio
import contextvars
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterable
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from headgate import CompletedFutures, as_completed
from support.as_completed import Take, a_moment, now_s, taking_from_either_iterator
from support.quiet import Source, Spy, fail_quietly

variable = contextvars.ContextVar[str]("variable", default="unset")


def values(coroutines: Iterable[Any]) -> Collection[Any]:
    return dict(enumerate(coroutines)).values()


# -- with a block


async def leave_by_break(futures: CompletedFutures[Any]) -> None:
    async for _ in futures:
        break


async def leave_plain_by_break(futures: CompletedFutures[Any]) -> None:
    for awaitable in futures:
        await awaitable
        break


async def leave_at_once(_: CompletedFutures[Any]) -> None:
    pass


async def leave_by_error(futures: CompletedFutures[Any]) -> None:
    async for _ in futures:
        raise ZeroDivisionError


async def leave_by_own_cancellation(_: CompletedFutures[Any]) -> None:
    raise asyncio.CancelledError


async def leave_by_timeout(_: CompletedFutures[Any]) -> None:
    async with asyncio.timeout(1.5):
        await asyncio.sleep(1000)


async def leave_by_closing(futures: CompletedFutures[Any]) -> None:
    await anext(futures)
    await futures.aclose()


Leave = Callable[[CompletedFutures[Any]], Coroutine[Any, Any, None]]
every_way_out = pytest.mark.parametrize(
    "leave",
    [
        leave_by_break,
        leave_plain_by_break,
        leave_at_once,
        leave_by_error,
        leave_by_own_cancellation,
        leave_by_timeout,
        leave_by_closing,
    ],
)


@every_way_out
@pytest.mark.parametrize("kind", [list, tuple, set, deque, dict.fromkeys, values, iter])
async def test_leaving_the_block_cancels_running_tasks_and_closes_unstarted_coroutines(
    spy: Spy, leave: Leave, kind: Callable[[Any], Any]
) -> None:
    with suppress(ZeroDivisionError, asyncio.CancelledError, TimeoutError):
        async with as_completed(kind(spy.sleep(n, 1 + n, last_words_s=5) for n in range(9)), limit=3) as futures:
            await leave(futures)
    assert 0 == spy.running
    assert len(spy.started) <= 5


@pytest.mark.parametrize("leave", [leave_by_break, leave_at_once, leave_by_error, leave_by_timeout, leave_by_closing])
@pytest.mark.parametrize("every_s", [0, 0.3])
async def test_leaving_the_block_closes_the_async_source_and_waits_until_it_is(
    spy: Spy, leave: Leave, every_s: float
) -> None:
    source = Source(spy, every_s, closing_s=7)
    with suppress(ZeroDivisionError, TimeoutError):
        async with as_completed(source, limit=3) as futures:
            await leave(futures)
    assert (1, 0) == (source.closed, spy.running)


async def test_an_async_generator_is_finished_where_it_was_run() -> None:
    async def source() -> AsyncIterator[Awaitable[int]]:
        variable.set("within")
        try:
            for n in count():
                yield spy.sleep(n)
        finally:
            await asyncio.sleep(3)
            ended.append((variable.get(), now_s()))

    spy, ended = Spy(), list[tuple[str, float]]()
    async with as_completed(source(), limit=3) as futures:
        await anext(futures)
    assert [("within", 4)] == ended


async def test_a_coroutine_that_a_cancelled_source_yields_is_closed(spy: Spy) -> None:
    async def source() -> AsyncIterator[Awaitable[int]]:
        yield spy.sleep(1)
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(1000)
        yield spy.sleep(2)

    async with as_completed(source(), limit=3) as futures:
        await anext(futures)
    assert ([1, 2], [1]) == (spy.made, spy.started)


async def test_errors_that_were_not_collected_cause_no_warning() -> None:
    async def fail(n: int) -> None:
        await asyncio.sleep(n)
        raise ZeroDivisionError

    async with as_completed([fail(n % 4) for n in range(8)], limit=4):
        await asyncio.sleep(2)


async def test_after_the_block_there_is_nothing_more(spy: Spy) -> None:
    async with as_completed((spy.sleep(n) for n in count()), limit=2) as futures:
        await anext(futures)
    assert [] == [future async for future in futures]
    assert [] == list(futures)
    await futures.aclose()


async def test_the_block_may_begin_after_the_first_step(spy: Spy) -> None:
    futures = as_completed([spy.sleep(n) for n in range(6)], limit=2)
    promised = [next(futures) for _ in range(3)]  # one was read ahead
    async with futures:
        assert [0, 1, 2, 3, 4, 5] == sorted(
            [await awaitable for awaitable in promised] + [await awaitable for awaitable in futures]
        )
    assert 2 == spy.peak


async def test_leaving_a_set_that_was_changed_meanwhile_waits_for_running_tasks(spy: Spy) -> None:
    given = {spy.sleep(n, 10, last_words_s=5) for n in range(3)}
    async with as_completed(given, limit=2):
        given.add(spy.sleep(3))
        await asyncio.sleep(1)
    assert (2, 6) == (len(spy.cancelled), now_s())
    for coroutine in given:
        coroutine.close()


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_map_that_is_closed_before_it_begins_never_begins(spy: Spy, is_async: bool) -> None:
    source = Source(spy)
    futures = as_completed(source if is_async else [spy.sleep(n) for n in range(3)], limit=2, timeout=10)
    await futures.aclose()
    assert [] == [future async for future in futures]
    async with futures:
        assert [] == [future async for future in futures]
    assert [] == spy.started


# -- without a block


@taking_from_either_iterator
@pytest.mark.parametrize("ends", [True, False])
async def test_a_loop_that_is_left_by_break_cancels_running_tasks(spy: Spy, take: Take, ends: bool) -> None:
    await take(as_completed((spy.sleep(n, 1 + n) for n in (range(9) if ends else count())), limit=3), 1)
    await a_moment()
    assert (1, 0) == (now_s(), spy.running)
    assert 4 >= len(spy.started)  # three, and the one that started after the first


async def test_an_error_of_a_child_cancels_its_siblings_although_its_traceback_is_kept(spy: Spy) -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    try:
        for awaitable in as_completed([fail(), spy.sleep(1, 10), spy.sleep(2)], limit=2):
            await awaitable
    except ZeroDivisionError as error:
        await a_moment()
        assert 0 == spy.running
        del error  # the error and its traceback were alive until now
    assert 0 == now_s()


@pytest.mark.parametrize("kind", [list, iter])
def test_a_program_that_ends_by_an_error_in_the_body_starts_nothing_more(kind: Callable[[Any], Any]) -> None:
    async def main() -> None:
        futures = as_completed(kind([spy.sleep(n) for n in range(20)] if kind is list else endless), limit=2)
        async for _ in futures:
            raise ZeroDivisionError  # its traceback keeps `futures`, and asyncio cancels what runs

    spy = Spy()
    endless = (spy.sleep(n) for n in count())
    fail_quietly(main(), ZeroDivisionError)
    assert 4 >= len(spy.started)
