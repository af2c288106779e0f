"""`source_in_thread=True`: a thread reads the items, so that a source that blocks doesn't block the loop."""

import asyncio
import gc
import itertools
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from typing import Any

import pytest

import headgate
from headgate import ConcurrencyLimit, Retry, amap
from support.loops import Run, until

OPTIONS: list[dict[str, Any]] = [
    {},
    {"timeout": 50},
    {"ordered": True},
    {"errors": "yield"},
    {"limit": ConcurrencyLimit(9)},
    {"retry": Retry()},
    {"key": lambda number: number % 3, "per_key": 3},
]
WAIT_S = 20


async def same(number: int) -> int:
    await asyncio.sleep(0)
    return number


def mapped(items: Any, function: Callable[[Any], Any] = same, **options: Any) -> Any:
    return amap(function, items, **({"limit": 3, "source_in_thread": True} | options))


async def collected(results: Any) -> list[Any]:
    async with results:
        return [getattr(result, "value", result) async for result in results]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("count", [0, 1, 5000])
def test_every_item_is_called_once(run: Run, options: dict[str, Any], count: int) -> None:
    async def main() -> None:
        for items in (range(count), iter(range(count)), (number for number in range(count))):
            assert list(range(count)) == sorted(await collected(mapped(items, **options)))

    run(main())


@pytest.mark.parametrize("options", OPTIONS)
def test_calls_continue_while_the_source_blocks(run: Run, options: dict[str, Any]) -> None:
    is_called = threading.Event()

    def blocking() -> Iterator[int]:
        is_called.clear()
        yield 0
        assert is_called.wait(WAIT_S)  # the call needs several turns of the loop meanwhile
        yield 1

    async def call(number: int) -> int:
        for _ in range(10):
            await asyncio.sleep(0.001)
        is_called.set()
        return number

    async def main() -> None:
        assert [0, 1] == sorted(await collected(mapped(blocking(), call, **options)))

    run(main())


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("error", [LookupError("broken"), KeyboardInterrupt(), SystemExit(3)])
def test_an_error_of_the_source_is_raised_in_the_loop(run: Run, options: dict[str, Any], error: BaseException) -> None:
    def broken() -> Iterator[int]:
        yield from range(10)
        raise error

    async def main() -> None:
        seen = list[int]()
        results = mapped(broken(), **options)

        async def take() -> None:
            async with results:
                async for result in results:
                    seen.append(getattr(result, "value", result))

        with pytest.raises(type(error)):
            await take()
        if isinstance(error, Exception):
            assert list(range(10)) == sorted(seen)

    run(main())


def test_it_is_read_in_the_context_of_the_block() -> None:
    variable, seen = ContextVar("variable", default=0), list[int]()

    def source() -> Iterator[int]:
        seen.append(variable.get())
        variable.set(2)
        yield 1

    async def main() -> None:
        variable.set(1)
        await collected(mapped(source()))
        assert 1 == variable.get()

    asyncio.run(main())
    assert [1] == seen


def test_no_more_than_64_items_are_read_ahead() -> None:
    read = itertools.count()
    numbers = (next(read) for _ in itertools.count())

    async def main() -> None:
        async with mapped(numbers, lambda _: asyncio.Event().wait(), limit=2) as results:
            await until(lambda: results.statistics().taken == 2 and int(repr(read)[6:-1]) >= 64)
            await asyncio.sleep(0.05)
            last = int(repr(read)[6:-1])
            assert last <= 2 + 64
            assert [*range(2, last)] == results.stop()
            assert (last, last - 2) == ((now := results.statistics()).taken, now.unstarted)

    asyncio.run(main())


@pytest.mark.parametrize("options", OPTIONS)
def test_leaving_the_block_closes_a_generator_in_its_thread(run: Run, options: dict[str, Any]) -> None:
    threads = list[int]()

    def source() -> Iterator[int]:
        threads.append(threading.get_ident())
        try:
            yield from itertools.count()
        finally:
            threads.append(threading.get_ident())

    async def main() -> None:
        threads.clear()
        async with mapped(source(), lambda _: asyncio.Event().wait(), **options) as results:
            await until(lambda: results.statistics().taken >= 3)
            await asyncio.sleep(0.02)  # the thread waits for space in most runs
        await until(lambda: len(threads) == 2)
        assert 1 == len(set(threads))
        assert threading.get_ident() not in threads

    run(main())


@pytest.mark.parametrize("options", OPTIONS)
def test_leaving_does_not_wait_for_a_read_that_blocks(run: Run, options: dict[str, Any]) -> None:
    is_read, may_continue, is_closed = threading.Event(), threading.Event(), threading.Event()

    def blocking() -> Iterator[int]:
        try:
            yield 0
            is_read.set()
            may_continue.wait(WAIT_S)
            yield 1
        finally:
            is_closed.set()

    async def main() -> None:
        for event in (is_read, may_continue, is_closed):
            event.clear()
        async with asyncio.timeout(WAIT_S / 2), mapped(blocking(), **options) as results:
            await anext(results)
            await asyncio.to_thread(is_read.wait, WAIT_S)
        assert not is_closed.is_set()
        may_continue.set()
        assert await asyncio.to_thread(is_closed.wait, WAIT_S)

    run(main())


def test_dropping_the_iterator_ends_the_thread() -> None:
    is_closed = threading.Event()

    def source() -> Iterator[int]:
        try:
            yield from itertools.count()
        finally:
            is_closed.set()

    async def main() -> None:
        async for _ in mapped(source()):
            break
        gc.collect()
        assert await asyncio.to_thread(is_closed.wait, WAIT_S)

    asyncio.run(main())


def test_a_loop_that_ends_first_ends_the_thread() -> None:
    is_closed, kept = threading.Event(), list[Any]()

    def source() -> Iterator[int]:
        try:
            yield from itertools.count()
        finally:
            is_closed.set()

    async def main() -> None:
        kept.append(mapped(source()))
        await anext(kept[0])

    asyncio.run(main())
    kept.clear()
    gc.collect()
    assert is_closed.wait(WAIT_S)


def test_nothing_refers_to_what_is_over() -> None:
    class Item:
        pass

    async def main() -> None:
        async def call(item: Item) -> None:
            found.append(weakref.ref(item))

        found = list[weakref.ref[Item]]()
        await collected(mapped((Item() for _ in range(100)), call))
        gc.collect()
        assert [None] * 100 == [reference() for reference in found]

    asyncio.run(main())


def test_a_blocked_read_does_not_hang_the_end_of_the_program() -> None:
    program = """
import asyncio, threading, headgate

def source():
    yield 1
    threading.Event().wait()

async def main():
    async with headgate.amap(asyncio.sleep, source(), limit=2, source_in_thread=True) as results:
        await anext(results)

asyncio.run(main())
print("over")
"""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert "over\n" == done.stdout


def test_map_and_for_each_have_it_too() -> None:
    def source() -> Iterator[int]:
        for number in range(10):
            time.sleep(0.001)
            yield number

    with headgate.map(same, source(), limit=3, source_in_thread=True) as results:
        assert list(range(10)) == sorted(results)
    assert 10 == asyncio.run(headgate.for_each(same, source(), limit=3, source_in_thread=True)).succeeded


def test_an_async_iterable_needs_none() -> None:
    async def source() -> AsyncIterator[int]:
        yield 1

    with pytest.raises(TypeError, match="items is an async iterable: leave it out"):
        amap(same, source(), limit=1, source_in_thread=True)


# -- without it


@pytest.mark.parametrize("options", OPTIONS[:2])
def test_a_call_with_short_waits_ends_before_the_next_slow_read(run: Run, options: dict[str, Any]) -> None:
    events = list[str]()

    def slow() -> Iterator[int]:
        for number in range(4):
            time.sleep(0.3)
            events.append(f"read {number}")
            yield number

    async def call(number: int) -> int:
        for _ in range(5):
            await asyncio.sleep(0.0005)
        events.append(f"ended {number}")
        return number

    async def main() -> None:
        events.clear()
        await collected(amap(call, slow(), **({"limit": 9} | options)))

    run(main())
    assert [f"{what} {number}" for number in range(4) for what in ("read", "ended")] == events


def test_a_loop_that_is_busy_has_as_much_time_as_a_read() -> None:
    spun_s = list[float]()

    def slow() -> Iterator[int]:
        for number in range(3):
            began = time.monotonic()
            time.sleep(0.1)
            spun_s.append(began)
            yield number

    async def spin() -> None:
        while True:
            until = time.monotonic() + 0.002
            while time.monotonic() < until:
                pass
            await asyncio.sleep(0)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            spinning = group.create_task(spin())
            await collected(amap(same, slow(), limit=9))
            spinning.cancel()

    asyncio.run(main())
    assert all(later - earlier >= 0.2 for earlier, later in itertools.pairwise(spun_s))
