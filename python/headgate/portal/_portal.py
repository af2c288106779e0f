"""Calls from threads into an event loop."""

import asyncio
from _thread import LockType, allocate_lock
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, wait
from datetime import timedelta
from math import inf
from types import TracebackType
from typing import Any, Final, Generic, ParamSpec, Self, TypeVar, overload

from headgate._checks import check, duration, function as function_rule, seconds_of, whole
from headgate.portal._call_queue import CALLED_IN_LOOP, LOOP_CHECK_S, Call, CallQueue, is_current
from headgate.portal._loop_thread import LoopFactory, LoopThread

P = ParamSpec("P")
T = TypeVar("T")

_COUNT: Final = whole(1)
_TIMEOUT: Final = duration(lambda seconds: seconds >= 0, "0 or more")


class ThreadSemaphore:
    """A semaphore that is several times cheaper than `threading.Semaphore`. Any thread may call `release`."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._lock = allocate_lock()
        self._waiting: deque[LockType] = deque()

    def acquire(self) -> None:
        """Acquires a unit, in the order of the calls. If the wait is interrupted, nothing is acquired."""
        with self._lock:
            if self._free:
                self._free -= 1
                return
            grant = allocate_lock()
            grant.acquire()
            self._waiting.append(grant)
        try:
            grant.acquire()
        except BaseException:
            with self._lock:
                is_acquired = grant not in self._waiting
                if not is_acquired:
                    self._waiting.remove(grant)
            if is_acquired:
                self.release()
            raise

    def release(self) -> None:
        """Releases a unit, or passes it to the thread that has waited longest."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._free += 1


class PortalCall(Generic[T]):
    """A call that `Portal.start` has started. Threads may share it.

    >>> with headgate.Portal() as portal:
    ...     call = portal.start(fetch, "a")
    ...     print(call.wait(timeout=60), call.is_done)
    page of a True
    """

    __module__ = "headgate"

    def __init__(self, queue: CallQueue, call: Call, started: ThreadSemaphore) -> None:
        self._queue = queue
        self._call = call
        self._started = started
        call.on_end = self._on_end
        self._lock = allocate_lock()
        self._futures: list[Future[T]] = []

    @property
    def is_done(self) -> bool:
        """Whether the call has returned, raised or been cancelled."""
        return self._call.is_over

    def wait(self, timeout: float | timedelta | None = None) -> T:
        """Waits for the end of the call. Several threads may wait, and more than once.

        An interrupt or the timeout ends the wait, but not the call.

        Args:
            timeout: Seconds to wait, at most, or a `timedelta`.

        Returns:
            What the function returned.

        Raises:
            TimeoutError: The call hasn't ended by then.
            concurrent.futures.CancelledError: The call was cancelled, or the portal was closed.
            RuntimeError: In the thread of the loop.
            BaseException: Whatever the function raised.
        """
        if timeout is not None:
            check("timeout", timeout, _TIMEOUT)
        timeout_s: float = inf if timeout is None else seconds_of(timeout)
        call = self._call
        try:
            if not call.is_over:
                if is_current(self._queue.loop):
                    raise RuntimeError(CALLED_IN_LOOP)
                if self._queue.wait(call, timeout_s):
                    call.ended.release()  # other threads may wait for it
                if not call.is_over:
                    raise TimeoutError(f"the call hasn't ended after {timeout_s:g} s")
            value: T = call.outcome()
            return value
        finally:
            del call, self  # else an error, whose traceback has this frame, would be a cycle

    def cancel(self) -> None:
        """Requests the cancellation of the call, and returns at once. Has no effect on a call that has ended.

        >>> with headgate.Portal() as portal:
        ...     call = portal.start(asyncio.sleep, 60)
        ...     call.cancel()
        ...     call.wait()
        Traceback (most recent call last):
        concurrent.futures._base.CancelledError...
        """
        self._queue.cancel(self._call)

    def future(self) -> "Future[T]":
        """Returns a future of `concurrent.futures` for the call, for `wait`, `as_completed` and `wrap_future`.

        Cancelling the future does not cancel the call.

        >>> with headgate.Portal() as portal:
        ...     futures = [portal.start(fetch, url).future() for url in ("a", "bb")]
        ...     print(sorted(future.result() for future in concurrent.futures.as_completed(futures)))
        ['page of a', 'page of bb']
        """
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()
        with self._lock:
            if not self._call.is_over:
                self._futures.append(future)
                return future
        _copy(self._call, future)
        return future

    def _on_end(self, call: Call) -> None:
        self._started.release()
        with self._lock:
            futures, self._futures = self._futures, []
        for future in futures:
            _copy(call, future)

    def __repr__(self) -> str:
        return f"<PortalCall: {'done' if self._call.is_over else 'not done'}>"


def _copy(call: Call, future: "Future[Any]") -> None:
    if call.error is not None:
        future.set_exception(call.error)
    else:
        future.set_result(call.value)


MAX_STARTED: Final = 1_000
"""The default bound of calls that `start` has started and that have not ended."""


class Portal:
    """Lets threads call functions in an event loop, for a fraction of the cost of `run_coroutine_threadsafe`.

        with headgate.Portal() as portal:
            page = portal.call(fetch, "a")  # blocks until the coroutine has ended
            later = portal.start(fetch, "bb")  # doesn't
            print(page, "and", later.wait())

    The loop runs in a separate thread. `of_running_loop` and `loop=` are for a loop that runs already. Any number of
    threads can share a portal. The function may be an `async def` function, or a plain one, which must not block; it
    sees a copy of the caller's context variables. A plain function runs outside of any task.

    Leaving the block waits for the started calls; an error that leaves the block cancels them. `close` cancels them,
    too. A portal that is never closed is closed at the end of the program. In a forked process, every call raises
    `RuntimeError`.
    """

    __module__ = "headgate"

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        loop_factory: LoopFactory | None = None,
        max_started: int = MAX_STARTED,
    ) -> None:
        """Opens a portal.

        Args:
            loop: The loop that runs the calls; calls wait until it runs. Defaults to a new loop in a new thread.
            loop_factory: Creates the new loop, such as `uvloop.new_event_loop`. Defaults to asyncio's own.
            max_started: Calls that `start` has started and that have not ended; further ones wait for one of these.

        Raises:
            TypeError: If `loop_factory` is no function, or given together with `loop`; or `max_started` is no integer.
            ValueError: If `max_started` is below 1.
            RuntimeError: If `loop` is closed.
        """
        check("max_started", max_started, _COUNT)
        self._started = ThreadSemaphore(max_started)
        self._thread: LoopThread | None = None
        if loop is None:
            if loop_factory is not None:
                check("loop_factory", loop_factory, function_rule)
            self._thread = LoopThread(loop_factory, "headgate-portal")
            self._queue = self._thread.queue
            return
        if loop_factory is not None:
            raise TypeError("loop_factory makes a loop, and loop is one: give one of them")
        self._queue = CallQueue(loop)
        if is_current(loop):
            self._queue.open()
        else:
            loop.call_soon_threadsafe(self._queue.open)

    @classmethod
    def of_running_loop(cls, *, max_started: int = MAX_STARTED) -> Self:
        """Creates a portal into the loop that runs in this thread, for other threads.

            async with headgate.Portal.of_running_loop() as portal:
                await asyncio.to_thread(portal.call, fetch, "a")

        Raises:
            RuntimeError: If no loop runs in this thread.
        """
        return cls(loop=asyncio.get_running_loop(), max_started=max_started)

    @overload
    def call(self, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    @overload
    def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    def call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Calls a function in the loop, waits, and returns what the function or its awaitable returns.

        An exception that is raised in the calling thread, such as `KeyboardInterrupt`, ends the wait at once, and the
        call is cancelled.

        >>> portal = headgate.Portal()
        >>> portal.call(fetch, "a")
        'page of a'
        >>> portal.close()

        Args:
            function: An `async def` function, or any other.
            *args: Positional arguments of the function.
            **kwargs: Keyword arguments of the function.

        Returns:
            What the function or its awaitable returned.

        Raises:
            concurrent.futures.CancelledError: The call was cancelled in the loop, or the portal was closed meanwhile.
            RuntimeError: The portal or its loop is closed, or this is the loop's own thread.
            BaseException: Whatever the function raised.
        """
        return self._queue.call(function, args, kwargs)

    @overload
    def call_within(
        self, timeout: float | timedelta, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    @overload
    def call_within(
        self, timeout: float | timedelta, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    def call_within(
        self, timeout: float | timedelta, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Any:
        """Does what `call` does, with a timeout, after which the call is cancelled without waiting for its end.

        The timeout is the first argument, because all keywords are the function's.

        >>> with headgate.Portal() as portal:
        ...     portal.call_within(0.01, asyncio.sleep, 60)
        Traceback (most recent call last):
        TimeoutError: the call hasn't ended after 0.01 s: it is cancelled

        Args:
            timeout: Seconds, or a `timedelta`, until `TimeoutError`, counted from now, including the time until the
                call begins.
            function: An `async def` function, or any other.
            *args: Positional arguments of the function.
            **kwargs: Keyword arguments of the function.

        Returns:
            What the function or its awaitable returned.

        Raises:
            TimeoutError: The call hasn't ended in time.
            TypeError: If `timeout` is neither a number nor a `timedelta`.
            ValueError: If `timeout` is below 0.
            concurrent.futures.CancelledError: The call was cancelled in the loop, or the portal was closed meanwhile.
            RuntimeError: The portal or its loop is closed, or this is the loop's own thread.
            BaseException: Whatever the function raised.
        """
        check("timeout", timeout, _TIMEOUT)
        return self._queue.call(function, args, kwargs, seconds_of(timeout))

    @overload
    def start(self, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> PortalCall[T]: ...

    @overload
    def start(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> PortalCall[T]: ...

    def start(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> PortalCall[Any]:
        """Calls a function in the loop, and doesn't wait for its end.

        It waits while `max_started` started calls have not ended; if that wait is interrupted, nothing is called. An
        error of the call is kept until a thread waits for the call, and is dropped if none does.

        >>> with headgate.Portal() as portal:
        ...     calls = [portal.start(fetch, url) for url in ("a", "bb")]
        ...     print([call.wait() for call in calls])
        ['page of a', 'page of bb']

        Args:
            function: An `async def` function, or any other.
            *args: Positional arguments of the function.
            **kwargs: Keyword arguments of the function.

        Returns:
            The call, to wait for or to cancel.

        Raises:
            RuntimeError: The portal or its loop is closed, or this is the loop's own thread.
        """
        queue = self._queue
        queue.check()
        call = Call(function, args, kwargs)
        started = PortalCall[Any](queue, call, self._started)
        self._started.acquire()
        try:
            queue.put(call)
        except BaseException as error:
            if isinstance(error, RuntimeError):  # the call was not accepted
                self._started.release()
            else:
                queue.cancel(call)
            raise
        return started

    def close(self, *, cancel: bool = True) -> None:
        """Accepts no more calls, and waits until the accepted ones have ended. A second call only waits.

        It is for other threads; in the loop's own thread, use `await portal.aclose()`.

        >>> portal = headgate.Portal()
        >>> call = portal.start(asyncio.sleep, 60)
        >>> portal.close()
        >>> call.is_done
        True

        Args:
            cancel: Whether to cancel the running calls.

        Raises:
            RuntimeError: In the loop's own thread.
        """
        queue = self._queue
        if is_current(queue.loop):
            raise RuntimeError(CALLED_IN_LOOP)
        if self._thread is not None:
            self._thread.close(cancel=cancel)
        elif queue.is_forked:
            return
        elif queue.loop.is_running():
            closing = asyncio.run_coroutine_threadsafe(queue.close(cancel=cancel), queue.loop)
            while not wait([closing], LOOP_CHECK_S).done and not queue.loop.is_closed():
                pass
        else:
            queue.leave()

    async def aclose(self, *, cancel: bool = True) -> None:
        """Does what `close` does, in the loop itself. If it is cancelled, it cancels the calls.

        >>> async def call_from_a_thread():
        ...     portal = headgate.Portal.of_running_loop()
        ...     page = await asyncio.to_thread(portal.call, fetch, "a")
        ...     await portal.aclose()
        ...     return page
        >>> await call_from_a_thread()
        'page of a'

        Args:
            cancel: Whether to cancel the running calls.

        Raises:
            RuntimeError: In another loop, or if the portal's loop runs in a separate thread.
        """
        if self._thread is not None or not is_current(self._queue.loop):
            raise RuntimeError("the portal leads into another loop than this one: close it from a thread")
        await self._queue.close(cancel=cancel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(cancel=kind is not None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose(cancel=kind is not None)

    def __repr__(self) -> str:
        return f"<Portal: {self._queue.refusal or 'open'}>"
