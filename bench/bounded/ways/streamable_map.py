"""streamable."""

from collections.abc import Sequence

from streamable import stream

from bounded.ways import Total
from bounded.workloads import Work


async def run(work: Work, items: Sequence[int], limit: int, total: Total) -> Total:
    """As they come."""
    async for result in stream(items).map(work, concurrency=limit, as_completed=True):
        total += result
    return total
