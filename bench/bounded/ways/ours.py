"""headgate, with the plain options."""

from collections.abc import Sequence

from bounded.ways import Total
from bounded.workloads import Work
from headgate import amap, as_completed


async def results(work: Work, items: Sequence[int], limit: int, total: Total) -> Total:
    """Results, as they come."""
    async with amap(work, items, limit=limit) as found:
        async for result in found:
            total += result
    return total


async def futures(work: Work, items: Sequence[int], limit: int, total: Total) -> Total:
    """Finished futures."""
    async for future in as_completed(map(work, items), limit=limit):
        total += future.result()
    return total


async def plain_futures(work: Work, items: Sequence[int], limit: int, total: Total) -> Total:
    """Futures to be awaited, in a plain `for`."""
    for future in as_completed(map(work, items), limit=limit):
        total += await future
    return total
