"""The loop behind `as_completed` and `amap`: starts work while there is room, keeps results until they are collected.

What. A flow pulls from a source, makes a task of what it gets, and is called back when that task has finished; the
callback keeps the result and starts the next one. No task drives it and nothing polls.

Prior art. Andy Balaam's `limited_as_completed` and bpo-30782's `asyncio.as_completed(limit=)`, which starts the next
one from the done-callback; p-map's `backpressure` for the second bound; trio's rule that nothing outlives its block.

Guarantees. Started and unfinished are never more than `limit`; with the uncollected, never more than `limit + buffer`.
What has finished is delivered before an error that comes after it, and an error is raised once. When `close` has
returned, nothing that the flow began still runs, and each of these was cancelled once: no clean-up is cut short. A
source that is slow does not keep what was started from beginning.

Cost. A dictionary of what runs, a deque of what has finished: nothing grows with anything but the two bounds.

A flow never refers to the iterator in its user's hands, so that this one goes when its user lets go of it, and can then
cancel what it began. When all is over, it does not refer to itself either.
"""

import asyncio
import math
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, Final, Generic, TypeVar
from weakref import ref

from headgate._errors import ClosedEarly
from headgate.tasks._clock import LONGEST_TURN_S, CallClock
from headgate.tasks._maker import TaskMaker
from headgate.tasks._raised import after, stray, visible
from headgate.tasks._source import END, NOT_YET, AsyncSource, Source

R = TypeVar("R")

_QUICK_LOOKS: Final = 256
"""After so many pulls that were quick, all of them, the clock is looked at less often than after each."""
_QUICK_PULLS: Final = 16
"""After how many then: so many and one may block, one after the other, before that is noticed."""
_NOT_KNOWN: Final = math.inf

NO_MORE: Final = END
"""What `Flow.next` gives when everything has been delivered."""


class Flow(ABC, Generic[R]):
    """Work in progress. A subclass says what starting an item is, and what is kept when it has finished."""

    __slots__ = (
        *("ready", "is_stalled", "is_open", "is_within_block"),
        *("_source", "_pull", "_limit", "_bound", "_running", "_waiters", "_discarded"),
        *("_takes_more", "_is_pulling", "_has_ended", "_failure", "_source_error", "_interrupt"),
        *("_on_finished", "_create_task", "_maker", "_clock", "_now_s", "_turn_ends_s"),
        *("_look_in", "_quick_looks"),
        *("_loop", "_thread", "_context", "_opened_by", "_cut_by", "_told", "_is_waited_for"),
    )

    def __init__(self, source: Source[Any] | AsyncSource[Any], limit: int, buffer: int) -> None:
        self.ready: deque[R] = deque()
        """Finished and not yet collected, in the order in which they are to be."""
        self.is_stalled = False
        """Whether starts wait until something is collected."""
        self.is_open = False
        self.is_within_block = False
        """Whether an `async with` will close it."""
        self._source = source
        self._look_in = 1 if source.may_block else 0  # so many pulls; 0: never
        self._quick_looks = 0
        self._limit = limit
        self._bound = limit + buffer
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
        self._opened_by: Callable[[], object] = _nobody
        self._cut_by: Callable[[], object] | None = None
        self._told: set[asyncio.Future[Any]] = set()  # to end
        self._is_waited_for = False  # who opened it: by one of those that run

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
            raise RuntimeError("it was begun before, and its input is read once: make another one")
        self._loop = asyncio.get_running_loop()
        self._opened_by = _reference(asyncio.current_task())
        self._create_task = self._maker.on(self._loop)
        self._clock = CallClock(self._loop)
        self._now_s = self._clock.read
        self._thread = threading.get_ident()
        self._context = copy_context()
        self._pull = self._context.run(self._source.open, partial(self._context.run, self._refill))
        self.is_open = True
        self.resume()

    def resume(self) -> None:
        """Starts more, in the context of whoever opened the flow: who collects may be in another one."""
        self.is_stalled = False
        self._turn_ends_s = self._now_s() + LONGEST_TURN_S if self._look_in == 1 else _NOT_KNOWN
        self._context.run(self._refill)

    def _refill(self) -> None:
        """Starts what there is room for. Runs in the flow's own context, of which each task gets a copy."""
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
            except BaseException as error:  # noqa: BLE001 - a task factory of somebody's, perhaps: it must not be lost
                self.fail(error)
            in_flight += 1
            if look_in:
                if look_in == 1:
                    self._look_at_the_clock()
                else:
                    self._look_in = look_in - 1
        self._look_whether_it_has_ended()

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

    def _look_whether_it_has_ended(self) -> None:
        if self._has_ended:
            self._cancel_running()  # the garbage collector may end it in the middle of a start
        if self.is_over():
            self._settle()

    def _look_at_the_clock(self) -> None:
        """Stops pulling where that takes long. It costs a fiftieth of a task: a quick source is seldom looked at."""
        now_s = self._now_s()
        if now_s > self._turn_ends_s:
            self._quick_looks = 0
            self._is_pulling = False
            self._go_on_soon()
        elif self._turn_ends_s == _NOT_KNOWN:  # a turn that began without a look: the next pull has one, too
            self._turn_ends_s = now_s + LONGEST_TURN_S
        elif self._quick_looks < _QUICK_LOOKS:
            self._quick_looks += 1
        else:
            self._look_in = _QUICK_PULLS

    def _go_on_soon(self) -> None:
        """Pulls on when the event loop has had its turn, in which what was started begins."""
        if self._takes_more:
            self._loop.call_soon(self._go_on, context=self._context)

    def _go_on(self) -> None:
        self._turn_ends_s = self._now_s() + LONGEST_TURN_S if self._look_in == 1 else _NOT_KNOWN
        if self._takes_more and not self._is_pulling:
            self._is_pulling = True
            self._refill()

    def _pull_no_more(self) -> None:
        self._takes_more = self._is_pulling = False

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
        at which anybody can wait for what runs, so that it closes the flow.
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
                self.say_if_cut()
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
        is_last = self._is_last_to_wait(task) or not self._has_ended
        if is_last and not self.is_within_block and not self._is_of_ours(task):
            self._note_cut(None)
            await self._wait_for_the_end(task)

    def is_over(self) -> bool:
        """Whether nothing runs, and nothing will."""
        return not (self._takes_more or self._running or self._source.is_open or self._maker.is_making)

    def describe(self) -> str:
        """How far it is, in a few words."""
        if not self.is_open:
            return "not begun"
        return f"{len(self._running)} running, {len(self.ready)} uncollected" + (", over" if self.is_over() else "")

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
        # Who waited did so while the event loop had its turn, and that may have been for long.
        self._turn_ends_s = self._now_s() + LONGEST_TURN_S if self._look_in == 1 else _NOT_KNOWN
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _wake_all(self) -> None:
        while self._waiters:
            self._wake()

    # -- ending

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

        What runs is cancelled once, as `asyncio.TaskGroup` does it: a further cancellation of who waits here is raised
        when everything has ended. A task that did not begin the iteration need not wait on: the one that did does.
        """
        task = asyncio.current_task()
        if self._is_of_ours(task):
            raise RuntimeError("a task cannot wait for its own end: close it from outside, or call stop()")
        self._note_cut(task)
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
                await self._refuse_to_wait(failure)
            try:
                await self._wait()
            except asyncio.CancelledError as error:
                if not self._is_last_to_wait(task):
                    raise
                cancelled = error
        del failure  # as in `wait_for_ready`
        if cancelled is not None:
            try:
                raise cancelled
            finally:
                del cancelled  # as above

    async def _refuse_to_wait(self, failure: BaseException | None) -> None:
        """Ends the wait of a task for which one of those that run waits: each would wait for the other's end."""
        with suppress(asyncio.CancelledError):  # which we have caused, by cancelling that one
            await asyncio.sleep(0)
        if (task := asyncio.current_task()) is not None:
            task.uncancel()
        if not self.is_over():
            refusal = "what runs here waits for the very task that waits for its end: neither would ever end"
            raise RuntimeError(refusal) from failure

    def _is_of_ours(self, task: "asyncio.Task[Any] | None") -> bool:
        """Whether it is one of those whose end is waited for."""
        return self._maker.is_making or task in self._running or self._source.is_run_by(task)

    def _is_last_to_wait(self, task: object) -> bool:
        """Whether nobody else will wait for what runs: who opened the flow does. Others may wait in what runs."""
        opener = self._opened_by()
        return opener is None or opener is task or (isinstance(opener, asyncio.Future) and opener.done())

    def _note_cut(self, task: object) -> None:
        """Notes that something will not be delivered, and by whose will; all but this task shall be told."""
        if self._cut_by is None and (
            self.ready or self._failure is not None or self._source_error is not None or not self.is_over()
        ):
            self._cut_by = _reference(task)

    def say_if_cut(self) -> None:
        """Raises an error if somebody else has ended it: this is not all."""
        if self._cut_by is not None and self._cut_by() is not asyncio.current_task():
            raise ClosedEarly("somebody else has closed it, or a wait for it was cancelled: there may have been more")

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
            self._tell_to_end(task)
        if cancellations(opener) > before:
            self._is_waited_for = True

    def _tell_to_end(self, task: asyncio.Future[Any]) -> None:
        """Cancels it, once: a second time would be while it cleans up."""
        if task not in self._told:
            self._told.add(task)
            task.cancel()

    def _discard(self, task: asyncio.Future[Any]) -> None:
        """Takes note of the end of a task whose result nobody wants any more."""
        self._told.discard(task)
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
    """How often it was asked to end, but for those who have taken that back."""
    return task.cancelling() if isinstance(task, asyncio.Task) else 0


def _reference(task: object) -> Callable[[], object]:
    """Gives the task as long as it is there: it refers to the iterator, and a flow must not."""
    return _nobody if task is None else ref(task)


def _nobody() -> None:
    pass
