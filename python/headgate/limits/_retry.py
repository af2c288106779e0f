"""A retry policy: decides whether and when a failed attempt is retried. It has no state, and so it can be shared."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from inspect import isawaitable
from random import random as random_below_1
from typing import TYPE_CHECKING, NoReturn, ParamSpec, TypeAlias, TypeVar

from headgate._checks import SECONDS, Check, check, duration, function as is_function, seconds_of, whole
from headgate._foreign import explained

P = ParamSpec("P")
R = TypeVar("R")

Backoff: TypeAlias = float | timedelta | Callable[[int, Exception], float | timedelta]
RetryOn: TypeAlias = type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool]

MAX_BACKOFF_S = 60.0
_LARGE = 10**15
_MAX_DOUBLINGS = 1023  # 2.0**1024 overflows


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryStatistics:
    """The counters of a `Retry`.

    >>> retry = headgate.Retry(3, on=OSError)
    >>> retry.delay(1, ValueError()), retry.delay(3, OSError())
    (None, None)
    >>> retry.statistics().not_retryable, retry.statistics().exhausted
    (1, 1)

    Attributes:
        retried: Errors that were followed by another attempt.
        exhausted: Errors of the last allowed attempt.
        not_retryable: Errors that are not in `on`.
        delay_s: Seconds between attempts, in total.
    """

    __module__ = "headgate"

    retried: int
    exhausted: int
    not_retryable: int
    delay_s: float


@dataclass(slots=True)
class _Counts:
    retried: int = 0
    exhausted: int = 0
    not_retryable: int = 0
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Retry:
    """A retry policy: how many attempts to make, which errors to retry, and how long to wait.

        retry = Retry(5, 0.2, on=(ConnectionError, TimeoutError))

        page = await retry.call(fetch, url)

    It never changes, and can be shared between tasks, event loops and threads; only its statistics can miss a count if
    several threads decide at once. A request to stop is never retried: `asyncio.CancelledError`, `KeyboardInterrupt`
    and `SystemExit` are not subclasses of `Exception`.

    Attributes:
        attempts: Number of attempts, including the first one.
        backoff: How long to wait before the next attempt. A number of seconds, or a `timedelta`, is the bound for the
            first retry; it doubles with each further one, up to `max_backoff`, and the wait is drawn evenly from 0 to
            the bound ("full jitter": Marc Brooker, "Exponential Backoff and Jitter", AWS Architecture Blog, 2015). A
            function gets the number of the failed attempt, counted from 1, and its error, and returns seconds or a
            `timedelta`. They are used as they are, so that it can obey `Retry-After`; less than 0 counts as 0.
        max_backoff: The longest wait in any case, in seconds or as a `timedelta`. `None` is no bound if `backoff` is a
            function, and 60 s otherwise.
        on: Which errors to retry: a type, several types, or a function of the error. Other errors are raised at once.
        random: Returns random numbers from 0 up to 1.
    """

    __module__ = "headgate"

    attempts: int = 3
    backoff: Backoff = 0.1
    _: KW_ONLY
    max_backoff: float | timedelta | None = None
    on: RetryOn = Exception
    random: Callable[[], float] = random_below_1
    _counts: _Counts = field(default_factory=_Counts, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Checks the arguments.

        Raises:
            TypeError: If an argument has the wrong type, or `on` includes errors that request a task to stop.
            ValueError: If `attempts` is below 1, or a number of seconds below 0 or not finite.
        """
        check("attempts", self.attempts, whole(1), "the first one is counted")
        if not callable(self.backoff):
            check("backoff", self.backoff, _delay(f"{SECONDS} or a function"))
        if self.max_backoff is not None:
            check("max_backoff", self.max_backoff, _delay(SECONDS))
        _check_on(self.on)
        check("random", self.random, is_function)

    def delay(self, attempt: int, error: BaseException) -> float | None:
        """Decides whether a failed attempt is retried, and counts the decision.

        >>> retry = headgate.Retry(3, lambda attempt, error: attempt * 10)
        >>> [retry.delay(attempt, OSError()) for attempt in (1, 2, 3)]
        [10, 20, None]

        Args:
            attempt: The number of the attempt, counted from 1.
            error: The error that the attempt raised.

        Returns:
            The seconds to wait before the next attempt; `None` if there should be none.

        Raises:
            TypeError: If the function given as `backoff` returns neither a number nor a `timedelta`.
            ValueError: If it returns a number that is NaN.
        """
        if not isinstance(error, Exception) or not self._is_retryable(error):
            self._counts.not_retryable += 1
            return None
        if attempt >= self.attempts:
            self._counts.exhausted += 1
            return None
        if callable(self.backoff):
            delay_s = self._checked_s(seconds_of(self.backoff(attempt, error)))
        else:
            delay_s = self._drawn_s(seconds_of(self.backoff), attempt)
        self._counts.retried += 1
        self._counts.delay_s += delay_s
        return delay_s

    async def call(self, function: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls and awaits the function, with retries.

        Cancelling it cancels the attempt, or the wait for the next one.

        >>> await headgate.Retry(3, 0.01).call(fetch, "a")
        'page of a'

        Args:
            function: An async function; each attempt calls it.
            *args: Passed to the function.
            **kwargs: Passed to the function.

        Returns:
            What the first successful attempt returned.

        Raises:
            Exception: The error of the last attempt, with a note such as "attempt 3 of 3".
            TypeError: If the function is not async.
        """
        attempt = 0
        while True:
            attempt += 1
            try:
                result = function(*args, **kwargs)
                if isawaitable(result):
                    return await result
            except Exception as error:
                delay_s = self.delay(attempt, error)
                if delay_s is None:
                    add_note(error, f"attempt {attempt} of {self.attempts}")
                    raise
            else:
                raise TypeError(f"function must be async: what it returned, {type(result).__name__}, can't be awaited")
            await asyncio.sleep(delay_s)

    def statistics(self) -> RetryStatistics:
        """Returns the counters. Can be called from any thread.

        >>> retry = headgate.Retry(1)
        >>> retry.delay(1, OSError()), retry.statistics().exhausted
        (None, 1)
        """
        counts = self._counts
        return RetryStatistics(
            retried=counts.retried,
            exhausted=counts.exhausted,
            not_retryable=counts.not_retryable,
            delay_s=counts.delay_s,
        )

    if not TYPE_CHECKING:  # type checkers refuse the call

        def __call__(self, *_: object) -> NoReturn:
            raise TypeError(
                "a Retry is not a decorator: write `await retry.call(function, ...)`, or amap(function, items,"
                " retry=retry)"
            )

    def _is_retryable(self, error: Exception) -> bool:
        if isinstance(self.on, type | tuple):
            return isinstance(error, self.on)
        return self.on(error)

    def _drawn_s(self, backoff_s: float, attempt: int) -> float:
        bound_s = backoff_s * 2.0 ** min(attempt - 1, _MAX_DOUBLINGS)
        return self.random() * min(bound_s, self._max_backoff_s(MAX_BACKOFF_S))

    def _checked_s(self, returned_s: float) -> float:
        if not isinstance(returned_s, int | float):
            raise TypeError(f"backoff must return a number of seconds, not {type(returned_s).__name__}")
        if math.isnan(returned_s):
            raise ValueError("backoff must return a number of seconds, not nan")
        return min(max(0.0, returned_s), self._max_backoff_s(math.inf))

    def _max_backoff_s(self, default_s: float) -> float:
        seconds: float | None = seconds_of(self.max_backoff)
        return default_s if seconds is None else seconds


if not TYPE_CHECKING:  # type checkers refuse the arguments that it explains
    Retry.__init__ = explained("Retry")(Retry.__init__)


def add_note(error: BaseException, note: str) -> None:
    """Adds a note to an error, unless the error has it already or can't be changed."""
    with suppress(Exception):
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)


def retry_for(value: object) -> str:
    """Returns the code that makes the policy that another value, such as a number of retries, probably means."""
    retries = value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGE else 2
    attempts = "1 attempt" if retries == 0 else f"{retries + 1} attempts, the first one included"
    return f"headgate.Retry({retries + 1}), which makes {attempts}"


def _delay(kind: str) -> Check:
    return duration(lambda seconds: 0 <= seconds < math.inf, "at least 0 s and finite", kind=kind)


def _check_on(on: object) -> None:
    for kind in on if isinstance(on, tuple) else (on,):
        if not isinstance(kind, type):
            if callable(kind) and kind is on:
                continue
            raise TypeError(f"on must be a type of error, several in a tuple, or a function, not {kind!r}")
        if not issubclass(kind, Exception):
            reason = (
                "says that a task is to stop, and is never retried"
                if issubclass(kind, BaseException)
                else "is no error"
            )
            raise TypeError(f"on must be a type of error: {kind.__name__} {reason}; give types below Exception")
