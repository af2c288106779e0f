"""`amap` for effects only."""

from collections.abc import AsyncIterable, Awaitable, Callable, Hashable, Iterable
from typing import Literal, TypeVar

from headgate.limits._concurrency_limit import ConcurrencyLimit
from headgate.limits._rate import Rate
from headgate.limits._retry import Retry
from headgate.tasks._amap import amap
from headgate.tasks._outcome import TaskStatistics

T = TypeVar("T")


async def for_each(  # noqa: PLR0913 - each is worth its name
    function: Callable[[T], Awaitable[object]],
    items: Iterable[T] | AsyncIterable[T],
    *,
    limit: int | ConcurrencyLimit,
    errors: Literal["raise", "skip"] = "raise",
    max_errors: int | None = None,
    timeout_s: float | None = None,
    retry: Retry | None = None,
    rate: Rate | None = None,
    cost: Callable[[T], float] | None = None,
    key: Callable[[T], Hashable] | None = None,
    per_key: int | None = None,
) -> TaskStatistics:
    """Calls an async function with each item, few at once, for what it does and not for what it returns.

        await for_each(store, rows, limit=100)

    Cancelling it cancels what runs, and waits for it. The arguments and errors are those of `amap`.

    Returns:
        How many succeeded, failed and were retried.
    """
    if errors not in ("raise", "skip"):
        raise ValueError(f"errors must be one of 'raise', 'skip', not {errors!r}: for outcomes, use amap")
    async with amap(
        function,
        items,
        limit=limit,
        errors=errors,
        max_errors=max_errors,
        timeout_s=timeout_s,
        retry=retry,
        rate=rate,
        cost=cost,
        key=key,
        per_key=per_key,
    ) as results:
        async for _ in results:
            pass
        return results.statistics()
