"""Helpers for tests of maps: functions to call, and functions that collect the results."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from headgate import amap
from support.as_completed import now_s
from support.virtual_clock import run_on_virtual_clock


async def wait_that_long(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


async def from_afar(count: int) -> AsyncIterator[int]:
    """Yields the numbers below `count`; each takes a turn of the event loop."""
    for number in range(count):
        await asyncio.sleep(0)
        yield number


async def fail_if_odd(item: int) -> int:
    await asyncio.sleep(item)
    if item % 2:
        raise ValueError(item)
    return item


class Calls:
    """A function that takes some seconds, fails as often as `failures` says, and records when it was called."""

    def __init__(self, seconds: float = 0, *, failures: dict[Any, int] | None = None) -> None:
        self._seconds = seconds
        self._failures = failures or {}
        self._counts: Counter[Any] = Counter()
        self._running = 0
        self.most = 0
        self.starts: list[tuple[Any, float]] = []

    async def __call__(self, item: Any) -> Any:
        self.starts.append((item, now_s()))
        self._counts[item] += 1
        attempt = self._counts[item]
        self._running += 1
        self.most = max(self.most, self._running)
        try:
            await asyncio.sleep(self._seconds)
        finally:
            self._running -= 1
        if attempt <= self._failures.get(item, 0):
            raise ValueError(item)
        return item


async def collected(results: Any) -> list[Any]:
    async with results:
        return [result async for result in results]


def all_of(function: Callable[[Any], Awaitable[Any]], items: Any, **options: Any) -> list[Any]:
    async def main() -> list[Any]:
        return await collected(amap(function, items, **options))

    return run_on_virtual_clock(main())


def wait_s(seconds: float) -> Callable[[int, Exception], float]:
    """Returns a backoff that is always this long."""
    return lambda _attempt, _error: seconds
