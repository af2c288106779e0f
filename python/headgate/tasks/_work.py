"""Work that was begun, and how it ends: what a flow is, whatever it starts and delivers.

When `close` has returned, nothing that was begun still runs, and each of these was cancelled once: no clean-up is cut
short. A task that waits for the end of a task that waits for it gets an error, and so does a task that iterates over
what another task has ended.
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
from headgate.tasks._loop import TaskMaker
from headgate.tasks._source import NOT_YET, AsyncSource, Source

R = TypeVar("R")


class Work(ABC, Generic[R]):
    """What runs, what is ready, and the tasks that wait for it."""

    __slots__ = (
        *("ready", "is_open", "is_within_block"),
        *("_source", "_running", "_waiters", "_discarded", "_maker", "_on_finished"),
        *("_takes_more", "_is_pulling", "_has_ended", "_failure", "_source_error", "_interrupt"),
        *("_loop", "_thread", "_opened_by", "_ended_by", "_cancelled", "_is_waited_for"),
    )

    def __init__(self, source: Source[Any] | AsyncSource[Any]) -> None:
        self.ready: deque[R] = deque()
        """Finished and not yet collected, in the order in which they are to be."""
        self.is_open = False
        self.is_within_block = False
        """Whether an `async with` will close it."""
        self._source = source
        self._discarded = 0
        self._running: dict[asyncio.Future[Any], Any] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._takes_more = True
        self._is_pulling = True  # it takes more, and the event loop is not having its turn
        self._has_ended = False  # from here on nothing is delivered but what is ready, and then the failure
        self._failure: BaseException | None = None
        self._source_error: BaseException | None = None
        self._interrupt: BaseException | None = None
        self._on_finished: Callable[[asyncio.Future[Any]], None] | None = None
        self._maker = TaskMaker()
        self._opened_by: Callable[[], object] = _no_task
        self._ended_by: Callable[[], object] | None = None
        self._cancelled: set[asyncio.Future[Any]] = set()  # to end
        self._is_waited_for = False  # one of the running tasks waits for the task that opened it

    def _note_opened(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._opened_by = _reference(asyncio.current_task())
        self._thread = threading.get_ident()

    def is_over(self) -> bool:
        """Whether nothing runs, and nothing will."""
        return not (self._takes_more or self._running or self._source.is_open or self._maker.is_making)

    # -- waiting

    @abstractmethod
    def _begin_turn(self) -> None:
        """Is called when a waiting task is woken: the event loop has had its turn meanwhile, perhaps for long."""

    async def _wait(self) -> None:
        """Waits until there is something to deliver or to say."""
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            if self.ready and not waiter.cancelled():
                self._wake()  # it was our turn, and we will not take it
            raise

    def _wake(self) -> None:
        self._begin_turn()
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _wake_all(self) -> None:
        while self._waiters:
            self._wake()

    # -- ending

    def _pull_no_more(self) -> None:
        self._takes_more = self._is_pulling = False

    def fail(self, error: BaseException) -> None:
        """Cancels what runs. The error is raised when what is ready has been collected."""
        if not self._has_ended:
            self._failure = error
            self._end()

    def take_no_more(self) -> None:
        """Takes nothing more from the source."""
        self._pull_no_more()
        self._source.close()
        if self.is_open and self.is_over():
            self._settle()

    async def close(self) -> None:
        """Cancels what runs and waits until it has ended; what was not collected is dropped.

        What runs is cancelled once, as `asyncio.TaskGroup` does it: a further cancellation of the task that waits here
        is raised when everything has ended. A task that did not begin the iteration need not wait on: the one that did
        does.
        """
        task = asyncio.current_task()
        if self._is_own(task):
            raise RuntimeError("a task can't wait for its own end: close it from outside, or call stop()")
        self._note_early_end(task)
        try:
            await self._wait_for_the_end(task)
        finally:
            if self._interrupt is not None:  # an exit comes before a cancellation
                interrupt, self._interrupt = self._interrupt, None
                try:
                    raise interrupt
                finally:
                    del interrupt  # as in `wait_for_ready`

    async def _wait_for_the_end(self, task: "asyncio.Task[Any] | None") -> None:
        failure = self._failure
        self.abandon()
        cancelled: asyncio.CancelledError | None = None
        while not self.is_over():
            if self._is_waited_for and task is self._opened_by():
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
        """Ends the wait of a task for which one of those that run waits: each would wait for the other's end."""
        with suppress(asyncio.CancelledError):  # which we have caused, by cancelling that one
            await asyncio.sleep(0)
        if (task := asyncio.current_task()) is not None:
            task.uncancel()
        if not self.is_over():
            refusal = "what runs here waits for the very task that waits for its end: neither would ever end"
            raise RuntimeError(refusal) from failure

    def _is_own(self, task: "asyncio.Task[Any] | None") -> bool:
        """Returns whether it is one of the tasks whose end is waited for."""
        return self._maker.is_making or task in self._running or self._source.is_run_by(task)

    def _must_wait(self, task: object) -> bool:
        """Returns whether no other task will wait for what runs, as the task that opened the flow would."""
        opener = self._opened_by()
        return opener is None or opener is task or (isinstance(opener, asyncio.Future) and opener.done())

    def _note_early_end(self, task: object) -> None:
        """Notes that something will not be delivered, and which task ended it; all other tasks get an error."""
        if self._ended_by is None and (
            self.ready or self._failure is not None or self._source_error is not None or not self.is_over()
        ):
            self._ended_by = _reference(task)

    def raise_if_ended_early(self) -> None:
        """Raises an error if another task has ended it: this is not all."""
        if self._ended_by is not None and self._ended_by() is not asyncio.current_task():
            raise ClosedEarly("another task closed it, or a wait for it was cancelled: there may have been more")

    def abandon(self) -> None:
        """Cancels what runs, and drops what was not collected."""
        self._failure = self._source_error = None
        self._drop_ready()
        if not self._has_ended:
            self._end()

    def abandon_from_anywhere(self) -> None:
        """Does so when it was let go of: on any thread, with its event loop running or not."""
        if not self.is_open or (self._has_ended and not self.ready):
            return
        if self._loop.is_closed():
            self._close_unstarted()
        elif threading.get_ident() == self._thread:
            self.abandon()
        else:
            self._loop.call_soon_threadsafe(self.abandon)

    def _end(self) -> None:
        self._has_ended = True
        self._pull_no_more()
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
            self._is_waited_for = True

    def _cancel_once(self, task: asyncio.Future[Any]) -> None:
        """Cancels it, once: a second time would be while it cleans up."""
        if task not in self._cancelled:
            self._cancelled.add(task)
            task.cancel()

    def _discard(self, task: asyncio.Future[Any]) -> None:
        """Takes note of the end of a task whose result is not wanted any more."""
        self._cancelled.discard(task)
        if self._running.pop(task, NOT_YET) is not NOT_YET:
            self._discarded += 1
        if not task.cancelled():
            task.exception()  # else asyncio would say that it was never retrieved
        if self.is_over():
            self._settle()

    def _settle(self) -> None:
        """Nothing runs any more, and nothing will, but what a source gives that has just ended its own flow."""
        self._on_finished = None  # it refers to this
        self._wake_all()

    def _drop_ready(self) -> None:
        while self.ready:
            self._drop(self.ready.popleft())

    def _close_unstarted(self) -> None:
        """Lets go of what was taken and never started."""

    def _drop(self, result: R) -> None:
        """Lets go of a result that was not collected."""


def cancellations(task: object) -> int:
    """Returns how often it was cancelled, without cancellations that were taken back by `uncancel`."""
    return task.cancelling() if isinstance(task, asyncio.Task) else 0


def _reference(task: object) -> Callable[[], object]:
    """Gives the task as long as it is there: it refers to the iterator, and a flow must not."""
    return _no_task if task is None else ref(task)


def _no_task() -> None:
    pass
