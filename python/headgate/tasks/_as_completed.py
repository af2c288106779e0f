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

    limit: Annotated[int, Option(help="Started and unfinished at once, at the most.", check=whole(1))]


class TimeoutOption(TypedDict, total=False):
    """How long."""

    timeout: Annotated[
        float | None,
        Option(
            help="Seconds for all together.",
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


@_OPTIONS.shown_by
def as_completed(
    aws: Iterable[Awaitable[R]] | AsyncIterable[Awaitable[R]], **options: Unpack[AsCompletedOptions]
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
        **options: `limit` must be given; `help(headgate.as_completed)` describes each with its default.

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
        complete = _OPTIONS.read(options)
    except (TypeError, ValueError):
        close_all(aws)
        raise
    limit, buffer = complete["limit"], complete["buffer"]
    return CompletedFutures(FutureFlow(aws, limit, limit if buffer is None else buffer, complete["timeout"]))


def limited_as_completed(coros: Iterable[Coroutine[Any, Any, R]], limit: int) -> CompletedFutures[R]:
    """`as_completed` under the name that it had first.

    It comes from Andy Balaam's "Making 100 million requests with Python aiohttp" (2017), with his contract: `coros` may
    be a generator, `limit` of them run at once, and what is given are awaitables of the results, in order of
    completion.
    """
    return as_completed(coros, limit=limit)
