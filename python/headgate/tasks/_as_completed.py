"""`asyncio.as_completed` with a limit: awaits at most that many at a time, and yields each when it is done."""

import asyncio
from collections import UserList, deque
from collections.abc import AsyncIterable, Awaitable, Coroutine, Iterable, KeysView, ValuesView
from contextlib import suppress
from datetime import timedelta
from inspect import isawaitable, iscoroutine
from types import CoroutineType
from typing import Annotated, Any, Final, Self, TypedDict, TypeVar, Unpack

from headgate._checks import seconds_of, whole
from headgate._errors import ClosedEarly
from headgate._option import Option, OptionSet
from headgate.tasks._flow import NO_MORE, Flow, FlowIterator
from headgate.tasks._options import BufferOption, time_limit
from headgate.tasks._outcome import shown
from headgate.tasks._source import END, NOT_YET, source_of
from headgate.tasks._work import cancellations

R = TypeVar("R")

_COLLECTIONS: Final = (list, tuple, set, frozenset, deque, dict, KeysView, ValuesView, UserList)
"""Inputs whose coroutines exist already. Any other input may create them during the iteration, and be infinite."""


class FutureFlow(Flow[asyncio.Future[Any]]):
    """Awaits each awaitable as soon as a slot is free, and delivers it when it is done."""

    __slots__ = ("_given", "_has_timed_out", "_pulled_early", "_timeout_s", "_timer", "promised")

    def __init__(
        self,
        aws: Iterable[Awaitable[Any]] | AsyncIterable[Awaitable[Any]],
        limit: int,
        buffer: int,
        timeout_s: float | None,
    ) -> None:
        super().__init__(source_of(aws, "aws"), limit, buffer)
        self._given = aws
        self._timeout_s = timeout_s
        self._timer: asyncio.TimerHandle | None = None
        self._has_timed_out = False
        self._pulled_early: Any = NOT_YET
        self.promised: int = 0
        """Results that were promised to a plain `for` and have not been collected."""

    @property
    def is_async(self) -> bool:
        """Whether the input is an async iterable."""
        return isinstance(self._given, AsyncIterable)

    def open(self) -> None:
        """Starts the first tasks and the timer of `timeout`."""
        super().open()
        if self._timeout_s is not None and not self.is_over():
            self._timer = self._loop.call_later(self._timeout_s, self._time_out)

    def _start(self, item: Any) -> None:  # noqa: ANN401 - whatever the user gives
        is_ours = True
        if type(item) is CoroutineType or iscoroutine(item):
            task = self._create_task(item)
        elif asyncio.isfuture(item):
            if item.get_loop() is not self._loop:
                self.fail(ValueError("a future among aws belongs to another event loop"))
                return
            is_ours = item in self._running  # the user passed the future twice
            task = self._create_task(wait_without_cancelling(item)) if is_ours else item
        elif isawaitable(item):
            task = self._create_task(_wait_for(item))
        else:
            self.fail(TypeError(f"aws must give awaitables, and gave {shown(item)}: call the function, f(x)"))
            return
        self._running[task] = is_ours
        task.add_done_callback(self._on_finished or self._bind(), context=self._context)

    def _finished(self, task: asyncio.Future[Any]) -> None:
        if self._has_ended:
            self._discard(task)
            return
        is_ours = self._running.pop(task)
        self.ready.append(task)
        if self._waiters:
            self._wake()
        if task.cancelled() and is_ours and cancellations(task):
            # Other code cancelled it, as asyncio does when a program ends: start nothing more.
            self.fail(asyncio.CancelledError())
        self._refill()

    # -- a plain `for`, which must know whether there is another result before it can wait

    def promise(self) -> bool:
        """Promises one more result if there will be one. Returns whether it did.

        Raises:
            RuntimeError: The flow can't know, because the caller awaits none of the promised results.
        """
        if self.promised < len(self._running) + len(self.ready):  # nearly always true
            self.promised += 1
            return True
        while self.promised >= self._deliverable() and self._may_pull and not self._is_pulling:
            self._pull_again()  # the event loop can't run before this returns
        if self.promised >= self._deliverable() and self._pulled_early is NOT_YET and self._may_pull:
            self._pull_early()
        if self.promised < self._deliverable():
            self.promised += 1
            return True
        if self._pulled_early is not NOT_YET:
            raise RuntimeError(
                f"{self.promised} results of as_completed(limit={self._limit}) were asked for, and none is awaited:"
                " await each one before you ask for the next, or use `async for`"
            )
        self.raise_if_ended_early()
        return False

    async def next_result(self, iterator: object) -> Any:  # noqa: ANN401 - what the awaitable gives
        """Waits for the next awaitable to finish, and returns its result.

        Until then it refers to the iterator, whose collection would cancel the running tasks:
        `list(as_completed(...))` and `await next(as_completed(...))` no longer refer to it.
        """
        future: Any
        try:
            future = self.ready.popleft() if self.ready and not self.is_stalled else await self.next()
        finally:
            self.promised -= 1
            del iterator  # a traceback must not keep it alive
        if future is NO_MORE:
            if self._has_timed_out:
                raise self._timeout_error()
            raise ClosedEarly("as_completed was closed before this result was there")
        try:
            return future.result()
        finally:
            del future  # else its error, whose traceback has this frame, would be a cycle

    def _deliverable(self) -> int:
        """Returns how many of the pulled awaitables will be delivered, plus one if an error will be raised."""
        has_error = (self._failure or self._source_error) is not None
        return len(self._running) + len(self.ready) + (self._pulled_early is not NOT_YET) + has_error

    def _pull_early(self) -> None:
        """Pulls one item ahead of the running tasks; the next pull returns it."""
        pull = self._pull

        def pull_stored() -> Any:  # noqa: ANN401 - whatever the user gives
            self._pull = pull
            item, self._pulled_early = self._pulled_early, NOT_YET
            return item

        try:
            item = pull()
        except BaseException as error:  # noqa: BLE001 - the source's own, whatever it is
            self._source_failed(error)
            return
        if item is END:
            self._stop_pulling()
        else:
            self._pulled_early = item
            self._pull = pull_stored

    # -- ending

    def _time_out(self) -> None:
        if not self.is_over():
            self._has_timed_out = True
            self.fail(self._timeout_error())

    def _timeout_error(self) -> TimeoutError:
        return TimeoutError(f"not all were done within timeout={self._timeout_s}")

    def _settle(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        super()._settle()

    def _end(self) -> None:
        super()._end()
        self._close_unstarted()

    def _close_unstarted(self) -> None:
        _close(self._pulled_early)
        close_all(self._source.remove_unpulled())
        self._pulled_early = NOT_YET
        if isinstance(self._given, _COLLECTIONS):
            if not self.is_open:
                self._pull = self._source.open(self._refill)
            with suppress(RuntimeError):  # the collection was changed meanwhile, and can't be iterated any further
                while (item := self._pull()) is not END:
                    _close(item)

    def _cancel_once(self, task: asyncio.Future[Any]) -> None:
        if self._running[task]:
            super()._cancel_once(task)
        else:  # the future belongs to other code
            if self._on_finished is not None:
                task.remove_done_callback(self._on_finished)
            del self._running[task]

    def _drop(self, result: asyncio.Future[Any]) -> None:
        if not result.cancelled():
            result.exception()  # else asyncio would log that it was never retrieved


async def wait_without_cancelling(future: asyncio.Future[R]) -> R:
    """Waits for a future of other code, and does not cancel it when the wait is cancelled."""
    if not future.done():
        is_done = asyncio.get_running_loop().create_future()

        def on_done(_future: object) -> None:
            if not is_done.done():
                is_done.set_result(None)

        future.add_done_callback(on_done)
        try:
            await is_done
        finally:
            future.remove_done_callback(on_done)
    try:
        return future.result()
    finally:
        del future  # else its error, whose traceback has this frame, would be a cycle


async def _wait_for(awaitable: Awaitable[R]) -> R:
    return await awaitable


def close_all(aws: object) -> None:
    """Closes all coroutines of a collection."""
    if isinstance(aws, _COLLECTIONS):
        for item in aws:
            _close(item)


def _close(item: object) -> None:
    """Closes a coroutine that was never started, which suppresses the warning that it was never awaited."""
    if iscoroutine(item):
        item.close()


class FutureLimitOption(TypedDict):
    """The bound of unfinished awaitables."""

    limit: Annotated[int, Option(help="Maximum number of awaitables in progress.", check=whole(1))]


class TimeoutOption(TypedDict, total=False):
    """The timeout of all awaitables together."""

    timeout: Annotated[
        float | timedelta | None,
        Option(
            help="Seconds (or a `timedelta`) for all of them together.",
            default=None,
            default_means="no bound",
            check=time_limit,
            hint="None is no limit",
        ),
    ]


class AsCompletedOptions(FutureLimitOption, BufferOption, TimeoutOption):
    """The options of `as_completed`."""


_OPTIONS: Final = OptionSet(AsCompletedOptions, of="as_completed")


class CompletedFutures(FlowIterator[asyncio.Future[R]]):
    """The iterator and async iterator that `as_completed` returns, which is also an async context manager.

    >>> async with headgate.as_completed([fetch("a"), fetch("bb")], limit=1) as futures:
    ...     print([future.result() async for future in futures])
    ['page of a', 'page of bb']
    """

    __module__ = "headgate"

    _flow: FutureFlow

    def __init__(self, flow: FutureFlow) -> None:
        self._flow = flow  # pyright: ignore[reportIncompatibleVariableOverride] # it is set once

    def __iter__(self) -> Self:
        if self._flow.is_async:
            raise TypeError("aws is an async iterable, whose end is not known without waiting: use `async for`")
        return self

    def __next__(self) -> Coroutine[Any, Any, R]:
        if not self._flow.is_open:
            self._flow.open()
        if not self._flow.promise():
            raise StopIteration
        return self._flow.next_result(self)


@_OPTIONS.shown_by
def as_completed(
    aws: Iterable[Awaitable[R]] | AsyncIterable[Awaitable[R]], **options: Unpack[AsCompletedOptions]
) -> CompletedFutures[R]:
    """Awaits awaitables, at most `limit` at a time, and yields each when it is done: a limited `asyncio.as_completed`.

        for result in as_completed(coroutines, limit=1000):
            print(await result)

        async with as_completed(coroutines, limit=1000) as futures:
            async for future in futures:
                print(future.result())

    A plain `for` yields coroutines; each waits for the next awaitable to finish, and returns its result or raises its
    error. `async for` yields futures that are done: the tasks made from coroutines, or the futures that you passed in.

    Differences from `asyncio.as_completed` (Python 3.13):

    - At most `limit` are started and not finished; the next one starts when one is done.
    - The input is read as it is needed, at most one ahead of what runs. It can be infinite, or asynchronous (with
      `async for` only). An awaitable that is given twice counts twice, and a coroutine can't be awaited twice.
    - At most `buffer` are done and not collected: if your loop is slow, new ones wait.
    - It starts with the first step of the loop or the beginning of the block, and so does the time of `timeout`.
    - Leaving cancels what it has started, and closes coroutines in a list (or another collection) that never started.
      At the end of the block, on an error or a cancellation while it waits, and on `timeout`, it waits until everything
      has ended. If you leave a loop without a block, by `break` or an error in its body, it cancels without waiting:
      use the block to be certain. Futures that you passed in continue to run, because they belong to other code.
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
    timeout_s = seconds_of(complete["timeout"])
    return CompletedFutures(FutureFlow(aws, limit, limit if buffer is None else buffer, timeout_s))


def limited_as_completed(coros: Iterable[Coroutine[Any, Any, R]], limit: int) -> CompletedFutures[R]:
    """`as_completed` under its original name.

    The name and the contract are from Andy Balaam's "Making 100 million requests with Python aiohttp" (2017): `coros`
    can be a generator, `limit` of them run at once, and the iterator gives awaitables of the results, in order of
    completion.

    >>> [await page for page in headgate.limited_as_completed((fetch(url) for url in ("a", "bb")), 1)]
    ['page of a', 'page of bb']
    """
    return as_completed(coros, limit=limit)
