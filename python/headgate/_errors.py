"""What can go wrong with a whole job or map. What goes wrong with one request is a row of the result, no exception.

HeadgateError
  UsageError         (ValueError)    an option that cannot be, or that this machine cannot serve
  InputError         (ValueError)    the input cannot be read, or cannot be read further
  OutputError        (OSError)       the results cannot be written, or their place belongs to somebody else
  InternalError      (RuntimeError)  a fault of headgate itself: please report it
  TooManyErrors      (RuntimeError)  more items of a map failed than it was allowed (`max_errors`)
  StrayCancellation  (RuntimeError)  a call or the source of a map was cancelled, and the map was not
  ClosedEarly        (RuntimeError)  a map was closed by somebody else before all was delivered
KeyboardInterrupt
  Interrupted                     Ctrl-C, after what was in flight has been written
"""

from typing import TYPE_CHECKING

from headgate._message import Message, as_keyword, message_of, spelled

if TYPE_CHECKING:
    from headgate._summary import Summary


class HeadgateError(Exception):
    """Base of the errors that are headgate's own.

    Attributes:
        pieces: The message with the options it speaks of as data; `str` of the error has their keywords.
        summary: What was done before the job failed, its results being written; `None` if it never started.
    """

    def __init__(self, message: str | Message, *, summary: "Summary | None" = None) -> None:
        self.pieces = message_of(message) if isinstance(message, str) else message
        self.summary = summary
        super().__init__(spelled(self.pieces, as_keyword))


class UsageError(HeadgateError, ValueError):
    """An option that cannot be, or that this machine cannot serve. Nothing was done."""


class InputError(HeadgateError, ValueError):
    """The input cannot be read, or cannot be read further; rows before the place have been done."""


class OutputError(HeadgateError, OSError):
    """The results cannot be written, or the place for them belongs to somebody else."""


class InternalError(HeadgateError, RuntimeError):
    """A fault of headgate itself."""


class TooManyErrors(HeadgateError, RuntimeError):  # noqa: N818 - what happened, in a word
    """More items of an `amap` failed than its `max_errors` allows; the last error is its `__cause__`."""


class StrayCancellation(HeadgateError, RuntimeError):  # noqa: N818 - what happened, in two words
    """A call of an `amap`, or its source, was cancelled while the map was not; the `CancelledError` is its `__cause__`.

    It awaited something that was cancelled, perhaps, or raised `asyncio.CancelledError` itself. Raised as it is, that
    would pass for the end of the task that collects the results, and a task group would say nothing of it.
    """


class ClosedEarly(HeadgateError, RuntimeError):  # noqa: N818 - as above
    """Somebody else has closed what is iterated, or has cancelled a wait for it, before all had been delivered."""


class Interrupted(KeyboardInterrupt):
    """The job was stopped by Ctrl-C; what was in flight has ended and all results so far are written.

    Attributes:
        summary: What was done until then.
    """

    def __init__(self, message: str, *, summary: "Summary | None" = None) -> None:
        super().__init__(message)
        self.summary = summary


_CLASS_OF = {"usage": UsageError, "input": InputError, "output": OutputError, "internal": InternalError}


def error_of(kind: str, message: str | Message, *, summary: "Summary | None" = None) -> HeadgateError:
    """The exception for a failure of that kind, as the engine names it."""
    return _CLASS_OF.get(kind, InternalError)(message, summary=summary)


def error_of_engine(told: str) -> HeadgateError:
    """The exception for an error that the engine told in JSON."""
    import json  # noqa: PLC0415 - only after a mistake

    failure = json.loads(told)
    return error_of(failure["kind"], message_of(failure["message"]))
