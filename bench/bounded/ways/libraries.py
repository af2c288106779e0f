"""Other libraries. Each is imported only when it runs, because only the process that measures it may load it."""

from collections.abc import Sequence
from importlib import import_module

from bounded.ways import Total
from bounded.workloads import Work


async def aiometer_amap(work: Work, items: Sequence[int], limit: int, total: Total) -> Total:
    """Runs `aiometer.amap`, which needs the number of items."""
    async with import_module("aiometer").amap(work, items, max_at_once=limit) as results:
        async for result in results:
            total += result
    return total


async def aiostream_map(work: Work, items: Sequence[int], limit: int, total: Total) -> Total:
    """Runs `aiostream.stream.map`, with results in the order of completion."""
    stream = import_module("aiostream").stream
    async with stream.map(stream.iterate(items), work, ordered=False, task_limit=limit).stream() as results:
        async for result in results:
            total += result
    return total


async def anyio_amap(work: Work, items: Sequence[int], _limit: int, total: Total) -> Total:
    """Runs `anyio.amap`, which has no limit: all tasks start at once."""
    for result in await import_module("anyio").amap(work, items):
        total += result
    return total


async def pypeln_map(work: Work, items: Sequence[int], limit: int, total: Total) -> Total:
    """Runs `pypeln.task.map`, with a bound for its queues, which have none by default."""
    async for result in import_module("pypeln").task.map(work, items, workers=limit, maxsize=limit):
        total += result
    return total


async def streamable_map(work: Work, items: Sequence[int], limit: int, total: Total) -> Total:
    """Runs `streamable.stream.map`, with results in the order of completion."""
    async for result in import_module("streamable").stream(items).map(work, concurrency=limit, as_completed=True):
        total += result
    return total
