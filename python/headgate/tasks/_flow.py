"""The loop behind `as_completed` and `amap`: starts work while slots are free, keeps results until they are collected.

What. A flow pulls from a source, makes a task of what it gets, and is called back when that task has finished; the
callback keeps the result and starts the next one. No task drives it and nothing polls.

Prior art. Andy Balaam's `limited_as_completed` and bpo-30782's `asyncio.as_completed(limit=)`, which starts the next
one from the done-callback; p-map's `backpressure` for the second bound; trio's rule that nothing outlives its block.

Guarantees. Started and unfinished are never more than `limit`; with the uncollected, never more than `limit + buffer`.
What has finished is delivered before an error that comes after it, and an error is raised once. A source that is slow
does not keep what was started from beginning. How it ends is in `_work.py`.

Cost. A dictionary of what runs, a deque of what has finished: nothing grows with anything but the two bounds.

A flow never refers to the iterator in its user's hands, so that this one goes when its user lets go of it, and can then
cancel what it began. When all is over, it does not refer to itself either.
"""

import asyncio
import math
from abc import abstractmethod
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

from headgate.tasks._loop import LONGEST_TURN_S, CallClock
from headgate.tasks._outcome import after, stray, visible
from headgate.tasks._source import END, NOT_YET, AsyncSource, Source
from headgate.tasks._work import Work

R = TypeVar("R")

_QUICK_LOOKS: Final = 256
"""After so many pulls that were quick, all of them, the clock is looked at less often than after each."""
_QUICK_PULLS: Final = 16
"""After how many then: so many and one may block, one after the other, before that is noticed."""
_NOT_KNOWN: Final = math.inf

NO_MORE: Final = END
"""What `Flow.next` gives when everything has been delivered."""


class Flow(Work[R]):
    """Work that is started and delivered; a subclass says what starting an item is, and what is kept of its end."""

    __slots__ = (
        *("is_stalled", "_pull", "_limit", "_bound", "_create_task", "_context"),
        *("_clock", "_now_s", "_turn_ends_s", "_look_in", "_quick_looks"),
    )

    def __init__(self, source: Source[Any] | AsyncSource[Any], limit: int, buffer: int) -> None:
        super().__init__(source)
        self.is_stalled: bool = False
        """Whether starts wait until something is collected."""
        self._look_in = 1 if source.may_block else 0  # so many pulls; 0: never
        self._quick_looks = 0
        self._limit = limit
        self._bound = limit + buffer

    # -- what a subclass says

    @abstractmethod
    def _start(self, item: Any) -> None:  # noqa: ANN401 - whatever the source gives
        """Makes a task of an item, and notes it in `_running`."""

    @abstractmethod
    def _finished(self, task: asyncio.Future[Any]) -> None:
        """Is called back by the event loop when a task is done."""

    # -- starting

    def open(self) -> None:
        """Starts the first ones.

        Raises:
            RuntimeError: No event loop is running, or this was opened before.
        """
        if self.is_open:
            raise RuntimeError("it has been started before, and its input is read only once: create another one")
        self._note_opened()
        self._create_task = self._maker.on(self._loop)
        self._clock = CallClock(self._loop)
        self._now_s = self._clock.read
        self._context = copy_context()
        self._pull = self._context.run(self._source.open, partial(self._context.run, self._refill))
        self.is_open = True
        self.resume()

    def resume(self) -> None:
        """Starts more, in the context in which the flow was opened: the task that collects may have another one."""
        self.is_stalled = False
        self._begin_turn()
        self._context.run(self._refill)

    def _begin_turn(self) -> None:
        self._turn_ends_s = self._now_s() + LONGEST_TURN_S if self._look_in == 1 else _NOT_KNOWN

    def _refill(self) -> None:
        """Starts what the limit and the bound allow, in the flow's own context, of which each task gets a copy."""
        in_flight, limit = len(self._running), self._limit
        while self._is_pulling:
            if in_flight >= limit:
                return
            if in_flight + len(self.ready) >= self._bound:
                self.is_stalled = True
                return
            look_in = self._look_in
            try:
                item = self._pull_timed() if look_in == 1 else self._pull()
            except BaseException as error:  # noqa: BLE001 - the source's own, whatever it is
                self._source_failed(error)
                break
            if item is NOT_YET or item is END:
                self._takes_more = self._is_pulling = item is NOT_YET
                break
            try:
                self._start(item)
            except BaseException as error:  # noqa: BLE001 - of the user's task factory, perhaps: it must not be lost
                self.fail(error)
            in_flight += 1
            if look_in:
                if look_in == 1:
                    self._check_clock()
                else:
                    self._look_in = look_in - 1
        self._settle_if_over()

    def _pull_timed(self) -> Any:  # noqa: ANN401 - an item or a mark
        """Pulls from a source that may block: the clock of the calls on this loop stands still meanwhile."""
        began_s = self._now_s()
        if began_s > self._turn_ends_s and isinstance(self._source, Source):  # it was not the source that took so long
            self._turn_ends_s = began_s + LONGEST_TURN_S
        try:
            return self._pull()
        finally:
            now_s = self._now_s()
            self._clock.stood.seconds += now_s - began_s
            if now_s > self._turn_ends_s:
                self._is_pulling = False  # until what is started now has begun

    def _settle_if_over(self) -> None:
        if self._has_ended:
            self._cancel_running()  # the garbage collector may end it in the middle of a start
        if self.is_over():
            self._settle()

    def _check_clock(self) -> None:
        """Stops pulling where that takes long. It costs a fiftieth of a task: a quick source is seldom looked at."""
        now_s = self._now_s()
        if now_s > self._turn_ends_s:
            self._quick_looks = 0
            self._is_pulling = False
            self._pull_soon()
        elif self._turn_ends_s == _NOT_KNOWN:  # a turn that began without a look: the next pull has one, too
            self._turn_ends_s = now_s + LONGEST_TURN_S
        elif self._quick_looks < _QUICK_LOOKS:
            self._quick_looks += 1
        else:
            self._look_in = _QUICK_PULLS

    def _pull_soon(self) -> None:
        """Pulls on when the event loop has had its turn, in which what was started begins."""
        if self._takes_more:
            self._loop.call_soon(self._pull_again, context=self._context)

    def _pull_again(self) -> None:
        self._begin_turn()
        if self._takes_more and not self._is_pulling:
            self._is_pulling = True
            self._refill()

    def _source_failed(self, error: BaseException) -> None:
        self._pull_no_more()
        if isinstance(error, asyncio.CancelledError):
            self._source_error = stray("the source", error)
        elif isinstance(error, Exception):
            self._source_error = error
        else:  # Ctrl-C, or an exit
            self._interrupt = error
            self.fail(error)

    def _bind(self) -> Callable[[asyncio.Future[Any]], None]:
        """What is called back. Bound once: a method that is looked up for each task is a new object for each task."""
        self._on_finished = self._finished
        return self._on_finished

    # -- delivering

    async def next(self) -> Any:  # noqa: ANN401 - a result or NO_MORE
        """The next result, or `NO_MORE`."""
        if not self.ready and not await self.wait_for_ready():
            return NO_MORE
        result = self.ready.popleft()
        if self.is_stalled:
            self.resume()
        return result

    async def wait_for_ready(self) -> bool:
        """Waits until something is ready, and gives whether there is something, now or ever.

        Cancelling the wait loses nothing within a block, whose end closes the flow. Without one this is the last moment
        at which a task can wait for what runs, so it closes the flow.
        """
        while not self.ready:
            if self._failure is not None:
                error, self._failure = self._failure, None
                try:
                    await self._wait_for_the_end_after(error)
                    self._interrupt = None
                    raise visible(error)
                finally:
                    del error  # else its traceback, which has this frame, would be a cycle
            if self.is_over():
                self.raise_if_ended_early()
                if self._source_error is None:
                    return False
                error, self._source_error = self._source_error, None
                try:
                    raise visible(error)
                finally:
                    del error  # as above
            try:
                await self._wait()
            except asyncio.CancelledError:
                await self._wait_was_cancelled(asyncio.current_task())
                raise
        return True

    async def _wait_for_the_end_after(self, error: BaseException) -> None:
        """Waits for it before an error is raised, which is not lost if the wait ends with another one."""
        try:
            await self._wait_for_the_end(asyncio.current_task())
        except asyncio.CancelledError as cancelled:
            if self._interrupt is None:
                raise after(cancelled, error)  # noqa: B904 - it is the same one
        except RuntimeError as refusal:
            raise after(refusal, error)  # noqa: B904 - as above

    async def _wait_was_cancelled(self, task: "asyncio.Task[Any] | None") -> None:
        is_last = self._must_wait(task) or not self._has_ended
        if is_last and not self.is_within_block and not self._is_own(task):
            self._note_early_end(None)
            await self._wait_for_the_end(task)

    def describe(self) -> str:
        """How far it is, in a few words."""
        if not self.is_open:
            return "not begun"
        return f"{len(self._running)} running, {len(self.ready)} uncollected" + (", over" if self.is_over() else "")


class FlowIterator(Generic[R]):
    """What the user of a flow holds: an async iterator, and a block around it.

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

        >>> pages = headgate.amap(fetch, ["a", "bb"], limit=1)
        >>> await anext(pages)
        'page of a'
        >>> await pages.aclose()

        Raises:
            RuntimeError: What runs waits for the task that calls this: neither would ever end.
        """
        await self._flow.close()

    def __del__(self) -> None:
        if hasattr(self, "_flow"):
            self._flow.abandon_from_anywhere()
