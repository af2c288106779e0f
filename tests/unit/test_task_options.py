"""What `amap` refuses: at once, before anything is started, in words that say what to do."""

import asyncio
from typing import Any

import pytest

from headgate import ConcurrencyLimit, Rate, Retry, amap


async def function(item: int) -> int:
    return item


GOOD: dict[str, Any] = {"function": function, "items": [1], "limit": 1}


async def nothing() -> None:
    pass


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"limit": "3"}, "limit must be an int or a ConcurrencyLimit, not str"),
        ({"limit": 1.0}, "limit must be an int or a ConcurrencyLimit, not float"),
        ({"limit": True}, "limit must be an int or a ConcurrencyLimit, not bool"),
        ({"limit": None}, "limit must be an int or a ConcurrencyLimit, not None"),
        ({"limit": asyncio.Semaphore(1)}, "limit must be an int or a ConcurrencyLimit, not Semaphore"),
        ({"buffer": 1.5}, "buffer must be an int, not float"),
        ({"window": "1", "ordered": True}, "window must be an int, not str"),
        ({"max_errors": 0.5, "errors": "skip"}, "max_errors must be an int, not float"),
        ({"per_key": 1.5, "key": hash}, "per_key must be an int, not float"),
        ({"timeout_s": "1"}, "timeout_s must be a number of seconds, not str"),
        ({"timeout_s": True}, "timeout_s must be a number of seconds, not bool"),
        ({"retry": 3}, "retry must be a Retry, not int"),
        ({"rate": 3}, "rate must be a Rate, not int"),
        ({"rate": Rate(1), "cost": 3}, "cost must be a function, not int"),
        ({"key": "host", "per_key": 1}, "key must be a function, not str"),
        ({"function": 3}, "function must be a function, not int"),
        ({"items": 3}, "items must be an iterable or an async iterable, not int"),
        ({"items": "abc"}, "items is a str, which is one value: give a list of them, [items]"),
        ({"items": b"abc"}, "items is a bytes, which is one value: give a list of them, [items]"),
        ({"items": bytearray(b"abc")}, "items is a bytearray, which is one value: give a list of them, [items]"),
    ],
)
def test_what_is_of_a_wrong_type_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError) as raised:
        amap(**(GOOD | arguments))
    assert message == str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"limit": 0}, "limit must be at least 1, not 0"),
        ({"limit": -1}, "limit must be at least 1, not -1"),
        ({"buffer": -1}, "buffer must be at least 0, not -1"),
        ({"ordered": True, "window": -1}, "window must be at least 0, not -1"),
        ({"errors": "skip", "max_errors": -1}, "max_errors must be at least 0, not -1"),
        ({"key": hash, "per_key": 0}, "per_key must be at least 1, not 0"),
        ({"timeout_s": 0}, "timeout_s must be more than 0 seconds, not 0; None is no limit"),
        ({"timeout_s": float("nan")}, "timeout_s must be more than 0 seconds, not nan; None is no limit"),
        ({"errors": "ignore"}, "errors must be one of raise, yield, skip, not 'ignore'"),
        ({"window": 3}, "window means nothing without ordered=True: buffer bounds what is not ordered"),
        (
            {"ordered": True, "window": 3, "buffer": 3},
            "window and buffer are both given: with ordered=True, window bounds what is uncollected",
        ),
        (
            {"max_errors": 3},
            'max_errors means nothing with errors="raise", which raises the first: give "yield" or "skip"',
        ),
        ({"cost": hash}, "cost means nothing without rate: it is what an item takes of it"),
        ({"key": hash}, "key and per_key go together: give both, or neither"),
        ({"per_key": 1}, "key and per_key go together: give both, or neither"),
    ],
)
def test_what_can_mean_nothing_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        amap(**(GOOD | arguments))
    assert message == str(raised.value)


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
