import asyncio
import math
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st

from headgate import Rate, RateStatistics
from support.rates import Spenders, SpiedRate, never_more_than, now_s, turns_of_the_loop
from support.virtual_clock import VirtualClockLoop, run_on_virtual_clock


@pytest.mark.parametrize(
    ("kind", "message", "value"),
    [
        (ValueError, "must be above 0 and finite, not 0", 0),
        (ValueError, "must be above 0 and finite, not -1.5", -1.5),
        (ValueError, "must be above 0 and finite, not inf", math.inf),
        (ValueError, "must be above 0 and finite, not nan", math.nan),
        (TypeError, r"must be a number, not str(: write .*)?", "100"),
        (TypeError, "must be a number, not bool", True),
    ],
)
def test_a_rate_is_made_of_numbers_above_0(kind: type[Exception], message: str, value: Any) -> None:
    rate = Rate(1)
    of_per = message.replace("a number,", "a number of seconds,")
    uses: list[tuple[str, Callable[[], object]]] = [
        ("amount", lambda: Rate(value)),
        ("burst", lambda: Rate(1, burst=value)),
        ("amount", lambda: rate.change(value)),
        ("burst", lambda: rate.change(2, burst=value)),
    ]
    for name, use in uses:
        with pytest.raises(kind, match=f"^{name} {message}$"):
            use()
    for use in (lambda: Rate(1, per=value), lambda: rate.change(1, per=value)):
        with pytest.raises(kind, match=f"^per {of_per}$"):
            use()
    assert (1, 1.0, 1) == (rate.statistics().amount, rate.statistics().per_s, rate.statistics().burst)


def test_the_period_of_a_rate_may_be_a_timedelta() -> None:
    rate = Rate(120, per=timedelta(minutes=1))
    assert (120, 60.0) == (rate.statistics().amount, rate.statistics().per_s)
    rate.change(90, per=timedelta(milliseconds=500))
    assert (90, 0.5) == (rate.statistics().amount, rate.statistics().per_s)
    assert "<Rate: 90 per 0.5 s, burst 1, 0 waiting>" == repr(rate)


def test_a_burst_goes_at_once_and_then_one_after_the_other() -> None:
    async def main() -> None:
        spenders = Spenders(Rate(10, burst=3))
        for _ in range(6):
            spenders.come()
        await spenders.leave()
        assert [0, 0, 0, 0.1, 0.2, 0.3] == pytest.approx([at_s for at_s, _ in spenders.granted])

    run_on_virtual_clock(main())


def test_a_burst_of_1_spaces_evenly_also_after_a_pause() -> None:
    async def main() -> None:
        rate, granted_at_s = Rate(120, per=60), list[float]()
        await asyncio.sleep(100)
        for _ in range(4):
            async with rate:
                granted_at_s.append(now_s())
        assert [100, 100.5, 101, 101.5] == pytest.approx(granted_at_s)

    run_on_virtual_clock(main())


def test_a_cost_that_the_bucket_lacks_is_not_granted_without_waiting() -> None:
    async def main() -> None:
        rate = Rate(1, burst=3)
        assert [True, False, True, False] == [rate.try_acquire(cost) for cost in (2, 1.5, 1, 0.1)]
        await asyncio.sleep(1.5)
        assert [False, True] == [rate.try_acquire(cost) for cost in (1.6, 1.5)]

    run_on_virtual_clock(main())


def test_a_high_cost_is_not_overtaken_by_low_ones_nor_by_none() -> None:
    async def main() -> None:
        rate = Rate(1, burst=5)
        spenders = Spenders(rate)
        for cost in (4, 5, 1, 0):
            spenders.come(cost)
        await turns_of_the_loop()
        assert (3, False, False) == (rate.statistics().waiting, rate.try_acquire(1), rate.try_acquire(0))
        await spenders.leave()
        assert [(0, 4), (4, 5), (5, 1), (5, 0)] == spenders.granted

    run_on_virtual_clock(main())


def test_a_cancelled_task_spends_nothing_and_those_behind_move_up() -> None:
    async def main() -> None:
        spenders = Spenders(Rate(1, burst=5))
        for cost in (5, 5, 2, 2):
            spenders.come(cost)
        await asyncio.sleep(1)
        spenders.tasks[1].cancel()
        await spenders.leave()
        assert [(0, 5), (2, 2), (4, 2)] == spenders.granted

    run_on_virtual_clock(main())


def test_a_task_that_is_cancelled_when_it_is_due_but_not_served_spends_nothing() -> None:
    async def main() -> None:
        rate = Rate(1)
        spenders = Spenders(rate)
        for _ in range(3):
            spenders.come()
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_at(1 - 5e-10, spenders.cancel, 1)  # in the same turn of the loop, and before
        await spenders.leave()
        assert (2, 2) == (len(spenders.granted), rate.statistics().granted_cost)
        assert spenders.granted[1][0] == pytest.approx(1)

    run_on_virtual_clock(main())


def test_a_task_that_is_cancelled_in_the_turn_that_served_it_has_spent() -> None:
    async def main() -> None:
        rate = Rate(1)
        spenders = Spenders(rate)
        for _ in range(3):
            spenders.come()
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_at(1 + 5e-10, spenders.cancel, 1)  # in the same turn of the loop, and after
        await spenders.leave()
        assert (2, 3) == (len(spenders.granted), rate.statistics().granted_cost)
        assert spenders.granted[1][0] == pytest.approx(2)

    run_on_virtual_clock(main())


def test_a_change_counts_for_waiting_tasks() -> None:
    async def main() -> None:
        rate = Rate(1)
        spenders = Spenders(rate)
        for _ in range(4):
            spenders.come()
        await asyncio.sleep(0.5)  # the bucket has half of the next cost; the other half comes ten times as fast
        rate.change(10)
        await spenders.leave()
        assert [0, 0.55, 0.65, 0.75] == pytest.approx([at_s for at_s, _ in spenders.granted])

    run_on_virtual_clock(main())


def test_a_higher_burst_is_not_there_at_once_and_a_lower_one_leaves_less() -> None:
    async def main() -> None:
        rate = Rate(1, burst=2)
        rate.change(1, burst=5)
        assert rate.try_acquire(5)  # nothing was spent before the first use
        rate.change(1, burst=10)
        await asyncio.sleep(6)
        assert [False, True] == [rate.try_acquire(7), rate.try_acquire(6)]
        await asyncio.sleep(9)
        rate.change(1, burst=4)
        assert [True, False] == [rate.try_acquire(4), rate.try_acquire(0.5)]

    run_on_virtual_clock(main())


def test_a_lower_burst_refuses_tasks_that_wait_for_more() -> None:
    async def main() -> None:
        rate = Rate(1, burst=5)
        spenders = Spenders(rate)
        for cost in (5, 5, 3):
            spenders.come(cost)
        await asyncio.sleep(1)
        rate.change(1, burst=3)
        await spenders.leave()
        with pytest.raises(ValueError, match="cost is above burst, which was made 3: it could never be allowed"):
            spenders.tasks[1].result()
        assert [(0, 5), (3, 3)] == spenders.granted

    run_on_virtual_clock(main())


def test_grants_are_counted() -> None:
    async def main() -> None:
        rate = Rate(4, per=2, burst=3)
        spenders = Spenders(rate)
        for cost in (3, 1.5, 0.5):
            spenders.come(cost)
        await asyncio.sleep(0.8)
        statistics = RateStatistics(amount=4, per_s=2, burst=3, waiting=1, granted=2, granted_cost=4.5, waited_s=0.75)
        assert statistics == rate.statistics()
        await spenders.leave()
        assert 0 == rate.statistics().waiting
        assert pytest.approx(1.75) == rate.statistics().waited_s

    run_on_virtual_clock(main())


# Event loops.


def test_one_event_loop_after_the_other_may_use_it_and_each_begins_with_a_full_bucket() -> None:
    rate = Rate(1, burst=2)

    async def main() -> float:
        await rate.acquire(2)
        await rate.acquire(1)
        return now_s()

    assert [1, 1] == [run_on_virtual_clock(main()), run_on_virtual_clock(main())]


def test_two_event_loops_at_a_time_are_refused() -> None:
    rate = Rate(1)

    async def ask() -> bool:
        return rate.try_acquire()

    async def begin() -> asyncio.Task[None]:
        assert rate.try_acquire()
        waiter = asyncio.create_task(rate.acquire())
        await turns_of_the_loop()
        return waiter

    async def end(waiter: asyncio.Task[None]) -> None:
        await waiter

    with asyncio.Runner(loop_factory=VirtualClockLoop) as first:
        waiter = first.run(begin())
        with pytest.raises(RuntimeError, match="this Rate is in use in another event loop: make one for each"):
            run_on_virtual_clock(ask())
        first.run(end(waiter))


def test_an_event_loop_that_runs_elsewhere_keeps_its_bucket() -> None:
    rate = Rate(1, per=1e6, burst=2)

    async def ask() -> bool:
        return rate.try_acquire()

    async def main() -> None:
        assert await ask()
        with pytest.raises(RuntimeError, match="in use in another event loop"):
            await asyncio.to_thread(asyncio.run, ask())
        assert [True, False] == [await ask(), await ask()]

    asyncio.run(main())


# Laws.

asks = st.lists(
    st.tuples(st.integers(0, 20).map(lambda n: n / 4), st.sampled_from([0, 0.5, 1, 1, 1, 2, 3])), max_size=20
)
rates = st.tuples(st.sampled_from([0.3, 1, 7, 1000]), st.sampled_from([3, 3.5, 10]))


def times_due_s(plan: list[tuple[float, float]], per_s: float, burst: float) -> Iterator[float]:
    """Yields when each cost must be granted, by counting the content of a bucket."""
    at_s, held = 0.0, burst
    for asked_at_s, cost in plan:
        later_s = max(at_s, asked_at_s)
        held, at_s = min(burst, held + (later_s - at_s) * per_s), later_s
        if held < cost:
            at_s += (cost - held) / per_s
            held = cost
        held -= cost
        yield at_s


@given(rates, asks)
def test_each_is_served_exactly_when_a_bucket_that_is_counted_has_enough(
    kind: tuple[float, float], plan: list[tuple[float, float]]
) -> None:
    per_s, burst = kind

    async def main() -> None:
        spenders = Spenders(Rate(per_s, burst=burst))
        for asked_at_s, cost in plan:
            asyncio.get_running_loop().call_at(asked_at_s, spenders.come, cost)
        await asyncio.sleep(6)
        await spenders.leave()
        due_s = list(times_due_s(spenders.calls, per_s, burst))
        assert pytest.approx(due_s, abs=1e-6) == spenders.served_at_s()
        assert never_more_than(spenders.granted, burst=burst, per_s=per_s)

    run_on_virtual_clock(main())


cancels = st.lists(st.tuples(st.integers(0, 19), st.integers(0, 40).map(lambda n: n / 4)), max_size=10)
pauses = st.lists(st.tuples(st.integers(0, 20).map(lambda n: n / 4), st.sampled_from([0.002, 0.01, 0.3])), max_size=5)


@given(rates, asks, cancels, pauses)
def test_in_no_window_is_more_granted_than_promised_whatever_is_cancelled_or_late(
    kind: tuple[float, float],
    plan: list[tuple[float, float]],
    cancelled: list[tuple[int, float]],
    paused: list[tuple[float, float]],
) -> None:
    per_s, burst = kind
    rate = SpiedRate(per_s, burst=burst)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualClockLoop)
        spenders = Spenders(rate)
        for asked_at_s, cost in plan:
            loop.call_at(asked_at_s, spenders.come, cost)
        for index, at_s in cancelled:
            loop.call_at(at_s, spenders.cancel, index)
        for at_s, takes_s in paused:
            loop.call_at(at_s, loop.pass_time, takes_s)
        await asyncio.sleep(11)
        await spenders.leave()
        assert never_more_than(rate.spent, burst=burst, per_s=per_s, late_s=0.010 if paused else 0)
        assert len(plan) - len({index for index, _ in cancelled}) <= len(spenders.granted)
        assert sorted(spenders.served_at_s()) == spenders.served_at_s()

    run_on_virtual_clock(main())
    assert 0 == rate.statistics().waiting


@pytest.mark.parametrize(
    ("expected", "spent", "waited_s", "burst"),
    [(5, 5, 0, 10), (0, 10, 0, 10), (4, 10, 4, 10), (10, 10, 99, 10), (3, 5, 0, 3), (5, 5, 0, 50), (10, 0, 0, 50)],
)
def test_a_changed_rate_has_what_was_left_as_far_as_the_new_burst_allows(
    expected: float, spent: float, waited_s: float, burst: float
) -> None:
    async def main() -> None:
        rate = Rate(1, burst=10)
        await rate.acquire(spent)
        await asyncio.sleep(waited_s)
        rate.change(4, burst=burst)
        assert [True, False] == [rate.try_acquire(expected), rate.try_acquire(0.01)]
        before_s = now_s()
        await rate.acquire(1)
        assert pytest.approx(0.25) == now_s() - before_s

    run_on_virtual_clock(main())


@pytest.mark.parametrize(("amount", "begins_s"), [(1e10, 0), (1e4, 1e15)])
def test_a_wait_for_which_the_clock_has_no_next_value_is_none(amount: float, begins_s: float) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualClockLoop)
        loop.pass_time(begins_s)
        rate = Rate(amount)
        assert [True, True] == [rate.try_acquire(), rate.try_acquire()]

    run_on_virtual_clock(main())


def test_a_change_of_the_amount_leaves_the_seconds_and_the_burst_as_they_are() -> None:
    rate = Rate(90_000, per=60, burst=4_000)
    rate.change(45_000)
    assert "<Rate: 45000 per 60 s, burst 4000, 0 waiting>" == repr(rate)
