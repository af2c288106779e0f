"""Helpers for tests of `as_completed` that hold for its iterator and for its async iterator."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

import pytest

from headgate import as_completed

T = TypeVar("T")
Collect = Callable[..., Coroutine[Any, Any, list[Any]]]
Take = Callable[[Any, int], Coroutine[Any, Any, list[Any]]]


async def by_for(aws: Any, **options: Any) -> list[Any]:
    return [await awaitable for awaitable in as_completed(aws, **options)]


async def by_async_for(aws: Any, **options: Any) -> list[Any]:
    return [future.result() async for future in as_completed(aws, **options)]


async def take_by_for(futures: Any, count: int) -> list[Any]:
    taken = []
    for awaitable in futures:
        taken.append(await awaitable)
        if len(taken) == count:
            break
    return taken


async def take_by_async_for(futures: Any, count: int) -> list[Any]:
    taken = []
    async for future in futures:
        taken.append(future.result())
        if len(taken) == count:
            break
    return taken


with_either_iterator = pytest.mark.parametrize("collect", [by_for, by_async_for])
taking_from_either_iterator = pytest.mark.parametrize("take", [take_by_for, take_by_async_for])


class Later:
    """An awaitable that is neither a coroutine nor a future."""

    def __init__(self, name: object) -> None:
        self._name = name

    def __await__(self) -> Generator[Any, None, object]:
        yield from asyncio.sleep(1).__await__()
        return self._name


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def one(name: T) -> T:
    return name


async def a_moment() -> None:
    """Lets cancelled tasks end, which takes a few turns of the loop; no time passes."""
    for _ in range(5):
        await asyncio.sleep(0)
