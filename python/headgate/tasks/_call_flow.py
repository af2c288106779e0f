"""A flow that calls a function with each item: `amap` without options other than the limit."""

import asyncio
import sys
from collections.abc import Callable
from inspect import isawaitable, iscoroutinefunction
from typing import Any

from headgate._errors import NotAwaitableError, OtherLoopError, TooManyFailures
from headgate.tasks._flow import Flow
from headgate.tasks._options import AmapOptions
from headgate.tasks._outcome import TaskStatistics, after, noted, shown, stray
from headgate.tasks._thread_source import AnySource
from headgate.tasks._work import cancellations


def is_fatal(error: BaseException) -> bool:
    """Returns whether the error ends a map whatever `errors` is: every item would raise it, or the program exits."""
    return not isinstance(error, Exception) or isinstance(error, (NotAwaitableError, OtherLoopError))


class CallFlow(Flow[Any]):
    """Calls a function with each item as soon as a slot is free, and delivers what it returns."""

    __slots__ = ("_failed", "_function", "_is_program_over", "_options", "_retried", "_taken", "_unstarted")

    def __init__(self, source: AnySource, function: Callable[[Any], Any], options: AmapOptions[Any]) -> None:
        # A shared limit grants each slot, and then the flow has no bound of its own.
        limit = options["limit"] if isinstance(options["limit"], int) else sys.maxsize
        super().__init__(source, limit, limit if options["buffer"] is None else options["buffer"])
        # A function that is not `async def` runs within the task, which keeps its errors and context variables apart.
        self._function = function if iscoroutinefunction(function) else _Awaiting(function).call
        self._options = options
        self._taken = 0
        self._failed = 0
        self._unstarted = 0
        self._retried = 0
        self._is_program_over: bool | None = None

    def stop(self) -> list[Any]:
        """Starts nothing new; running calls finish. Returns the items that were pulled and will not be started."""
        self.close_source()
        unstarted = self._source.remove_unpulled()
        self._taken += len(unstarted)
        self._unstarted += len(unstarted)
        return unstarted

    def statistics(self) -> TaskStatistics:
        """Returns the progress so far."""
        running, ahead = len(self._running) + self._maker.is_making, self._finished_ahead()
        waiting = self._waiting() - ahead
        return TaskStatistics(
            taken=self._taken,
            running=running,
            waiting=waiting,
            uncollected=len(self.ready) + ahead,
            succeeded=self._taken - running - waiting - self._failed - self._discarded - self._unstarted,
            failed=self._failed,
            cancelled=self._discarded,
            unstarted=self._unstarted,
            retried=self._retried,
        )

    def _waiting(self) -> int:
        """Returns how many items were pulled and neither run nor are ready."""
        return 0

    def _finished_ahead(self) -> int:
        """Returns how many of those have finished before an earlier item whose result comes first."""
        return 0

    def _start(self, item: Any) -> None:  # noqa: ANN401 - the user's type
        self._taken += 1
        try:
            coroutine = self._function(item)
        except BaseException as error:  # noqa: BLE001 - the function may not accept one argument
            coroutine = failing(error)
        try:
            task = self._create_task(coroutine)
        except BaseException:
            self._unstarted += 1
            raise
        self._running[task] = item
        task.add_done_callback(self._on_finished or self._bind(), context=self._context)

    def _finished(self, task: asyncio.Future[Any]) -> None:
        if self._has_ended:
            self._discard(task)
            return
        item = self._running.pop(task)
        try:
            result = task.result()
        except BaseException as error:  # noqa: BLE001 - the item's own
            failure = self._error_of_call(task, error)
            del task  # else its error, whose traceback has this frame, would be a cycle
            try:
                self._item_failed(item, failure)
            finally:
                del failure  # as above
        else:
            self.ready.append(result)
            if self._waiters:
                self._wake()
        self._refill()

    def _error_of_call(self, task: asyncio.Future[Any], error: BaseException) -> BaseException:
        """Returns the error of a failed call. A cancelled call has failed: the task that waits was not cancelled."""
        if not cancellations(task) or not self._is_program_ending():
            return stray("the call", error) if isinstance(error, asyncio.CancelledError) else error
        # Start nothing more, even if the call raised another error when it was cancelled.
        return after(asyncio.CancelledError(), error) if isinstance(error, Exception) else error

    def _is_program_ending(self) -> bool:
        """Returns whether all tasks are cancelled, which asyncio does when a program ends."""
        opener = self._opened_by()
        if isinstance(opener, asyncio.Task) and not (opener.done() or cancellations(opener)):
            return False
        if self._is_program_over is None:  # cached for one iteration of the loop: calls and tasks may be many
            self._is_program_over = all(map(cancellations, asyncio.all_tasks(self._loop)))
            self._loop.call_soon(self._clear_cached_end)
        return self._is_program_over

    def _clear_cached_end(self) -> None:
        self._is_program_over = None

    def _item_failed(self, item: Any, error: BaseException) -> bool:  # noqa: ANN401 - the user's type
        """Counts an error, and fails the flow if it must be raised. Returns whether the flow continues."""
        self._failed += 1
        max_failures = self._options["max_failures"]
        if self._options["errors"] == "raise" or is_fatal(error):
            self.fail(noted(error, item))
        elif max_failures is not None and self._failed > max_failures:
            too_many = TooManyFailures(
                f"{self._failed} items failed, and max_failures is {max_failures}; the last error is the cause"
            )
            too_many.__cause__ = noted(error, item)
            self.fail(too_many)
        else:
            return True
        return False


class _Awaiting:
    """Calls a function that is not `async def`, and awaits what it returns."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self._not_awaitable: str | None = None

    async def call(self, item: Any) -> Any:  # noqa: ANN401 - the user's types
        if self._not_awaitable is not None:
            raise NotAwaitableError(self._not_awaitable)  # don't call the function again in calls already started
        awaitable = self._function(item)
        if not isawaitable(awaitable):
            self._not_awaitable = (
                f"the function returned {shown(awaitable)}, which can't be awaited: give an `async def` function"
                " or one that returns an awaitable; asyncio.to_thread makes one of a function that blocks"
            )
            raise NotAwaitableError(self._not_awaitable)
        return await awaitable


async def failing(error: BaseException) -> None:
    """Raises an error that a call raised before it returned a coroutine, so that it fails as a task like any other."""
    try:
        raise error
    finally:
        del error  # else it would be a cycle
