"""The loop behind `as_completed` and `amap`: starts work while slots are free, keeps results until they are collected.

What. A flow pulls items from a source, and creates a task for each. When a task is done, its callback stores the result
and starts the next. No task drives the flow and nothing polls.

Prior art. Andy Balaam's `limited_as_completed` and bpo-30782's `asyncio.as_completed(limit=)`, which starts the next
task from the done-callback; p-map's `backpressure` for the second bound; trio's rule that nothing outlives its block.

Guarantees. At most `limit` tasks are started and unfinished; with the uncollected results, at most `limit + buffer`.
Results are delivered before an error that came after them, and an error is raised once. A slow source does not delay
the first step of tasks that were created. `_work.py` describes how a flow ends.

Cost. A dictionary of running tasks and a deque of results, which only the two bounds limit.

A flow never refers to the iterator that its user holds. When the user drops the iterator, it is collected and cancels
what it started. A flow that is over does not refer to itself either.
"""

import asyncio
import math
from abc import abstractmethod
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

from headgate.tasks._loop import MAX_PULL_S, CallClock, LoopTime
from headgate.tasks._outcome import after, stray, visible
from headgate.tasks._source import END, NOT_YET, Source
from headgate.tasks._thread_source import AnySource
from headgate.tasks._work import Work

R = TypeVar("R")

_QUICK_CHECKS: Final = 256
"""After this many consecutive quick pulls, the clock is read less often than after each pull."""
_QUICK_PULLS: Final = 16
"""How many pulls then pass between two readings: one more than this may block before the flow notices."""
_UNKNOWN: Final = math.inf

NO_MORE: Final = END
"""What `Flow.next` returns when everything has been delivered."""


class Flow(Work[R]):
    """Starts and delivers work; a subclass decides how an item is started, and which result is stored."""

    __slots__ = (
        *("is_stalled", "_pull", "_limit", "_bound", "_create_task", "_context"),
        *("_clock", "_now_s", "_pull_s", "_pull_until_s", "_check_in", "_quick_checks"),
    )

    def __init__(self, source: AnySource, limit: int, buffer: int) -> None:
        super().__init__(source)
        self.is_stalled: bool = False
        """Whether starts wait until something is collected."""
        self._check_in = 1 if source.may_block else 0  # pulls until the clock is read; 0: never
        self._quick_checks = 0
        self._pull_s = 0.0  # how long the last pull took that was timed
        self._limit = limit
        self._bound = limit + buffer

    # -- what a subclass implements

    @abstractmethod
    def _start(self, item: Any) -> None:  # noqa: ANN401 - whatever the source gives
        """Creates a task for an item, and adds it to `_running`."""

    @abstractmethod
    def _finished(self, task: asyncio.Future[Any]) -> None:
        """Handles a task that is done; the event loop calls it."""

    # -- starting

    def open(self) -> None:
        """Starts the first tasks.

        Raises:
            RuntimeError: No event loop is running, or the flow was opened before.
        """
        if self.is_open:
            raise RuntimeError("it has been started before, and its input is read only once: create another one")
        self._note_opened()
        self._create_task = self._maker.bind(self._loop)
        self._clock = CallClock(self._loop)
        self._now_s = self._clock.read
        self._context = copy_context()
        self._pull = self._context.run(self._source.open, partial(self._context.run, self._refill))
        self.is_open = True
        self.resume()

    def resume(self) -> None:
        """Starts more, in the context in which the flow was opened, because the collecting task may have another."""
        self.is_stalled = False
        self._reset_pull_time()
        self._context.run(self._refill)

    def _reset_pull_time(self) -> None:
        self._pull_until_s = self._now_s() + MAX_PULL_S if self._check_in == 1 else _UNKNOWN

    def _refill(self) -> None:
        """Starts what the limit and the bound allow, in the flow's own context, of which each task gets a copy."""
        in_flight, limit = len(self._running), self._limit
        while self._is_pulling:
            if in_flight >= limit:
                return
            if in_flight + len(self.ready) >= self._bound:
                self.is_stalled = True
                return
            look_in = self._check_in
            try:
                item = self._pull_timed() if look_in == 1 else self._pull()
            except BaseException as error:  # noqa: BLE001 - the source's own, whatever it is
                self._source_failed(error)
                break
            if item is NOT_YET or item is END:
                self._may_pull = self._is_pulling = item is NOT_YET
                break
            try:
                self._start(item)
            except BaseException as error:  # noqa: BLE001 - the user's task factory may fail; its error must not be lost
                self.fail(error)
            in_flight += 1
            if look_in:
                if look_in == 1:
                    self._check_clock()
                else:
                    self._check_in = look_in - 1
        self._settle_if_over()

    def _pull_timed(self) -> Any:  # noqa: ANN401 - an item or a mark
        """Pulls from a source that may block, while the clock of the calls on this loop is paused."""
        began_s = self._now_s()
        if began_s > self._pull_until_s and isinstance(self._source, Source):  # other code took the time
            self._pull_until_s = began_s + MAX_PULL_S
        try:
            return self._pull()
        finally:
            now_s = self._now_s()
            self._pull_s = now_s - began_s
            self._clock.paused.seconds += self._pull_s
            if now_s > self._pull_until_s:
                self._is_pulling = False  # until the tasks created now have begun

    def _settle_if_over(self) -> None:
        if self._has_ended:
            self._cancel_running()  # the garbage collector may end the flow in the middle of a start
        if self.is_over():
            self._settle()

    def _check_clock(self) -> None:
        """Pauses pulling if it takes long. A check costs a fiftieth of a task, so a quick source is checked seldom."""
        now_s = self._now_s()
        if now_s > self._pull_until_s:
            self._quick_checks = 0
            self._is_pulling = False
            self._pull_soon()
        elif self._pull_until_s == _UNKNOWN:  # the clock was not read at first: the next pull reads it, too
            self._pull_until_s = now_s + MAX_PULL_S
        elif self._quick_checks < _QUICK_CHECKS:
            self._quick_checks += 1
        else:
            self._check_in = _QUICK_PULLS

    def _pull_soon(self) -> None:
        """Schedules further pulls after the next iteration of the event loop, in which the created tasks begin.

        After a slow pull the loop has more time.
        """
        if not self._may_pull:
            return
        if self._pull_s <= MAX_PULL_S:
            self._loop.call_soon(self._pull_again, context=self._context)
            return
        if self._loop_time is None:
            self._loop_time = LoopTime(self._loop, self._now_s, self._context)
        self._loop_time.start(self._pull_s, self._pull_again)

    def _pull_again(self) -> None:
        self._reset_pull_time()
        if self._may_pull and not self._is_pulling:
            self._is_pulling = True
            self._refill()

    def _source_failed(self, error: BaseException) -> None:
        self._stop_pulling()
        if isinstance(error, asyncio.CancelledError):
            self._source_error = stray("the source", error)
        elif isinstance(error, Exception):
            self._source_error = error
        else:  # KeyboardInterrupt or SystemExit
            self._interrupt = error
            self.fail(error)

    def _bind(self) -> Callable[[asyncio.Future[Any]], None]:
        """Returns the done-callback, bound once: looking up the method for each task would create an object each."""
        self._on_finished = self._finished
        return self._on_finished

    # -- delivering

    async def next(self) -> Any:  # noqa: ANN401 - a result or NO_MORE
        """Waits for the next result and returns it, or returns `NO_MORE`."""
        if not self.ready and not await self.wait_for_ready():
            return NO_MORE
        result = self.ready.popleft()
        if self.is_stalled:
            self.resume()
        return result

    async def wait_for_ready(self) -> bool:
        """Waits until a result is ready; returns whether there is one, or false if everything was delivered.

        Cancelling the wait loses nothing within a block, whose end closes the flow. Without a block it closes the flow,
        because no task could wait for the running ones later.
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
                await self._close_after_cancelled_wait(asyncio.current_task())
                raise
        return True

    async def _wait_for_the_end_after(self, error: BaseException) -> None:
        """Waits for the end before `error` is raised, and attaches it to the error that the wait may raise."""
        try:
            await self._wait_for_the_end(asyncio.current_task())
        except asyncio.CancelledError as cancelled:
            if self._interrupt is None:
                raise after(cancelled, error)  # noqa: B904 - `after` returns `cancelled` itself
        except RuntimeError as refusal:
            raise after(refusal, error)  # noqa: B904 - as above

    async def _close_after_cancelled_wait(self, task: "asyncio.Task[Any] | None") -> None:
        is_last = self._must_wait(task) or not self._has_ended
        if is_last and not self.is_within_block and not self._is_own(task):
            self._note_early_end(None)
            await self._wait_for_the_end(task)

    def describe(self) -> str:
        """Returns the progress in a few words, for `repr`."""
        if not self.is_open:
            return "not begun"
        return f"{len(self._running)} running, {len(self.ready)} uncollected" + (", over" if self.is_over() else "")


class FlowIterator(Generic[R]):
    """The async iterator that the user of a flow holds, which is also an async context manager.

    When it is collected, it cancels what it started; so nothing that it started may refer to it.
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
        """Cancels what runs, waits until it has ended, and drops results that were not collected.

        What runs is cancelled once: if this call is cancelled, too, that is raised after everything has ended. If
        another task began the iteration, that task waits, and a cancellation ends this call at once. Another task that
        iterates gets `ClosedEarly`.

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
