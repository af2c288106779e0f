"""Closing an iterator: a task that waits for its own end is refused or released, and other tasks get an error."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from itertools import count
from typing import Any

import pytest

import headgate
from headgate import ClosedEarly, TaskResults, amap, as_completed, for_each
from support.as_completed import a_moment, now_s, one
from support.eager import FACTORIES
from support.maps import collected, from_afar, wait_that_long
from support.quiet import Spy

LONGEST_S = 10


async def iterate(results: TaskResults[Any]) -> list[Any]:
    return [result async for result in results]


# -- waiting for one's own end through another task


async def directly(closing: Coroutine[Any, Any, None]) -> None:
    await asyncio.create_task(closing)


async def by_gather(closing: Coroutine[Any, Any, None]) -> None:
    await asyncio.gather(closing, asyncio.sleep(1000))


async def by_a_group(closing: Coroutine[Any, Any, None]) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(closing)


async def by_wait(closing: Coroutine[Any, Any, None]) -> None:
    await asyncio.wait({asyncio.create_task(closing)})


async def by_wait_for(closing: Coroutine[Any, Any, None]) -> None:
    await asyncio.wait_for(asyncio.create_task(closing), 1000)


async def by_a_shield(closing: Coroutine[Any, Any, None]) -> None:
    await asyncio.shield(closing)


Through = Callable[[Coroutine[Any, Any, None]], Coroutine[Any, Any, None]]
Consume = Callable[[TaskResults[Any]], Coroutine[Any, Any, list[Any]]]
either_form = pytest.mark.parametrize("consume", [iterate, collected])
every_way_through = pytest.mark.parametrize(
    "through", [directly, by_gather, by_a_group, by_wait, by_wait_for, by_a_shield]
)


@every_way_through
@either_form
async def test_a_call_that_waits_for_its_end_through_another_task_ends(through: Through, consume: Consume) -> None:
    async def close(_item: int) -> None:
        await through(results.aclose())

    results = amap(close, range(9), limit=2)
    with pytest.raises(ClosedEarly):
        await consume(results)
    assert 0 == now_s()


async def test_a_call_that_waits_for_the_task_that_closes_its_map_ends() -> None:
    async def close_later() -> None:
        await may_close.wait()
        await results.aclose()

    async def wait_for_the_closer(_item: int) -> None:
        may_close.set()
        await closer

    may_close = asyncio.Event()
    results = amap(wait_for_the_closer, range(9), limit=2)
    closer = asyncio.create_task(close_later())
    with pytest.raises(ClosedEarly):
        assert not [result async for result in results]


def contexts(error: BaseException | None) -> list[type[BaseException]]:
    return [] if error is None else [type(error), *contexts(error.__cause__ or error.__context__)]


@pytest.mark.parametrize("error_s", [5, 1000])
@either_form
async def test_a_call_that_waits_for_the_task_that_waits_for_its_end_is_an_error(
    consume: Consume, error_s: float
) -> None:
    async def wait(item: int) -> None:
        if item == 1:
            await asyncio.sleep(error_s)
            raise ValueError
        await consumer

    consumer = asyncio.create_task(consume(amap(wait, [0, 1], limit=2)))
    await asyncio.sleep(10)
    consumer.cancel()
    with pytest.raises(RuntimeError, match="waits for the very task that waits for its end") as raised:
        await consumer
    # The error that ended the map is not lost.
    assert (ValueError in contexts(raised.value)) == (error_s < 10)
    assert 10 == now_s()
    await a_moment()  # it hears of that, and ends


async def test_a_call_that_waits_for_the_task_that_leaves_the_block_is_an_error() -> None:
    async def wait(item: int) -> None:
        if item:
            await consumer

    async def leave() -> None:
        async with amap(wait, [0, 1], limit=2) as results:
            await anext(results)

    consumer = asyncio.create_task(leave())
    with pytest.raises(RuntimeError, match="waits for the very task that waits for its end"):
        await consumer
    assert 0 == consumer.cancelling()
    await a_moment()  # it hears of that, and ends


@pytest.mark.parametrize("factory", [None, *FACTORIES])
@pytest.mark.parametrize("options", [{}, {"timeout": 5}])
async def test_a_call_that_closes_its_own_map_is_refused_also_where_it_is_eager(
    factory: Any, options: dict[str, Any]
) -> None:
    async def close(_item: int) -> None:
        await results.aclose()

    asyncio.get_running_loop().set_task_factory(factory)
    results = amap(close, range(9), limit=2, **options)
    with pytest.raises(RuntimeError, match=r"close it from outside, or call stop\(\)"):
        await collected(results)


# -- another task closes it


async def test_waiting_for_a_result_raises_if_another_task_closes_the_map(spy: Spy) -> None:
    async with amap(lambda item: spy.sleep(item, 1 + item * 1000), range(9), limit=2) as results:
        consumer = asyncio.create_task(iterate(results))
        await asyncio.sleep(5)
        await results.aclose()
        with pytest.raises(ClosedEarly, match="there may have been more"):
            await consumer
        assert [] == [result async for result in results]  # the task that closed it gets no error
    assert (5, [0]) == (now_s(), spy.returned)


@pytest.mark.parametrize("has_begun", [False, True])
async def test_each_next_on_a_map_that_another_task_has_closed_raises(has_begun: bool) -> None:
    results = amap(one, range(9), limit=2)
    if has_begun:
        assert 0 == await anext(results)
    await asyncio.create_task(results.aclose())
    for _ in range(2):
        with pytest.raises(ClosedEarly):
            await anext(results)
    await results.aclose()


async def test_next_on_a_map_that_was_closed_after_its_last_result_does_not_raise() -> None:
    results = amap(one, range(9), limit=2)
    assert 9 == len([result async for result in results])
    await asyncio.create_task(results.aclose())
    assert [] == [result async for result in results]


async def test_an_iterator_that_the_cancelled_wait_of_another_task_has_ended_raises(spy: Spy) -> None:
    results = amap(lambda item: spy.sleep(item, 10), count(), limit=2)
    first, second = (asyncio.create_task(iterate(results)) for _ in range(2))
    await asyncio.sleep(1)
    first.cancel()
    with pytest.raises(ClosedEarly, match="a wait for it was cancelled"):
        await second
    assert first.cancelled()


async def test_an_iterator_that_its_own_cancelled_wait_has_ended_raises(spy: Spy) -> None:
    results = amap(lambda item: spy.sleep(item, 10), range(9), limit=2)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(results), 1)
    with pytest.raises(ClosedEarly):
        assert not [result async for result in results]


async def test_stopping_a_map_cuts_nothing_off(spy: Spy) -> None:
    async with amap(lambda item: spy.sleep(item, 10), count(), limit=2) as results:
        consumer = asyncio.create_task(iterate(results))
        await asyncio.sleep(1)
        results.stop()
        assert [0, 1] == await consumer


async def test_awaiting_a_promised_result_raises_if_another_task_has_closed_the_iterator(spy: Spy) -> None:
    async with as_completed((spy.sleep(n, 10) for n in count()), limit=2) as futures:
        waiting = asyncio.create_task(next(futures))
        iterating = asyncio.create_task(anext(futures))
        await asyncio.sleep(1)
        await asyncio.create_task(futures.aclose())
        for task in (waiting, iterating):
            with pytest.raises(ClosedEarly):
                await task
        with pytest.raises(ClosedEarly):
            await next(futures)


async def test_closing_from_another_task_waits_for_the_end(spy: Spy) -> None:
    async with amap(lambda item: spy.sleep(item, 1000, last_words_s=5), range(9), limit=2) as results:
        await asyncio.sleep(1)
        await asyncio.create_task(results.aclose())
        assert (2, 6) == (len(spy.cancelled), now_s())


async def test_a_task_that_is_cancelled_while_it_closes_need_not_wait_if_the_end_of_the_block_does(spy: Spy) -> None:
    async with amap(lambda item: spy.sleep(item, 1000, last_words_s=5), range(9), limit=2) as results:
        await asyncio.sleep(1)
        closer = asyncio.create_task(results.aclose())
        await a_moment()
        closer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closer
        assert (0, 1) == (len(spy.cancelled), now_s())
    assert (2, 6) == (len(spy.cancelled), now_s())


def test_a_loop_over_a_map_that_another_thread_closes_raises() -> None:
    begun = threading.Event()

    async def wait(_number: int) -> None:
        begun.set()
        await asyncio.Event().wait()

    def close() -> None:
        assert begun.wait(LONGEST_S)
        results.close()

    results = headgate.map(wait, range(9), limit=2)
    thread = threading.Thread(target=close)
    thread.start()
    for _ in range(2):
        with pytest.raises(ClosedEarly, match="another thread has closed it"):
            next(results)
    thread.join(LONGEST_S)


def test_a_loop_over_a_map_that_this_thread_has_closed_ends() -> None:
    results = headgate.map(one, range(9), limit=2)
    next(results)
    results.close()
    assert [] == list(results)


async def test_an_item_that_a_source_yields_after_dropping_the_map_is_cancelled_too() -> None:
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


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_map_that_was_closed_before_it_began_has_no_results(*, is_async: bool) -> None:
    results = amap(one, from_afar(1) if is_async else [1], limit=2)
    await results.aclose()
    assert [] == [result async for result in results]


# -- how a source is closed


class Source:
    """An async iterator with the given function as `aclose`."""

    def __init__(self, aclose: Callable[["Source"], Any]) -> None:
        self._numbers: Iterator[int] = count()
        self._aclose = aclose
        self.closed = 0

    def __aiter__(self) -> "Source":
        return self

    async def __anext__(self) -> int:
        return next(self._numbers)

    def aclose(self) -> Any:
        self.closed += 1
        return self._aclose(self)


@pytest.mark.parametrize(
    "aclose",
    [
        lambda _source: None,
        lambda _source: 7,
        lambda _source: asyncio.ensure_future(asyncio.sleep(1)),
        lambda _source: asyncio.sleep(1),
    ],
)
async def test_a_source_may_be_closed_by_any_function(aclose: Callable[[Source], Any]) -> None:
    source = Source(aclose)
    async with amap(one, source, limit=2) as results:
        assert 0 == await anext(results)
    assert 1 == source.closed


@pytest.mark.parametrize("aclose", [lambda _source: None, lambda _source: asyncio.sleep(1)])
async def test_a_source_that_has_ended_may_be_closed_by_any_function(aclose: Callable[[Source], Any]) -> None:
    class Short(Source):
        async def __anext__(self) -> int:
            if (number := next(self._numbers)) == 3:
                raise StopAsyncIteration
            return number

    source = Short(aclose)
    assert (3, 1) == ((await for_each(one, source, limit=2)).succeeded, source.closed)
