import asyncio
import gc
from collections.abc import Awaitable
from typing import Any, NamedTuple

import pytest
from hypothesis import given, strategies as st

from headgate import ConcurrencyLimit, ConcurrencyStatistics
from support.rates import turns_of_the_loop
from support.virtual_clock import VirtualClockLoop, run_on_virtual_clock


class Users:
    """Tasks that acquire slots and hold them."""

    def __init__(self, limit: ConcurrencyLimit) -> None:
        self._limit = limit
        self.served: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, name: str, n: int = 1) -> None:
        self.tasks[name] = asyncio.create_task(self._take(name, n))
        await asyncio.sleep(0)

    async def _take(self, name: str, n: int) -> None:
        await self._limit.acquire(n)
        self.served.append(name)


def test_slots_are_acquired_and_released() -> None:
    limit = ConcurrencyLimit(3)
    assert [True, True, False] == [limit.try_acquire(2), limit.try_acquire(), limit.try_acquire()]
    limit.release(2)
    assert (1, True) == (limit.in_use, limit.try_acquire(2))


def test_no_more_can_be_released_than_is_in_use() -> None:
    limit = ConcurrencyLimit(5)
    limit.try_acquire(2)
    with pytest.raises(ValueError, match="n is 3, but 2 slots are in use: release once what was acquired once"):
        limit.release(3)
    assert 2 == limit.in_use


def test_a_slot_is_held_within_a_block_and_released_after_an_error() -> None:
    async def main() -> None:
        limit = ConcurrencyLimit(1)

        async def fail_within() -> None:
            async with limit:
                assert 1 == limit.in_use
                raise KeyError

        with pytest.raises(KeyError):
            await fail_within()
        assert 0 == limit.in_use

    run_on_virtual_clock(main())


def test_many_that_sleep_are_never_more_than_the_limit_and_always_as_many() -> None:
    async def main() -> None:
        limit = ConcurrencyLimit(10)

        async def sleep_within() -> None:
            async with limit:
                await asyncio.sleep(1)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(100):
                tasks.create_task(sleep_within())
        assert 10 == asyncio.get_running_loop().time()
        assert (
            ConcurrencyStatistics(
                limit=10, in_use=0, most_in_use=10, waiting=0, granted=100, waited_s=10.0 * sum(range(10))
            )
            == limit.statistics()
        )

    run_on_virtual_clock(main())


def test_a_task_that_waits_for_many_is_not_overtaken_by_tasks_that_wait_for_few() -> None:
    async def main() -> None:
        limit = ConcurrencyLimit(3)
        users = Users(limit)
        await users.come("first", 2)
        await users.come("heavy", 3)
        await users.come("light", 1)
        assert (["first"], 2, False) == (users.served, limit.statistics().waiting, limit.try_acquire(1))
        limit.release(2)
        await turns_of_the_loop()
        assert ["first", "heavy"] == users.served
        limit.release(3)
        await turns_of_the_loop()
        assert ["first", "heavy", "light"] == users.served

    run_on_virtual_clock(main())


def test_waiting_tasks_move_up_when_the_first_is_cancelled() -> None:
    async def main() -> None:
        limit = ConcurrencyLimit(3)
        users = Users(limit)
        await users.come("first", 2)
        await users.come("heavy", 3)
        await users.come("light", 1)
        users.tasks["heavy"].cancel()
        await turns_of_the_loop()
        assert (["first", "light"], 3) == (users.served, limit.in_use)

    run_on_virtual_clock(main())


def test_a_task_that_is_served_and_cancelled_at_once_releases_its_slot() -> None:
    async def main() -> None:
        limit = ConcurrencyLimit(1)
        users = Users(limit)
        for name in ("first", "second", "third"):
            await users.come(name)
        limit.release()
        assert 1 == limit.in_use
        users.tasks["second"].cancel()
        await turns_of_the_loop()
        assert (["first", "third"], 1) == (users.served, limit.in_use)

    run_on_virtual_clock(main())


def test_a_slot_is_not_given_to_one_that_is_cancelled_and_does_not_know_it_yet() -> None:
    async def main() -> None:
        limit = ConcurrencyLimit(1)
        users = Users(limit)
        for name in ("first", "second", "third"):
            await users.come(name)
        users.tasks["second"].cancel()
        limit.release()
        await asyncio.sleep(0)
        assert (["first", "third"], 1, 0) == (users.served, limit.in_use, limit.statistics().waiting)

    run_on_virtual_clock(main())


def test_a_larger_limit_starts_waiting_tasks_at_once() -> None:
    async def main() -> None:
        limit = ConcurrencyLimit(1)
        users = Users(limit)
        for name in "abc":
            await users.come(name)
        limit.resize(2)
        assert (2, 2, 1) == (limit.limit, limit.in_use, limit.statistics().waiting)
        limit.resize(9)
        assert 3 == limit.in_use
        await asyncio.sleep(0)
        assert ["a", "b", "c"] == users.served

    run_on_virtual_clock(main())


def test_a_smaller_limit_lets_running_tasks_end() -> None:
    async def main() -> None:
        limit = ConcurrencyLimit(3)
        users = Users(limit)
        for name in "abcd":
            await users.come(name)
        limit.resize(1)
        assert (1, 3) == (limit.limit, limit.in_use)
        limit.release(2)
        await turns_of_the_loop()
        assert (["a", "b", "c"], 1) == (users.served, limit.in_use)
        limit.release()
        await turns_of_the_loop()
        assert ["a", "b", "c", "d"] == users.served

    run_on_virtual_clock(main())


def test_a_smaller_limit_refuses_tasks_that_wait_for_more_and_serves_those_behind() -> None:
    async def main() -> None:
        limit = ConcurrencyLimit(5)
        users = Users(limit)
        await users.come("first", 1)
        await users.come("heavy", 5)
        await users.come("light", 2)
        limit.resize(3)
        await turns_of_the_loop()
        assert (["first", "light"], 3) == (users.served, limit.in_use)
        with pytest.raises(ValueError, match="n is above the limit, which was made 3: it could never be allowed"):
            await users.tasks["heavy"]

    run_on_virtual_clock(main())


def test_a_task_that_is_refused_and_cancelled_at_once_is_cancelled_without_a_warning() -> None:
    complaints: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, complaint: complaints.append(complaint))
        limit = ConcurrencyLimit(5)
        users = Users(limit)
        await users.come("first", 1)
        await users.come("heavy", 5)
        limit.resize(3)
        users.tasks["heavy"].cancel()
        await turns_of_the_loop()
        assert (True, 1) == (users.tasks.pop("heavy").cancelled(), limit.in_use)
        gc.collect()

    run_on_virtual_clock(main())
    assert [] == complaints


# Event loops.


def test_one_event_loop_after_the_other_may_use_it() -> None:
    limit = ConcurrencyLimit(1)

    async def main() -> int:
        async with limit, asyncio.TaskGroup() as tasks:
            waiter = tasks.create_task(limit.acquire())
            await turns_of_the_loop()
            limit.release()
            await waiter
        return limit.statistics().granted

    assert [2, 4] == [run_on_virtual_clock(main()), run_on_virtual_clock(main())]


def test_two_event_loops_at_a_time_are_refused() -> None:
    limit = ConcurrencyLimit(1)
    limit.try_acquire()
    with asyncio.Runner(loop_factory=VirtualClockLoop) as first:

        async def begin() -> asyncio.Task[None]:
            waiter = asyncio.create_task(limit.acquire())
            await turns_of_the_loop()
            return waiter

        async def end(waiter: Awaitable[None]) -> None:
            limit.release()
            await waiter

        waiter = first.run(begin())
        with pytest.raises(RuntimeError, match="this ConcurrencyLimit is in use in another event loop"):
            run_on_virtual_clock(limit.acquire())
        first.run(end(waiter))


# Laws.


class Visit(NamedTuple):
    comes_at_s: int
    n: int
    stays_s: int
    cancelled_at_s: int | None


class Visitors:
    """Checks tasks that come, hold slots, leave and are cancelled in any order."""

    def __init__(self, limit: ConcurrencyLimit, plan: list[Visit]) -> None:
        self._limit = limit
        self._plan = plan
        self.tasks: dict[int, asyncio.Task[None]] = {}
        self.order: list[int] = []
        self.served_at_s: dict[int, float] = {}
        self.waiting: list[int] = []
        self.inside: list[int] = []

    def schedule(self) -> None:
        loop = asyncio.get_running_loop()
        for index, visit in enumerate(self._plan):
            loop.call_at(visit.comes_at_s, self._come, index)
            if visit.cancelled_at_s is not None:
                loop.call_at(visit.comes_at_s + visit.cancelled_at_s, self._cancel, index)

    def _come(self, index: int) -> None:
        self.tasks[index] = asyncio.create_task(self._visit(index))

    def _cancel(self, index: int) -> None:
        if index in self.tasks:  # the visit and its cancellation may be due at the same time
            self.tasks[index].cancel()

    async def _visit(self, index: int) -> None:
        n = self._plan[index].n
        self.order.append(index)
        self.waiting.append(index)
        try:
            await self._limit.acquire(n)
        finally:
            self.waiting.remove(index)
        self.served_at_s[index] = asyncio.get_running_loop().time()
        self.inside.append(n)
        try:
            await asyncio.sleep(self._plan[index].stays_s)
        finally:
            self.inside.remove(n)
            self._limit.release(n)

    def check(self, bound: int) -> None:
        """Checks what is true whenever nothing is left to run now."""
        assert sum(self.inside) == self._limit.in_use <= bound
        assert len(self.waiting) == self._limit.statistics().waiting
        if self.waiting:
            assert self._limit.in_use + self._plan[self.waiting[0]].n > self._limit.limit, "the first one fits"


visits = st.builds(Visit, st.integers(0, 6), st.integers(1, 4), st.integers(0, 4), st.none() | st.integers(0, 6))
resizes = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 5)), max_size=3)


@given(st.integers(1, 5), st.lists(visits, max_size=12), resizes)
def test_whatever_happens_the_bound_and_the_order_hold_and_no_slot_is_lost(
    size: int, plan: list[Visit], changes: list[tuple[int, int]]
) -> None:
    limit = ConcurrencyLimit(size)
    visitors = Visitors(limit, plan)

    async def main() -> None:
        visitors.schedule()
        for at_s, to in changes:
            asyncio.get_running_loop().call_at(at_s, limit.resize, to)
        await asyncio.sleep(0.5)
        for _ in range(60):
            visitors.check(max(size, *(to for _, to in changes), 0))
            await asyncio.sleep(1)
        for result in await asyncio.gather(*visitors.tasks.values(), return_exceptions=True):
            assert isinstance(result, type(None) | ValueError | asyncio.CancelledError)

    run_on_virtual_clock(main())
    assert ([], 0) == (visitors.waiting, limit.in_use)
    in_the_order_asked = [visitors.served_at_s[index] for index in visitors.order if index in visitors.served_at_s]
    assert sorted(in_the_order_asked) == in_the_order_asked
