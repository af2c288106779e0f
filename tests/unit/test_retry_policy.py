import asyncio
import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st

from headgate import Retry, RetryStatistics
from support.virtual_clock import run_on_virtual_clock


class BusyError(Exception):
    def __init__(self, retry_after_s: float) -> None:
        super().__init__(retry_after_s)
        self.retry_after_s = retry_after_s


def retry_after_s(attempt: int, error: Exception) -> float:
    return error.retry_after_s if isinstance(error, BusyError) else float(attempt)


class Flaky:
    """An async function that raises some errors first, and records when it was called."""

    def __init__(self, *errors: BaseException) -> None:
        self._errors = iter(errors)
        self.called_at_s: list[float] = []

    async def __call__(self, result: str = "done") -> str:
        self.called_at_s.append(asyncio.get_running_loop().time())
        for error in self._errors:
            raise error
        return result


@pytest.mark.parametrize(
    ("expected", "attempt"), [(0.5, 1), (1.0, 2), (2.0, 3), (4.0, 4), (5.0, 5), (5.0, 98), (5.0, 5000)]
)
def test_the_bound_of_the_backoff_doubles_up_to_the_longest(expected: float, attempt: int) -> None:
    retry = Retry(10_000, 0.5, max_backoff=5, random=lambda: 1.0)
    assert expected == retry.delay(attempt, OSError())


@given(st.integers(1, 3000), st.floats(0, 1e300), st.floats(0, 1e300), st.floats(0, 1))
def test_a_drawn_wait_lies_between_nothing_and_the_bound(
    attempt: int, backoff: float, max_backoff: float, drawn: float
) -> None:
    retry = Retry(5000, backoff, max_backoff=max_backoff, random=lambda: drawn)
    delay_s = retry.delay(attempt, OSError())
    assert delay_s is not None
    assert 0 <= delay_s <= max_backoff


def test_the_wait_is_drawn_from_all_that_is_below_the_bound() -> None:
    draws = iter([0.0, 0.25, 0.75])
    retry = Retry(9, 8.0, random=lambda: next(draws))
    assert [0.0, 2.0, 6.0] == [retry.delay(1, OSError()) for _ in range(3)]


@pytest.mark.parametrize(
    ("expected", "asked_for_s"), [(7.5, 7.5), (0.0, -3.0), (0.0, 0), (3600.0, 3600.0), (math.inf, math.inf)]
)
def test_a_function_decides_how_long_to_wait(expected: float, asked_for_s: float) -> None:
    assert expected == Retry(2, retry_after_s).delay(1, BusyError(asked_for_s))


def test_times_may_be_timedeltas() -> None:
    drawn = Retry(9, timedelta(seconds=8), max_backoff=timedelta(seconds=20), random=lambda: 0.5)
    assert [4.0, 8.0, 10.0] == [drawn.delay(attempt, OSError()) for attempt in (1, 2, 3)]
    returned = Retry(9, lambda attempt, _: timedelta(seconds=attempt - 2), max_backoff=timedelta(seconds=3))
    assert [0.0, 1.0, 3.0] == [returned.delay(attempt, OSError()) for attempt in (1, 3, 8)]
    with pytest.raises(ValueError, match=r"^backoff must be at least 0 s and finite, not -1$"):
        Retry(2, timedelta(seconds=-1))


def test_a_function_may_be_bounded_too() -> None:
    assert 90.0 == Retry(2, retry_after_s, max_backoff=90).delay(1, BusyError(3600.0))


def test_a_function_gets_the_number_of_the_attempt_that_failed() -> None:
    retry = Retry(9, retry_after_s)
    assert [1.0, 2.0, 8.0, None] == [retry.delay(attempt, OSError()) for attempt in (1, 2, 8, 9)]


@pytest.mark.parametrize(
    ("expected", "on", "error"),
    [
        (True, Exception, OSError()),
        (True, OSError, ConnectionError()),
        (False, ConnectionError, OSError()),
        (True, (KeyError, OSError), TimeoutError()),
        (False, (KeyError, OSError), ValueError()),
        (False, (), OSError()),
        (True, lambda error: error.args == (503,), OSError(503)),
        (False, lambda error: error.args == (503,), OSError(404)),
        (False, Exception, asyncio.CancelledError()),
        (False, Exception, KeyboardInterrupt()),
        (False, Exception, SystemExit()),
        (False, lambda _: True, asyncio.CancelledError()),
        (False, Exception, BaseExceptionGroup("", [asyncio.CancelledError(), OSError()])),
    ],
)
def test_only_errors_that_are_meant_are_followed_by_another_attempt(
    expected: bool, on: Any, error: BaseException
) -> None:
    assert expected == (Retry(3, on=on).delay(1, error) is not None)


def test_the_function_is_called_until_it_succeeds() -> None:
    flaky = Flaky(OSError(), TimeoutError())
    retry = Retry(5, 1.0, random=lambda: 1.0)
    assert "yes" == run_on_virtual_clock(retry.call(flaky, "yes"))
    assert [0.0, 1.0, 3.0] == flaky.called_at_s


def test_the_last_error_says_how_often_it_was_tried() -> None:
    flaky = Flaky(OSError(1), OSError(2), OSError(3), OSError(4))
    with pytest.raises(OSError, match="3") as caught:
        run_on_virtual_clock(Retry(3).call(flaky))
    assert ["attempt 3 of 3"] == caught.value.__notes__
    assert 3 == len(flaky.called_at_s)


def test_an_error_that_is_not_meant_is_raised_at_once() -> None:
    flaky = Flaky(KeyError())
    with pytest.raises(KeyError) as caught:
        run_on_virtual_clock(Retry(3, on=OSError).call(flaky))
    assert (["attempt 1 of 3"], [0.0]) == (caught.value.__notes__, flaky.called_at_s)


def test_cancelling_ends_the_attempt_or_the_wait_and_is_not_retried() -> None:
    flaky = Flaky(OSError(), asyncio.CancelledError())

    async def cancelled_while_it_waits() -> None:
        async with asyncio.timeout(5):
            await Retry(9, 30.0, random=lambda: 1.0).call(flaky)

    with pytest.raises(TimeoutError):
        run_on_virtual_clock(cancelled_while_it_waits())
    assert [0.0] == flaky.called_at_s
    with pytest.raises(asyncio.CancelledError):
        run_on_virtual_clock(Retry(9).call(flaky))
    assert 2 == len(flaky.called_at_s)


def test_a_function_that_is_not_async_is_called_once_and_refused() -> None:
    calls: list[str] = []
    with pytest.raises(TypeError, match="function must be async: what it returned, NoneType, can't be awaited"):
        run_on_virtual_clock(Retry(3).call(calls.append, "called"))  # type: ignore[arg-type]
    assert ["called"] == calls


def test_decisions_are_counted() -> None:
    retry = Retry(3, 2.0, on=OSError, random=lambda: 0.5)
    for attempt, error in [(1, OSError()), (2, OSError()), (3, OSError()), (1, KeyError()), (1, KeyboardInterrupt())]:
        retry.delay(attempt, error)
    assert RetryStatistics(retried=2, exhausted=1, not_retryable=2, delay_s=3.0) == retry.statistics()


def test_two_retries_do_not_count_together() -> None:
    one, other = Retry(), Retry()
    one.delay(1, OSError())
    assert (1, 0) == (one.statistics().retried, other.statistics().retried)
    assert one == other


def test_a_retry_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Retry().attempts = 5  # type: ignore[misc]
