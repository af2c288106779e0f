import pytest
from hypothesis import given, strategies as st

from headgate.limits._rate import Bucket


@pytest.mark.parametrize(
    ("interval_s", "burst", "steps"),
    [
        # each step: now, cost, how long it waits; what does not wait is taken
        (1.0, 1, [(0, 1, 0), (0, 1, 1), (0.25, 1, 0.75), (1, 1, 0), (1, 1, 1), (50, 1, 0), (50, 1, 1)]),
        (0.5, 3, [(7, 3, 0), (7, 1, 0.5), (7, 3, 1.5), (7.5, 1, 0), (7.5, 0.5, 0.25), (99, 3, 0), (99, 0, 0)]),
        (2.0, 2.5, [(0, 0.5, 0), (0, 2, 0), (0, 0.25, 0.5), (3, 1.5, 0), (3, 2.5, 5)]),
        (0.0, 1, [(0, 1, 0), (0, 1, 0), (0, 1, 0)]),
        # a wait too short for a timer is none
        (1e-10, 1, [(0, 1, 0), (0, 1, 0)]),
        (1.0, 1, [(0, 1, 0), (1 - 1e-10, 1, 0), (1, 1, 1 - 0)]),
        # the clock has no value between now and then
        (1e-4, 1, [(1e15, 1, 0), (1e15, 1, 0)]),
    ],
)
def test_a_cost_waits_until_the_bucket_holds_it(
    interval_s: float, burst: float, steps: list[tuple[float, float, float]]
) -> None:
    bucket = Bucket(interval_s, burst)
    for now_s, cost, expected_s in steps:
        wait_s = bucket.wait_s(now_s, cost)
        assert pytest.approx(expected_s, abs=1e-9) == wait_s
        if not wait_s:
            bucket.take(now_s, cost)


@pytest.mark.parametrize(
    ("expected", "spent", "waited_s", "burst"),
    [(5, 5, 0, 10), (0, 10, 0, 10), (4, 10, 4, 10), (10, 10, 99, 10), (3, 5, 0, 3), (5, 5, 0, 50), (10, 0, 0, 50)],
)
def test_a_changed_bucket_holds_what_the_other_held_as_far_as_it_goes_in(
    expected: float, spent: float, waited_s: float, burst: float
) -> None:
    bucket = Bucket(1.0, 10)
    bucket.take(100, spent)
    changed = bucket.changed(100 + waited_s, 0.25, burst)
    assert expected == changed.holds(100 + waited_s)
    assert 0 == changed.wait_s(100 + waited_s, expected)
    assert 0.25 == changed.wait_s(100 + waited_s, expected + 1) or expected == burst


times = st.floats(0, 1e9)


@given(times, st.floats(1e-9, 1e6), st.floats(0.01, 1e6), st.floats(0, 1))
def test_after_the_wait_there_is_no_wait(now_s: float, interval_s: float, burst: float, share: float) -> None:
    bucket = Bucket(interval_s, burst)
    bucket.take(now_s, burst)
    for _ in range(5):  # a sum of floats may miss, but not again and again
        wait_s = bucket.wait_s(now_s, share * burst)
        if not wait_s:
            return
        assert now_s + wait_s > now_s
        now_s += wait_s
    raise AssertionError
