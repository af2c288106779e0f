"""`headgate.amap` with one option each: given such that it changes nothing, it costs only what it costs to be there."""

from collections.abc import Sequence

from bounded.ways import Total
from bounded.workloads import Work
from headgate import ConcurrencyLimit, Rate, Retry, amap

_KEYS = 16
_NEVER_HELD = 1e9
"""A second, and at once: far above what any loop can start."""


async def ordered(work: Work, items: Sequence[int], limit: int, total: Total) -> Total:
    """Results in the order of the items."""
    async with amap(work, items, limit=limit, ordered=True) as results:
        async for result in results:
            total += result
    return total


async def outcomes(work: Work, items: Sequence[int], limit: int, total: Total) -> Total:
    """A record for each task."""
    async with amap(work, items, limit=limit, errors="yield") as results:
        async for outcome in results:
            total += outcome.unwrap()
    return total


async def timeout(work: Work, items: Sequence[int], limit: int, total: Total) -> Total:
    """That no task reaches."""
    async with amap(work, items, limit=limit, timeout_s=10) as results:
        async for result in results:
            total += result
    return total


async def retry(work: Work, items: Sequence[int], limit: int, total: Total) -> Total:
    """Of which no task makes use."""
    async with amap(work, items, limit=limit, retry=Retry(3)) as results:
        async for result in results:
            total += result
    return total


async def rate(work: Work, items: Sequence[int], limit: int, total: Total) -> Total:
    """That holds nothing back."""
    never_held = Rate(_NEVER_HELD, burst=_NEVER_HELD)
    async with amap(work, items, limit=limit, rate=never_held) as results:
        async for result in results:
            total += result
    return total


async def key(work: Work, items: Sequence[int], limit: int, total: Total) -> Total:
    """Some keys, each of which might have all that may run."""
    async with amap(work, items, limit=limit, key=lambda item: item % _KEYS, per_key=limit) as results:
        async for result in results:
            total += result
    return total


async def shared_limit(work: Work, items: Sequence[int], limit: int, total: Total) -> Total:
    """Which is not shared with anyone."""
    async with amap(work, items, limit=ConcurrencyLimit(limit)) as results:
        async for result in results:
            total += result
    return total
