"""headgate, with the plain options."""

from collections.abc import Sequence

import headgate
from bounded.ways import Total
from bounded.workloads import Work


async def amap(work: Work, items: Sequence[int], limit: int, total: Total) -> Total:
    """Results, as they come."""
    async with headgate.amap(work, items, limit=limit) as results:
        async for result in results:
            total += result
    return total


async def as_completed(work: Work, items: Sequence[int], limit: int, total: Total) -> Total:
    """Finished futures."""
    async for future in headgate.as_completed(map(work, items), limit=limit):
        total += future.result()
    return total


async def as_completed_for(work: Work, items: Sequence[int], limit: int, total: Total) -> Total:
    """Futures to be awaited, in a plain `for`."""
    for future in headgate.as_completed(map(work, items), limit=limit):
        total += await future
    return total
