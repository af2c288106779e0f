"""aiometer."""

from collections.abc import Sequence

import aiometer

from bounded.ways import Total
from bounded.workloads import Work


async def run(work: Work, items: Sequence[int], limit: int, total: Total) -> Total:
    """Needs to know how many there are."""
    async with aiometer.amap(work, items, max_at_once=limit) as results:
        async for result in results:
            total += result
    return total
