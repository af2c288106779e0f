"""aiostream."""

from collections.abc import Sequence

from aiostream import stream

from bounded.ways import Total
from bounded.workloads import Work


async def run(work: Work, items: Sequence[int], limit: int, total: Total) -> Total:
    """As they come."""
    async with stream.map(stream.iterate(items), work, ordered=False, task_limit=limit).stream() as results:
        async for result in results:
            total += result
    return total
