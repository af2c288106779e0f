"""Many tasks, few at once: bounded concurrency for any coroutine.

What is started is bounded, and so is what has finished and waits to be collected; the input is read as it is needed. So
memory hangs on the limit and not on the input. A semaphore does not give that: it bounds what runs, and each of a
million tasks that wait for it is there.
"""

from collections.abc import AsyncIterable, Awaitable, Callable, Hashable, Iterable
from typing import Any, Literal, TypeVar, overload

from headgate.limits._concurrency_limit import ConcurrencyLimit
from headgate.limits._rate import Rate
from headgate.limits._retry import Retry
from headgate.tasks._call_flow import CallFlow
from headgate.tasks._face import Face
from headgate.tasks._options import Errors, TaskOptions
from headgate.tasks._outcome import TaskOutcome, TaskStatistics
from headgate.tasks._paced_flow import PacedFlow
from headgate.tasks._source import source_of

T = TypeVar("T")
R = TypeVar("R")


class TaskResults(Face[R]):
    """What `amap` gives: an async iterator over the results, and a block around it."""

    _flow: CallFlow

    def __init__(self, flow: CallFlow) -> None:
        self._flow = flow

    def stop(self) -> list[Any]:
        """Starts nothing new; what has begun is finished and delivered, its further attempts included.

        Returns:
            Items that were taken from the source and will not be started, in their order: those that waited for a
            limit, a rate or their key.
        """
        return self._flow.stop()

    def statistics(self) -> TaskStatistics:
        """How far it is."""
        return self._flow.statistics()


@overload
def amap(
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
) -> TaskResults[R]: ...


@overload
def amap(
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
) -> TaskResults[TaskOutcome[T, R]]: ...


def amap(  # noqa: PLR0913 - each is worth its name
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
) -> TaskResults[Any]:
    """Calls an async function with each item, few at once, and gives the results as they come.

        async with amap(fetch, urls, limit=1000) as results:
            async for result in results:
                print(result)

    Items are read as they are needed, at most one ahead of what runs (with `key`, up to the bound below), so that they
    may be without end. A slow source does not delay results; an error of the source is raised once, after the results
    of all that was started. Each call is a task of its own, in a copy of the context in which the block began (and
    what a sync source has set there since).

    Bound: running, waiting (for a limit, a rate, a key or the next attempt) and uncollected are never more than `limit
    + buffer` together; with `ordered`, never more than `window + 1`. A loop that is slow stops the starts.

    Leaving the block cancels what runs, once, and waits until it has ended; what a call raises while it is being
    cancelled is dropped. Without a block, `async for result in amap(...)` does the same when it is cancelled or an
    error is raised by it (so that one cancelled `anext` ends it), and cancels without waiting when it is left by
    `break` or by an error in its body.

    Args:
        function: An `async def` function, or any that returns an awaitable.
        items: What to call it with; an iterable or an async iterable, which is closed at the end.
        limit: Calls under way at once, at the most; a `ConcurrencyLimit` is shared with others, and may be resized.
        buffer: Results finished and not yet collected, at the most, beyond what may run; `limit` if it is not given.
        ordered: Whether results come in the order of the items, instead of that in which they finish.
        window: With `ordered`, how many items beyond the oldest uncollected one may have been taken; `limit + buffer -
            1` if it is not given. A slow item stops the starts; it never grows a buffer.
        errors: What becomes of an exception. "raise": it cancels the rest and is raised, with the item as a note, after
            the results that come before it. "yield": results are a `TaskOutcome` for each item, with its value or
            error. "skip": it is only counted. `KeyboardInterrupt` and `SystemExit` are always raised. A call that ends
            cancelled, which neither this nor the program's end has brought about, fails with `StrayCancellation`.
        max_errors: With "yield" and "skip": more than so many failed items end it with `TooManyErrors`.
        timeout_s: Seconds for each attempt, from its start; then it is cancelled and fails with `TimeoutError`. Time in
            which a source keeps the event loop is not the attempt's.
        retry: Which errors are tried again, and when. It holds no slot while it waits.
        rate: How fast attempts may start; may be shared.
        cost: What an item takes of the rate; 1 if it is not given. Is called before each attempt.
        key: What an item belongs to, such as a host or a tenant; anything hashable.
        per_key: With `key`, how many calls with the same key may be under way. Items of a full key are passed by
            others.

    Raises:
        TypeError: An argument is not what it must be; from the iteration, `function` returned nothing that can be
            awaited.
        ValueError: A figure is too small, or an argument has no meaning without another one.
        TooManyErrors: From the iteration, by `max_errors`.
        StrayCancellation: From the iteration: a call or the source was cancelled, and this was not.
        ClosedEarly: From the iteration: another task has closed it, or a wait without a block was cancelled.
        RuntimeError: From the iteration: no event loop is running, or something raised `StopAsyncIteration`.
    """
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
    return TaskResults(flow_of(items, options))


def flow_of(items: object, options: TaskOptions) -> CallFlow:
    """What calls the function of the options with each item."""
    source = source_of(items, "items")
    return CallFlow(source, options) if options.is_plain else PacedFlow(source, options)
