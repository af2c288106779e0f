"""Calls begin and have all of their time, also if the source blocks."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from headgate import CompletedFutures, ConcurrencyLimit, Rate, Retry, amap, as_completed
from support.as_completed import now_s
from support.maps import all_of, collected
from support.quiet import Spy
from support.virtual_clock import VirtualClockLoop, run_on_virtual_clock


def block(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualClockLoop)
    loop.pass_time(seconds)


class SlowSource:
    """Yields numbers, and blocks before each from a certain one on; records when each was read and its call began."""

    def __init__(self, seconds: float, count: int, *, slow_from: int = 0, call_s: float = 0.0) -> None:
        self._seconds = seconds
        self._count = count
        self._slow_from = slow_from
        self._call_s = call_s
        self.events: list[str] = []

    def __iter__(self) -> Iterator[int]:
        for number in range(self._count):
            if number >= self._slow_from:
                block(self._seconds)
            self.events.append(f"pulled {number}")
            yield number

    async def iterate(self) -> AsyncIterator[int]:
        for number in self:
            yield number

    async def call(self, number: int) -> int:
        self.events.append(f"began {number}")
        await asyncio.sleep(self._call_s)
        return number


def one_by_one(count: int) -> list[str]:
    return [f"{what} {number}" for number in range(count) for what in ("pulled", "began")]


OPTIONS: list[dict[str, Any]] = [
    {},
    {"timeout": 50},
    {"ordered": True},
    {"errors": "yield"},
    {"limit": ConcurrencyLimit(9)},
    {"rate": Rate(1000, burst=1000)},
    {"retry": Retry()},
    {"key": lambda number: number % 3, "per_key": 3},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("seconds", [0.01, 0.6])
@pytest.mark.parametrize("is_async", [False, True])
def test_an_item_begins_before_the_next_one_is_read(options: dict[str, Any], seconds: float, *, is_async: bool) -> None:
    source = SlowSource(seconds, 5)
    assert 5 == len(all_of(source.call, source.iterate() if is_async else source, **({"limit": 9} | options)))
    assert one_by_one(5) == source.events


async def test_an_awaitable_begins_before_as_completed_reads_the_next_one() -> None:
    source = SlowSource(0.6, 5)
    async with as_completed((source.call(number) for number in source), limit=9) as futures:
        assert [0, 1, 2, 3, 4] == [future.result() async for future in futures]
    assert one_by_one(5) == source.events


@pytest.mark.parametrize("options", [each for each in OPTIONS if "limit" not in each])  # it reads one ahead
def test_calls_that_end_at_once_are_followed_one_by_one_if_the_source_has_become_slow(options: dict[str, Any]) -> None:
    source = SlowSource(0.6, 6, slow_from=3, call_s=10)
    all_of(source.call, source, limit=3, **options)
    assert [*(f"pulled {number}" for number in range(3)), *(f"began {number}" for number in range(3))] == (
        source.events[:6]
    )
    assert one_by_one(6)[6:] == source.events[6:]


def test_items_that_come_at_once_are_pulled_together() -> None:
    source = SlowSource(0.0001, 100)
    all_of(source.call, source, limit=100)
    turns = "".join(event[0] for event in source.events).replace("pb", "p b").split()
    assert len(turns) < 6  # 50 pulls are 5 ms


@pytest.mark.parametrize("seconds", [0.02, 0.1, 0.6])
@pytest.mark.parametrize("options", [{}, {"ordered": True}, {"key": lambda number: number, "per_key": 1}])
def test_no_call_runs_out_of_time_because_the_source_blocks(seconds: float, options: dict[str, Any]) -> None:
    source = SlowSource(seconds, 50, call_s=0.001)
    assert list(range(50)) == sorted(all_of(source.call, source, limit=100, timeout=0.5, **options))


async def test_no_call_runs_out_of_time_because_the_source_of_a_map_without_options_blocks() -> None:
    source = SlowSource(0.6, 5)
    async with asyncio.TaskGroup() as group:
        limited = group.create_task(
            collected(amap(asyncio.sleep, [0.1, 0.2, 0.3], limit=9, timeout=0.5, errors="yield"))
        )
        group.create_task(collected(amap(source.call, source, limit=9)))
    assert [None] * 3 == [outcome.error for outcome in limited.result()]


def test_a_retried_attempt_has_all_of_its_time_too() -> None:
    async def call(number: int) -> int:
        await asyncio.sleep(0.4)
        if number not in failed:
            failed.add(number)
            raise ValueError
        return number

    failed: set[int] = set()
    source = SlowSource(0.6, 10)
    assert list(range(10)) == sorted(all_of(call, source, limit=3, timeout=0.5, retry=Retry(2, 0)))


async def test_a_call_that_takes_too_long_runs_out_of_time_also_when_the_source_blocks() -> None:
    source = SlowSource(0.3, 3)
    outcomes = await collected(
        amap(lambda number: asyncio.sleep(0 if number else 100), source, limit=9, timeout=0.5, errors="yield")
    )
    assert [0.5] == [round(outcome.elapsed_s, 6) for outcome in outcomes if outcome.error]
    kinds, at_s = [type(outcome.error).__name__ for outcome in outcomes], now_s()
    assert ["NoneType", "NoneType", "TimeoutError"] == sorted(kinds)
    assert 1.4 == pytest.approx(at_s)


# -- the end, while the source is to be pulled on


@pytest.mark.parametrize("options", OPTIONS)
async def test_stop_ends_it_also_where_a_slow_source_is_to_be_pulled_on(options: dict[str, Any]) -> None:
    source = SlowSource(1, 9)
    async with amap(source.call, source, **({"limit": 9} | options)) as results:
        assert [] == results.stop()
        assert 1 == len([result async for result in results])
    assert (1, 1, 0) == ((now := results.statistics()).taken, now.succeeded, now.running)
    assert one_by_one(1) == source.events


@pytest.mark.parametrize("options", OPTIONS)
async def test_a_block_that_is_left_where_a_slow_source_is_to_be_pulled_on_pulls_nothing_more(
    options: dict[str, Any],
) -> None:
    source = SlowSource(1, 9)
    async with amap(source.call, source, **({"limit": 9} | options)):
        pass
    await asyncio.sleep(10)
    assert ["pulled 0"] == source.events


async def test_a_loop_that_is_let_go_of_where_a_slow_source_is_to_be_pulled_on_pulls_nothing_more() -> None:
    source = SlowSource(1, 99)
    async for _ in amap(source.call, source, limit=9):
        break
    pulled = len(source.events)
    await asyncio.sleep(10)
    assert 0 == (len(source.events) - pulled)


async def test_a_plain_for_may_promise_as_many_from_a_slow_source_as_from_any() -> None:
    source = SlowSource(1, 9)
    futures: CompletedFutures[int] = as_completed((source.call(number) for number in source), limit=4)
    promised = [next(futures) for _ in range(5)]
    with pytest.raises(RuntimeError, match="none is awaited"):
        promised.append(next(futures))
    assert list(range(9)) == sorted(
        [await awaitable for awaitable in promised] + [await awaitable for awaitable in futures]
    )


# -- an interrupt


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("options", OPTIONS)
async def test_an_interrupt_in_a_source_cancels_running_calls_at_once(
    kind: type[BaseException], options: dict[str, Any], *, is_async: bool
) -> None:
    def numbers() -> Iterator[int]:
        yield 0
        raise kind

    async def numbers_async() -> AsyncIterator[int]:
        for number in numbers():
            yield number

    source = numbers_async() if is_async else numbers()
    with pytest.raises(kind):
        await collected(amap(lambda _: asyncio.sleep(1000), source, **({"limit": 9} | options)))
    assert 0 == now_s()


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("has_left", [False, True])
async def test_an_interrupt_in_a_source_comes_before_a_cancellation_of_the_waiting_task(
    kind: type[BaseException], *, has_left: bool
) -> None:
    def numbers() -> Iterator[int]:
        yield 1
        yield 1000
        raise kind  # raised when one of the two has ended

    async def clean_up(sleep_s: int) -> None:
        try:
            await asyncio.sleep(sleep_s)
        finally:
            await asyncio.sleep(10)

    async def consume() -> None:
        async with asyncio.timeout(15), amap(clean_up, numbers(), limit=2) as results:
            if has_left:
                await asyncio.sleep(12)
            else:
                await collected(results)

    with pytest.raises(kind):
        await consume()
    # One ends after 11 seconds, the other has ten for its clean-up from then on.
    assert 21 == now_s()


def test_an_interrupt_in_a_source_is_not_lost_with_uncollected_results() -> None:
    def numbers() -> Iterator[int]:
        yield 0
        raise KeyboardInterrupt

    async def main() -> None:
        async with amap(asyncio.sleep, numbers(), limit=2):
            await asyncio.sleep(1)

    with pytest.raises(KeyboardInterrupt):
        run_on_virtual_clock(main())


async def test_an_interrupt_in_a_source_of_coroutines_cancels_running_calls_at_once(spy: Spy) -> None:
    def coroutines(spy: Spy) -> Iterator[Any]:
        yield spy.sleep(0, 1000)
        raise KeyboardInterrupt

    futures = as_completed(coroutines(spy), limit=1)
    ask: Callable[[], Any] = lambda: next(futures)  # noqa: E731
    ask().close()
    ask().close()  # it was promised before the interrupt
    with pytest.raises(KeyboardInterrupt):
        await anext(futures)
    assert (0, 0) == (spy.running, now_s())
