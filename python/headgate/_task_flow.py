"""The loop behind `as_completed` and `amap`: starts work while there is room, keeps results until they are collected.

What. A flow pulls from a feed, makes a task of what it gets, and is called back when that task has finished; the
callback keeps the result and starts the next one. No task drives it and nothing polls.

Prior art. Andy Balaam's `limited_as_completed` and bpo-30782's `asyncio.as_completed(limit=)`, which starts the next
one from the done-callback; p-map's `backpressure` for the second bound; trio's rule that nothing outlives its block.

Guarantees. Started and unfinished are never more than `limit`; with the uncollected, never more than `limit + buffer`.
What has finished is delivered before an error that comes after it, and an error is raised once. When `close` has
returned, nothing that the flow began still runs.

Cost. A dictionary of what runs, a deque of what has finished: nothing grows with anything but the two bounds.

A flow never refers to the iterator in its user's hands, so that this one goes when its user lets go of it, and can then
cancel what it began.
"""

import asyncio
import reprlib
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import partial
from typing import Any, Final, Generic, TypeVar

from headgate._task_feed import END, NOT_YET, AsyncFeed, Feed

R = TypeVar("R")

_SHORT: Final = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 200

NO_MORE: Final = END
"""What `Flow.next` gives when everything has been delivered."""


class Flow(ABC, Generic[R]):
    """Work in progress. A subclass says what starting an item is, and what is kept when it has finished."""

    __slots__ = (
        *("ready", "is_stalled", "is_open", "is_within_block"),
        *("_feed", "_pull", "_limit", "_bound", "_running", "_waiters", "_discarded"),
        *("_takes_more", "_has_ended", "_failure", "_source_error"),
        *("_on_finished", "_create_task", "_loop", "_thread", "_context"),
    )

    def __init__(self, feed: Feed[Any] | AsyncFeed[Any], limit: int, buffer: int) -> None:
        self.ready: deque[R] = deque()
        """Finished and not yet collected, in the order in which they are to be."""
        self.is_stalled = False
        """Whether starts wait until something is collected."""
        self.is_open = False
        self.is_within_block = False
        """Whether an `async with` will close it."""
        self._feed = feed
        self._limit = limit
        self._bound = limit + buffer
        self._discarded = 0
        self._running: dict[asyncio.Future[Any], Any] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._takes_more = True
        self._has_ended = False  # from here on nothing is delivered but what is ready, and then the failure
        self._failure: BaseException | None = None
        self._source_error: BaseException | None = None
        # Bound once: a method that is looked up for each task is a new object for each task.
        self._on_finished = self._finished

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
        self._create_task = _task_maker(self._loop)
        self._thread = threading.get_ident()
        self._context = copy_context()
        self._pull = self._context.run(self._feed.open, partial(self._context.run, self._refill))
        self.is_open = True
        self.resume()

    def resume(self) -> None:
        """Starts more, in the context of whoever opened the flow: who collects may be in another one."""
        self.is_stalled = False
        self._context.run(self._refill)

    def _refill(self) -> None:
        """Starts what there is room for. Runs in the flow's own context, of which each task gets a copy."""
        running = self._running
        while self._takes_more:
            in_flight = len(running)
            if in_flight >= self._limit:
                return
            if in_flight + len(self.ready) >= self._bound:
                self.is_stalled = True
                return
            try:
                item = self._pull()
            except BaseException as error:  # noqa: BLE001 - the source's own, whatever it is
                self._takes_more = False
                self._source_error = error
                break
            if item is NOT_YET:
                return
            if item is END:
                self._takes_more = False
                break
            try:
                self._start(item)
            except BaseException as error:  # noqa: BLE001 - a task factory of somebody's, perhaps: it must not be lost
                self.fail(error)
        if self._has_ended:
            self._cancel_running(again=False)  # the garbage collector may end it in the middle of a start
        if self.is_over():
            self._settle()

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
                    await self.close()
                    raise _visible(error)
                finally:
                    del error  # else its traceback, which has this frame, would be a cycle
            if self.is_over():
                if self._source_error is None:
                    return False
                error, self._source_error = self._source_error, None
                try:
                    raise _visible(error)
                finally:
                    del error  # as above
            try:
                await self._wait()
            except asyncio.CancelledError:
                if not self.is_within_block:
                    await self.close()
                raise
        return True

    def is_over(self) -> bool:
        """Whether nothing runs, and nothing will."""
        return not (self._takes_more or self._running or self._feed.is_open)

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
        self._takes_more = False
        self._feed.close()
        if self.is_open and self.is_over():
            self._settle()

    async def close(self) -> None:
        """Cancels what runs and waits until it has ended; what was not collected is dropped.

        Cancelling this cancels again what still runs, and still waits for it: nothing is left behind.
        """
        task = asyncio.current_task()
        if task in self._running or self._feed.is_run_by(task):
            raise RuntimeError("a task cannot wait for its own end: close it from outside, or call stop()")
        self.abandon()
        cancelled: asyncio.CancelledError | None = None
        while not self.is_over():
            try:
                await self._wait()
            except asyncio.CancelledError as error:
                cancelled = error
                self._feed.close(again=True)
                self._cancel_running()
        if cancelled is not None:
            try:
                raise cancelled
            finally:
                del cancelled  # as in `next`

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
        self._takes_more = False
        self._feed.close()
        if self.is_open:
            self._cancel_running()
        if self.is_over():
            self._settle()
        else:
            self._wake_all()

    def _cancel_running(self, *, again: bool = True) -> None:
        for task in tuple(self._running):
            cancel(task, again=again)

    def _discard(self, task: asyncio.Future[Any]) -> None:
        """Takes note of the end of a task whose result nobody wants any more."""
        if self._running.pop(task, NOT_YET) is not NOT_YET:
            self._discarded += 1
        if not task.cancelled():
            task.exception()  # else asyncio would say that it was never retrieved
        if self.is_over():
            self._settle()

    def _settle(self) -> None:
        """Nothing runs any more, and nothing will."""
        self._wake_all()

    def _drop_ready(self) -> None:
        while self.ready:
            self._drop(self.ready.popleft())

    def _close_unstarted(self) -> None:
        """Lets go of what was taken and never started."""

    def _drop(self, result: R) -> None:
        """Lets go of a result that was not collected."""


def _task_maker(loop: asyncio.AbstractEventLoop) -> Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]]:
    """`loop.create_task`, or what it comes to where nobody has changed it: that saves a twentieth of a small task."""
    is_usual = type(loop).create_task is asyncio.BaseEventLoop.create_task
    if is_usual and loop.get_task_factory() is None and not loop.get_debug():
        return partial(asyncio.Task, loop=loop)
    return loop.create_task


def cancel(task: asyncio.Future[Any], *, again: bool) -> None:
    """Cancels a task; one that was cancelled before, only if it is to be cancelled again."""
    if again or not (isinstance(task, asyncio.Task) and task.cancelling()):
        task.cancel()


def shown(value: object) -> str:
    """The beginning of its representation; its type, if it cannot be represented."""
    try:
        return _SHORT.repr(value)
    except Exception:  # noqa: BLE001 - an int of 5,000 digits, or a class that reprlib takes for one of its own
        return f"<{type(value).__name__}>"


def _visible(error: BaseException) -> BaseException:
    """The error, in a form that does not look like the end of an iteration."""
    if isinstance(error, (StopIteration, StopAsyncIteration)):
        hidden = RuntimeError(f"{type(error).__name__} was raised where it would have ended the iteration silently")
        hidden.__cause__ = error
        return hidden
    return error
