"""A call sees the context variables of the task that began the work, and keeps what it sets to itself."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import pytest

from headgate import Retry, amap, as_completed, gather
from support.maps import all_of

variable: ContextVar[str] = ContextVar("variable", default="unset")


async def call(item: int) -> str:
    seen = variable.get()
    variable.set(f"of call {item}")
    await asyncio.sleep(1)
    assert f"of call {item}" == variable.get()
    return seen


async def collect(results: Any) -> list[str]:
    collected = []
    async for result in results:
        collected.append(result.result() if asyncio.isfuture(result) else result)
        variable.set("changed by who collects")
    return collected


async def by_amap() -> list[str]:
    async with amap(call, range(6), limit=2, buffer=0) as results:
        return await collect(results)


async def by_as_completed() -> list[str]:
    return await collect(as_completed(map(call, range(6)), limit=2, buffer=0))


async def by_plain_as_completed() -> list[str]:
    collected = []
    for awaitable in as_completed(map(call, range(6)), limit=2, buffer=0):
        collected.append(await awaitable)
        variable.set("changed by who collects")
    return collected


async def by_another_task() -> list[str]:
    async with as_completed(map(call, range(6)), limit=2, buffer=0) as futures:
        return await asyncio.create_task(collect(futures))


async def by_gather() -> list[str]:
    return await gather(*map(call, range(6)), limit=2)


@pytest.mark.parametrize("way", [by_amap, by_as_completed, by_plain_as_completed, by_another_task, by_gather])
async def test_each_call_has_its_own_copy_of_the_context_in_which_the_work_began(
    way: Callable[[], Awaitable[list[str]]],
) -> None:
    variable.set("outer")
    assert ["outer"] * 6 == await way()
    assert variable.get() in ("outer", "changed by who collects")


def test_calls_do_not_see_the_context_of_an_async_source() -> None:
    async def source() -> AsyncIterator[int]:
        for item in range(3):
            variable.set("source")
            await asyncio.sleep(0)
            yield item

    async def work(item: int) -> str:
        if item not in failed:
            failed.add(item)
            raise ValueError
        return variable.get()

    failed: set[int] = {0}
    assert ["unset"] * 3 == all_of(work, source(), limit=2, retry=Retry(2))
