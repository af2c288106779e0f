"""A flow of awaitables: coroutines that become tasks, and futures that run already. This is `as_completed`."""

import asyncio
from collections import UserList, deque
from collections.abc import AsyncIterable, Awaitable, Iterable, KeysView, ValuesView
from contextlib import suppress
from inspect import isawaitable, iscoroutine
from types import CoroutineType
from typing import Any, Final, TypeVar

from headgate._errors import ClosedEarly
from headgate.tasks._flow import NO_MORE, Flow
from headgate.tasks._raised import shown
from headgate.tasks._source import END, NOT_YET, source_of
from headgate.tasks._work import cancellations

R = TypeVar("R")

_AT_HAND: Final = (list, tuple, set, frozenset, deque, dict, KeysView, ValuesView, UserList)
"""Inputs whose coroutines exist already. Any other may make them when it is asked, and be as long as it likes."""


class FutureFlow(Flow[asyncio.Future[Any]]):
    """Awaits what it is given as soon as there is room, and delivers it when it is done."""

    __slots__ = ("_given", "_held", "_is_time_up", "_timeout_s", "_timer", "promised")

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
        self._is_time_up = False
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
            self._timer = self._loop.call_later(self._timeout_s, self._time_is_up)

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
            self.fail(asyncio.CancelledError())  # by others, as asyncio does it when a program ends: start nothing more
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
            self._go_on()  # the event loop has no turn before this has its result
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
        self.say_if_cut()
        return False

    async def keep_promise(self, promiser: object) -> Any:  # noqa: ANN401 - what the awaitable gives
        """Waits for the next one that is done, and gives its result.

        Until then it holds on to who promised it, whose going would cancel what is waited for:
        `list(as_completed(...))` and `await next(as_completed(...))` have let go of it already.
        """
        future: Any
        try:
            future = self.ready.popleft() if self.ready and not self.is_stalled else await self.next()
        finally:
            self.promised -= 1
            del promiser  # a traceback must not keep it
        if future is NO_MORE:
            if self._is_time_up:
                raise self._too_late()
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

    def _time_is_up(self) -> None:
        if not self.is_over():
            self._is_time_up = True
            self.fail(self._too_late())

    def _too_late(self) -> TimeoutError:
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

    def _tell_to_end(self, task: asyncio.Future[Any]) -> None:
        if self._running[task]:
            super()._tell_to_end(task)
        else:  # its owner may still want it
            if self._on_finished is not None:
                task.remove_done_callback(self._on_finished)
            del self._running[task]

    def _drop(self, result: asyncio.Future[Any]) -> None:
        if not result.cancelled():
            result.exception()  # else asyncio would say that it was never retrieved


async def wait_without_cancelling(future: asyncio.Future[R]) -> R:
    """Waits for a future that is somebody else's: cancelling this leaves it alone."""
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
    """Lets go of all coroutines of a collection."""
    if isinstance(aws, _AT_HAND):
        for item in aws:
            _close(item)


def _close(item: object) -> None:
    """Lets go of what was never started, so that nobody is told that it was never awaited."""
    if iscoroutine(item):
        item.close()
