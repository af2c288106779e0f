"""headgate: `as_completed`, and `amap` with one option each, whose value changes nothing."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from bounded.ways import Runner, Total
from bounded.workloads import Work
from headgate import ConcurrencyLimit, Rate, Retry, amap, as_completed

_KEYS: Final = 16
_UNREACHED: Final = 1e9
"""A rate and a burst far above what any loop can start."""


async def futures(work: Work, items: Sequence[int], limit: int, total: Total) -> Total:
    """Runs `as_completed` with `async for`, which yields finished futures."""
    async for future in as_completed(map(work, items), limit=limit):
        total += future.result()
    return total


async def plain_futures(work: Work, items: Sequence[int], limit: int, total: Total) -> Total:
    """Runs `as_completed` with a plain `for`, which yields coroutines."""
    for future in as_completed(map(work, items), limit=limit):
        total += await future
    return total


async def outcomes(work: Work, items: Sequence[int], limit: int, total: Total) -> Total:
    """Runs `amap` with `errors="yield"`, which yields an outcome for each item."""
    async with amap(work, items, limit=limit, errors="yield") as results:
        async for outcome in results:
            total += outcome.unwrap()
    return total


def _amap(options_of: Callable[[int], dict[str, Any]] = lambda _: {}) -> Runner:
    """Returns a runner of `amap` with the options for a limit."""

    async def run(work: Work, items: Sequence[int], limit: int, total: Total) -> Total:
        options: dict[str, Any] = {"limit": limit, **options_of(limit)}
        async with amap(work, items, **options) as results:
            async for result in results:
                total += result
        return total

    return run


results: Final = _amap()
ordered: Final = _amap(lambda _: {"ordered": True})
timeout: Final = _amap(lambda _: {"timeout": 10})
retry: Final = _amap(lambda _: {"retry": Retry(3)})
rate: Final = _amap(lambda _: {"rate": Rate(_UNREACHED, burst=_UNREACHED)})
key: Final = _amap(lambda limit: {"key": lambda item: item % _KEYS, "per_key": limit})
shared_limit: Final = _amap(lambda limit: {"limit": ConcurrencyLimit(limit)})
