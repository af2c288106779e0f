"""`amap` for code that has no event loop."""

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Hashable, Iterable
from typing import Any, Literal, TypeVar, overload

from headgate.limits._concurrency_limit import ConcurrencyLimit
from headgate.limits._rate import Rate
from headgate.limits._retry import Retry
from headgate.tasks._amap import flow_of
from headgate.tasks._map_iterator import LoopFactory, MapIterator
from headgate.tasks._options import Errors, TaskOptions
from headgate.tasks._outcome import TaskOutcome

T = TypeVar("T")
R = TypeVar("R")


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
