"""Messages about arguments show a refused value briefly, however large it is."""

from collections.abc import Callable

import pytest

import headgate


async def nothing(_item: int) -> None:
    pass


HUGE = 10**400
LONGEST = 10**5000
"""Python refuses to convert an int of this length to text."""


@pytest.mark.parametrize(
    ("expected", "call"),
    [
        (
            "timeout must be a number of seconds that fits a float, not about 1e400",
            lambda: headgate.fetch("urls.txt", "results", timeout=HUGE),
        ),
        (
            "timeout must be a number of seconds that fits a float, not about 1e400; None is no limit",
            lambda: headgate.amap(nothing, [1], limit=2, timeout=HUGE),
        ),
        (
            "timeout must be a number of seconds that fits a float, not about -1e400; None is no limit",
            lambda: headgate.amap(nothing, [1], limit=2, timeout=-HUGE),
        ),
        ("amount must be a number that fits a float, not about 1e400", lambda: headgate.Rate(HUGE)),
        ("concurrency must be at most 9223372036854775807, not about 1e5000", lambda: fetch_with(LONGEST)),
        ("concurrency must be at least 1, not about -1e5000", lambda: fetch_with(-LONGEST)),
    ],
)
def test_a_number_that_is_too_large_is_refused_by_its_size(expected: str, call: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="must be") as raised:
        call()
    assert expected == str(raised.value)


def fetch_with(concurrency: int) -> object:
    return headgate.fetch("urls.txt", "results", concurrency=concurrency)


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        ("-0.5", -0.5),
        ("-1e+300", -1e300),
        ("-7", -7),
        ("-" + "9" * 24, 1 - 10**24),
        ("about -1e24", -(10**24)),
        ("about -1e25", -(10**25) - 1),
    ],
)
def test_a_number_that_is_too_small_is_shown_briefly(expected: str, value: float) -> None:
    with pytest.raises(ValueError, match="must be") as raised:
        headgate.Rate(value)
    assert f"amount must be above 0 and finite, not {expected}" == str(raised.value)


@pytest.mark.parametrize(("expected", "value"), [("9" * 24, 10**24 - 1), ("about 1e24", 10**24)])
def test_a_number_that_is_too_large_is_shown_briefly(expected: str, value: int) -> None:
    with pytest.raises(headgate.UsageError) as raised:
        fetch_with(value)
    assert f"concurrency must be at most 9223372036854775807, not {expected}" == str(raised.value)
