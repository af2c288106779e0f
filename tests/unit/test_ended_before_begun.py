"""A map that was stopped or closed before anything was asked of it has no results, and does not wait for its source."""

from collections.abc import AsyncIterator

import pytest

from headgate import amap
from support.virtual_clock import run_on_virtual_clock


async def same(number: int) -> int:
    return number


async def from_afar() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
def test_stopped_before_it_began(*, is_async: bool, ordered: bool) -> None:
    async def main() -> None:
        results = amap(same, from_afar() if is_async else [1], limit=2, ordered=ordered)
        assert [] == results.stop()
        assert [] == [result async for result in results]

    run_on_virtual_clock(main())


@pytest.mark.parametrize("is_async", [False, True])
def test_closed_before_it_began(*, is_async: bool) -> None:
    async def main() -> None:
        results = amap(same, from_afar() if is_async else [1], limit=2)
        await results.aclose()
        assert [] == [result async for result in results]

    run_on_virtual_clock(main())
