"""One call on its way: what is to be called, and what became of it."""

from _thread import LockType, allocate_lock
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncio import Task


class Call:
    """What a thread hands over to the loop, and waits for.

    The lock is the cheapest thing a thread can sleep on: it is taken from the start, and released once, at the end. A
    new one takes 0.1 µs, so none is used twice, and none can be released by what somebody has given up waiting for.

    Attributes:
        work: Function, positional and keyword arguments; `None` once it has begun.
        context: In which it is called: a copy of the caller's.
        ended: Released at the end, once. It is free from then on, or was taken by the one who waits.
        value: What came out.
        error: What was raised instead.
        task: Which runs it, if it has to be awaited.
        is_over: `value` or `error` is there.
        is_unwanted: Nobody waits any more: if it has not begun, it never does.
        then: Called with it at the end, by whichever thread has ended it; it must not raise.
    """

    __slots__ = ("context", "ended", "error", "is_over", "is_unwanted", "task", "then", "value", "work")

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        then: "Callable[[Call], None] | None" = None,
    ) -> None:
        self.work: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]] | None = (function, args, kwargs)
        self.context: Context = copy_context()
        self.ended: LockType = allocate_lock()
        self.ended.acquire()
        self.value: Any = None
        self.error: BaseException | None = None
        self.task: Task[Any] | None = None
        self.is_over: bool = False
        self.is_unwanted: bool = False
        self.then: Callable[[Call], None] | None = then

    def end(self) -> None:
        """Notes that it is over; `ended` is to be released. It must be certain that nobody else ends it, too."""
        self.work = self.task = None
        self.is_over = True
        if self.then is not None:
            self.then(self)

    def outcome(self) -> Any:  # noqa: ANN401 - whatever the function returned
        """Returns or raises what became of it."""
        if self.error is None:
            return self.value
        try:
            raise self.error
        finally:
            del self  # else the error, whose traceback has this frame, would be a cycle


def cancelled(why: BaseException | str) -> CancelledError:
    """What a thread is told of a cancellation: asyncio's own exception would pass through its `except Exception`."""
    if isinstance(why, str):
        return CancelledError(why)
    told = CancelledError(*why.args)
    told.__cause__ = why
    return told
