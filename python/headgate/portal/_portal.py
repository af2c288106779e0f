"""Calls from threads into an event loop."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import wait
from types import TracebackType
from typing import Any, Final, ParamSpec, Self, TypeVar, overload

from headgate._checks import check, function as function_rule, whole
from headgate.portal._call import Call
from headgate.portal._crossing import LOOK_S, WITHIN, Crossing, is_here
from headgate.portal._loop_thread import LoopFactory, LoopThread
from headgate.portal._portal_call import PortalCall, check_seconds, has_ended
from headgate.portal._room import Room

P = ParamSpec("P")
T = TypeVar("T")

MAX_STARTED: Final = 1_000
"""Calls that `start` has begun and that have not ended."""

_PLACES: Final = whole(1)


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
            max_started: Calls that `start` can have begun and that have not ended; more wait for room.

        Raises:
            TypeError: If `loop_factory` is no function, or given together with `loop`; or `max_started` is no integer.
            ValueError: If `max_started` is below 1.
            RuntimeError: If `loop` is closed.
        """
        check("max_started", max_started, _PLACES)
        self._room = Room(max_started)
        self._thread: LoopThread | None = None
        if loop is None:
            if loop_factory is not None:
                check("loop_factory", loop_factory, function_rule)
            self._thread = LoopThread(loop_factory)
            self._crossing = self._thread.crossing
            return
        if loop_factory is not None:
            raise TypeError("loop_factory makes a loop, and loop is one: give one of them")
        self._crossing = Crossing(loop)
        if is_here(loop):
            self._crossing.open()
        else:
            loop.call_soon_threadsafe(self._crossing.open)

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
        crossing = self._crossing
        crossing.check()
        call = Call(function, args, kwargs)
        try:
            crossing.put(call)
            while not call.ended.acquire(True, LOOK_S):  # noqa: FBT003 - it is faster by position
                crossing.look()
                if call.is_over:
                    break
            crossing.pass_on()
        except BaseException:
            crossing.cancel(call)
            raise
        try:
            return call.outcome()
        finally:
            del call  # else an error, whose traceback has this frame, would be a cycle

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
        check_seconds(timeout_s)
        crossing = self._crossing
        crossing.check()
        call = Call(function, args, kwargs)
        try:
            crossing.put(call)
            has_ended(call, crossing, timeout_s)
            crossing.pass_on()
            if not call.is_over:
                raise TimeoutError(f"the call hasn't ended after {timeout_s:g} s: it is cancelled")  # noqa: TRY301
        except BaseException:
            crossing.cancel(call)
            raise
        try:
            return call.outcome()
        finally:
            del call  # else an error, whose traceback has this frame, would be a cycle

    @overload
    def start(self, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> PortalCall[T]: ...

    @overload
    def start(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> PortalCall[T]: ...

    def start(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> PortalCall[Any]:
        """Calls a function in the loop, and doesn't wait for its end.

        It waits for room while `max_started` calls of it have not ended; interrupted there, nothing is called. What a
        call raises is kept until somebody waits for it; nobody is told if nobody does.

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
        crossing = self._crossing
        crossing.check()
        call = Call(function, args, kwargs)
        started = PortalCall[Any](crossing, call, self._room)
        self._room.take()
        try:
            crossing.put(call)
        except BaseException as error:
            if isinstance(error, RuntimeError):  # it was not taken
                self._room.give_back()
            else:
                crossing.cancel(call)
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
        crossing = self._crossing
        if is_here(crossing.loop):
            raise RuntimeError(WITHIN)
        if self._thread is not None:
            self._thread.close(cancel=cancel)
        elif crossing.is_forked:
            return
        elif crossing.loop.is_running():
            closing = asyncio.run_coroutine_threadsafe(crossing.close(cancel=cancel), crossing.loop)
            while not wait([closing], LOOK_S).done and not crossing.loop.is_closed():
                pass
        else:
            crossing.leave()

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
        if self._thread is not None or not is_here(self._crossing.loop):
            raise RuntimeError("the portal leads into another loop than this one: close it from a thread")
        await self._crossing.close(cancel=cancel)

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
        return f"<Portal: {self._crossing.refusal or 'open'}>"
