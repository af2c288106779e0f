"""Where calls pass from threads into an event loop.

What it does: threads append calls to a deque, the loop takes all that are there in one go, and each thread sleeps
until the lock of its own call is released.

Wake-ups: the first thread of a burst rings the bell, an eventfd that the loop watches; the others see that it has been
rung. The loop takes note of that (`_is_rung`) only after it has taken what was there, and then looks once more: a call
that was appended in between is either seen by that look, or its thread sees that it has to ring. Measured beside
`call_soon_threadsafe`, which asyncio implements with a socket that is read until it is empty, this saves 4 µs a call.

Waking threads: those whose calls have ended are not woken by the loop, which would have the kernel switch to each of
them only to find that the loop still has the interpreter. It wakes the first one, and each that wakes up wakes the next
before it goes on (`pass_on`): that halves what a call costs with 64 threads. While they do, calls that come in ring no
bell: the last one rings for all of them (`_settle`). A thread may be kept from passing on, by an interrupt or because
others have the interpreter, so the loop looks after a millisecond, and goes on in its place (`_hurry`).

Ending: a call is ended by whoever has taken it out, of the deque or of `_running`; both give a call to one taker only.
So the loop and those who notice that it is gone need no lock between them. A thread looks whether the crossing is open
*after* it has appended its call: whoever closes it either finds that call, or that thread finds it closed.

What it does not do: hand over between processes; bound the calls (each blocks a thread; `_room.py` bounds those that
don't).
"""

import asyncio
import os
import threading
import weakref
from asyncio import _get_running_loop
from collections import deque
from collections.abc import AsyncGenerator, Awaitable
from contextlib import suppress
from functools import partial
from inspect import isawaitable
from sys import version_info
from types import CoroutineType
from typing import Any, Final

from headgate.portal._call import Call, cancelled

LOOK_S: Final = 1.0
"""How often a thread that waits looks whether there still is a loop: nothing tells it that one was closed."""

WITHIN: Final = "the portal leads into the loop of this very thread, which would wait for itself: use await"

_PATIENCE_S: Final = 0.001
"""How long threads may take to wake each other until the loop helps."""

_HAS_EAGER: Final = version_info >= (3, 12)


class Crossing:
    """The way into one loop.

    Attributes:
        loop: Where calls run.
        refusal: Why no call is taken any more; `None` while they are.
        is_forked: This is a copy in a forked process, which has no part in the loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.refusal: str | None = None
        self.is_forked = False
        self._calls: deque[Call] = deque()
        self._running: set[Call] = set()
        self._ended: deque[Call] = deque()
        self._is_rung = False
        self._is_owed = False
        self._is_waking = False
        self._helper: asyncio.TimerHandle | None = None
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        # Not sooner: a thread might ring what has become another file.
        weakref.finalize(self, os.close, self._bell).atexit = False
        self._watcher: AsyncGenerator[None, None] | None = None
        _crossings.add(self)

    # -- in any thread

    def check(self) -> None:
        """Raises `RuntimeError` if no call is taken, or in the thread of the loop, which would wait for itself."""
        if self.refusal is not None:
            raise RuntimeError(self.refusal)
        if is_here(self.loop):
            raise RuntimeError(WITHIN)

    def put(self, call: Call) -> None:
        """Hands a call over.

        Raises:
            RuntimeError: No call is taken any more; this one was not.
        """
        self._send(call)
        if self.refusal is not None:
            try:
                self._calls.remove(call)
            except ValueError:
                return  # it was still taken, or has been ended
            raise RuntimeError(self.refusal)

    def pass_on(self) -> None:
        """Wakes the next thread whose call has ended: whoever has waited does that first of all."""
        try:
            call = self._ended.popleft()
        except IndexError:
            if self._is_owed:
                self._settle()
        else:
            call.ended.release()

    def cancel(self, call: Call) -> None:
        """Asks for the end of a call; doesn't wait for it."""
        call.is_unwanted = True
        self.pass_on()  # it may have been its turn
        if not call.is_over and not self.is_forked:
            self._send(Call(self._cancel, (call,), {}))

    def look(self) -> None:
        """Ends all calls if the loop is gone."""
        if self.loop.is_closed():
            self.end("the event loop was closed")
        elif self._calls:
            os.eventfd_write(self._bell, 1)

    def end(self, why: str) -> None:
        """Takes no more calls, and cancels those that wait.

        In the loop's thread, or when the loop doesn't run any more.
        """
        self.refusal = self.refusal or why
        while self._ended:
            self.pass_on()
        while self._calls:
            try:
                call = self._calls.popleft()
            except IndexError:
                break
            self._drop(call, why)
        while self._running:
            try:
                call = self._running.pop()
            except KeyError:
                break
            if call.task is not None and not self.loop.is_closed():
                call.task.cancel()
            self._drop(call, why)

    def _send(self, call: Call) -> None:
        self._calls.append(call)
        if not self._is_rung:
            self._ring()

    def _ring(self) -> None:
        try:
            self._is_rung = True
            os.eventfd_write(self._bell, 1)
        except BaseException:  # an interrupt, perhaps between the two
            self._is_rung = False
            raise

    @staticmethod
    def _drop(call: Call, why: str) -> None:
        """Ends a call without the loop."""
        call.error = cancelled(why)
        call.end()
        call.ended.release()

    def _settle(self) -> None:
        """Has calls ring again, and rings for those that haven't."""
        self._is_owed = self._is_rung = False
        if self._calls:
            self._ring()

    # -- in the loop's thread

    def open(self) -> None:
        """Begins to take calls."""
        if self.refusal is not None:
            return
        self.loop.add_reader(self._bell, self._take)
        # Whoever ends the loop in an orderly way closes its asynchronous generators, which nothing else is told by.
        self._watcher = self._watch()
        with suppress(StopIteration):
            self._watcher.__anext__().send(None)

    def cancel_all(self) -> None:
        """Asks for the end of whatever runs."""
        for call in tuple(self._running):
            if call.task is not None:
                call.task.cancel()

    async def close(self, *, cancel: bool) -> None:
        """Takes no more calls, waits until those have ended that were taken, and leaves the loop.

        Args:
            cancel: They are cancelled.
        """
        self.refusal = self.refusal or "the portal is closed"
        if not cancel:
            self._take_all()
        try:
            while tasks := {call.task for call in self._running if call.task is not None}:
                if cancel:
                    self.cancel_all()
                await asyncio.wait(tasks)
        finally:
            self.leave()

    def leave(self) -> None:
        """Leaves the loop at once; what was taken and hasn't ended is cancelled."""
        watcher, self._watcher = self._watcher, None
        self.end("the portal was closed")
        if self._helper is not None:
            self._helper.cancel()
        if watcher is not None:
            if not self.loop.is_closed():
                self.loop.remove_reader(self._bell)
            with suppress(StopIteration):
                watcher.aclose().send(None)

    async def _watch(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            if self._watcher is not None:
                self.loop.remove_reader(self._bell)
                self.end("the event loop has ended")

    def _take(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._bell)
        self._take_all()

    def _take_all(self) -> None:
        calls = self._calls
        try:
            for _ in range(len(calls)):  # not more: the loop has others to serve
                self._begin(calls.popleft())
        finally:
            self._is_owed = True
            if not self._ended and not self._is_waking:
                self._settle()

    def _end(self, call: Call) -> None:
        call.end()
        if call.then is not None or call.is_unwanted:  # nobody waits who could pass on
            call.ended.release()
            return
        self._ended.append(call)
        if not self._is_waking:
            self._is_waking = True
            self.loop.call_soon(self._wake)

    def _wake(self) -> None:
        self._is_waking = False
        self.pass_on()
        if self._helper is None and (self._ended or self._is_owed):
            self._helper = self.loop.call_later(_PATIENCE_S, self._hurry)

    def _hurry(self) -> None:
        self._helper = None
        if self._is_owed:
            self._settle()
        if self._ended:
            self._wake()

    def _begin(self, call: Call) -> None:
        if call.is_unwanted or call.work is None:
            self._fail(call, "cancelled before it began")
            return
        function, args, kwargs = call.work
        call.work = None
        try:
            result = call.context.run(function, *args, **kwargs)
            if type(result) is not CoroutineType and not isawaitable(result):
                call.value = result
                self._end(call)
                return
        except BaseException as error:
            self._fail(call, error)
            del call  # else the error, whose traceback has this frame, would be a cycle
            if _is_of_this_thread(error):
                raise
            return
        self._running.add(call)
        self._start(call, result)

    def _start(self, call: Call, awaitable: Awaitable[Any]) -> None:
        loop = self.loop
        unbegun = partial(self._never_begun, call, awaitable)
        running = self._run(call, awaitable, unbegun)
        try:
            # An eager task ends at once if it never waits; who has another kind of task gets that.
            if _HAS_EAGER and loop.get_task_factory() is None:
                eagerly: dict[str, Any] = {"eager_start": True}
                task = asyncio.Task(running, loop=loop, context=call.context, **eagerly)
            else:
                task = loop.create_task(running, context=call.context)
                task.add_done_callback(unbegun, context=call.context)
        except BaseException as error:
            running.close()
            self._never_begun(call, awaitable, error)
            if _is_of_this_thread(error):
                raise
            return
        if not call.is_over:
            call.task = task

    def _never_begun(self, call: Call, awaitable: Awaitable[Any], why: "asyncio.Task[Any] | BaseException") -> None:
        """Ends a call whose task has ended without a first step, as one does that is cancelled at once."""
        try:
            self._running.remove(call)
        except KeyError:
            return
        if isinstance(awaitable, CoroutineType):
            awaitable.close()
        self._fail(call, why if isinstance(why, BaseException) else "cancelled before it began")

    async def _run(self, call: Call, awaitable: Awaitable[Any], unbegun: "partial[None]") -> None:
        if call.task is not None:
            call.task.remove_done_callback(unbegun)
        value: Any = None
        failed: BaseException | None = None
        try:
            value = await awaitable
        except GeneratorExit:  # dropped by a loop that was closed
            failed = cancelled("the event loop has ended")
            call.is_unwanted = True  # by that loop, which wakes nobody any more
            raise
        except BaseException as error:
            failed = error
            if isinstance(error, asyncio.CancelledError) or _is_of_this_thread(error):
                raise
        finally:
            try:
                self._running.remove(call)
            except KeyError:
                pass  # it was given up, at the end of the loop
            else:
                if failed is None:
                    call.value = value
                    self._end(call)
                else:
                    self._fail(call, failed)
            del call, failed, unbegun  # as above

    def _cancel(self, call: Call) -> None:
        if call.task is not None:
            call.task.cancel()
        elif call.work is not None and not call.is_over:  # whoever made it was interrupted before it was sent
            self._fail(call, "cancelled before it began")

    def _fail(self, call: Call, why: BaseException | str) -> None:
        call.error = cancelled(why) if isinstance(why, str | asyncio.CancelledError) else why
        self._end(call)


def is_here(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether the loop runs in this thread."""
    return _get_running_loop() is loop  # which raises nothing where none runs: that would take half a microsecond


def _is_of_this_thread(error: BaseException) -> bool:
    """Whether it may be a Ctrl-C that has struck while the loop's thread was in a call, which is none of its own."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


_crossings: "weakref.WeakSet[Crossing]" = weakref.WeakSet()


def _forget() -> None:
    """In a forked process: the threads are gone, and the bells ring in the other one."""
    for crossing in tuple(_crossings):
        crossing.is_forked = True
        crossing.refusal = "the portal belongs to the process that was forked: make a new one here"


os.register_at_fork(after_in_child=_forget)
