"""What errors look like where they are raised: they say of which item they are, and pass for nothing else."""

import asyncio
import reprlib
from typing import Any, Final

from headgate._errors import StrayCancellation
from headgate.limits._retry import add_note

_SHORT: Final = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 200


def noted(error: BaseException, item: Any) -> BaseException:  # noqa: ANN401 - the user's type
    """The error, with a note that says at which item it was raised."""
    add_note(error, f"raised for the item {shown(item)}")
    return error


def stray(whose: str, error: asyncio.CancelledError) -> StrayCancellation:
    """The cancellation of a call or a source, such that it does not look like one of the task that collects."""
    failure = StrayCancellation(f"{whose} was cancelled, and the map was not")
    failure.__cause__ = error
    return failure


def after(error: BaseException, earlier: BaseException) -> BaseException:
    """The error, with an earlier one as its context: that one would have been raised if this had not come."""
    last = error
    while last.__context__ is not None:
        last = last.__context__
    if last is not earlier:
        last.__context__ = earlier
    return error


def visible(error: BaseException) -> BaseException:
    """The error, in a form that does not look like the end of an iteration."""
    if isinstance(error, (StopIteration, StopAsyncIteration)):
        hidden = RuntimeError(f"{type(error).__name__} was raised where it would have ended the iteration silently")
        hidden.__cause__ = error
        return hidden
    return error


def shown(value: object) -> str:
    """The beginning of its representation; its type, if it can't be represented."""
    try:
        return _SHORT.repr(value)
    except Exception:  # noqa: BLE001 - an int of 5,000 digits, or a class that reprlib takes for one of its own
        return f"<{type(value).__name__}>"
