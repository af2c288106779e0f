"""The two ways in which `as_completed` can be iterated, for tests of what both have in common."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from headgate import as_completed

T = TypeVar("T")
Collect = Callable[..., Coroutine[Any, Any, list[Any]]]


async def by_for(aws: Any, **options: Any) -> list[Any]:
    return [await awaitable for awaitable in as_completed(aws, **options)]


async def by_async_for(aws: Any, **options: Any) -> list[Any]:
    return [future.result() async for future in as_completed(aws, **options)]


either_face = pytest.mark.parametrize("collect", [by_for, by_async_for])


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def one(name: T) -> T:
    return name


async def a_moment() -> None:
    """Lets what is cancelled end, of which nobody knows when; no time passes."""
    for _ in range(5):
        await asyncio.sleep(0)
