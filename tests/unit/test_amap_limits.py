"""What an item may wait for before it starts: keys, shared limits, rates, and the backoff before a retry."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from headgate import ConcurrencyLimit, Rate, Retry, amap
from support.as_completed import now_s, one
from support.maps import Calls, all_of, collected, wait_s
from support.virtual_clock import run_on_virtual_clock

# -- timeouts


def test_each_attempt_has_its_own_time() -> None:
    calls = Calls(5)
    (outcome,) = all_of(calls, [1], limit=1, timeout=3, retry=Retry(3, wait_s(1)), errors="yield")
    assert [(1, 0), (1, 4), (1, 8)] == calls.starts
    assert (3, 3, TimeoutError) == (outcome.attempts, outcome.elapsed_s, type(outcome.error))
    assert "the attempt took longer than timeout=3" == str(outcome.error)


def test_an_error_that_an_attempt_makes_of_its_being_late_stays_its_own() -> None:
    async def complain(_item: int) -> None:
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            raise ConnectionError("mine") from None

    with pytest.raises(ConnectionError, match="mine"):
        all_of(complain, [1], limit=1, timeout=3)


def test_a_timeout_may_be_a_timedelta() -> None:
    calls = Calls(5)
    (outcome,) = all_of(calls, [1], limit=1, timeout=timedelta(seconds=3), errors="yield")
    assert 3.0 == outcome.elapsed_s
    assert "the attempt took longer than timeout=3.0" == str(outcome.error)


def test_a_timeout_of_the_function_itself_stays_its_own() -> None:
    async def time_out(_item: int) -> None:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        all_of(time_out, [1], limit=1, timeout=3)


def test_the_wait_for_a_rate_does_not_count() -> None:
    assert [1, 2] == all_of(Calls(2), [1, 2], limit=2, timeout=3, rate=Rate(1, per=100))


# -- retries


def test_an_item_that_succeeds_at_last_is_a_result() -> None:
    calls = Calls(1, failures={1: 2})
    assert [1] == all_of(calls, [1], limit=1, retry=Retry(3, wait_s(10)))
    assert [(1, 0), (1, 11), (1, 22)] == calls.starts


def test_the_last_error_is_raised_with_the_number_of_its_attempt() -> None:
    with pytest.raises(ValueError, match="1") as raised:
        all_of(Calls(failures={1: 9}), [1], limit=1, retry=Retry(3, 0))
    assert ["attempt 3 of 3", "raised for the item 1"] == raised.value.__notes__


def test_an_error_that_the_retry_does_not_name_is_not_retried() -> None:
    calls = Calls(failures={1: 9})
    with pytest.raises(ValueError, match="1"):
        all_of(calls, [1], limit=1, retry=Retry(3, 0, on=OSError))
    assert 1 == len(calls.starts)


@pytest.mark.parametrize(
    "options", [{"limit": 1}, {"limit": ConcurrencyLimit(1)}, {"limit": 5, "key": lambda _: "key", "per_key": 1}]
)
def test_an_item_that_waits_for_a_retry_holds_no_slot_and_no_slot_of_its_key(options: dict[str, Any]) -> None:
    calls = Calls(1, failures={0: 1})
    assert [1, 2, 0] == all_of(calls, range(3), **options, retry=Retry(2, wait_s(1.5)))
    assert [(0, 0), (1, 1), (2, 2), (0, 3)] == calls.starts


def test_items_that_wait_for_a_retry_start_when_they_are_due() -> None:
    calls = Calls(failures={5: 1, 1: 1})
    all_of(calls, [5, 1], limit=2, retry=Retry(2, lambda _attempt, error: float(error.args[0])))
    assert [(5, 0), (1, 0), (1, 1), (5, 5)] == calls.starts


def test_an_item_whose_retry_is_due_comes_before_new_ones() -> None:
    calls = Calls(1, failures={0: 1})
    all_of(calls, range(4), limit=1, buffer=9, retry=Retry(2, wait_s(0.5)))
    assert [0, 1, 0, 2, 3] == [item for item, _ in calls.starts]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"retry": Retry(2, wait_s(60))}, (5, 5, 0, 5)),
        ({"key": lambda item: item < 0, "per_key": 1}, (5, 4, 1, 0)),
    ],
)
async def test_items_that_wait_for_another_attempt_or_their_key_count_against_the_bound(
    options: dict[str, Any], expected: tuple[int, ...]
) -> None:
    calls = Calls(0 if "retry" in options else 1000, failures=dict.fromkeys(range(100), 1))
    async with amap(calls, count(), limit=2, buffer=3, **options) as results:
        await asyncio.sleep(50)
        now = results.statistics()
        assert expected == (now.taken, now.waiting, now.running, now.retried)
    assert 0 == results.statistics().succeeded


def test_a_mistake_in_backoff_is_raised_with_the_error_before_it() -> None:
    def backoff(_attempt: int, _error: Exception) -> float:
        raise KeyError("backoff")

    with pytest.raises(KeyError, match="backoff") as raised:
        all_of(Calls(failures={1: 1}), [1], limit=1, retry=Retry(3, backoff))
    assert isinstance(raised.value.__context__, ValueError)


def test_an_error_that_backoff_raises_again_is_not_its_own_context() -> None:
    def backoff(_attempt: int, error: Exception) -> float:
        raise error

    with pytest.raises(ValueError, match="1") as raised:
        all_of(Calls(failures={1: 1}), [1], limit=1, retry=Retry(3, backoff))
    assert raised.value is not raised.value.__context__


def test_a_retry_that_takes_the_slot_of_an_item_that_the_source_still_makes_does_not_lose_that_item() -> None:
    async def source() -> AsyncIterator[int]:
        yield 0
        yield 1
        for item in (2, 3, 4):
            await asyncio.sleep(2)
            yield item

    attempts: Counter[int] = Counter()

    async def work(item: int) -> int:
        attempts[item] += 1
        if attempts[item] == 1:
            await asyncio.sleep(item / 2)
            raise ValueError
        await asyncio.sleep(10)
        return item

    assert [0, 1, 2, 3, 4] == sorted(all_of(work, source(), limit=2, buffer=10, retry=Retry(2, wait_s(1))))


# -- rates


def test_costs_are_weights() -> None:
    calls = Calls()
    all_of(calls, [1, 3, 2, 4], limit=10, rate=Rate(1, per=1, burst=4), cost=lambda item: item)
    assert [(1, 0), (3, 0), (2, 2), (4, 6)] == calls.starts


def test_each_attempt_spends_its_cost() -> None:
    calls = Calls(failures={1: 1})
    all_of(calls, [1, 2], limit=10, rate=Rate(1, per=10), retry=Retry(2, 0))
    assert [(1, 0), (2, 10), (1, 20)] == calls.starts


def test_a_cost_above_the_capacity_fails_and_does_not_wait_for_ever() -> None:
    options: dict[str, Any] = {"limit": 10, "rate": Rate(1, burst=5), "cost": lambda item: item}
    with pytest.raises(ValueError, match="cost is 6, but burst is 5") as raised:
        all_of(Calls(), [1, 6, 2], **options)
    assert ["raised for the item 6"] == raised.value.__notes__


def test_an_item_whose_cost_fails_fails_alone() -> None:
    def cost(item: int) -> float:
        if item == 1:
            raise KeyError(item)
        return 1

    first, second, third = all_of(Calls(), range(3), limit=1, rate=Rate(1), cost=cost, errors="yield", ordered=True)
    assert [0, 2] == [first.unwrap(), third.unwrap()]
    assert (KeyError, 0, 0) == (type(second.error), second.attempts, second.elapsed_s)


async def test_a_rate_that_is_changed_while_it_is_waited_for_is_obeyed() -> None:
    calls = Calls()
    rate = Rate(1, per=1000)
    asyncio.get_running_loop().call_later(5, lambda: rate.change(1, per=1))
    await collected(amap(calls, range(3), limit=5, rate=rate))
    assert all(at_s < 10 for _, at_s in calls.starts)


async def test_a_burst_below_the_cost_of_a_waiting_item_fails_the_item() -> None:
    rate = Rate(1, per=1, burst=4)
    asyncio.get_running_loop().call_later(1, lambda: rate.change(1, per=1, burst=2))
    assert [4, 1] == await collected(
        amap(Calls(), [4, 3, 1], limit=5, rate=rate, cost=lambda item: item, errors="skip")
    )


# -- keys


def test_per_key_bounds_the_calls_of_one_key_and_other_keys_overtake() -> None:
    calls = Calls(1)
    all_of(calls, ["a1", "a2", "a3", "b1", "a4", "c1"], limit=3, key=lambda item: item[0], per_key=1)
    assert [("a1", 0), ("b1", 0), ("c1", 0), ("a2", 1), ("a3", 2), ("a4", 3)] == calls.starts


@pytest.mark.parametrize(("key", "kind"), [(lambda item: {}[item], KeyError), (lambda _: [], TypeError)])
def test_an_item_whose_key_fails_or_is_none_fails_alone(key: Any, kind: type[Exception]) -> None:
    outcomes = all_of(
        Calls(), [0, 1, 2], limit=1, key=lambda item: key(item) if item == 1 else 0, per_key=1, errors="yield"
    )
    assert {0: None, 1: kind, 2: None} == {each.item: each.error and type(each.error) for each in outcomes}
    assert [0] == [each.attempts for each in outcomes if each.error]


@pytest.mark.parametrize("argument", ["key", "cost"])
def test_a_cancellation_that_a_key_or_cost_raises_is_a_failure_of_that_item(argument: str) -> None:
    def cancel(item: int) -> int:
        if item == 2:
            raise asyncio.CancelledError
        return 1

    options: dict[str, Any] = {argument: cancel}
    options |= {"per_key": 1} if argument == "key" else {"rate": Rate(1)}
    assert [0, 1, 3, 4] == all_of(Calls(1), range(5), limit=1, errors="skip", **options)


# -- shared limits


async def test_a_shared_limit_may_be_resized_while_a_map_runs() -> None:
    calls = Calls(1)
    limit = ConcurrencyLimit(1)
    asyncio.get_running_loop().call_later(1.5, limit.resize, 4)
    asyncio.get_running_loop().call_later(2.6, limit.resize, 1)
    await collected(amap(calls, range(9), limit=limit))
    assert [0, 1, 1.5, 1.5, 1.5, 2, 2.5, 2.5, 2.5] == [at_s for _, at_s in calls.starts]


async def test_a_call_that_is_cancelled_gives_its_slot_back_when_it_has_ended() -> None:
    limit = ConcurrencyLimit(2)
    free = []

    async def work(_item: int) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(1)
            free.append(limit.in_use)

    async with amap(work, range(9), limit=limit):
        await asyncio.sleep(5)
    assert [2, 2] == free
    assert (0, 0) == (limit.in_use, limit.statistics().waiting)


async def test_an_item_passes_its_key_then_the_limit_then_the_rate() -> None:
    limit, rate = ConcurrencyLimit(2), Rate(1, per=10)
    seen = []

    async def work(item: str) -> None:
        seen.append((item, now_s(), limit.in_use, rate.statistics().granted))
        await asyncio.sleep(15)

    await collected(amap(work, ["a1", "a2", "b1", "b2"], limit=limit, rate=rate, key=lambda item: item[0], per_key=1))
    # b1 passes a2, which waits for its key, and holds the second slot while it waits for the rate.
    assert [("a1", 0, 2, 1), ("b1", 10, 2, 2), ("a2", 20, 2, 3), ("b2", 30, 2, 4)] == seen


def test_a_limit_that_is_in_use_in_another_event_loop_is_raised_and_not_skipped() -> None:
    limit = ConcurrencyLimit(1)
    other = asyncio.new_event_loop()

    async def wait_for_it() -> None:
        await limit.acquire()
        waiting = asyncio.ensure_future(limit.acquire())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="in use in another event loop"):
            await asyncio.to_thread(use_it)
        waiting.cancel()

    def use_it() -> None:
        async def main() -> None:
            async with amap(one, range(3), limit=limit, errors="skip") as results:
                assert [] == [result async for result in results]

        run_on_virtual_clock(main())

    try:
        other.run_until_complete(wait_for_it())
        other.run_until_complete(other.shutdown_default_executor())
    finally:
        other.close()
