"""anyio."""

from collections.abc import Sequence

import anyio

from bounded.ways import Total
from bounded.workloads import Work


async def run(work: Work, items: Sequence[int], _limit: int, total: Total) -> Total:
    """It takes no limit: all start at once."""
    for result in await anyio.amap(work, items):
        total += result
    return total
