"""What still runs when its event loop is closed is collected without a report of an error."""

import asyncio
import gc
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

import headgate

Call = Callable[[], Awaitable[Any]]


async def gathered() -> None:
    await headgate.gather(asyncio.sleep(100), asyncio.sleep(200), asyncio.sleep(300), limit=2)


async def mapped() -> None:
    async with headgate.amap(asyncio.sleep, [100, 200, 300], limit=2) as results:
        await anext(results)


async def mapped_without_block() -> None:
    async for _ in headgate.amap(asyncio.sleep, [100, 200, 300], limit=2, timeout=500):
        pass


async def mapped_in_thread() -> None:
    async with headgate.amap(asyncio.sleep, iter([100] * 500), limit=2, source_in_thread=True) as results:
        await anext(results)


async def mapped_async_source() -> None:
    async def source() -> AsyncIterator[float]:
        yield 100
        await asyncio.sleep(100)

    async with headgate.amap(asyncio.sleep, source(), limit=2) as results:
        await anext(results)


async def completed() -> None:
    async with headgate.as_completed([asyncio.sleep(100), asyncio.sleep(200), asyncio.sleep(300)], limit=2) as futures:
        await anext(futures)


async def for_each() -> None:
    await headgate.for_each(asyncio.sleep, [100, 200, 300], limit=2)


CALLS: list[Call] = [
    gathered,
    mapped,
    mapped_without_block,
    mapped_in_thread,
    mapped_async_source,
    completed,
    for_each,
]


@pytest.fixture
def unraisable(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    reports = list[str]()
    monkeypatch.setattr(sys, "unraisablehook", lambda report: reports.append(repr(report.exc_value)))
    return reports


async def begin(call: Call) -> "asyncio.Future[Any]":
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # the test destroys a pending task on purpose
    task = asyncio.ensure_future(call())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()
    return task


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("call", CALLS)
def test_a_call_is_collected_after_its_loop_was_closed(unraisable: list[str], call: Call) -> None:
    gc.collect()
    unraisable.clear()
    loop = asyncio.new_event_loop()
    task = loop.run_until_complete(begin(call))
    loop.close()
    del task
    gc.collect()
    assert [] == unraisable


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("call", CALLS)
def test_a_call_is_collected_in_another_loop(unraisable: list[str], call: Call) -> None:
    async def collect() -> None:
        gc.collect()

    loop = asyncio.new_event_loop()
    task = loop.run_until_complete(begin(call))
    loop.close()
    del task
    asyncio.run(collect())
    assert [] == unraisable


@pytest.mark.parametrize("call", CALLS)
def test_a_coroutine_that_is_closed_outside_of_a_loop_raises_nothing(unraisable: list[str], call: Call) -> None:
    async def first_step() -> Any:
        coroutine: Any = call()
        coroutine.send(None)
        return coroutine

    loop = asyncio.new_event_loop()
    coroutine = loop.run_until_complete(first_step())
    coroutine.close()
    loop.run_until_complete(asyncio.sleep(0))  # the cancelled calls end
    loop.close()
    del coroutine
    gc.collect()
    assert [] == unraisable


PROGRAM = """
import asyncio, sys
import headgate

sys.unraisablehook = lambda report: print("unraisable", report.exc_value)

async def main():
    task = asyncio.ensure_future(headgate.gather(asyncio.sleep(100), asyncio.sleep(100), limit=2))
    await asyncio.sleep(0.01)
    raise SystemExit(7)

asyncio.run(main())
"""


def test_a_program_that_ends_in_the_middle_reports_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    # In development mode, asyncio may report a slow step on standard error.
    assert (7, "") == (done.returncode, done.stdout), done.stderr
