"""What `Portal.start` gives: a call that nobody waits for yet."""

from _thread import allocate_lock
from concurrent.futures import Future
from math import inf
from time import monotonic
from typing import Any, Generic, TypeVar

from headgate._checks import check, number
from headgate.portal._call import Call
from headgate.portal._crossing import LOOK_S, WITHIN, Crossing, is_here
from headgate.portal._room import Room

T = TypeVar("T")

_SECONDS = number(lambda seconds: seconds >= 0, "0 or more")


def check_seconds(timeout_s: object) -> None:
    """A time to wait.

    Raises:
        TypeError: It is no number.
        ValueError: It is below 0.
    """
    check("timeout_s", timeout_s, _SECONDS)


def has_ended(call: Call, crossing: Crossing, timeout_s: float) -> bool:
    """Waits until a call has ended, or the time is over; whether the lock of the call was taken, which says that."""
    deadline_s = monotonic() + timeout_s
    while not call.is_over:
        left_s = deadline_s - monotonic()
        if call.ended.acquire(timeout=min(max(left_s, 0.0), LOOK_S)):
            return True
        if left_s <= 0:
            break
        crossing.look()
    return False


class PortalCall(Generic[T]):
    """A call that `Portal.start` has begun. Threads may share it.

    >>> with headgate.Portal() as portal:
    ...     call = portal.start(fetch, "a")
    ...     print(call.wait(timeout_s=60), call.is_done)
    page of a True
    """

    def __init__(self, crossing: Crossing, call: Call, room: Room) -> None:
        self._crossing = crossing
        self._call = call
        self._room = room
        call.then = self._tell
        self._lock = allocate_lock()
        self._futures: list[Future[T]] = []

    @property
    def is_done(self) -> bool:
        """Whether it has returned, raised or been cancelled."""
        return self._call.is_over

    def wait(self, timeout_s: float | None = None) -> T:
        """Waits for the end. It can be asked again, and by several threads.

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
            check_seconds(timeout_s)
        call = self._call
        try:
            if not call.is_over:
                if is_here(self._crossing.loop):
                    raise RuntimeError(WITHIN)
                if has_ended(call, self._crossing, inf if timeout_s is None else timeout_s):
                    call.ended.release()  # for others who wait
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
        self._crossing.cancel(self._call)

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
        self._room.give_back()
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
