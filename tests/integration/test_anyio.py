"""Within a cancel scope of anyio, as FastAPI and Starlette have one: it cancels at each turn of the loop."""

import asyncio
from collections.abc import Awaitable, Callable

import anyio
import pytest

import headgate

LIMIT = 5
ITEMS = range(100)

Call = Callable[[int], Awaitable[None]]


async def amap(call: Call) -> None:
    async with headgate.amap(call, ITEMS, limit=LIMIT) as results:
        async for _ in results:
            pass


async def amap_without_a_block(call: Call) -> None:
    async for _ in headgate.amap(call, ITEMS, limit=LIMIT, timeout=60):
        pass


async def as_completed(call: Call) -> None:
    async with headgate.as_completed((call(item) for item in ITEMS), limit=LIMIT) as futures:
        async for _ in futures:
            pass


async def for_each(call: Call) -> None:
    await headgate.for_each(call, ITEMS, limit=LIMIT)


async def gather(call: Call) -> None:
    await headgate.gather(*(call(item) for item in ITEMS), limit=LIMIT)


@pytest.mark.parametrize("use_uvloop", [False, True])
@pytest.mark.parametrize("way", [amap, amap_without_a_block, as_completed, for_each, gather])
def test_every_call_finishes_its_clean_up(way: Callable[[Call], Awaitable[None]], use_uvloop: bool) -> None:
    begun: list[int] = []
    cleaned: list[int] = []

    async def main() -> None:
        all_have_begun = asyncio.Event()

        async def call(item: int) -> None:
            begun.append(item)
            if len(begun) == LIMIT:
                all_have_begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                for _ in range(10):
                    await asyncio.sleep(0)
                cleaned.append(item)

        async with anyio.create_task_group() as group:
            group.start_soon(way, call)
            await all_have_begun.wait()
            group.cancel_scope.cancel()

    anyio.run(main, backend_options={"use_uvloop": use_uvloop})
    assert (LIMIT, [*ITEMS[:LIMIT]]) == (len(begun), sorted(cleaned))
