"""`asyncio.as_completed` with a limit: awaitables, few at a time, each given when it is done."""

import asyncio
from collections.abc import AsyncIterable, Awaitable, Coroutine, Iterable
from typing import Annotated, Any, Final, Self, TypedDict, TypeVar, Unpack

from headgate._checks import whole
from headgate._option import Option, OptionSet
from headgate.tasks._face import Face
from headgate.tasks._future_flow import FutureFlow, close_all
from headgate.tasks._options import BufferOption, time_limit

R = TypeVar("R")


class FutureLimitOption(TypedDict):
    """How many."""

    limit: Annotated[int, Option(help="Most awaitables that are started and not finished.", check=whole(1))]


class TimeoutOption(TypedDict, total=False):
    """How long."""

    timeout: Annotated[
        float | None,
        Option(
            help="Seconds for all of them together.",
            default=None,
            default_means="no bound",
            check=time_limit,
            hint="None is no limit",
        ),
    ]


class AsCompletedOptions(FutureLimitOption, BufferOption, TimeoutOption):
    """Those of `as_completed`."""


_OPTIONS: Final = OptionSet(AsCompletedOptions, of="as_completed")


class CompletedFutures(Face[asyncio.Future[R]]):
    """What `as_completed` returns: an iterator and async iterator over what is done, and a block around it.

    >>> async with headgate.as_completed([fetch("a"), fetch("bb")], limit=1) as futures:
    ...     print([future.result() async for future in futures])
    ['page of a', 'page of bb']
    """

    _flow: FutureFlow

    def __init__(self, flow: FutureFlow) -> None:
        self._flow = flow  # pyright: ignore[reportIncompatibleVariableOverride] # it is set once

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


@_OPTIONS.shown_by
def as_completed(
    aws: Iterable[Awaitable[R]] | AsyncIterable[Awaitable[R]], **options: Unpack[AsCompletedOptions]
) -> CompletedFutures[R]:
    """Awaits many awaitables, few at a time, and gives each when it is done: `asyncio.as_completed` with a limit.

        for result in as_completed(coroutines, limit=1000):
            print(await result)

        async with as_completed(coroutines, limit=1000) as futures:
            async for future in futures:
                print(future.result())

    A plain `for` gives coroutines; each waits for the next awaitable to finish, and returns its result or raises its
    error. `async for` gives futures that are done: the tasks made from coroutines, or the futures that you passed in.

    Differences from `asyncio.as_completed` (Python 3.13):

    - At most `limit` are started and not finished; the next one starts when one is done.
    - The input is read as it is needed, at most one ahead of what runs. It can be infinite, or asynchronous (with
      `async for` only). An awaitable that is given twice counts twice, and a coroutine can't be awaited twice.
    - At most `buffer` are done and not collected: if your loop is slow, new ones wait.
    - It starts with the first step of the loop or the beginning of the block, and so does the time of `timeout`.
    - Leaving cancels what it has started, and closes coroutines in a list (or another collection) that never started.
      At the end of the block, on an error or a cancellation while it waits, and on `timeout`, it waits until everything
      has ended. If you leave a loop without a block, by `break` or an error in its body, it cancels, but nobody waits:
      use the block to be certain. Futures that you passed in continue to run, because they belong to someone else.
    - Without a block, one cancelled wait (such as `wait_for(anext(futures), 1)`) ends it; inside a block it doesn't.
      What a task raises while it is being cancelled is dropped.
    - `TimeoutError` is raised once, after what was done before, and ends the iteration.

    Args:
        aws: Coroutines, futures and other awaitables.
        **options: `limit` is required; `help(headgate.as_completed)` describes each with its default.

    Raises:
        TypeError: An argument has the wrong type; while iterating: `aws` gave something that isn't awaitable.
        ValueError: `limit` is below 1, `buffer` below 0, or `timeout` not above 0.
        TimeoutError: While iterating: `timeout` has passed.
        RuntimeError: While iterating: no event loop is running, or a plain `for` awaits nothing.
        ClosedEarly: While iterating: another task closed it, or a wait without a block was cancelled.
        asyncio.CancelledError: While iterating: something else cancelled one of its tasks, as asyncio cancels all tasks
            at the end of a program. This ends it.
    """
    try:
        complete = _OPTIONS.read(options)
    except (TypeError, ValueError):
        close_all(aws)
        raise
    limit, buffer = complete["limit"], complete["buffer"]
    return CompletedFutures(FutureFlow(aws, limit, limit if buffer is None else buffer, complete["timeout"]))


def limited_as_completed(coros: Iterable[Coroutine[Any, Any, R]], limit: int) -> CompletedFutures[R]:
    """`as_completed` under its original name.

    The name and the contract are from Andy Balaam's "Making 100 million requests with Python aiohttp" (2017): `coros`
    can be a generator, `limit` of them run at once, and the iterator gives awaitables of the results, in order of
    completion.

    >>> [await page for page in headgate.limited_as_completed((fetch(url) for url in ("a", "bb")), 1)]
    ['page of a', 'page of bb']
    """
    return as_completed(coros, limit=limit)
