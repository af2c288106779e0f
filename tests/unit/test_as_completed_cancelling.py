"""`as_completed` with several consumers, with children that resist cancellation, and when it is dropped; contexts."""

import asyncio
import gc
import threading
from collections.abc import Awaitable, Iterator
from contextlib import suppress
from itertools import chain, count

import pytest

from headgate import CompletedFutures, as_completed
from support.as_completed import a_moment, now_s
from support.quiet import Spy, fail_quietly
from support.virtual_clock import run_on_virtual_clock

# -- several consumers, and hand-over


async def test_several_consumers_share_one_iterator_and_nothing_comes_twice(spy: Spy) -> None:
    async def consume(futures: CompletedFutures[int]) -> list[int]:
        results = []
        async for future in futures:
            results.append(future.result())
            await asyncio.sleep(0.1)
        return results

    async with as_completed((spy.sleep(n, 1 + n % 3) for n in range(30)), limit=5) as futures:
        parts = await asyncio.gather(*(consume(futures) for _ in range(4)))
    assert all(parts)
    assert list(range(30)) == sorted(chain(*parts))


async def test_an_error_reaches_one_of_several_consumers_and_the_rest_end(spy: Spy) -> None:
    def source() -> Iterator[Awaitable[int]]:
        yield spy.sleep(1)
        raise ZeroDivisionError

    async with as_completed(source(), limit=2) as futures:
        waiting = [asyncio.create_task(anext(futures, None)) for _ in range(4)]
        came = await asyncio.gather(*waiting, return_exceptions=True)
        assert 1 == sum(isinstance(result, ZeroDivisionError) for result in came)
        assert 2 == came.count(None)


@pytest.mark.parametrize("others", [0, 1, 3])
async def test_a_consumer_that_is_cancelled_at_hand_over_loses_nothing(spy: Spy, others: int) -> None:
    loop = asyncio.get_running_loop()
    first: asyncio.Future[int] = loop.create_future()
    async with as_completed([first, spy.sleep(1)], limit=2) as futures:
        consumers = [asyncio.create_task(futures.__anext__()) for _ in range(1 + others)]
        await asyncio.sleep(0.5)
        first.set_result(0)
        await asyncio.sleep(0)  # the callback of the flow has run, and has woken the first consumer
        consumers[0].cancel()
        await a_moment()
        assert [True, *[n == 1 for n in range(1, 1 + others)]] == [consumer.done() for consumer in consumers]
        came = await asyncio.gather(*consumers, return_exceptions=True)
        assert isinstance(came[0], asyncio.CancelledError)
        came += [future async for future in futures]
    assert [0, 1] == sorted(future.result() for future in came if isinstance(future, asyncio.Future))


async def test_a_wait_that_times_out_within_the_block_loses_nothing(spy: Spy) -> None:
    async with as_completed([spy.sleep(n, 1 + n) for n in range(3)], limit=3) as futures:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(futures), 0.5)
        assert [0, 1, 2] == [future.result() async for future in futures]


# -- children that resist, cancellation while closing


async def test_a_child_that_ignores_its_cancellation_or_makes_an_error_of_it_is_waited_for_in_silence() -> None:
    async def stubborn(n: int) -> str:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(1000)
        await asyncio.sleep(20)
        ended.append(now_s())
        return f"done all the same: {1 / n}"

    ended: list[float] = []
    async with as_completed([stubborn(n) for n in range(3)], limit=2):
        await asyncio.sleep(1)
    assert [21, 21] == ended


@pytest.mark.parametrize("fatal", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("has_block", [False, True])
def test_an_interrupt_in_a_child_ends_the_program_and_leaves_nothing_behind(
    fatal: type[BaseException], has_block: bool
) -> None:
    async def interrupted() -> None:
        await asyncio.sleep(1)
        raise fatal

    async def main() -> None:
        futures = as_completed([spy.sleep(1, 10, last_words_s=5), interrupted(), spy.sleep(2, 10)], limit=2)
        if has_block:
            async with futures:
                await asyncio.sleep(100)
        else:
            async for _ in futures:
                pass

    spy = Spy()
    fail_quietly(main(), fatal)
    assert ([1], 0) == (spy.cancelled, spy.running)


async def test_a_child_that_other_code_cancels_is_delivered_as_cancelled_and_ends_the_rest(spy: Spy) -> None:
    before = asyncio.all_tasks()
    async with as_completed((spy.sleep(n, 10) for n in count()), limit=2) as futures:
        await asyncio.sleep(1)
        (asyncio.all_tasks() - before).pop().cancel()
        assert (await anext(futures)).cancelled()
        with pytest.raises(asyncio.CancelledError):
            await anext(futures)
        assert [] == [future async for future in futures]
    assert 1 == now_s()
    assert [0, 1] == sorted(spy.cancelled)


async def test_a_child_that_ends_by_the_cancellation_of_another_one_stops_nothing(spy: Spy) -> None:
    async def wait_for(other: asyncio.Future[None]) -> None:
        await other

    other: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    other.cancel()
    aws = [wait_for(other), *(spy.sleep(n) for n in range(8))]
    assert 8 == sum([not future.cancelled() async for future in as_completed(aws, limit=2)])


# -- dropped, by any thread and at any time


async def test_another_thread_may_drop_the_iterator(spy: Spy) -> None:
    held = [as_completed((spy.sleep(n, 1 + n) for n in count()), limit=2)]
    await anext(held[0])
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    await a_moment()
    assert (1, 0) == (now_s(), spy.running)


def test_the_iterator_may_be_dropped_when_the_loop_is_closed() -> None:
    async def main() -> None:
        held.append(as_completed((spy.sleep(n, 1 + n) for n in count()), limit=2))
        await anext(held[0])
        raise ZeroDivisionError

    spy, held = Spy(), list[CompletedFutures[int]]()
    fail_quietly(main(), ZeroDivisionError)
    assert 0 == spy.running
    held.clear()


def test_an_error_that_was_caught_does_not_keep_a_loop_that_was_left_until_the_garbage_collector_comes() -> None:
    reports: list[object] = []

    async def work(item: int) -> None:
        if item in (1, 5):
            raise ValueError

    async def take_two() -> None:
        for taken, awaitable in enumerate(as_completed(map(work, range(6)), limit=2)):
            try:
                await awaitable
            except ValueError:
                assert 1 == taken
                return

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reports.append(context))
        await asyncio.create_task(take_two())
        await asyncio.sleep(10)

    gc.disable()
    try:
        run_on_virtual_clock(main())
    finally:
        gc.enable()
    gc.collect()
    assert [] == reports


# -- contexts
