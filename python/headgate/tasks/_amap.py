"""Many tasks, few at once: bounded concurrency for any coroutine.

What is started is bounded, and so is what has finished and waits to be collected; the input is read as it is needed. So
memory hangs on the limit and not on the input. A semaphore does not give that: it bounds what runs, and each of a
million tasks that wait for it is there.
"""

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Hashable, Iterable
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeVar, overload

from headgate.limits._concurrency_limit import ConcurrencyLimit
from headgate.limits._rate import Rate
from headgate.limits._retry import Retry
from headgate.tasks._call_flow import CallFlow
from headgate.tasks._flow import NO_MORE, Flow
from headgate.tasks._future_flow import FutureFlow, close_all
from headgate.tasks._options import Errors, TaskOptions, check_count, check_seconds
from headgate.tasks._outcome import TaskOutcome, TaskStatistics
from headgate.tasks._paced_flow import PacedFlow
from headgate.tasks._source import source_of

T = TypeVar("T")
R = TypeVar("R")


class _Face(Generic[R]):
    """What the user holds: an async iterator, and a block around it.

    When it is let go of, what it began is cancelled; so nothing that it began may refer to it.
    """

    _flow: Flow[Any]

    async def __aenter__(self) -> Self:
        self._flow.is_within_block = True
        if not self._flow.is_open:
            self._flow.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._flow.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> R:
        flow = self._flow
        ready = flow.ready
        if ready and not flow.is_stalled:
            result: R = ready.popleft()
            return result
        if not flow.is_open:
            flow.open()
        result = await flow.next()
        if result is NO_MORE:
            raise StopAsyncIteration
        return result

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._flow.describe()}>"

    async def aclose(self) -> None:
        """Cancels what runs and waits until it has ended; what was not collected is dropped.

        What runs is cancelled once: cancelling this too is raised when everything has ended. Only where another task
        has begun the iteration, whose part it is to wait, does it end the wait at once. Another task that iterates gets
        `ClosedEarly`.

        Raises:
            RuntimeError: What runs waits for the task that calls this: neither would ever end.
        """
        await self._flow.close()

    def __del__(self) -> None:
        if hasattr(self, "_flow"):
            self._flow.abandon_from_anywhere()


class CompletedFutures(_Face[asyncio.Future[R]]):
    """What `as_completed` gives: an iterator and an async iterator over what is done, and a block around it."""

    _flow: FutureFlow

    def __init__(self, flow: FutureFlow) -> None:
        self._flow = flow

    def __iter__(self) -> Self:
        if self._flow.is_async:
            raise TypeError("aws is an async iterable, whose end nobody knows without waiting: use `async for`")
        return self

    def __next__(self) -> Coroutine[Any, Any, R]:
        if not self._flow.is_open:
            self._flow.open()
        if not self._flow.promise():
            raise StopIteration
        return self._flow.keep_promise(self)


class TaskResults(_Face[R]):
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


def as_completed(
    aws: Iterable[Awaitable[R]] | AsyncIterable[Awaitable[R]],
    *,
    limit: int,
    buffer: int | None = None,
    timeout: float | None = None,
) -> CompletedFutures[R]:
    """Awaits many, few at a time, and gives each when it is done: `asyncio.as_completed` with a limit.

        for result in as_completed(coroutines, limit=1000):
            print(await result)

        async with as_completed(coroutines, limit=1000) as futures:
            async for future in futures:
                print(future.result())

    The plain `for` gives coroutines, each of which waits for the next one that is done and gives its result or raises
    its error. `async for` gives futures that are done: the tasks made of coroutines, or the very futures that were
    given.

    It differs from `asyncio.as_completed` (Python 3.13) in that

    - at most `limit` are started and unfinished; the next one starts when one is done;
    - the input is read as it is needed, at most one ahead of what runs. It may be infinite, and asynchronous (then with
      `async for` only). What is given twice counts twice, and a coroutine cannot be awaited twice;
    - at most `buffer` are done and not yet collected: a loop that is slow stops the starts;
    - it starts, as does the time of `timeout`, with the first step of the loop or the beginning of the block;
    - leaving cancels what it has started, and closes coroutines of a list (or another collection) that were not: at
      the end of the block, by an error or a cancellation while it waits, and by `timeout`, all of which wait until
      everything has ended. A loop without a block that is left by `break` or by an error in its body cancels too, but
      nobody is there to wait: use the block to be certain. Futures that were given run on: they are somebody else's;
    - without a block, one cancelled wait (such as `wait_for(anext(futures), 1)`) ends it; within a block it does not.
      What a task raises while it is being cancelled is dropped;
    - `TimeoutError` is raised once, after what was done by then, and ends the iteration.

    Args:
        aws: Coroutines, futures and other awaitables.
        limit: Started and unfinished at once, at the most.
        buffer: Done and not yet collected, at the most, beyond what may run; `limit` if it is not given.
        timeout: Seconds for all together.

    Raises:
        TypeError: An argument is not what it must be; or, from the iteration, `aws` gave what cannot be awaited.
        ValueError: `limit` is below 1, `buffer` below 0, or `timeout` not above 0.
        TimeoutError: From the iteration: `timeout` has passed.
        RuntimeError: From the iteration: no event loop is running, or a plain `for` awaits nothing.
        ClosedEarly: From the iteration: another task has closed it, or a wait without a block was cancelled.
        asyncio.CancelledError: From the iteration: somebody else has cancelled a task that it had made, as asyncio does
            it with all tasks at the end of a program. This ends it.
    """
    try:
        check_count("limit", limit, 1)
        check_count("buffer", limit if buffer is None else buffer, 0)
        check_seconds("timeout", timeout)
    except (TypeError, ValueError):
        close_all(aws)
        raise
    return CompletedFutures(FutureFlow(aws, limit, limit if buffer is None else buffer, timeout))


def limited_as_completed(coros: Iterable[Coroutine[Any, Any, R]], limit: int) -> CompletedFutures[R]:
    """`as_completed` under the name that it had first.

    It comes from Andy Balaam's "Making 100 million requests with Python aiohttp" (2017), with his contract: `coros` may
    be a generator, `limit` of them run at once, and what is given are awaitables of the results, in order of
    completion.
    """
    return as_completed(coros, limit=limit)


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
