"""What `amap` refuses: at once, before anything is started, in words that say what to do."""

from typing import Any

import pytest

from headgate import ConcurrencyLimit, Rate, Retry, amap


async def function(item: int) -> int:
    return item


GOOD: dict[str, Any] = {"function": function, "items": [1], "limit": 1}


async def nothing() -> None:
    pass


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("function", "function is a coroutine, which is one call of it: give the function itself, without ()"),
        ("items", "items is one piece of work, a coroutine: give an iterable, as a list or a generator"),
    ],
)
def test_a_coroutine_in_their_place_is_refused_and_closed(name: str, message: str) -> None:
    coroutine: Any = nothing()
    with pytest.raises(TypeError) as raised:
        amap(**(GOOD | {name: coroutine}))
    assert message == str(raised.value)
    assert coroutine.cr_frame is None  # else it would warn that it was never awaited


@pytest.mark.parametrize(
    "options",
    [
        {"limit": ConcurrencyLimit(1)},
        {"buffer": 0},
        {"ordered": True, "window": 0},
        {"ordered": True, "buffer": 0},
        {"errors": "skip", "max_errors": 0},
        {"errors": "yield", "max_errors": 0},
        {"timeout_s": 1},
        {"retry": Retry()},
        {"rate": Rate(1, burst=2), "cost": hash},
        {"key": hash, "per_key": 1},
    ],
)
async def test_the_least_of_each_is_allowed(options: dict[str, Any]) -> None:
    async with amap(function, [1, 2], **({"limit": 1} | options)) as results:
        assert 2 == len([result async for result in results])


def test_nothing_is_read_or_called_when_something_is_refused() -> None:
    items = iter([1])
    with pytest.raises(ValueError, match="limit must be at least 1"):
        amap(function, items, limit=0)
    assert [1] == list(items)
