"""Outcomes of items and statistics of a map, and how errors are shown in them."""

import asyncio
import gc
import reprlib
from dataclasses import dataclass
from datetime import datetime
from types import FrameType, TracebackType
from typing import Any, Final, Generic, TypeVar, cast

from headgate._errors import StrayCancellation
from headgate.limits._retry import add_note

T = TypeVar("T")
R = TypeVar("R")


# Not frozen, because that would make it three times as expensive, and there is one for each item.
@dataclass(slots=True, kw_only=True)
class TaskOutcome(Generic[T, R]):
    """The outcome of one item, as `amap(errors="yield")` yields it.

    >>> async for outcome in headgate.amap(fetch, ["a", None], limit=1, errors="yield"):
    ...     print(outcome.index, outcome.item, outcome.value, type(outcome.error).__name__, outcome.attempts)
    0 a page of a NoneType 1
    1 None None TypeError 1

    Attributes:
        index: Position of the item in the input, from 0.
        item: The item.
        value: What the function returned; `None` if it failed.
        error: What it raised in the last attempt; `None` if it returned. Its traceback has the frames but not their
            local variables, which would keep alive everything that the failed call held.
        attempts: How often it was called; 0 if it could not be called, because `key` or `cost` failed for it, or its
            cost is more than the rate can ever allow.
        started_at: When the last attempt started, in UTC; `None` if there was none.
        elapsed_s: How long the last attempt took, in seconds, without the time for which a source blocked the loop.
    """

    __module__ = "headgate"

    index: int
    item: T
    value: R | None
    error: Exception | None
    attempts: int
    started_at: datetime | None
    elapsed_s: float

    def unwrap(self) -> R:
        """Returns the value.

        >>> [outcome.unwrap() async for outcome in headgate.amap(fetch, ["a"], limit=1, errors="yield")]
        ['page of a']

        Raises:
            Exception: The `error`, if there is one.
        """
        error, mark = self.error, id(self)
        if error is None:
            return cast("R", self.value)
        try:
            raise error.with_traceback(_trace_before(error, mark))
        finally:
            del self, error  # else its traceback, which has this frame, would be a cycle


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatistics:
    """The progress of a map.

    >>> statistics = await headgate.for_each(fetch, ["a", None], limit=1, errors="skip")
    >>> statistics.taken, statistics.succeeded, statistics.failed
    (2, 1, 1)

    Attributes:
        taken: Items that were read from the source.
        running: Items whose call has started and not ended.
        waiting: Items that wait for a limit, a rate, their key or the next attempt.
        uncollected: Results that are finished and not collected.
        succeeded: Items whose call returned.
        failed: Items that failed for good.
        cancelled: Items that had started when the map was ended early.
        unstarted: Items that were read and will never start: returned by `stop()`, or dropped at the end.
        retried: Attempts after the first one of each item.
    """

    __module__ = "headgate"

    taken: int
    running: int
    waiting: int
    uncollected: int
    succeeded: int
    failed: int
    cancelled: int
    unstarted: int
    retried: int


def _trace_before(error: BaseException, mark: int) -> TracebackType | None:
    """Returns the traceback without the frames that `unwrap` added, which would grow with each call."""
    trace = at = error.__traceback__
    while at is not None:
        if at.tb_frame.f_code is _UNWRAP and at.tb_frame.f_locals.get("mark") == mark:
            trace = at.tb_next
        at = at.tb_next
    return trace


_UNWRAP: Final = TaskOutcome.unwrap.__code__


def clear_locals(error: BaseException) -> None:
    """Clears the local variables of the calls that the error and its causes have ended.

    Before Python 3.13, `traceback.clear_frames` would also kill a coroutine or generator that caught the error, passed
    it to other code and is now waiting for something.
    """
    found, left = {id(error)}, [error]
    while left:
        error = left.pop()
        trace = error.__traceback__
        while trace is not None:
            if _has_ended(trace.tb_frame):
                trace.tb_frame.clear()
            trace = trace.tb_next
        inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
        for other in (error.__cause__, error.__context__, *inner):
            if other is not None and id(other) not in found:
                found.add(id(other))
                left.append(other)


def _has_ended(frame: FrameType) -> bool:
    """Returns whether the function of the frame has returned or raised.

    Until then the thread or the generator owns the variables, and the frame does not refer to them. After that the
    frame owns them, and its code object too. On an interpreter that works differently, nothing is cleared.
    """
    return any(each is frame.f_code for each in gc.get_referents(frame))


_SHORT: Final = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 200


def noted(error: BaseException, item: Any) -> BaseException:  # noqa: ANN401 - the user's type
    """Adds a note that names the item for which the error was raised, and returns the error."""
    add_note(error, f"raised for the item {shown(item)}")
    return error


def stray(what: str, error: asyncio.CancelledError) -> StrayCancellation:
    """Wraps the cancellation of a call or a source, so that it does not look like one of the collecting task."""
    failure = StrayCancellation(f"{what} was cancelled, and the map was not")
    failure.__cause__ = error
    return failure


def after(error: BaseException, earlier: BaseException) -> BaseException:
    """Returns the error with an earlier one, which it replaces, as its context."""
    last = error
    while last.__context__ is not None:
        last = last.__context__
    if last is not earlier:
        last.__context__ = earlier
    return error


def visible(error: BaseException) -> BaseException:
    """Returns the error, or a `RuntimeError` in place of one that would silently end an iteration."""
    if isinstance(error, (StopIteration, StopAsyncIteration)):
        hidden = RuntimeError(f"{type(error).__name__} was raised where it would have ended the iteration silently")
        hidden.__cause__ = error
        return hidden
    return error


def shown(value: object) -> str:
    """Returns the beginning of the value's representation, or its type if it can't be represented."""
    try:
        return _SHORT.repr(value)
    except Exception:  # noqa: BLE001 - an int of 5,000 digits, or a class that reprlib mistakes for a known one
        return f"<{type(value).__name__}>"
