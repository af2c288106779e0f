"""The errors of a whole job or map. In a job, an error of a single request is a row of the results, not an exception.

HeadgateError
  RequestError                       a call of a client failed: `headgate.client._errors` has the classes below it
  UsageError         (ValueError)    an option is wrong, or more than this machine can do
  InputError         (ValueError)    the input can't be read, or not to its end
  OutputError        (OSError)       the output can't be used: it belongs to another job or process
    StorageError                     a file of the output can't be read or written, or is damaged
  InternalError      (RuntimeError)  a bug in headgate: please report it
  JobStopped         (RuntimeError)  a job stopped itself: too many rows failed, or the network was down
  NotAwaitableError  (TypeError)     the function of a map returned something that can't be awaited
  OtherLoopError     (RuntimeError)  a limit or a rate is in use in another event loop
  TooManyFailures    (RuntimeError)  more items of a map failed than `max_failures` allows
  StrayCancellation  (RuntimeError)  a call or a source was cancelled, and the task that takes results was not
  ClosedEarly        (RuntimeError)  a map was closed by another task before everything was delivered
KeyboardInterrupt
  Interrupted                     Ctrl-C, after all results have been written
    NotStarted                    a signal before the job had started
"""

from typing import TYPE_CHECKING

from headgate._message import Message, as_keyword, message_of, spelled

if TYPE_CHECKING:
    from headgate._summary import Summary


class HeadgateError(Exception):
    """Base class of headgate's own errors.

    >>> try:
    ...     headgate.fetch("missing.csv", "results")
    ... except headgate.HeadgateError as error:
    ...     print(type(error).__name__, error.summary)
    InputError None

    Attributes:
        pieces: The message, in which options are data; `str(error)` has their keywords.
        summary: The figures of the job, whose results were written; `None` if it never started.
    """

    __module__ = "headgate"

    def __init_subclass__(cls) -> None:
        """Gives classes of this package their public names, which tracebacks show."""
        super().__init_subclass__()
        if cls.__module__.startswith("headgate."):
            cls.__module__ = "headgate"

    def __init__(self, message: str | Message, *, summary: "Summary | None" = None) -> None:
        self.pieces: Message = message_of(message) if isinstance(message, str) else message
        self.summary = summary
        super().__init__(spelled(self.pieces, as_keyword))


class UsageError(HeadgateError, ValueError):
    """An option is wrong, or requires more than this machine can do. Nothing was done.

    >>> headgate.Client(concurrency=0)
    Traceback (most recent call last):
    headgate.UsageError: concurrency must be ...
    """


class InputError(HeadgateError, ValueError):
    """The input can't be read, or not to its end; the rows before that position are done.

    >>> headgate.fetch("missing.csv", "results")
    Traceback (most recent call last):
    headgate.InputError: ...missing.csv...
    """


class OutputError(HeadgateError, OSError):
    """The output can't be used: another process writes to it, or it belongs to another job or program.

    >>> headgate.Job.open("missing")
    Traceback (most recent call last):
    headgate.OutputError: ...missing...
    """


class StorageError(OutputError):
    """A file of the output can't be read or written, or is damaged: the disk is full, or may not be written to.

    The same call continues once the cause is gone.

    >>> issubclass(headgate.StorageError, headgate.OutputError)
    True
    """


class InternalError(HeadgateError, RuntimeError):
    """A bug in headgate.

    >>> issubclass(headgate.InternalError, headgate.HeadgateError)
    True
    """


class JobStopped(HeadgateError, RuntimeError):  # noqa: N818 - what happened, in words
    """A job stopped itself: too many rows failed, or the network was down. All rows that have ended are written.

    The options `max_failures` and `network_down_after` define when. Once the cause is gone, the same call
    continues with the rows that were not started, and `Job.retry` retries those that failed.

    >>> try:
    ...     headgate.fetch("http://127.0.0.1:8080/status/503?[1-1000]", "results", retries=0, max_failures="50%")
    ... except headgate.JobStopped as error:
    ...     print(error.summary.failed > 0)
    True
    """


class NotAwaitableError(HeadgateError, TypeError):
    """The function of an `amap` returned something that can't be awaited. It ends the map, whatever `errors` is.

    >>> [result async for result in headgate.amap(len, ["a"], limit=1)]
    Traceback (most recent call last):
    headgate.NotAwaitableError: the function returned 1, which can't be awaited: ...
    """


class OtherLoopError(HeadgateError, RuntimeError):
    """A `ConcurrencyLimit` or a `Rate` is in use in another event loop than the running one.

    >>> issubclass(headgate.OtherLoopError, RuntimeError)
    True
    """


class TooManyFailures(HeadgateError, RuntimeError):  # noqa: N818 - as above
    """More items of an `amap` failed than its `max_failures` allows; the last error is its `__cause__`.

    >>> async def divide(number):
    ...     return 1 / number
    >>> [result async for result in headgate.amap(divide, [0, 0], limit=1, errors="skip", max_failures=1)]
    Traceback (most recent call last):
    headgate.TooManyFailures: ...
    """


class StrayCancellation(HeadgateError, RuntimeError):  # noqa: N818 - what happened, in two words
    """A call of an `amap`, or its source, was cancelled while the map was not; the `CancelledError` is its `__cause__`.

    The source of `AsyncClient.fetch_many` or of `amap_batches` may be cancelled, too.

    It may have awaited a task that was cancelled, or raised `asyncio.CancelledError` itself. Raised unchanged, that
    error would silently end the task that collects the results.

    >>> async def cancel(number):
    ...     raise asyncio.CancelledError
    >>> [result async for result in headgate.amap(cancel, [1], limit=1)]
    Traceback (most recent call last):
    headgate.StrayCancellation: ...
    """


class ClosedEarly(HeadgateError, RuntimeError):  # noqa: N818 - as above
    """Another task closed the iterator, or a wait for it was cancelled, before everything was delivered.

    >>> issubclass(headgate.ClosedEarly, RuntimeError)
    True
    """


class Interrupted(KeyboardInterrupt):
    """The job was stopped by Ctrl-C; requests in flight have ended, and all results so far are written.

    >>> issubclass(headgate.Interrupted, KeyboardInterrupt), issubclass(headgate.Interrupted, Exception)
    (True, False)

    Attributes:
        summary: The figures of the job; `None` if it had not started.
    """

    __module__ = "headgate"

    def __init__(self, message: str, *, summary: "Summary | None" = None) -> None:
        super().__init__(message)
        self.summary = summary


class NotStarted(Interrupted):
    """A signal ended the start of a job, while its files were opened.

    Attributes:
        signal: The number of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__("interrupted before the job had started")
        self.signal = number


_CLASS_OF = {
    "usage": UsageError,
    "input": InputError,
    "output": OutputError,
    "storage": StorageError,
    "internal": InternalError,
}


def error_of(kind: str, message: str | Message, *, summary: "Summary | None" = None) -> HeadgateError:
    """Returns the exception for a failure of this kind, as the engine names it."""
    return _CLASS_OF.get(kind, InternalError)(message, summary=summary)


def error_of_engine(text: str) -> HeadgateError:
    """Returns the exception for an error of the engine in JSON."""
    import json  # noqa: PLC0415 - only after a mistake

    failure = json.loads(text)
    return error_of(failure["kind"], message_of(failure["message"]))
