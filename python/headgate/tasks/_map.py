"""The small forms of `amap`: for effects only, for a few arguments, and for code without an event loop."""

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Hashable, Iterable
from inspect import isawaitable
from typing import Any, Literal, TypeVar, overload

from headgate.limits._concurrency_limit import ConcurrencyLimit
from headgate.limits._rate import Rate
from headgate.limits._retry import Retry
from headgate.tasks._amap import amap, as_completed, flow_of
from headgate.tasks._future_flow import close_all, wait_without_cancelling
from headgate.tasks._map_iterator import LoopFactory, MapIterator
from headgate.tasks._options import Errors, TaskOptions
from headgate.tasks._outcome import TaskOutcome, TaskStatistics
from headgate.tasks._raised import shown

T = TypeVar("T")
R = TypeVar("R")


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


@overload
async def gather(*aws: Awaitable[R], limit: int, return_exceptions: Literal[False] = False) -> list[R]: ...


@overload
async def gather(*aws: Awaitable[R], limit: int, return_exceptions: bool) -> list[R | BaseException]: ...


async def gather(*aws: Awaitable[Any], limit: int, return_exceptions: bool = False) -> list[Any]:
    """Awaits all, few at a time, and gives their results in the order of the arguments: `asyncio.gather` with a limit.

        pages = await gather(*(fetch(url) for url in urls), limit=10)

    The first error cancels the coroutines that run, waits until they have ended, and is raised; those that were not
    started are closed. (`asyncio.gather` would let them run on.) Cancelling it does the same. Futures that were given
    run on in either case: they are somebody else's.

    Args:
        aws: Coroutines, futures and other awaitables. All of them are there from the beginning, as are their results:
            for more than fit in memory, use `amap`. A coroutine can be given once.
        limit: Started and unfinished at once, at the most.
        return_exceptions: Whether errors stand among the results instead of being raised; the cancellation of one of
            them too.

    Raises:
        TypeError: An argument is not what it must be.
        ValueError: `limit` is below 1.
        asyncio.CancelledError: It was cancelled; or one of them was, as `asyncio.gather` does it.
    """
    results: list[Any] = [None] * len(aws)
    is_left = False

    # It does not know the results: from the traceback of an error that stands among them, its frame can be reached.
    async def settle(index: int) -> tuple[int, Any]:
        awaitable = aws[index]
        try:
            if asyncio.isfuture(awaitable):
                awaitable = wait_without_cancelling(awaitable)
            return index, await awaitable
        except (Exception, asyncio.CancelledError) as error:
            if not return_exceptions or is_left:
                raise
            return index, error

    try:
        _check_awaitables(aws)
        async with as_completed((settle(index) for index in range(len(aws))), limit=limit) as futures:
            try:
                async for future in futures:
                    try:
                        index, results[index] = future.result()
                    finally:
                        del future  # else its error, whose traceback has this frame, would be a cycle
            finally:
                is_left = True
    finally:
        close_all(aws)  # those that were not started; for the others it does nothing
        aws = ()  # a future among them has its error, whose traceback has this frame
    return results


def _check_awaitables(aws: Iterable[object]) -> None:
    for awaitable in aws:
        if not isawaitable(awaitable):
            hint = "give them one by one, gather(*aws)" if isinstance(awaitable, Iterable) else "call it, f(x)"
            raise TypeError(f"gather takes awaitables, and was given {shown(awaitable)}: {hint}")
        if asyncio.isfuture(awaitable) and awaitable.get_loop() is not asyncio.get_running_loop():
            raise ValueError("a future that gather was given belongs to another event loop")


@overload
def map(  # noqa: A001 - it is `map`
    function: Callable[[T], Awaitable[R]],
    items: Iterable[T] | AsyncIterable[T],
    *,
    limit: int | ConcurrencyLimit,
    buffer: int | None = None,
    ordered: bool = False,
    window: int | None = None,
    errors: Literal["raise", "skip"] = "raise",
    max_errors: int | None = None,
    timeout_s: float | None = None,
    retry: Retry | None = None,
    rate: Rate | None = None,
    cost: Callable[[T], float] | None = None,
    key: Callable[[T], Hashable] | None = None,
    per_key: int | None = None,
    loop_factory: LoopFactory | None = None,
) -> MapIterator[R]: ...


@overload
def map(  # noqa: A001 - it is `map`
    function: Callable[[T], Awaitable[R]],
    items: Iterable[T] | AsyncIterable[T],
    *,
    limit: int | ConcurrencyLimit,
    buffer: int | None = None,
    ordered: bool = False,
    window: int | None = None,
    errors: Literal["yield"],
    max_errors: int | None = None,
    timeout_s: float | None = None,
    retry: Retry | None = None,
    rate: Rate | None = None,
    cost: Callable[[T], float] | None = None,
    key: Callable[[T], Hashable] | None = None,
    per_key: int | None = None,
    loop_factory: LoopFactory | None = None,
) -> MapIterator[TaskOutcome[T, R]]: ...


def map(  # noqa: A001, PLR0913 - it is `map`; `amap` explains them
    function: Callable[[T], Awaitable[R]],
    items: Iterable[T] | AsyncIterable[T],
    *,
    limit: int | ConcurrencyLimit,
    buffer: int | None = None,
    ordered: bool = False,
    window: int | None = None,
    errors: Errors = "raise",
    max_errors: int | None = None,
    timeout_s: float | None = None,
    retry: Retry | None = None,
    rate: Rate | None = None,
    cost: Callable[[T], float] | None = None,
    key: Callable[[T], Hashable] | None = None,
    per_key: int | None = None,
    loop_factory: LoopFactory | None = None,
) -> MapIterator[Any]:
    """`amap` for code without an event loop: an iterator over the results, which blocks where there is none yet.

        for page in headgate.map(fetch, urls, limit=100):
            print(page)

    The function, and a source that is not a list, run on a thread of their own, which has an event loop of its own; it
    goes on while the caller works on a result. Leaving the loop cancels what runs and waits until it has ended; `with
    headgate.map(...) as results` makes that certain. Ctrl-C and the end of the program do the same. Calls see the
    context variables of whoever asks for the first result.

    The arguments and errors are those of `amap`; `loop_factory` makes the event loop, such as `uvloop.new_event_loop`,
    and is asyncio's own if it is not given.

    Raises:
        RuntimeError: This thread runs an event loop, which it would block: use `amap`.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise RuntimeError("map would block the event loop that runs in this thread: use amap")
    options = TaskOptions(
        function=function,
        limit=limit,
        buffer=buffer,
        ordered=ordered,
        window=window,
        errors=errors,
        max_errors=max_errors,
        timeout_s=timeout_s,
        retry=retry,
        rate=rate,
        cost=cost,
        key=key,
        per_key=per_key,
    )
    return MapIterator(flow_of(items, options), loop_factory)
