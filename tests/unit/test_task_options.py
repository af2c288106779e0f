"""`amap` refuses wrong options at once, before anything starts, and says what to do."""

from datetime import timedelta
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
def test_a_coroutine_given_as_the_function_or_the_items_is_refused_and_closed(name: str, message: str) -> None:
    coroutine: Any = nothing()
    with pytest.raises(TypeError) as raised:
        amap(**(GOOD | {name: coroutine}))
    assert message == str(raised.value)
    assert coroutine.cr_frame is None  # an open coroutine would warn that it was never awaited


@pytest.mark.parametrize(
    "options",
    [
        {"limit": ConcurrencyLimit(1)},
        {"buffer": 0},
        {"ordered": True, "window": 0},
        {"ordered": True, "buffer": 0},
        {"errors": "skip", "max_failures": 0},
        {"errors": "yield", "max_failures": 0},
        {"timeout": 1},
        {"timeout": timedelta(seconds=1)},
        {"retry": Retry()},
        {"rate": Rate(1, burst=2), "cost": hash},
        {"key": hash, "per_key": 1},
    ],
)
async def test_the_least_of_each_is_allowed(options: dict[str, Any]) -> None:
    async with amap(function, [1, 2], **({"limit": 1} | options)) as results:
        assert 2 == len([result async for result in results])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time_out": 3}, "amap() got an unexpected keyword argument 'time_out': did you mean timeout?"),
        ({"xyz": 3}, "amap() got an unexpected keyword argument 'xyz'"),
        ({"limit": "1"}, "limit must be an int or a ConcurrencyLimit, not str"),
        ({"limit": None}, "limit must be an int or a ConcurrencyLimit, not None"),
        ({"limit": 0}, "limit must be at least 1, not 0"),
        ({"timeout": "1"}, "timeout must be a number of seconds, not str"),
        ({"timeout": 0.0}, "timeout must be more than 0 seconds, not 0; None is no limit"),
        ({"timeout": timedelta()}, "timeout must be more than 0 seconds, not 0; None is no limit"),
        ({"key": "host", "per_key": 1}, "key must be a function, not str"),
        ({"errors": "ignore"}, "errors must be one of raise, yield, skip, not 'ignore'"),
    ],
)
def test_an_option_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        amap(function, [1], **({"limit": 1} | options))
    assert message == str(raised.value)


@pytest.mark.parametrize("name", ["buffer", "timeout", "retry", "rate", "cost", "key", "per_key", "max_failures"])
def test_none_is_the_default_of_an_option_and_may_be_given(name: str) -> None:
    options: dict[str, Any] = {"limit": 1, name: None}
    assert amap(function, [1], **options) is not None


def test_nothing_is_read_or_called_when_something_is_refused() -> None:
    items = iter([1])
    with pytest.raises(ValueError, match="limit must be at least 1"):
        amap(function, items, limit=0)
    assert [1] == list(items)
