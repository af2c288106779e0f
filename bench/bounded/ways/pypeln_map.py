"""pypeln."""

from collections.abc import Sequence

import pypeln

from bounded.ways import Total
from bounded.workloads import Work


async def run(work: Work, items: Sequence[int], limit: int, total: Total) -> Total:
    """With a bound on its queues, which has none unless it is told."""
    async for result in pypeln.task.map(work, items, workers=limit, maxsize=limit):
        total += result
    return total
