"""Calls from threads into an event loop."""

import asyncio
from _thread import LockType, allocate_lock
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, wait
from math import inf
from types import TracebackType
from typing import Any, Final, Generic, ParamSpec, Self, TypeVar, overload

from headgate._checks import check, function as function_rule, number, whole
from headgate.portal._call_queue import IN_LOOP, LOOP_CHECK_S, Call, CallQueue, is_current
from headgate.portal._loop_thread import LoopFactory, LoopThread

P = ParamSpec("P")
T = TypeVar("T")

_COUNT: Final = whole(1)
_SECONDS: Final = number(lambda seconds: seconds >= 0, "0 or more")


class Semaphore:
    """A semaphore for threads that costs a fraction of threading's own. `release` may be called by any thread."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._lock = allocate_lock()
        self._waiting: deque[LockType] = deque()

    def acquire(self) -> None:
        """Acquires one, in the order of the calls. If the wait is interrupted, nothing is acquired."""
        with self._lock:
            if self._free:
                self._free -= 1
                return
            turn = allocate_lock()
            turn.acquire()
            self._waiting.append(turn)
        try:
            turn.acquire()
        except BaseException:
            with self._lock:
                is_acquired = turn not in self._waiting
                if not is_acquired:
                    self._waiting.remove(turn)
            if is_acquired:
                self.release()
            raise

    def release(self) -> None:
        """Passes one to the thread that has waited longest, if any waits."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._free += 1


class PortalCall(Generic[T]):
    """A call that `Portal.start` has begun. Threads may share it.

    >>> with headgate.Portal() as portal:
    ...     call = portal.start(fetch, "a")
    ...     print(call.wait(timeout_s=60), call.is_done)
    page of a True
    """

    def __init__(self, queue: CallQueue, call: Call, started: Semaphore) -> None:
        self._queue = queue
        self._call = call
        self._started = started
        call.on_end = self._tell
        self._lock = allocate_lock()
        self._futures: list[Future[T]] = []

    @property
    def is_done(self) -> bool:
        """Whether it has returned, raised or been cancelled."""
        return self._call.is_over

    def wait(self, timeout_s: float | None = None) -> T:
        """Waits for the end. Several threads may wait, and more than once.

        An interrupt ends the wait, not the call; neither does the end of the time.

        Args:
            timeout_s: Seconds to wait, at most.

        Returns:
            What the function returned.

        Raises:
            TimeoutError: It hasn't ended by then.
            concurrent.futures.CancelledError: It was cancelled, as it also is when the portal is closed.
            RuntimeError: In the thread of the loop.
            BaseException: Whatever the function raised.
        """
        if timeout_s is not None:
            check("timeout_s", timeout_s, _SECONDS)
        call = self._call
        try:
            if not call.is_over:
                if is_current(self._queue.loop):
                    raise RuntimeError(IN_LOOP)
                if self._queue.wait(call, inf if timeout_s is None else timeout_s):
                    call.ended.release()  # for other threads that wait
                if not call.is_over:
                    raise TimeoutError(f"the call hasn't ended after {timeout_s:g} s")
            value: T = call.outcome()
            return value
        finally:
            del call, self  # else an error, whose traceback has this frame, would be a cycle

    def cancel(self) -> None:
        """Asks for its end, and returns at once. Does nothing to a call that has ended.

        >>> with headgate.Portal() as portal:
        ...     call = portal.start(asyncio.sleep, 60)
        ...     call.cancel()
        ...     call.wait()
        Traceback (most recent call last):
        concurrent.futures._base.CancelledError...
        """
        self._queue.cancel(self._call)

    def future(self) -> "Future[T]":
        """A future of `concurrent.futures` that ends as the call does, for `wait`, `as_completed` and `wrap_future`.

        It is a view: to cancel it does not cancel the call.

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

    def _tell(self, call: Call) -> None:
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
"""Calls that `start` has begun and that have not ended."""


class Portal:
    """Lets threads call functions in an event loop, for a part of what `asyncio.run_coroutine_threadsafe` costs.

        with headgate.Portal() as portal:
            page = portal.call(fetch, "a")  # blocks until the coroutine has ended
            later = portal.start(fetch, "bb")  # doesn't
            print(page, "and", later.wait())

    The loop runs on a thread of its own. `of_running_loop` and `loop=` are for a loop that runs already. Any number of
    threads can share a portal. What is called may be an `async def` function, or a plain one, which must not block; it
    sees a copy of the caller's context variables. A plain function runs outside of any task.

    Leaving the block waits for the calls that have begun; an error that leaves it cancels them. `close` cancels them,
    too. A portal that is never closed lives as long as the program, and is closed at its end. In a process that was
    forked, every call raises `RuntimeError`.
    """

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        loop_factory: LoopFactory | None = None,
        max_started: int = MAX_STARTED,
    ) -> None:
        """Opens a portal.

        Args:
            loop: To call into. It should run, or will; calls wait for that. Defaults to a new one on a new thread.
            loop_factory: Makes the new loop, such as `uvloop.new_event_loop`. Defaults to asyncio's own.
            max_started: Calls that `start` can have begun and that have not ended; more wait for one of these to end.

        Raises:
            TypeError: If `loop_factory` is no function, or given together with `loop`; or `max_started` is no integer.
            ValueError: If `max_started` is below 1.
            RuntimeError: If `loop` is closed.
        """
        check("max_started", max_started, _COUNT)
        self._started = Semaphore(max_started)
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
        """A portal into the loop that runs here, for other threads.

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
        """Calls a function in the loop, and waits for what it returns, or for what it awaits.

        An exception that is raised in the calling thread, such as `KeyboardInterrupt`, ends the wait at once, and the
        call is cancelled.

        >>> portal = headgate.Portal()
        >>> portal.call(fetch, "a")
        'page of a'
        >>> portal.close()

        Args:
            function: An `async def` function, or any other.
            *args: For the function, all of them.
            **kwargs: As well.

        Returns:
            What it returned.

        Raises:
            concurrent.futures.CancelledError: The call was cancelled in the loop, or the portal closed meanwhile.
            RuntimeError: The portal is closed, or its loop is, or this is the loop's own thread.
            BaseException: Whatever the function raised.
        """
        return self._queue.call(function, args, kwargs)

    @overload
    def call_within(
        self, timeout_s: float, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    @overload
    def call_within(self, timeout_s: float, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    def call_within(self, timeout_s: float, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Does what `call` does, for some time at most; then the call is cancelled, and not waited for.

        It comes first, because all keywords are the function's.

        >>> with headgate.Portal() as portal:
        ...     portal.call_within(0.01, asyncio.sleep, 60)
        Traceback (most recent call last):
        TimeoutError: the call hasn't ended after 0.01 s: it is cancelled

        Args:
            timeout_s: Seconds until `TimeoutError`, counted from now: also the time until the call begins.
            function: As with `call`; the next two, too.
            *args: For the function.
            **kwargs: As well.

        Returns:
            What it returned.

        Raises:
            TimeoutError: It hasn't ended in time.
            TypeError: If `timeout_s` is no number.
            ValueError: If `timeout_s` is below 0.
            concurrent.futures.CancelledError: As `call`; the next two, too.
            RuntimeError: The portal is closed, or its loop is, or this is the loop's own thread.
            BaseException: Whatever the function raised.
        """
        check("timeout_s", timeout_s, _SECONDS)
        return self._queue.call(function, args, kwargs, timeout_s)

    @overload
    def start(self, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> PortalCall[T]: ...

    @overload
    def start(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> PortalCall[T]: ...

    def start(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> PortalCall[Any]:
        """Calls a function in the loop, and doesn't wait for its end.

        It waits while `max_started` calls of it have not ended; interrupted there, nothing is called. What a
        call raises is kept until a thread waits for it, and is dropped if none does.

        >>> with headgate.Portal() as portal:
        ...     calls = [portal.start(fetch, url) for url in ("a", "bb")]
        ...     print([call.wait() for call in calls])
        ['page of a', 'page of bb']

        Args:
            function: As with `call`; the next two, too.
            *args: For the function.
            **kwargs: As well.

        Returns:
            The call, to wait for or to cancel.

        Raises:
            RuntimeError: The portal is closed, or its loop is, or this is the loop's own thread.
        """
        queue = self._queue
        queue.check()
        call = Call(function, args, kwargs)
        started = PortalCall[Any](queue, call, self._started)
        self._started.acquire()
        try:
            queue.put(call)
        except BaseException as error:
            if isinstance(error, RuntimeError):  # it was not taken
                self._started.release()
            else:
                queue.cancel(call)
            raise
        return started

    def close(self, *, cancel: bool = True) -> None:
        """Takes no more calls, and waits until those have ended that were taken. A second time, it only waits.

        Called from a thread; in the loop's own, `await portal.aclose()`.

        >>> portal = headgate.Portal()
        >>> call = portal.start(asyncio.sleep, 60)
        >>> portal.close()
        >>> call.is_done
        True

        Args:
            cancel: They are cancelled; else they are left to end by themselves.

        Raises:
            RuntimeError: In the loop's own thread.
        """
        queue = self._queue
        if is_current(queue.loop):
            raise RuntimeError(IN_LOOP)
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
        """Does what `close` does, in the loop itself. Cancelled, it cancels the calls.

        >>> async def call_from_a_thread():
        ...     portal = headgate.Portal.of_running_loop()
        ...     page = await asyncio.to_thread(portal.call, fetch, "a")
        ...     await portal.aclose()
        ...     return page
        >>> await call_from_a_thread()
        'page of a'

        Args:
            cancel: As with `close`.

        Raises:
            RuntimeError: In another loop, or if the portal has a thread of its own.
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
