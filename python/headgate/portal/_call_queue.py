"""Passes calls from threads to an event loop.

What it does: threads append calls to a deque, the loop takes all of them at once, and each thread sleeps until the lock
of its own call is released.

Wake-ups of the loop: the first thread of a burst writes to an eventfd that the loop watches; the other threads see that
a wake-up is pending. The loop clears that mark (`_is_wakeup_pending`) only after it has taken the calls, and then
checks the deque once more: either that check finds a call that was appended meanwhile, or its thread sees that it must
wake the loop. Compared with `call_soon_threadsafe`, which asyncio implements with a socket that is read until it is
empty, this saves 4 µs a call.

Waking threads: the loop doesn't wake every thread whose call has ended, because the kernel would switch to each of
them while the loop still holds the GIL. It wakes the first one, and each thread that wakes up wakes the next before it
continues (`wake_next`): that halves the cost of a call with 64 threads. Meanwhile, new calls don't wake the loop: the
last thread does that for all of them (`_rearm`). An interrupt, or threads that hold the GIL, may keep a thread from
waking the next, so the loop checks after a millisecond and continues the chain (`_help`).

Ending: the thread that removes a call from the deque or from `_running` ends it; both give a call to one thread only.
So the loop and the threads that notice its end need no lock. A thread checks whether the queue is open *after* it has
appended its call: either the closing thread finds that call, or that thread finds the queue closed.

What it does not do: pass calls between processes; bound the calls (each blocks a thread; `Portal` bounds those that
don't).
"""

import asyncio
import os
import threading
import weakref
from _thread import LockType, allocate_lock
from asyncio import _get_running_loop
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from inspect import isawaitable
from math import inf
from sys import version_info
from time import monotonic
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from asyncio import Task


class Call:
    """A call that a thread passes to the loop and waits for.

    A lock is the cheapest object on which a thread can sleep: it is acquired at the start, and released once, at the
    end. Creating one takes 0.1 µs, so none is used twice, and no abandoned call can release the lock of another.

    Attributes:
        work: Function, positional and keyword arguments; `None` once it has begun.
        context: The context in which the function is called, a copy of the caller's.
        ended: Released once, at the end. After that it is free, or the waiting thread has acquired it.
        value: What the function or its awaitable returned.
        error: What was raised instead.
        task: The task that runs the call, if it has to be awaited.
        is_over: Whether `value` or `error` is set.
        is_abandoned: Whether no thread waits for it any more: if it has not begun, it never does.
        on_end: Is called with the call at its end, in the thread that ends it; it must not raise.
    """

    __slots__ = ("context", "ended", "error", "is_abandoned", "is_over", "on_end", "task", "value", "work")

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self.work: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]] | None = (function, args, kwargs)
        self.context: Context = copy_context()
        self.ended: LockType = allocate_lock()
        self.ended.acquire()
        self.value: Any = None
        self.error: BaseException | None = None
        self.task: Task[Any] | None = None
        self.is_over: bool = False
        self.is_abandoned: bool = False
        self.on_end: Callable[[Call], None] | None = None

    def end(self) -> None:
        """Marks the call as over; the caller releases `ended` next. Only the thread that removed the call does this."""
        self.work = self.task = None
        self.is_over = True
        if self.on_end is not None:
            self.on_end(self)

    def outcome(self) -> Any:  # noqa: ANN401 - whatever the function returned
        """Returns the value, or raises the error."""
        if self.error is None:
            return self.value
        try:
            raise self.error
        finally:
            del self  # else the error, whose traceback has this frame, would be a cycle


def cancelled(why: BaseException | str) -> CancelledError:
    """Returns the exception for the thread: asyncio's own is not caught by `except Exception`."""
    if isinstance(why, str):
        return CancelledError(why)
    error = CancelledError(*why.args)
    error.__cause__ = why
    return error


LOOP_CHECK_S: Final = 1.0
"""How often a waiting thread checks that the loop still exists: there is no notification of a closed loop."""

CALLED_IN_LOOP: Final = "the portal leads into the loop of this very thread, which would wait for itself: use await"

_HELP_AFTER_S: Final = 0.001
"""How long threads may take to wake each other before the loop continues the chain."""

_HAS_EAGER: Final = version_info >= (3, 12)


class CallQueue:
    """Calls from threads into one loop.

    Attributes:
        loop: The loop in which calls run.
        refusal: Why no more calls are accepted; `None` while they are.
        is_forked: Whether this is a copy in a forked process, in which the loop does not run.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.refusal: str | None = None
        self.is_forked = False
        self._calls: deque[Call] = deque()
        self._running: set[Call] = set()
        self._finished: deque[Call] = deque()
        self._is_wakeup_pending = False
        self._has_no_wakeup = False
        self._is_wake_scheduled = False
        self._help_timer: asyncio.TimerHandle | None = None
        self._wakeup_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        # Not earlier: a thread might write to a descriptor that belongs to another file by then.
        weakref.finalize(self, os.close, self._wakeup_fd).atexit = False
        self._watcher: AsyncGenerator[None, None] | None = None
        _queues.add(self)

    # -- in any thread

    def check(self) -> None:
        """Raises `RuntimeError` if no more calls are accepted, or in the loop's thread, which would wait for itself."""
        if self.refusal is not None:
            raise RuntimeError(self.refusal)
        if is_current(self.loop):
            raise RuntimeError(CALLED_IN_LOOP)

    def call(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], timeout: float = inf
    ) -> Any:  # noqa: ANN401 - whatever the function returns
        """Calls a function in the loop, waits, and returns what the function or its awaitable returns.

        An exception that is raised in this thread while it waits cancels the call.

        Raises:
            TimeoutError: The call has not ended within `timeout`, and is cancelled.
            RuntimeError: As `check`.
        """
        self.check()
        call = Call(function, args, kwargs)
        try:
            self.put(call)
            self.wait(call, timeout)
            self.wake_next()
            if not call.is_over:
                raise TimeoutError(f"the call hasn't ended after {timeout:g} s: it is cancelled")  # noqa: TRY301
        except BaseException:
            self.cancel(call)
            raise
        try:
            return call.outcome()
        finally:
            del call  # else an error, whose traceback has this frame, would be a cycle

    def wait(self, call: Call, timeout: float) -> bool:
        """Waits until a call has ended, or the timeout is over. Returns whether it acquired `call.ended`."""
        deadline_s = monotonic() + timeout
        while not call.is_over:
            left_s = deadline_s - monotonic()
            if call.ended.acquire(timeout=min(max(left_s, 0.0), LOOP_CHECK_S)):
                return True
            if left_s <= 0:
                break
            self.check_loop()
        return False

    def put(self, call: Call) -> None:
        """Passes a call to the loop.

        Raises:
            RuntimeError: No more calls are accepted, and this one will not run.
        """
        self._append(call)
        if self.refusal is not None:
            try:
                self._calls.remove(call)
            except ValueError:
                return  # it was accepted, or has been ended
            raise RuntimeError(self.refusal)

    def wake_next(self) -> None:
        """Wakes the next thread whose call has ended. A woken thread does this before anything else."""
        try:
            call = self._finished.popleft()
        except IndexError:
            if self._has_no_wakeup:
                self._rearm()
        else:
            call.ended.release()

    def cancel(self, call: Call) -> None:
        """Requests the cancellation of a call, and doesn't wait for it."""
        call.is_abandoned = True
        self.wake_next()  # this thread may have been the next to wake
        if not call.is_over and not self.is_forked:
            self._append(Call(self._cancel, (call,), {}))

    def check_loop(self) -> None:
        """Ends all calls if the loop was closed."""
        if self.loop.is_closed():
            self.shut_down("the event loop was closed")
        elif self._calls:
            os.eventfd_write(self._wakeup_fd, 1)

    def shut_down(self, why: str) -> None:
        """Accepts no more calls, and cancels all: in the loop's thread, or when the loop no longer runs."""
        self.refusal = self.refusal or why
        while self._finished:
            self.wake_next()
        while self._calls:
            try:
                call = self._calls.popleft()
            except IndexError:
                break
            self._abort(call, why)
        while self._running:
            try:
                call = self._running.pop()
            except KeyError:
                break
            if call.task is not None and not self.loop.is_closed():
                call.task.cancel()
            self._abort(call, why)

    def _append(self, call: Call) -> None:
        self._calls.append(call)
        if not self._is_wakeup_pending:
            self._wake_loop()

    def _wake_loop(self) -> None:
        try:
            self._is_wakeup_pending = True
            os.eventfd_write(self._wakeup_fd, 1)
        except BaseException:  # an interrupt, perhaps between the two
            self._is_wakeup_pending = False
            raise

    @staticmethod
    def _abort(call: Call, why: str) -> None:
        """Ends a call without the loop."""
        call.error = cancelled(why)
        call.end()
        call.ended.release()

    def _rearm(self) -> None:
        """Lets new calls wake the loop again, and wakes it for calls that did not."""
        self._has_no_wakeup = self._is_wakeup_pending = False
        if self._calls:
            self._wake_loop()

    # -- in the loop's thread

    def open(self) -> None:
        """Starts accepting calls."""
        if self.refusal is not None:
            return
        self.loop.add_reader(self._wakeup_fd, self._on_readable)
        # An orderly end of the loop closes its asynchronous generators; there is no other notification of it.
        self._watcher = self._notice_shutdown()
        with suppress(StopIteration):
            self._watcher.__anext__().send(None)

    def cancel_all(self) -> None:
        """Cancels all running calls."""
        for call in tuple(self._running):
            if call.task is not None:
                call.task.cancel()

    async def close(self, *, cancel: bool) -> None:
        """Accepts no more calls, waits until the accepted ones have ended, and leaves the loop.

        Args:
            cancel: Whether to cancel the accepted calls.
        """
        self.refusal = self.refusal or "the portal is closed"
        if not cancel:
            self._begin_all()
        try:
            while tasks := {call.task for call in self._running if call.task is not None}:
                if cancel:
                    self.cancel_all()
                await asyncio.wait(tasks)
        finally:
            self.leave()

    def leave(self) -> None:
        """Leaves the loop at once, and cancels calls that haven't ended."""
        watcher, self._watcher = self._watcher, None
        self.shut_down("the portal was closed")
        if self._help_timer is not None:
            self._help_timer.cancel()
        if watcher is not None:
            if not self.loop.is_closed():
                self.loop.remove_reader(self._wakeup_fd)
            with suppress(StopIteration):
                watcher.aclose().send(None)

    async def _notice_shutdown(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            if self._watcher is not None:
                self.loop.remove_reader(self._wakeup_fd)
                self.shut_down("the event loop has ended")

    def _on_readable(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._wakeup_fd)
        self._begin_all()

    def _begin_all(self) -> None:
        calls = self._calls
        try:
            for _ in range(len(calls)):  # only those, because the loop has other work
                self._begin(calls.popleft())
        finally:
            self._has_no_wakeup = True
            if not self._finished and not self._is_wake_scheduled:
                self._rearm()

    def _finish(self, call: Call) -> None:
        call.end()
        if call.on_end is not None or call.is_abandoned:  # no thread waits for it and could wake the next
            call.ended.release()
            return
        self._finished.append(call)
        if not self._is_wake_scheduled:
            self._is_wake_scheduled = True
            self.loop.call_soon(self._wake_first)

    def _wake_first(self) -> None:
        self._is_wake_scheduled = False
        self.wake_next()
        if self._help_timer is None and (self._finished or self._has_no_wakeup):
            self._help_timer = self.loop.call_later(_HELP_AFTER_S, self._help)

    def _help(self) -> None:
        self._help_timer = None
        if self._has_no_wakeup:
            self._rearm()
        if self._finished:
            self._wake_first()

    def _begin(self, call: Call) -> None:
        if call.is_abandoned or call.work is None:
            self._fail(call, "cancelled before it began")
            return
        function, args, kwargs = call.work
        call.work = None
        try:
            result = call.context.run(function, *args, **kwargs)
            if type(result) is not CoroutineType and not isawaitable(result):
                call.value = result
                self._finish(call)
                return
        except BaseException as error:
            self._fail(call, error)
            del call  # else the error, whose traceback has this frame, would be a cycle
            if _is_interrupt_here(error):
                raise
            return
        self._running.add(call)
        self._start(call, result)

    def _start(self, call: Call, awaitable: Awaitable[Any]) -> None:
        loop = self.loop
        on_unstarted = partial(self._fail_before_start, call, awaitable)
        running = self._run(call, awaitable, on_unstarted)
        try:
            # An eager task ends at once if it never waits; a task factory of the loop has precedence.
            if _HAS_EAGER and loop.get_task_factory() is None:
                eagerly: dict[str, Any] = {"eager_start": True}
                task = asyncio.Task(running, loop=loop, context=call.context, **eagerly)
            else:
                task = loop.create_task(running, context=call.context)
                task.add_done_callback(on_unstarted, context=call.context)
        except BaseException as error:
            running.close()
            self._fail_before_start(call, awaitable, error)
            if _is_interrupt_here(error):
                raise
            return
        if not call.is_over:
            call.task = task

    def _fail_before_start(
        self, call: Call, awaitable: Awaitable[Any], why: "asyncio.Task[Any] | BaseException"
    ) -> None:
        """Ends a call whose task ended before its first step, for example because it was cancelled at once."""
        if isinstance(awaitable, CoroutineType):
            awaitable.close()
        try:
            self._running.remove(call)
        except KeyError:
            return  # it was cancelled at the end of the loop
        self._fail(call, why if isinstance(why, BaseException) else "cancelled before it began")

    async def _run(self, call: Call, awaitable: Awaitable[Any], on_unstarted: "partial[None]") -> None:
        if call.task is not None:
            call.task.remove_done_callback(on_unstarted)
        value: Any = None
        failed: BaseException | None = None
        try:
            value = await awaitable
        except GeneratorExit:  # the loop was closed and dropped the task
            failed = cancelled("the event loop has ended")
            call.is_abandoned = True  # the loop wakes no thread any more
            raise
        except BaseException as error:
            failed = error
            if isinstance(error, asyncio.CancelledError) or _is_interrupt_here(error):
                raise
        finally:
            try:
                self._running.remove(call)
            except KeyError:
                pass  # it was cancelled at the end of the loop
            else:
                if failed is None:
                    call.value = value
                    self._finish(call)
                else:
                    self._fail(call, failed)
            del call, failed, on_unstarted  # as above

    def _cancel(self, call: Call) -> None:
        if call.task is not None:
            call.task.cancel()
        elif call.work is not None and not call.is_over:  # its thread was interrupted before it appended the call
            self._fail(call, "cancelled before it began")

    def _fail(self, call: Call, why: BaseException | str) -> None:
        call.error = cancelled(why) if isinstance(why, str | asyncio.CancelledError) else why
        self._finish(call)


def is_current(loop: asyncio.AbstractEventLoop) -> bool:
    """Returns whether the loop runs in this thread."""
    return _get_running_loop() is loop  # unlike the public function, it does not raise, which takes 0.5 µs


def _is_interrupt_here(error: BaseException) -> bool:
    """Returns whether the error may be a Ctrl-C that hit the main thread while it ran a call of another thread."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


_queues: "weakref.WeakSet[CallQueue]" = weakref.WeakSet()


def _after_fork() -> None:
    """Marks the queues in a forked process, which has no threads, and whose descriptors wake the parent's loop."""
    for queue in tuple(_queues):
        queue.is_forked = True
        queue.refusal = "the portal belongs to the process that was forked: make a new one here"


os.register_at_fork(after_in_child=_after_fork)
