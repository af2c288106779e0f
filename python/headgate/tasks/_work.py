"""The tasks of a flow and how they end, whatever the flow starts and delivers.

When `close` returns, no task of the flow runs. Each was cancelled only once, so no clean-up is interrupted. A task that
waits for a task that waits for it gets an error, and so does a task that iterates over what another task has closed.
"""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar
from weakref import ref

from headgate._errors import ClosedEarly
from headgate.tasks._loop import LoopTime, TaskMaker
from headgate.tasks._source import NOT_YET
from headgate.tasks._thread_source import AnySource

R = TypeVar("R")


class Work(ABC, Generic[R]):
    """The running tasks, the results that are ready, and the tasks that wait for a result."""

    __slots__ = (
        *("ready", "is_open", "is_within_block"),
        *("_source", "_running", "_waiters", "_discarded", "_maker", "_on_finished"),
        *("_may_pull", "_is_pulling", "_loop_time", "_has_ended", "_failure", "_source_error", "_interrupt"),
        *("_loop", "_thread", "_opened_by", "_closed_by", "_cancelled", "_waits_for_opener"),
    )

    def __init__(self, source: AnySource) -> None:
        self.ready: deque[R] = deque()
        """Results that are finished and not collected, in the order of delivery."""
        self.is_open = False
        self.is_within_block = False
        """Whether an `async with` will close it."""
        self._source = source
        self._discarded = 0
        self._running: dict[asyncio.Future[Any], Any] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._may_pull = True  # the source may have more items
        self._is_pulling = True  # `_may_pull`, and not paused for other callbacks of the event loop
        self._loop_time: LoopTime | None = None  # of a source that blocks
        self._has_ended = False  # then only what is ready is delivered, followed by the failure
        self._failure: BaseException | None = None
        self._source_error: BaseException | None = None
        self._interrupt: BaseException | None = None
        self._on_finished: Callable[[asyncio.Future[Any]], None] | None = None
        self._maker = TaskMaker()
        self._opened_by: Callable[[], object] = _no_task
        self._closed_by: Callable[[], object] | None = None
        self._cancelled: set[asyncio.Future[Any]] = set()  # and not yet ended
        self._waits_for_opener = False  # one of the running tasks waits for the task that opened the flow

    def _note_opened(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._opened_by = _reference(asyncio.current_task())
        self._thread = threading.get_ident()

    def is_over(self) -> bool:
        """Returns whether nothing runs, and nothing will."""
        return not (self._may_pull or self._running or self._source.is_open or self._maker.is_making)

    # -- waiting

    @abstractmethod
    def _reset_pull_time(self) -> None:
        """Allows pulls for another `MAX_PULL_S`, because the event loop has run other callbacks meanwhile."""

    async def _wait(self) -> None:
        """Waits until there is a result to deliver or an error to raise."""
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            if self.ready and not waiter.cancelled():
                self._wake()  # pass the wake-up on to the next waiter
            raise

    def _wake(self) -> None:
        self._reset_pull_time()
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _wake_all(self) -> None:
        while self._waiters:
            self._wake()

    # -- ending

    def _stop_pulling(self) -> None:
        self._may_pull = self._is_pulling = False
        if self._loop_time is not None:
            self._loop_time.cancel()

    def fail(self, error: BaseException) -> None:
        """Cancels what runs. The error is raised after the ready results have been collected."""
        if not self._has_ended:
            self._failure = error
            self._end()

    def close_source(self) -> None:
        """Closes the source and pulls nothing more."""
        self._stop_pulling()
        self._source.close()
        if self.is_open and self.is_over():
            self._settle()

    async def close(self) -> None:
        """Cancels what runs and waits until it has ended; drops results that were not collected.

        Each task is cancelled once, as by `asyncio.TaskGroup`: a cancellation of the waiting task is raised after
        everything has ended. It is raised at once in a task that did not begin the iteration, because the task that
        began it waits.

        If the loop has ended, as when a coroutine is collected after it, nothing can be awaited, and it only drops what
        it has.
        """
        if self.is_open and not self._is_in_loop():
            self.abandon_from_anywhere()
            return
        task = asyncio.current_task()
        if self._is_own(task):
            raise RuntimeError("a task can't wait for its own end: close it from outside, or call stop()")
        self._note_early_end(task)
        try:
            await self._wait_for_the_end(task)
        finally:
            if self._interrupt is not None:  # an exit is raised in preference to a cancellation
                interrupt, self._interrupt = self._interrupt, None
                try:
                    raise interrupt
                finally:
                    del interrupt  # as in `wait_for_ready`

    def _is_in_loop(self) -> bool:
        """Returns whether a loop runs in this thread, and the flow's own has not ended."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return False
        return not self._loop.is_closed()

    async def _wait_for_the_end(self, task: "asyncio.Task[Any] | None") -> None:
        failure = self._failure
        self.abandon()
        cancelled: asyncio.CancelledError | None = None
        while not self.is_over():
            if self._waits_for_opener and task is self._opened_by():
                await self._fail_deadlock(failure)
            try:
                await self._wait()
            except asyncio.CancelledError as error:
                if not self._must_wait(task):
                    raise
                cancelled = error
        del failure  # as in `wait_for_ready`
        if cancelled is not None:
            try:
                raise cancelled
            finally:
                del cancelled  # as above

    async def _fail_deadlock(self, failure: BaseException | None) -> None:
        """Raises an error in a waiting task for which a running task waits: neither would ever end."""
        with suppress(asyncio.CancelledError):  # caused by our cancellation of the running task
            await asyncio.sleep(0)
        if (task := asyncio.current_task()) is not None:
            task.uncancel()
        if not self.is_over():
            refusal = "what runs here waits for the very task that waits for its end: neither would ever end"
            raise RuntimeError(refusal) from failure

    def _is_own(self, task: "asyncio.Task[Any] | None") -> bool:
        """Returns whether the task is one that `close` waits for."""
        return self._maker.is_making or task in self._running or self._source.is_run_by(task)

    def _must_wait(self, task: object) -> bool:
        """Returns whether this task must wait for what runs, because the task that opened the flow will not."""
        opener = self._opened_by()
        return opener is None or opener is task or (isinstance(opener, asyncio.Future) and opener.done())

    def _note_early_end(self, task: object) -> None:
        """Notes which task closes the flow before everything is delivered; all other tasks get an error."""
        if self._closed_by is None and (
            self.ready or self._failure is not None or self._source_error is not None or not self.is_over()
        ):
            self._closed_by = _reference(task)

    def raise_if_ended_early(self) -> None:
        """Raises an error if another task closed the flow before everything was delivered."""
        if self._closed_by is not None and self._closed_by() is not asyncio.current_task():
            raise ClosedEarly("another task closed it, or a wait for it was cancelled: there may have been more")

    def abandon(self) -> None:
        """Cancels what runs, and drops results that were not collected."""
        self._failure = self._source_error = None
        self._drop_ready()
        if not self._has_ended:
            self._end()

    def abandon_from_anywhere(self) -> None:
        """Calls `abandon` when the iterator is collected: on any thread, whether or not the event loop runs."""
        if not self.is_open or (self._has_ended and not self.ready):
            return
        if self._loop.is_closed():
            self._close_unstarted()
            self._source.close()
        elif threading.get_ident() == self._thread:
            self.abandon()
        else:
            self._loop.call_soon_threadsafe(self.abandon)

    def _end(self) -> None:
        self._has_ended = True
        self._stop_pulling()
        self._source.close()
        if self.is_open:
            self._cancel_running()
        if self.is_over():
            self._settle()
        else:
            self._wake_all()

    def _cancel_running(self) -> None:
        opener = self._opened_by()
        before = cancellations(opener)
        for task in tuple(self._running):
            self._cancel_once(task)
        if cancellations(opener) > before:
            self._waits_for_opener = True

    def _cancel_once(self, task: asyncio.Future[Any]) -> None:
        """Cancels a task unless it was cancelled before: a second cancellation would interrupt its clean-up."""
        if task not in self._cancelled:
            self._cancelled.add(task)
            task.cancel()

    def _discard(self, task: asyncio.Future[Any]) -> None:
        """Removes a finished task whose result will not be delivered."""
        self._cancelled.discard(task)
        if self._running.pop(task, NOT_YET) is not NOT_YET:
            self._discarded += 1
        if not task.cancelled():
            task.exception()  # else asyncio would log that it was never retrieved
        if self.is_over():
            self._settle()

    def _settle(self) -> None:
        """Wakes all waiting tasks, because nothing runs or will run.

        The exception is an item of a source that has just ended its own flow.
        """
        self._on_finished = None  # it refers to this object
        self._wake_all()

    def _drop_ready(self) -> None:
        while self.ready:
            self._drop(self.ready.popleft())

    def _close_unstarted(self) -> None:
        """Closes coroutines that were pulled and never started."""

    def _drop(self, result: R) -> None:
        """Releases a result that was not collected."""


def cancellations(task: object) -> int:
    """Returns how often the task was cancelled, less the calls of `uncancel`."""
    return task.cancelling() if isinstance(task, asyncio.Task) else 0


def _reference(task: object) -> Callable[[], object]:
    """Returns a weak reference: the task refers to the iterator, and a flow must not."""
    return _no_task if task is None else ref(task)


def _no_task() -> None:
    pass
