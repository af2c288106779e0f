"""`asyncio.as_completed` with a limit: awaitables, few at a time, each given when it is done."""

import asyncio
from collections import UserList, deque
from collections.abc import AsyncIterable, Awaitable, Coroutine, Iterable, KeysView, ValuesView
from contextlib import suppress
from inspect import isawaitable, iscoroutine
from types import CoroutineType
from typing import Annotated, Any, Final, Self, TypedDict, TypeVar, Unpack

from headgate._checks import whole
from headgate._errors import ClosedEarly
from headgate._option import Option, OptionSet
from headgate.tasks._flow import NO_MORE, Flow, FlowIterator
from headgate.tasks._options import BufferOption, time_limit
from headgate.tasks._outcome import shown
from headgate.tasks._source import END, NOT_YET, source_of
from headgate.tasks._work import cancellations

R = TypeVar("R")

_AT_HAND: Final = (list, tuple, set, frozenset, deque, dict, KeysView, ValuesView, UserList)
"""Inputs whose coroutines exist already. Any other may make them when it is iterated over, and be of any length."""


class FutureFlow(Flow[asyncio.Future[Any]]):
    """Awaits what it is given as soon as a slot is free, and delivers it when it is done."""

    __slots__ = ("_given", "_has_timed_out", "_held", "_timeout_s", "_timer", "promised")

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
        self._held: Any = NOT_YET
        self.promised: int = 0
        """Results that a plain `for` was promised and that have not been collected."""

    @property
    def is_async(self) -> bool:
        """Whether the input is an async iterable."""
        return isinstance(self._given, AsyncIterable)

    def open(self) -> None:
        """Starts the first ones, and the time of `timeout`."""
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
            is_ours = item in self._running  # given twice
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
            self.fail(
                asyncio.CancelledError()
            )  # by other code, as asyncio does it when a program ends: start nothing more
        self._refill()

    # -- a plain `for`, which must know whether there is another one before it can wait

    def promise(self) -> bool:
        """Promises one more result, if there will be one.

        Raises:
            RuntimeError: It can't be known, because nothing that was promised is awaited.
        """
        if self.promised < len(self._running) + len(self.ready):  # as nearly always
            self.promised += 1
            return True
        while self.promised >= self._at_hand() and self._takes_more and not self._is_pulling:
            self._pull_again()  # the event loop has no turn before this has its result
        if self.promised >= self._at_hand() and self._held is NOT_YET and self._takes_more:
            self._hold_next()
        if self.promised < self._at_hand():
            self.promised += 1
            return True
        if self._held is not NOT_YET:
            raise RuntimeError(
                f"{self.promised} results of as_completed(limit={self._limit}) were asked for, and none is awaited:"
                " await each one before you ask for the next, or use `async for`"
            )
        self.raise_if_ended_early()
        return False

    async def next_result(self, iterator: object) -> Any:  # noqa: ANN401 - what the awaitable gives
        """Waits for the next one that is done, and gives its result.

        Until then it refers to the iterator, whose collection would cancel what is waited for:
        `list(as_completed(...))` and `await next(as_completed(...))` have let go of it already.
        """
        future: Any
        try:
            future = self.ready.popleft() if self.ready and not self.is_stalled else await self.next()
        finally:
            self.promised -= 1
            del iterator  # a traceback must not keep it
        if future is NO_MORE:
            if self._has_timed_out:
                raise self._timeout_error()
            raise ClosedEarly("as_completed was closed before this result was there")
        try:
            return future.result()
        finally:
            del future  # else its error, whose traceback has this frame, would be a cycle

    def _at_hand(self) -> int:
        """What will be delivered of what has been pulled, an error included."""
        has_error = (self._failure or self._source_error) is not None
        return len(self._running) + len(self.ready) + (self._held is not NOT_YET) + has_error

    def _hold_next(self) -> None:
        """Pulls one ahead of what runs; the next pull gives it."""
        pull = self._pull

        def pull_held() -> Any:  # noqa: ANN401 - whatever the user gives
            self._pull = pull
            held, self._held = self._held, NOT_YET
            return held

        try:
            item = pull()
        except BaseException as error:  # noqa: BLE001 - the source's own, whatever it is
            self._source_failed(error)
            return
        if item is END:
            self._pull_no_more()
        else:
            self._held = item
            self._pull = pull_held

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
        _close(self._held)
        _close(self._source.take_back())
        self._held = NOT_YET
        if isinstance(self._given, _AT_HAND):
            if not self.is_open:
                self._pull = self._source.open(self._refill)
            with suppress(RuntimeError):  # it was changed meanwhile, and can't be iterated any further
                while (item := self._pull()) is not END:
                    _close(item)

    def _cancel_once(self, task: asyncio.Future[Any]) -> None:
        if self._running[task]:
            super()._cancel_once(task)
        else:  # its owner may still want it
            if self._on_finished is not None:
                task.remove_done_callback(self._on_finished)
            del self._running[task]

    def _drop(self, result: asyncio.Future[Any]) -> None:
        if not result.cancelled():
            result.exception()  # else asyncio would say that it was never retrieved


async def wait_without_cancelling(future: asyncio.Future[R]) -> R:
    """Waits for a future of other code: cancelling this does not cancel it."""
    if not future.done():
        is_done = asyncio.get_running_loop().create_future()

        def tell(_future: object) -> None:
            if not is_done.done():
                is_done.set_result(None)

        future.add_done_callback(tell)
        try:
            await is_done
        finally:
            future.remove_done_callback(tell)
    try:
        return future.result()
    finally:
        del future  # else its error, whose traceback has this frame, would be a cycle


async def _wait_for(awaitable: Awaitable[R]) -> R:
    return await awaitable


def close_all(aws: object) -> None:
    """Closes all coroutines of a collection."""
    if isinstance(aws, _AT_HAND):
        for item in aws:
            _close(item)


def _close(item: object) -> None:
    """Lets go of what was never started, which suppresses the warning that it was never awaited."""
    if iscoroutine(item):
        item.close()


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


class CompletedFutures(FlowIterator[asyncio.Future[R]]):
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
