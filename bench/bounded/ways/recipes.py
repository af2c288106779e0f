"""Common solutions with the standard library alone."""

import asyncio
from collections.abc import Awaitable, Coroutine, Iterator, Sequence
from itertools import islice
from typing import Any

from bounded.ways import Total
from bounded.workloads import Work


async def floor(work: Work, items: Sequence[int], limit: int, total: Total) -> Total:
    """Runs a task for each item at the lowest cost: each done-callback starts the next task; results are dropped."""
    loop = asyncio.get_running_loop()
    finished = loop.create_future()
    source = iter(items)
    running = 0

    def start_next(_ended: object) -> None:
        nonlocal running
        for item in source:
            loop.create_task(work(item)).add_done_callback(start_next)
            return
        running -= 1
        if not running:
            finished.set_result(None)

    for item in islice(source, limit):
        running += 1
        loop.create_task(work(item)).add_done_callback(start_next)
    await finished
    return total


async def fixed_workers(work: Work, items: Sequence[int], limit: int, total: Total) -> Total:
    """Runs as many tasks as the limit, each of which takes one item after another."""
    source = iter(items)

    async def worker() -> None:
        nonlocal total
        for item in source:
            result = await work(item)
            total += result

    async with asyncio.TaskGroup() as group:
        for _ in range(limit):
            group.create_task(worker())
    return total


def _limited_as_completed(coroutines: Iterator[Coroutine[Any, Any, int]], limit: int) -> Iterator[Awaitable[int]]:
    """Yields awaitables that check all futures in each iteration of the loop, by Andy Balaam (2017).

    https://www.artificialworlds.net/blog/2017/06/12/making-100-million-requests-with-python-aiohttp/
    """
    running = [asyncio.ensure_future(coroutine) for coroutine in islice(coroutines, limit)]

    async def first_to_finish() -> int:
        while True:
            await asyncio.sleep(0)
            for future in running:
                if future.done():
                    running.remove(future)
                    running.extend(map(asyncio.ensure_future, islice(coroutines, 1)))
                    return future.result()

    while running:
        yield first_to_finish()


async def original(work: Work, items: Sequence[int], limit: int, total: Total) -> Total:
    """Runs `limited_as_completed` as it was first published."""
    for future in _limited_as_completed(map(work, items), limit):
        total += await future
    return total


async def semaphore_and_gather(work: Work, items: Sequence[int], limit: int, total: Total) -> Total:
    """Creates all tasks at once, which wait for a semaphore."""
    semaphore = asyncio.Semaphore(limit)

    async def bounded(item: int) -> int:
        async with semaphore:
            return await work(item)

    for result in await asyncio.gather(*map(bounded, items)):
        total += result
    return total


async def wait_refill(work: Work, items: Sequence[int], limit: int, total: Total) -> Total:
    """Waits for the first task by `asyncio.wait`, then starts as many new tasks as have ended."""
    source = iter(items)
    running = {asyncio.ensure_future(work(item)) for item in islice(source, limit)}
    while running:
        done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for future in done:
            total += future.result()
        running.update(asyncio.ensure_future(work(item)) for item in islice(source, len(done)))
    return total


async def task_group_and_semaphore(work: Work, items: Sequence[int], limit: int, total: Total) -> Total:
    """Acquires a semaphore before it creates a task, so that there are never more tasks than the limit."""
    semaphore = asyncio.Semaphore(limit)

    async def bounded(item: int) -> None:
        nonlocal total
        try:
            result = await work(item)
            total += result
        finally:
            semaphore.release()

    async with asyncio.TaskGroup() as group:
        for item in items:
            await semaphore.acquire()
            group.create_task(bounded(item))
    return total
