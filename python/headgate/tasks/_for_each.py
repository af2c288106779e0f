"""`amap` for effects only."""

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from typing import Any, Final, TypeVar, Unpack

from headgate._option import OptionSet
from headgate.tasks._amap import amap
from headgate.tasks._options import ForEachOptions
from headgate.tasks._outcome import TaskStatistics

T = TypeVar("T")

_OPTIONS: Final = OptionSet(ForEachOptions[Any], of="for_each")


@_OPTIONS.shown_by
async def for_each(
    function: Callable[[T], Awaitable[object]],
    items: Iterable[T] | AsyncIterable[T],
    **options: Unpack[ForEachOptions[T]],
) -> TaskStatistics:
    """Calls an async function with each item, few at a time, for what it does and not for what it returns.

        await for_each(store, rows, limit=100)

    Cancelling it cancels the running calls and waits for them. It also raises the errors of `amap`.

    Args:
        function: An `async def` function, or any function that returns an awaitable.
        items: What to call it with: an iterable or async iterable, which is closed at the end.
        **options: `limit` is required; `help(headgate.for_each)` describes each with its default.

    Returns:
        How many calls succeeded, failed and were retried.
    """
    async with amap(function, items, **_OPTIONS.read(options)) as results:
        async for _ in results:
            pass
        return results.statistics()
