"""Faulty objects of users end the work with their error; they never hang it or lose results."""

import asyncio
import threading
from collections import UserList
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

import headgate
from headgate import ConcurrencyLimit, Rate, Retry, amap, as_completed, gather
from support.maps import all_of
from support.virtual_clock import run_on_virtual_clock

LONGEST_S = 20


@dataclass(frozen=True)
class FrozenError(Exception):
    """Refuses notes, as it refuses all new attributes."""

    item: int


async def fail(item: int) -> int:
    await asyncio.sleep(0)
    raise FrozenError(item)


@pytest.mark.parametrize(
    "options", [{}, {"ordered": True}, {"retry": Retry(2)}, {"timeout": 1}, {"limit": ConcurrencyLimit(2)}]
)
def test_an_error_that_refuses_notes_is_raised_without(options: dict[str, Any]) -> None:
    with pytest.raises(FrozenError):
        all_of(fail, range(5), **{"limit": 2, **options})


def test_an_error_that_is_raised_repeatedly_gathers_no_notes() -> None:
    async def raise_it(_item: int) -> None:
        raise always

    always = ValueError()
    all_of(raise_it, range(50), limit=5, errors="skip", retry=Retry(2, 0))
    assert ["attempt 2 of 2"] == always.__notes__


class Changeable:
    """A key whose hash changes while it is in use."""

    def __init__(self) -> None:
        self.value = 0

    def __hash__(self) -> int:
        return self.value

    def __eq__(self, other: object) -> bool:
        return self is other


def test_a_key_whose_hash_changes_is_an_error() -> None:
    async def change(key: Changeable) -> None:
        await asyncio.sleep(1)
        key.value += 1

    with pytest.raises(KeyError):
        all_of(change, [Changeable(), Changeable()], limit=2, key=lambda key: key, per_key=1)


def test_a_backoff_that_changes_the_rate_does_not_disturb_waiting_items() -> None:
    rate = Rate(1, per=10, burst=2)

    def backoff(_attempt: int, _error: Exception) -> float:
        rate.change(1, burst=1)
        return 1

    async def work(item: int) -> int:
        if item == 0 and not seen:
            seen.append(item)
            await asyncio.sleep(1)
            raise ValueError
        return item

    seen: list[int] = []
    outcomes = all_of(
        work, [0, 2], limit=4, rate=rate, cost=lambda item: max(item, 1), errors="yield", retry=Retry(2, backoff)
    )
    assert {0: None, 2: ValueError} == {outcome.item: outcome.error and type(outcome.error) for outcome in outcomes}


async def test_items_after_an_error_that_will_be_raised_are_not_started() -> None:
    async def work(item: int) -> int:
        started.append(item)
        await asyncio.sleep(100 if item == 0 else 1)
        if item == 1:
            raise ValueError
        return item

    started: list[int] = []
    cancelled_at_s: list[float] = []
    async with amap(work, range(99), limit=3, buffer=20, ordered=True, key=lambda item: item % 2, per_key=1) as all_:
        assert 0 == await anext(all_)
        cancelled_at_s.append(asyncio.get_running_loop().time())
        with pytest.raises(ValueError, match="raised for the item 1"):
            await anext(all_)
    assert ([0, 1], [100]) == (started, cancelled_at_s)


async def test_the_coroutines_of_any_collection_are_closed() -> None:
    async with as_completed(UserList([asyncio.sleep(1), fail(2), fail(3)]), limit=1) as futures:
        await anext(futures)


class Lazy(Sequence[Any]):
    """A long collection that makes its coroutines lazily."""

    def __init__(self) -> None:
        self.made = 0

    def __len__(self) -> int:
        return 10**9

    def __getitem__(self, index: Any) -> Any:
        self.made += 1
        return asyncio.sleep(index)


async def test_leaving_makes_no_coroutines_of_a_lazy_collection() -> None:
    coroutines = Lazy()
    async with as_completed(coroutines, limit=2) as futures:
        await anext(futures)
    assert coroutines.made < 10


def test_a_future_of_another_event_loop_is_refused_by_gather() -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="belongs to another event loop"):
            await gather(other.create_future(), limit=1)

    other = asyncio.new_event_loop()
    try:
        run_on_virtual_clock(main())
    finally:
        other.close()


def test_a_limit_is_refused_where_another_event_loop_has_a_slot_of_it() -> None:
    limit = ConcurrencyLimit(2)

    async def take_one() -> None:
        async with limit:
            pass

    async def main() -> None:
        async with limit:
            with pytest.raises(RuntimeError, match="in use in another event loop"):
                await asyncio.to_thread(run_on_virtual_clock, take_one())

    asyncio.run(main())


def test_threads_may_share_the_iterator_of_a_map() -> None:
    async def same(item: int) -> int:
        await asyncio.sleep(0)
        return item

    def take() -> None:
        begin.wait(LONGEST_S)
        taken.extend(results)

    results, taken, begin = headgate.map(same, range(2_000), limit=10), list[int](), threading.Barrier(4)
    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONGEST_S)
    assert list(range(2_000)) == sorted(taken)


def test_a_call_that_takes_a_result_of_its_own_map_is_refused() -> None:
    async def ask(_item: int) -> int:
        return next(results)

    results: headgate.MapIterator[int] = headgate.map(ask, [1], limit=1)
    with pytest.raises(RuntimeError, match="waits for a result of the same map"):
        next(results)
